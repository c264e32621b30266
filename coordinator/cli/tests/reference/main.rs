//! `reweave sim` against results that others have published, and the presets against what was
//! measured; and what it says of bad input.
//!
//! Reference inputs are found through REWEAVE_REFERENCE_DATA. Without it, the tests that need them
//! are ignored.

mod causes;
mod iterations;
mod plans;
mod profiles;
mod refusals;
mod shards;
mod switched;
mod variants;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

const DATA_VARIABLE: &str = "REWEAVE_REFERENCE_DATA";

type Test = Box<dyn Fn(&Path) -> Result<(), Failed> + Send>;

fn main() -> ExitCode {
    let data = env::var_os(DATA_VARIABLE).map(PathBuf::from);
    let tests = iterations::tests()
        .chain(profiles::tests())
        .chain(plans::tests());
    let trials = tests.map(|(name, test)| trial(&name, test, data.clone()));
    let trials = trials.chain(refusals::trials()).chain(plans::trials());
    let trials = trials
        .chain(shards::trials())
        .chain(switched::trials())
        .chain(causes::trials())
        .chain(variants::trials());
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn trial(name: &str, test: Test, data: Option<PathBuf>) -> Trial {
    let Some(data) = data else {
        let missing = format!("needs {DATA_VARIABLE}");
        let nothing = Trial::test(name, || Ok(()));
        return nothing.with_kind(missing).with_ignored_flag(true);
    };
    Trial::test(name, move || test(&data))
}
