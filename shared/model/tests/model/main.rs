//! Tests of the model from outside: files, predictions and rankings.

#[cfg(test)]
mod contribution;
mod file;
mod oracle;
mod ranking;
mod sample;
mod served;
mod shortlist;
#[cfg(test)]
mod unseen;
