//! Durations as whole nanoseconds, for `#[serde(with)]` where names end in `_ns`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Some 584 years are the most that can be told.
pub(crate) fn serialize<S: Serializer>(it: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    let nanos = u64::try_from(it.as_nanos()).unwrap_or(u64::MAX);
    nanos.serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_nanos)
}
