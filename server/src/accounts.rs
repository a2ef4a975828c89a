//! Who asks, and what they may do: accounts, sessions, API tokens.
//!
//! A route names the requests that it admits by one of the extractors `Authorized` and `SignedIn`. The layer
//! around all routes refuses requests of other sites' pages. Secrets are random; only their digests are
//! stored.

pub(crate) mod account_store;
mod authorized;
mod caller;
mod choose_password;
mod confirm;
mod cookie;
mod devices;
pub(crate) mod identity_store;
mod limits;
mod links;
mod log;
pub(crate) mod openid;
mod owner;
mod password;
mod peer;
mod policy;
mod secret;
pub(crate) mod session_store;
mod sign_in;
mod sign_up;
mod terms;
mod tokens;

pub(crate) use authorized::{Admin, Authorized, Contribute, Measure, Report, Right, Train, Upload};
pub(crate) use caller::{By, Caller, Identified, SignedIn};
pub(crate) use choose_password::choose_password;
pub(crate) use devices::{answer, begin, find, poll};
pub(crate) use limits::admit_report;
pub use links::{Link, first_account_link, invitation_link, password_link};
pub(crate) use log::write_down;
pub use openid::Provider;
pub(crate) use owner::{change_password, delete};
pub(crate) use password::Passwords;
pub(crate) use peer::Peer;
pub use policy::{Anonymous, Policy, SignUps};
pub(crate) use secret::{TOKEN_PREFIX, new_account_id, new_lease_id};
pub(crate) use sign_in::{sign_in, sign_out};
pub(crate) use sign_up::sign_up;
pub(crate) use terms::{Needed, TERMS_TEXT, agree, is_asked, licence_of, terms_address};
pub(crate) use tokens::issue;
