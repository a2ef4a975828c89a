//! Jobs: the queue in the database, the trainings that the server asks for by itself, and the `worker`.

pub(crate) mod job_routes;
pub(crate) mod job_store;
pub mod trainings;
pub mod worker;
