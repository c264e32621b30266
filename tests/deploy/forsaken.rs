//! A cluster of one machine whose `reweave dev` is started twice, or is killed.

use std::env;
use std::process::Command;

use libtest_mimic::Trial;
use reweave_tests::Programs;

use super::needs::{Need, trial};
use super::output_of;

/// After any end, nothing of it is left, and the next goes on. The shell that runs this may be deaf to hangups.
const RUN_SCRIPT: &str = r#"
    set -e
    ip link set lo up; cd "$0"
    tries() { for _ in $(seq 1200); do "$@" > output 2>&1 && return; sleep 0.1; done; cat output at words; exit 1; }
    begin() { : > at; env --default-signal=HUP reweave dev --dir "$0/dev" >> at 2> words & dev=$!; tries grep http at; }
    is_left() { grep -qsx -e reweave-coordin -e reweave-agent /proc/[0-9]*/comm; }
    is_over() { ! is_left; }

    begin
    cp -r dev/certificates before
    ! reweave dev --dir "$0/dev" 2> refusal || { echo it began; exit 1; }
    grep "another .reweave dev. runs in $0/dev: process $dev; use that one" refusal || { cat refusal; exit 1; }
    diff -r dev/certificates before
    grep "leader in term" dev/reweave-coordinator.log || { echo its log is gone; exit 1; }
    export REWEAVE_IDENTITY="$0/dev/certificates/operator"
    tries reweave status

    for signal in KILL HUP; do
        is_left
        kill -$signal $dev; wait $dev || test $signal = KILL
        tries is_over
        begin
    done
"#;

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "running_dev_stays_killed_leaves_nothing",
        &[Need::Namespaces, Need::Program("ip")],
        killed_and_begun_again,
    )]
}

fn killed_and_begun_again() {
    let folder = tempfile::tempdir().expect("a folder of our own");
    let programs = Programs::beside_this().expect("programs");
    let reweave = programs.reweave();
    let built = reweave.parent().expect("a folder").display();
    let path = format!("{built}:{}", env::var("PATH").unwrap_or_default());
    let mut alone = Command::new("unshare");
    alone
        .args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .args(["--", "bash", "-c", RUN_SCRIPT])
        .arg(folder.path())
        .env("PATH", path);
    output_of(&mut alone);
}
