//! Programs whose clock is another one.

use std::path::Path;

use crate::needs::Need;

pub(crate) const FAKETIME_NEEDS: &[Need] = &[Need::Lab, Need::Program("faketime")];

/// What starts a program for which the time of day is another one; what only counts on is not.
pub(crate) fn at(skew: &str) -> Vec<String> {
    let library = "faketime/libfaketime.so.1";
    let folders = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib",
    ];
    let places = folders.map(|folder| Path::new(folder).join(library));
    let found = places.into_iter().find(|place| place.is_file());
    let found = found.expect("faketime comes with its library");
    vec![
        "env".to_owned(),
        format!("LD_PRELOAD={}", found.display()),
        format!("FAKETIME={skew}"),
        "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
    ]
}
