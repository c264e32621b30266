//! The units of systemd: closed enough by its own measure, and not so closed that the programs
//! could not work.

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Trial;
use reweave_tests::Programs;

use super::alone::Alone;
use super::driven::Driven;
use super::needs::{Need, trial};
use super::syscalls::{allowed_by, made_by};
use super::{deployed, output_of, text, written};

const SERVICE_PROGRAMS: [&str; 3] = ["reweave-coordinator", "reweave-agent", "reweave-driver"];
pub(crate) fn tests() -> Vec<Trial> {
    let analyze = Need::Program("systemd-analyze");
    vec![
        trial("units_are_closed", &[analyze], units_are_closed),
        trial("every_program_is_watched", &[], every_program_is_watched),
        trial("systemd_verifies_units", &[analyze], systemd_verifies_units),
        trial(
            "units_allow_required_syscalls",
            &[
                analyze,
                Need::Namespaces,
                Need::Program("ip"),
                Need::Program("strace"),
            ],
            units_allow_required_syscalls,
        ),
    ]
}

fn unit(program: &str) -> PathBuf {
    deployed(&format!("systemd/{program}.service"))
}

/// In tenths of the measure of `systemd-analyze security`: 10 is open, 0 is closed.
const MAX_EXPOSURE_OPTION: &str = "--threshold=25";

fn units_are_closed() {
    for program in SERVICE_PROGRAMS {
        let mut analyze = Command::new("systemd-analyze");
        analyze.args([
            "security",
            "--offline=true",
            "--no-pager",
            MAX_EXPOSURE_OPTION,
        ]);
        output_of(analyze.arg(unit(program)));
    }
}

/// With the programs where these were built, as no other are installed.
fn systemd_verifies_units() {
    let folder = tempfile::tempdir().expect("a folder of our own");
    let programs = Programs::beside_this().expect("programs");
    let built = programs.agent();
    let built = built.parent().and_then(Path::to_str).expect("a folder");
    for program in SERVICE_PROGRAMS {
        let unit = text(unit(program));
        let copy = folder.path().join(format!("{program}.service"));
        written(&copy, &unit.replace("/usr/bin", built));
        let mut analyze = Command::new("systemd-analyze");
        analyze.args(["verify", "--man=no", "--recursive-errors=no"]);
        output_of(analyze.arg(copy));
    }
}

fn units_allow_required_syscalls() {
    let alone = Alone::start();
    let driven = Driven::beside(&alone);
    // One of the coordinator and one of the agent, and then a while of both.
    alone.await_state("READY=1", 2);
    alone.await_state("WATCHDOG=1", 20);
    driven.manager.await_state("READY=1", 1);
    driven.manager.await_state("WATCHDOG=1", 20);
    let calls = [alone.calls(), alone.calls(), driven.calls()];
    for (program, calls) in SERVICE_PROGRAMS.iter().zip(&calls) {
        let made = made_by(program, calls);
        assert!(made.contains("sendmsg"), "{program} made only {made:?}");
        let allowed = allowed_by(&unit(program));
        let forbidden: Vec<_> = made.difference(&allowed).collect();
        assert!(forbidden.is_empty(), "{program} may not {forbidden:?}");
    }
}

/// The service manager knows when they serve, and when one of them stands still.
fn every_program_is_watched() {
    for program in SERVICE_PROGRAMS {
        let unit = text(unit(program));
        let has = |line: &str| unit.lines().any(|it| it.starts_with(line));
        assert!(has("Type=notify") && has("WatchdogSec="), "{program}");
    }
}
