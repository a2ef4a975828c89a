//! Runs the built `diode` command from outside, like a user.
// The marks tell clippy that helpers, too, are test code and may unwrap.

#[cfg(test)]
mod collect;
#[cfg(test)]
mod contributing;
#[cfg(test)]
mod datasets;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod importing;
#[cfg(test)]
mod kernels;
#[cfg(test)]
mod learning;
#[cfg(test)]
mod login;
#[cfg(unix)]
#[cfg(test)]
mod measuring;
#[cfg(test)]
mod nearest;
#[cfg(unix)]
#[cfg(test)]
mod packaging;
#[cfg(test)]
mod predecessor;
#[cfg(test)]
mod predecessor_collecting;
#[cfg(test)]
mod predecessor_judging;
#[cfg(test)]
mod predecessor_models;
#[cfg(test)]
mod rehearsing;
#[cfg(test)]
mod resuming;
#[cfg(test)]
mod sandbox;
#[cfg(test)]
mod snapshots;
#[cfg(target_os = "linux")]
#[cfg(test)]
mod standin;
#[cfg(test)]
mod tables;
#[cfg(test)]
mod tune;
#[cfg(unix)]
#[cfg(test)]
mod tutorial;
#[cfg(test)]
mod usage;
