//! An agent: devices that measure what a server asks for, until they are told to stop.
//!
//! Each device has a [`Worker`], a loop that measures in the same way as collections. A result is on disk in
//! the [`outbox`] before it is sent. It leaves the outbox once the server has acknowledged it.

mod ability;
mod allowed;
mod configs;
mod health;
mod home;
mod hours;
mod kernels;
mod limits;
mod offers;
mod outbox;
mod renewal;
mod sending;
mod service;
mod stop;
mod worker;

pub(crate) use ability::{ability, ability_with, gpu_bytes};
pub(crate) use allowed::Allowed;
pub(crate) use health::Health;
pub(crate) use home::Home;
pub(crate) use kernels::{Kernels, Places};
pub(crate) use limits::Limits;
pub(crate) use service::Service;
pub(crate) use stop::Stop;
pub(crate) use worker::{DeviceFacts, Shared, Tally, Worker};
