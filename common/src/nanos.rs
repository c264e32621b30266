//! Durations as whole nanoseconds, for `#[serde(with)]` on fields whose names end in `_ns`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time_span::TimeSpan;

pub(crate) fn serialize<S: Serializer>(it: &TimeSpan, serializer: S) -> Result<S::Ok, S::Error> {
    // The longest duration is some 3e17 ns.
    (it.as_nanos() as u64).serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<TimeSpan, D::Error> {
    TimeSpan::within(Duration::from_nanos(u64::deserialize(from)?))
}
