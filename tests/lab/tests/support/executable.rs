//! Programs that tests write.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a script that can be run at once. Another process writes it: a file that this one has open for writing is also
/// open in each child between its fork and its exec, and the kernel runs none such (`ETXTBSY`).
#[track_caller]
pub(crate) fn write_executable(path: &Path, script: &str) {
    let mut install = Command::new("install")
        .args(["--mode=755", "/dev/stdin"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("install runs");
    let mut input = install.stdin.take().expect("it is piped");
    input
        .write_all(script.as_bytes())
        .expect("install reads it");
    drop(input);
    assert!(
        install.wait().expect("it ends").success(),
        "{}",
        path.display()
    );
}
