//! Does what lies in deploy/ fit the programs, and do those who should use it take it?

#[path = "deploy/alone.rs"]
mod alone;
#[path = "deploy/driven.rs"]
mod driven;
#[path = "deploy/forsaken.rs"]
mod forsaken;
#[path = "lab/tests/support/needs.rs"]
mod needs;
#[path = "deploy/promtool.rs"]
mod promtool;
#[path = "deploy/scraped.rs"]
mod scraped;
#[path = "deploy/settings.rs"]
mod settings;
#[path = "deploy/slurm.rs"]
mod slurm;
#[path = "deploy/syscalls.rs"]
mod syscalls;
#[path = "deploy/units.rs"]
mod units;
#[path = "deploy/watching.rs"]
mod watching;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    // The clusters of one listen on the same ports.
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    let tests = [
        forsaken::tests(),
        units::tests(),
        watching::tests(),
        scraped::tests(),
        settings::tests(),
        slurm::tests(),
    ];
    let tests = tests.into_iter().flatten().collect();
    libtest_mimic::run(&arguments, tests).exit_code()
}

fn deployed(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy")
        .join(file)
}

fn text(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn written(path: &Path, content: &str) {
    fs::write(path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// What a program says when all is well; anything else ends the test.
fn output_of(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (words(&output.stdout), words(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out
}
