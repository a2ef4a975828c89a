//! Tests of the model from outside: files, predictions and rankings.

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
