//! Requirements of tests on the machine. A test with unmet requirements is reported as ignored with the reason, and
//! never passes.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use libtest_mimic::Trial;

/// The one list of what a machine must have.
const PACKAGE_LIST: &str = include_str!("../../../../deploy/packages.txt");

#[derive(Debug, Clone, Copy)]
pub(crate) enum Need {
    /// Requirements of every lab.
    Lab,
    /// Namespaces, by being root or by a kernel that lets everyone make them. Tests find out with
    /// a program that must be there.
    Namespaces,
    Root,
    Program(&'static str),
}

impl Need {
    /// Returns the reason why it is not met, if it is not.
    pub(crate) fn unmet(self) -> Option<String> {
        match self {
            Self::Lab => {
                let tools = ["ip", "tc", "nft"].map(Self::Program);
                [Self::Namespaces]
                    .into_iter()
                    .chain(tools)
                    .find_map(Self::unmet)
            }
            Self::Namespaces => Self::Program("unshare").unmet().or_else(|| {
                (!may_make_namespaces()).then(|| "namespaces (here, only root has them)".into())
            }),
            Self::Root => (!is_root()).then(|| "root".into()),
            Self::Program(name) => find(name).is_none().then(|| match package_of(name) {
                Some(package) => format!("{name} (package {package})"),
                None => name.into(),
            }),
        }
    }
}

/// A test that runs only where all its needs are met.
pub(crate) fn trial(name: &str, needs: &[Need], test: impl FnOnce() + Send + 'static) -> Trial {
    let unmet: Vec<_> = needs.iter().filter_map(|need| need.unmet()).collect();
    let trial = Trial::test(name, move || {
        test();
        Ok(())
    });
    if unmet.is_empty() {
        return trial;
    }
    trial
        .with_kind(format!("needs {}", unmet.join(", ")))
        .with_ignored_flag(true)
}

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Found out once for all tests of the process.
fn may_make_namespaces() -> bool {
    static NAMESPACES_ALLOWED: OnceLock<bool> = OnceLock::new();
    *NAMESPACES_ALLOWED.get_or_init(try_namespaces)
}

fn try_namespaces() -> bool {
    let user: &[&str] = if is_root() {
        &[]
    } else {
        &["--user", "--map-root-user"]
    };
    let mut command = Command::new("unshare");
    command
        .args(user)
        .args(["--net", "--mount", "--pid", "--fork", "true"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns the path of a program; network tools are often outside an ordinary user's PATH.
pub(crate) fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).collect::<Vec<_>>();
    let usual = ["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).to_owned());
    let mut places = folders
        .into_iter()
        .chain(usual)
        .map(|folder| folder.join(program));
    places.find(|place| place.is_file())
}

fn package_of(program: &str) -> Option<&'static str> {
    // ip and tc come together, and the list proves the package by one command.
    let proof = if program == "ip" { "tc" } else { program };
    let lines = PACKAGE_LIST.lines().map(|line| line.split_whitespace());
    let mut proven = lines.filter_map(|mut fields| Some((fields.nth(1)?, fields.next()?)));
    proven
        .find(|(_, by)| *by == proof)
        .map(|(package, _)| package)
}
