//! Reads MessagePack token by token, because a general decoder would need too much memory for large
//! files. No memory is allocated for a length that a file merely claims.

mod token;
mod window;

pub(crate) use token::Token;
pub(crate) use window::Window;
