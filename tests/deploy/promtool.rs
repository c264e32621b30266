//! What Prometheus's own tool has to say.

use std::fs::{self, File};
use std::process::Command;

/// Metrics as they are served are taken without a complaint, nor advice.
#[track_caller]
pub(crate) fn takes(served: &str) {
    let file = tempfile::NamedTempFile::new().expect("a file of our own");
    fs::write(file.path(), served).expect("there is room");
    let judged = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(File::open(file.path()).expect("it was just written"))
        .output()
        .expect("it is there");
    let said = String::from_utf8_lossy(&judged.stderr);
    assert!(
        judged.status.success() && said.is_empty(),
        "{said}\n{served}"
    );
}
