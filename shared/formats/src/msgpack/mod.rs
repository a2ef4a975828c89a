//! Pulling MessagePack apart token by token, for files too large for a general
//! decoder. Nothing is ever allocated because a length was claimed.

mod token;
mod window;

pub(crate) use token::Token;
pub(crate) use window::Window;
