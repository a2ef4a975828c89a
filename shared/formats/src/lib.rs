//! Every byte that comes from outside is met here.
#![forbid(unsafe_code)]
