//! The same package, later: of another version, and with other settings as it brings them.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;

pub(crate) fn newer(package: &Path, into: &Path) {
    let folder = tempfile::tempdir().expect("a folder of our own");
    let root = folder.path().join("package");
    done(
        Command::new("dpkg-deb")
            .arg("--raw-extract")
            .arg(package)
            .arg(&root),
    );
    let control = root.join("DEBIAN/control");
    let facts = fs::read_to_string(&control).expect("its control file");
    let version = facts
        .lines()
        .find(|line| line.starts_with("Version: "))
        .expect("a version");
    fs::write(
        &control,
        facts.replacen(version, &format!("{version}+later"), 1),
    )
    .expect("a file of our own");
    for settings in settings_of(&root) {
        let mut file = OpenOptions::new()
            .append(true)
            .open(&settings)
            .expect("its settings");
        writeln!(file, "# This is new.").expect("a line");
    }
    let mut build = Command::new("dpkg-deb");
    done(
        build
            .args(["--root-owner-group", "--build", "-Znone"])
            .arg(&root)
            .arg(into),
    );
}

fn settings_of(root: &Path) -> Vec<std::path::PathBuf> {
    let listed = fs::read_to_string(root.join("DEBIAN/conffiles")).unwrap_or_default();
    let paths = listed
        .lines()
        .map(|path| root.join(path.trim_start_matches('/')));
    paths.collect()
}

fn done(command: &mut Command) {
    let output = command.output().expect("dpkg-deb starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}
