//! The driver of optical switches beside a cluster of one machine, which has none: it lives, and says so.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use reweave_tests::Programs;
use tempfile::TempDir;

use super::alone::{Alone, Manager};
use super::{output_of, written};

const OPTICAL_SETTINGS: &str = "\
    [[optical]]\nname = \"ocs0\"\nports = 12\n\
    [optical.speaks.exec]\nprogram = \"/bin/false\"\n";

pub(crate) struct Driven {
    process: Child,
    pub(crate) manager: Manager,
    folder: TempDir,
}

impl Driven {
    pub(crate) fn beside(alone: &Alone) -> Self {
        let folder = tempfile::tempdir().expect("a folder of our own");
        let manager = Manager::at(folder.path().join("notify"));
        let state = folder.path().join("state");
        let settings = format!("state = {state:?}\n{OPTICAL_SETTINGS}");
        written(&folder.path().join("driver.toml"), &settings);
        let mut command = alone.inside();
        command.args(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["strace", "-f", "-qq", "-s", "0", "-o"]);
        command.arg(folder.path().join("calls"));
        run(&mut command, folder.path(), &certified(alone));
        manager.watches(&mut command);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self {
            process: command.spawn().expect("unshare starts"),
            manager,
            folder,
        }
    }

    /// All system calls that were made until now, as strace writes them.
    pub(crate) fn calls(&self) -> String {
        super::text(self.folder.path().join("calls"))
    }
}

fn run(command: &mut Command, folder: &Path, identity: &Path) {
    let programs = Programs::beside_this().expect("programs");
    command.arg(programs.driver()).arg("--config");
    command.arg(folder.join("driver.toml")).arg("run");
    command.args(["--coordinator", "127.0.0.1:7332", "--identity"]);
    command.arg(identity);
}

/// By the authority of the cluster that it is beside.
fn certified(alone: &Alone) -> PathBuf {
    let certificates = alone.place("certificates");
    let mut issue = Command::new(Programs::beside_this().expect("programs").reweave());
    issue.args(["cluster", "issue", "--role", "driver", "--name", "optics"]);
    output_of(issue.arg("--dir").arg(&certificates));
    certificates.join("drivers/optics")
}

impl Drop for Driven {
    /// All in it die with the first process of their namespace.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
