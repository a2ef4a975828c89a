//! An agent: devices that measure what a server asks for, until they are told to stop.
//!
//! Each device has a [`Worker`], the loop around the measuring that collections do. What is measured is in the
//! [`outbox`], on disk, before it is sent, and leaves it once the server has acknowledged it.

mod ability;
mod configs;
mod health;
mod home;
mod kernels;
mod outbox;
mod renewal;
mod service;
mod stop;
mod worker;

pub(crate) use ability::{ability, ability_with};
pub(crate) use health::Health;
pub(crate) use home::Home;
pub(crate) use kernels::{Choice, Kernels, Places};
pub(crate) use service::Service;
pub(crate) use stop::Stop;
pub(crate) use worker::{DeviceFacts, Tally, Worker};
