//! An empty system of this machine's own release, made once and kept beside what is built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What Ansible needs of a machine, and what makes it one.
const SYSTEM_PACKAGES: &str = "systemd,systemd-sysv,dbus,python3,openssh-server,iproute2";

pub(crate) fn made() -> PathBuf {
    let release = release();
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("system-{release}"));
    let made_of = fs::read_to_string(kept.join(PACKAGES_RECORD_PATH));
    if made_of.is_ok_and(|packages| packages == SYSTEM_PACKAGES) {
        return kept;
    }
    let _ = fs::remove_dir_all(&kept);
    make(&release, &kept);
    kept
}

/// Where one says what it was made of.
const PACKAGES_RECORD_PATH: &str = "etc/made-of";

/// So that programs which were built here find their libraries there.
fn release() -> String {
    let facts = fs::read_to_string("/etc/os-release").expect("a release");
    let line = facts
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    line.expect("a release with a name").to_owned()
}

fn make(release: &str, kept: &Path) {
    // What was cut short is not taken for a system.
    let making = kept.with_extension("making");
    let _ = fs::remove_dir_all(&making);
    eprintln!("fetching an empty {release} system, once");
    let mut debootstrap = Command::new("debootstrap");
    debootstrap
        .args(["--variant=minbase", &format!("--include={SYSTEM_PACKAGES}")])
        .arg(release)
        .arg(&making);
    let output = debootstrap.output().expect("debootstrap starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "debootstrap: {said}");
    fs::write(making.join(PACKAGES_RECORD_PATH), SYSTEM_PACKAGES).expect("a file of our own");
    fs::rename(&making, kept).expect("a folder is renamed");
}
