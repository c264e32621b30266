//! Samples of agents become observations; connections, admission, and whose an address is. Uses `log`.

pub(crate) mod address_owners;
pub(crate) mod admission;
pub(crate) mod round_robin;
pub(crate) mod telemetry;
