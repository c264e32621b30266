//! Turns agents' samples into observations; connections, admission, and owners of addresses. Uses `log`.

pub(crate) mod address_owners;
pub(crate) mod admission;
pub(crate) mod round_robin;
pub(crate) mod telemetry;
