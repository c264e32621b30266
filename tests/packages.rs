//! Do the Debian packages make of an empty system a machine of Reweave, start nothing by themselves, and leave
//! what is a person's?

#[path = "packages/linked.rs"]
mod linked;
#[path = "packages/machine.rs"]
mod machine;
#[path = "lab/tests/support/needs.rs"]
mod needs;
#[path = "packages/newer.rs"]
mod newer;
#[path = "fleet/system.rs"]
mod system;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::Arguments;
use linked::Package;
use machine::{Said, lived};
use needs::{Need, trial};

/// A machine's life with the packages, step by step.
const LIFE_SCRIPT: &str = include_str!("packages/life.sh");
const PACKAGE_NAMES: [&str; 4] = [
    "reweave",
    "reweave-agent",
    "reweave-coordinator",
    "reweave-driver",
];

fn main() -> ExitCode {
    let machine = [
        Need::Root,
        Need::Program("debootstrap"),
        Need::Program("systemd-nspawn"),
        Need::Program("dpkg-deb"),
    ];
    let tests = vec![
        trial(
            "lintian_finds_no_problem",
            &[Need::Program("lintian")],
            lintian_finds_no_problem,
        ),
        trial(
            "package_licences_cover_every_crate",
            &[Need::Program("dpkg-deb"), Need::Program("zcat")],
            package_licences_cover_every_crate,
        ),
        trial(
            "programs_need_only_system_libraries",
            &[Need::Program("dpkg-deb"), Need::Program("readelf")],
            programs_need_only_system_libraries,
        ),
        trial(
            "packages_start_nothing_and_keep_data",
            &machine,
            packages_start_nothing_and_keep_data,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

/// What deploy/packages/build.sh has made.
fn built() -> Vec<PathBuf> {
    let folder = env::var("REWEAVE_PACKAGES")
        .expect("REWEAVE_PACKAGES: `make test-packages` says where they are");
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let paths = files.map(|file| file.expect("a file").path());
    let mut built: Vec<_> = paths
        .filter(|it| it.extension() == Some("deb".as_ref()))
        .collect();
    built.sort();
    assert_eq!(built.len(), PACKAGE_NAMES.len(), "{built:?}");
    built
}

fn lintian_finds_no_problem() {
    let mut lintian = Command::new("lintian");
    lintian.args([
        "--allow-root",
        "--fail-on=error,warning",
        "--tag-display-limit=0",
    ]);
    lintian.arg("--suppress-tags-from-file");
    lintian.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/packages/lintian.txt"));
    let output = lintian.args(built()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("W: ") && !said.contains("E: "), "{said}");
}

/// Programs tell by themselves from which crates their code is: by the places at which it may panic.
fn package_licences_cover_every_crate() {
    for path in built() {
        let package = Package::unpacked(&path);
        let report = package.entries();
        let linked = package.linked();
        // Some dozens of them in each; without any, nothing would be held against the list.
        assert!(linked.len() > 10, "{}: {linked:?}", path.display());
        for krate in linked {
            let entry = report.get(&krate);
            let entry = entry.unwrap_or_else(|| panic!("{}: no {krate}", path.display()));
            assert!(!entry.licence.is_empty(), "{krate} has no licence");
        }
        let texts: usize = report.values().map(|entry| entry.texts).sum();
        assert!(
            texts > report.len() / 2,
            "{texts} texts of {}",
            report.len()
        );
    }
}

/// Of the C library and of the compiler: these are on every system that Debian makes. All else is linked in.
const SYSTEM_LIBRARIES: [&str; 4] = [
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libgcc_s.so.1",
    "libm.so.6",
];

fn programs_need_only_system_libraries() {
    for path in built() {
        let needed = Package::unpacked(&path).needed();
        assert!(
            needed.contains("libc.so.6"),
            "{}: nothing is seen",
            path.display()
        );
        let more: Vec<_> = needed
            .iter()
            .filter(|it| !SYSTEM_LIBRARIES.contains(&it.as_str()))
            .collect();
        assert!(more.is_empty(), "{} needs {more:?}", path.display());
    }
}

fn packages_start_nothing_and_keep_data() {
    let said = lived(&system::made(), LIFE_SCRIPT, &built());
    installing_starts_nothing(&said);
    all_that_belongs_to_it_is_there(&said);
    an_upgrade_keeps_settings_and_what_runs(&said);
    removing_keeps_data_and_purging_does_not(&said);
}

fn installing_starts_nothing(said: &Said) {
    said.succeeded("install");
    said.is("enabled", &["disabled"; 3]);
    said.is("active", &["inactive"; 3]);
    said.is("user", &["/var/lib/reweave"]);
}

fn all_that_belongs_to_it_is_there(said: &Said) {
    for step in ["programs", "completions", "plugin"] {
        said.succeeded(step);
    }
    for page in [
        "reweave-agent-run",
        "reweave-coordinator-run",
        "reweave-driver-run",
        "reweave-plan",
    ] {
        assert!(
            said.words("manual").contains(page),
            "no {page}: {}",
            said.words("manual")
        );
    }
}

fn an_upgrade_keeps_settings_and_what_runs(said: &Said) {
    said.succeeded("start");
    said.succeeded("upgrade");
    let version = |step| said.words(step).to_owned();
    assert_ne!(version("version"), version("newer-version"));
    assert_eq!(
        said.words("process"),
        said.words("same-process"),
        "it was restarted"
    );
    assert_ne!(said.words("process"), "0");
    said.succeeded("settings-kept");
    said.is("others-active", &["inactive"; 2]);
}

fn removing_keeps_data_and_purging_does_not(said: &Said) {
    said.succeeded("remove");
    said.is("stopped", &["inactive"]);
    said.succeeded("data-kept");
    said.succeeded("settings-still-kept");
    said.succeeded("purge");
    said.is("left", &["/etc/reweave/fabric.toml"]);
}
