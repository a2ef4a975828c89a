//! Reading MessagePack token by token, for files too large for a general decoder.
//! A claimed length never allocates memory.

mod token;
mod window;

pub(crate) use token::Token;
pub(crate) use window::Window;
