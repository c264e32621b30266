//! Open MPI across the hosts of a stage, started by our wrapper: a job of another maker.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reweave_tests::{STAGE_TIMEOUT, Stage, wait_for};

use crate::needs::Need;

pub(crate) const MPI_NEEDS: &[Need] = &[
    Need::Lab,
    Need::Program("mpirun"),
    Need::Program("/usr/lib/python3/dist-packages/mpi4py/__init__.py"),
];

/// What mpirun takes for a remote shell: it leaves the command where the test finds it, and waits until
/// it has ended there.
const REMOTE_SHELL_SCRIPT: &str = "\
#!/bin/sh
spool=$(dirname \"$0\")/spool; host=$1; shift
echo \"$*\" > \"$spool/.$host\"; mv \"$spool/.$host\" \"$spool/$host\"
while [ -e \"$spool/$host\" ]; do sleep 0.1; done
";
const MCA_PARAMETERS: &[[&str; 2]] = &[
    ["plm_rsh_no_tree_spawn", "1"],
    ["routed", "direct"],
    ["oob_tcp_if_include", "eth0"],
    ["btl_tcp_if_include", "eth0"],
    ["btl", "tcp,self"],
    ["mpi_yield_when_idle", "1"],
    // A ring, as NCCL has it and as orders are planned for. By itself it has halves of the ranks exchange, and
    // then halves of these.
    ["coll_tuned_use_dynamic_rules", "1"],
    ["coll_tuned_allreduce_algorithm", "ring"],
];

/// It is ended when this is dropped.
pub(crate) struct Mpi<'s> {
    stage: &'s Stage,
    place: PathBuf,
    mpirun: Child,
    /// What was left to be started, and where that was written down.
    started: BTreeMap<PathBuf, Child>,
}

impl<'s> Mpi<'s> {
    /// This program in Python, a rank on each host of the hostfile.
    pub(crate) fn start(stage: &'s Stage, hostfile: &str, program: &str) -> Self {
        let place = stage.path("mpi");
        fs::create_dir_all(place.join("spool")).expect("a folder can be made");
        for (name, text) in [
            ("hosts", hostfile),
            ("loop.py", program),
            ("shell", REMOTE_SHELL_SCRIPT),
        ] {
            fs::write(place.join(name), text).expect("a file can be made");
        }
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(place.join("shell"), executable).expect("it is ours");
        let mpirun = mpirun(stage, hostfile, &place).spawn();
        Self {
            stage,
            mpirun: mpirun.expect("the lab's tool can be run"),
            place,
            started: BTreeMap::new(),
        }
    }

    /// What its ranks have printed so far.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.place.join("said")).expect("it is there")
    }

    /// Starts what was left to be started, and tells of what has ended; whether all has.
    pub(crate) fn looked_after(&mut self) -> bool {
        let entries = fs::read_dir(self.place.join("spool")).expect("it is there");
        for path in entries.flatten().map(|entry| entry.path()) {
            let host = path.file_name().unwrap_or_default().to_string_lossy();
            if !host.starts_with('.') && !self.started.contains_key(&path) {
                let words = fs::read_to_string(&path).unwrap_or_default();
                let mut command = self.stage.inside(&host, "sh");
                command.args(["-c", &words]).stdout(Stdio::null());
                let child = command.spawn().expect("the lab's tool can be run");
                self.started.insert(path, child);
            }
        }
        self.started.retain(|path, child| {
            let runs = child.try_wait().is_ok_and(|ended| ended.is_none());
            runs || fs::remove_file(path).is_err()
        });
        self.mpirun.try_wait().expect("it is ours").is_some()
    }
}

impl Drop for Mpi<'_> {
    /// Its ranks are no children of ours: mpirun ends them, where it is let do so.
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.mpirun.id().cast_signed());
        let _ = kill(pid, Signal::SIGTERM);
        let _ = wait_for("mpirun ends its ranks", STAGE_TIMEOUT, || {
            Ok(self.looked_after().then_some(()))
        });
        for child in self.started.values_mut().chain([&mut self.mpirun]) {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.place);
    }
}

fn mpirun(stage: &Stage, hostfile: &str, place: &Path) -> Command {
    let ranks = hostfile.lines().count().to_string();
    let first = hostfile.split(' ').next().expect("there are hosts");
    let mut command = stage.inside(first, stage.programs().reweave());
    // It only has to be there: NCCL is not.
    command.env("REWEAVE_NCCL_PLUGIN", place.join("loop.py"));
    command.args(["run", "--", "mpirun", "--allow-run-as-root"]);
    for [name, value] in MCA_PARAMETERS {
        command.args(["--mca", name, value]);
    }
    command
        .args(["--mca", "plm_rsh_agent"])
        .arg(place.join("shell"));
    command.arg("--hostfile").arg(place.join("hosts"));
    command
        .args(["-np", &ranks, "/usr/bin/python3"])
        .arg(place.join("loop.py"));
    command.stdout(File::create(place.join("said")).expect("a file can be made"));
    command
}
