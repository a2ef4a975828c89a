//! Tests on the files that vLLM and SGLang publish, and on their own code that looks files up.
#![cfg(test)]

mod lookup;
mod published;
mod wheels;
