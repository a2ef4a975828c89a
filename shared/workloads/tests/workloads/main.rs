//! Tests on the files that vLLM and SGLang publish, and on their own code that looks files up.
#![cfg(test)]

mod hostile;
mod lookup;
mod names;
mod published;
mod wheels;
