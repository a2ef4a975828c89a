//! The model as its users meet it: files, predictions, rankings.

#[cfg(test)]
mod contribution;
mod file;
mod oracle;
mod predecessor;
mod ranking;
mod sample;
mod shortlist;
#[cfg(test)]
mod unseen;
