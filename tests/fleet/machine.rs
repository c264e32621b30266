//! A machine of a fleet: a system with its own systemd, in the network of a node of the lab.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reweave_tests::{Program, STAGE_TIMEOUT, Stage, wait_for};

/// Mounts and processes are of this alone, and go with it.
const BOOT_SCRIPT: &str = r#"
    mount --bind "$1" "$3/net" &&
    mount -t overlay overlay -o "lowerdir=$2,upperdir=$3/changed,workdir=$3/work" "$3/root" &&
    shift 3 && exec unshare --pid --fork --kill-child --mount-proc systemd-nspawn "$@"
"#;

#[derive(Debug)]
pub(crate) struct Machine {
    booted: Child,
    /// Keeps the node's network at hand.
    _holder: Program,
}

impl Machine {
    /// `key` is who may come in as root.
    pub(crate) fn boot(stage: &Stage, node: &str, system: &Path, key: &Path) -> Self {
        let disk = stage.path(&format!("machine-{node}"));
        for folder in ["work", "root"] {
            fs::create_dir_all(disk.join(folder)).expect("folders of our own");
        }
        let_in(&disk.join("changed/etc/ssh"), key);
        let mut hold = stage.inside(node, "sleep");
        hold.arg("infinity");
        File::create(disk.join("net")).expect("a file of our own");
        let holder = stage.start(&format!("hold-{node}"), hold);
        let holder = holder.expect("the node is there");
        let entered = || Ok(holder.pid().ok());
        let pid = wait_for("a process in the node", STAGE_TIMEOUT, entered).expect("it runs");
        let console = File::create(disk.join("console")).expect("a file of our own");
        let mut boot = Command::new("unshare");
        boot.args(["--mount", "sh", "-c", BOOT_SCRIPT, "boot"])
            .arg(format!("/proc/{pid}/ns/net"))
            .args([system, &disk])
            .arg(format!("--directory={}", disk.join("root").display()))
            .arg(format!("--machine={node}"))
            .arg(format!(
                "--network-namespace-path={}",
                disk.join("net").display()
            ))
            .args([
                "--boot",
                "--quiet",
                "--register=no",
                "--keep-unit",
                "--console=pipe",
            ])
            .args(["--resolv-conf=off", "--timezone=off", "--link-journal=no"])
            .args(["--capability=all", "--system-call-filter=bpf"])
            .stdin(Stdio::null())
            .stderr(console.try_clone().expect("a file has many owners"))
            .stdout(console);
        let booted = boot.spawn().expect("unshare starts");
        Self {
            booted,
            _holder: holder,
        }
    }
}

/// Before the machine is booted: the owner of this key may come in.
fn let_in(settings: &Path, key: &Path) {
    let more = settings.join("sshd_config.d");
    fs::create_dir_all(&more).expect("folders of our own");
    let line = "AuthorizedKeysFile /etc/ssh/keys\n";
    fs::write(more.join("fleet.conf"), line).expect("a file of our own");
    fs::copy(key, settings.join("keys")).expect("a key");
}

impl Drop for Machine {
    /// All that runs on it goes with the one that booted it.
    fn drop(&mut self) {
        let _ = kill(
            Pid::from_raw(self.booted.id().cast_signed()),
            Signal::SIGKILL,
        );
        let _ = self.booted.wait();
    }
}
