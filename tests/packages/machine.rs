//! An empty system that comes up with a systemd of its own, lives through a script, and goes off again.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::newer::newer;

/// As every machine of the fleet is booted, in a network and with processes of its own.
const BOOT_SCRIPT: &str = r#"
    mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/changed,workdir=$2/work" "$2/root" &&
    exec unshare --pid --fork --kill-child --mount-proc timeout 300 systemd-nspawn --directory="$2/root" \
        --machine=trial --boot --quiet --register=no --keep-unit --console=pipe --private-network \
        --resolv-conf=off --timezone=off --link-journal=no --capability=all --system-call-filter=bpf
"#;

const TRIAL_UNIT: &str = "\
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh /trial/life.sh
StandardOutput=file:/trial/said
StandardError=inherit
ExecStopPost=/bin/systemctl --no-block --force poweroff
";

/// What each step has said.
#[derive(Debug)]
pub(crate) struct Said(BTreeMap<String, String>);

/// `script` finds these packages in `first`, and the same of a later version in `newer`.
pub(crate) fn lived(system: &Path, script: &str, packages: &[PathBuf]) -> Said {
    let disk = tempfile::tempdir().expect("a folder of our own");
    let trial = disk.path().join("changed/trial");
    for folder in ["work", "root", "changed/trial/first", "changed/trial/newer"] {
        fs::create_dir_all(disk.path().join(folder)).expect("folders of our own");
    }
    for package in packages {
        let name = package.file_name().expect("a file's name");
        fs::copy(package, trial.join("first").join(name)).expect("a copy");
        newer(package, &trial.join("newer").join(name));
    }
    fs::write(trial.join("life.sh"), script).expect("a file of our own");
    begun_by_itself(&disk.path().join("changed/etc/systemd/system"));
    let mut boot = Command::new("unshare");
    boot.args(["--mount", "sh", "-c", BOOT_SCRIPT, "boot"]);
    let output = boot
        .arg(system)
        .arg(disk.path())
        .output()
        .expect("unshare starts");
    let said = fs::read_to_string(trial.join("said")).unwrap_or_default();
    let console = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.ends_with("== end\n"), "{said}\n{console}");
    Said::of(&said)
}

fn begun_by_itself(units: &Path) {
    let wants = units.join("multi-user.target.wants");
    fs::create_dir_all(&wants).expect("folders of our own");
    fs::write(units.join("trial.service"), TRIAL_UNIT).expect("a file of our own");
    symlink("../trial.service", wants.join("trial.service")).expect("a link of our own");
}

impl Said {
    fn of(text: &str) -> Self {
        let steps = text.split("== ").filter_map(|step| step.split_once('\n'));
        let step = |(name, words): (&str, &str)| (name.to_owned(), words.trim().to_owned());
        Self(steps.map(step).collect())
    }

    pub(crate) fn words(&self, step: &str) -> &str {
        self.0
            .get(step)
            .unwrap_or_else(|| panic!("no step {step}: {self:#?}"))
    }

    pub(crate) fn succeeded(&self, step: &str) {
        let words = self.words(step);
        assert!(!words.contains("-- failed"), "{step}: {words}");
    }

    pub(crate) fn is(&self, step: &str, lines: &[&str]) {
        let words: Vec<_> = self.words(step).lines().collect();
        assert_eq!(words, lines, "{step}");
    }
}
