//! A real slurmctld reads the topology that `reweave export` writes.

use std::fs;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Trial;
use reweave_tests::Programs;

use super::needs::{Need, trial};
use super::{output_of, written};

const FABRIC: &str = "two-leaves.toml";

/// Slurm looks names up, and asks no host whose only address is loopback.
const RUN_SCRIPT: &str = "\
    set -e; cd \"$0\"; hostname controller; mount --bind hosts /etc/hosts
    ip link set lo up; ip link add own type veth peer name other
    ip address add 192.0.2.1/24 dev own; ip link set own up; ip link set other up
    export SLURM_CONF=$PWD/slurm.conf
    timeout 30 slurmctld -D > slurmctld.log 2>&1 &
    until timeout 5 scontrol show topology 2> scontrol.log | tee topology | grep -q Switch; do
        kill -0 $! || { cat slurmctld.log >&2; exit 1; }
    done
    cat topology";

pub(crate) fn tests() -> Vec<Trial> {
    let needs = ["slurmctld", "scontrol", "ip"].map(Need::Program);
    let needs = [&[Need::Namespaces], &needs[..]].concat();
    vec![trial("slurmctld_reads_tree", &needs, slurmctld_reads_tree)]
}

fn slurmctld_reads_tree() {
    let folder = tempfile::tempdir().expect("a folder of our own");
    let place = folder.path();
    fs::create_dir(place.join("state")).expect("a folder for its state");
    let settings = include_str!("slurm.conf");
    let settings = settings.replace("@FOLDER@", &place.display().to_string());
    written(&place.join("slurm.conf"), &settings);
    written(&place.join("topology.conf"), &exported());
    let hosts: String = (0..8).map(|n| format!("192.0.2.1 h{n}\n")).collect();
    let hosts = format!("127.0.0.1 localhost\n192.0.2.1 controller\n{hosts}");
    written(&place.join("hosts"), &hosts);

    let mut controller = Command::new("unshare");
    controller
        .args([
            "--net",
            "--uts",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
        ])
        .args(["--mount-proc", "--", "bash", "-c", RUN_SCRIPT])
        .arg(place);
    let output = output_of(&mut controller);
    for line in [
        "SwitchName=leaf0 Level=0 LinkSpeed=1 Nodes=h[0-3]",
        "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=h[4-7]",
        "SwitchName=spine0-spine1 Level=1 LinkSpeed=1 Nodes=h[0-7] Switches=leaf[0-1]",
    ] {
        assert!(output.contains(line), "{output}");
    }
}

/// For the release that Debian 12 has.
fn exported() -> String {
    let programs = Programs::beside_this().expect("programs");
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("lab/scenarios");
    let mut export = Command::new(programs.reweave());
    export.args(["export", "slurm-tree", "--slurm", "22.05", "--fabric"]);
    output_of(export.arg(scenarios.join(FABRIC)))
}
