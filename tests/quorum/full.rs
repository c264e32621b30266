//! A full disk: the coordinator decides nothing and serves everything else; with free space it decides again.

use std::process::Command;

use libtest_mimic::Trial;
use reweave_tests::Programs;

use crate::cluster::must;
use crate::needs::{Need, trial};

/// A single coordinator on a disk of its own with 8 MiB left.
const RUN_SCRIPT: &str = r#"
    set -e
    ip link set lo up
    mount -t tmpfs -o size=96m tmpfs "$0"; mountpoint -q "$0"; cd "$0"
    tries() { for _ in $(seq 1200); do "$@" > output 2>&1 && return; sleep 0.1; done; cat output; exit 1; }
    reweave dev --dir "$0/dev" > at 2> words &
    tries grep http at
    export REWEAVE_IDENTITY=$(grep -o 'REWEAVE_IDENTITY=.*' words | cut -d= -f2)
    decides() { reweave cluster token ann --role viewer; }
    refused() { ! decides; }
    tries decides

    free=$(df --output=avail --block-size=1 . | tail -1)
    head -c $((free - 8388608)) /dev/zero > filler
    tries refused
    decides 2>&1 | tee refusal | grep -q 'the disk is full' || { cat refusal; exit 1; }
    reweave status | grep 'look at: the disk is full'
    reweave hosts | grep ' up '

    rm filler
    tries decides
    reweave status > now
    grep 'look at' now || true
    if grep 'disk is full' now; then exit 1; fi
"#;

pub(crate) fn tests() -> Vec<Trial> {
    let name = "full_disk_stops_only_decisions";
    vec![trial(name, &[Need::Lab], no_room_for_a_while)]
}

fn no_room_for_a_while() {
    let folder = tempfile::tempdir().expect("a folder to mount it on");
    let programs = must(Programs::beside_this());
    let built = programs.reweave();
    let built = built.parent().expect("a folder").display();
    let path = format!("{built}:{}", std::env::var("PATH").unwrap_or_default());
    let mut alone = Command::new("unshare");
    alone
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child"])
        .args(["--mount-proc", "--", "bash", "-c", RUN_SCRIPT])
        .arg(folder.path())
        .env("PATH", path);
    let output = alone.output().expect("unshare starts");
    let [out, err] =
        [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert!(output.status.success(), "{out}{err}");
}
