//! Running something in a lab that another process keeps.

use std::env;
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::fstat;
use nix::unistd::Pid;
use reweave_common::exit_code::{FAILED, SIGNAL_OFFSET};

use crate::error::LabError;
use crate::node::NodeDoor;
use crate::signals::{Signals, release_all};
use crate::state::{Record, Running};

/// Time limit for a lab to come up.
const START_TIMEOUT: Duration = Duration::from_secs(60);

const FORWARDED_SIGNALS: [Signal; 6] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Runs a program in a node and returns its exit code, 128+n if signal n ended it.
pub(crate) fn run_in_node(
    lab: &Running,
    node: &str,
    program: &str,
    arguments: &[String],
) -> Result<u8, LabError> {
    let (record, visit) = Visit::prepare(lab)?;
    let places = record.places();
    if !places.iter().any(|known| known == node) {
        return Err(LabError::NoSuchNode {
            name: node.to_owned(),
            lab: lab.name.clone(),
            nodes: places,
        });
    }
    let visit = visit.enter()?;
    let mut command = NodeDoor::open(node)?.command(program);
    command.args(arguments);
    visit.attend(visit.start(command, program)?)
}

/// A process that is about to join a lab, or has joined it. It must have one thread only.
pub(crate) struct Visit<'l> {
    lab: &'l Running,
    first: Pid,
    signals: Signals,
}

impl<'l> Visit<'l> {
    /// Waits until the lab is ready, and returns what is known of it.
    pub(crate) fn prepare(lab: &'l Running) -> Result<(Record, Self), LabError> {
        let record = wait_until_ready(lab)?;
        let visit = Self {
            lab,
            first: record.pid(),
            signals: Signals::hold(FORWARDED_SIGNALS.into_iter().chain([Signal::SIGCHLD]))?,
        };
        Ok((record, visit))
    }

    /// Enters the lab. Children of this process then run in the lab and end with it.
    pub(crate) fn enter(self) -> Result<Self, LabError> {
        join_lab(self.lab, self.first).map_err(|source| LabError::EnterLab {
            name: self.lab.name.clone(),
            source,
        })?;
        Ok(self)
    }

    #[allow(
        unsafe_code,
        reason = "the code between fork and exec makes system calls only"
    )]
    pub(crate) fn start(&self, mut command: Command, program: &str) -> Result<Child, LabError> {
        let begin = || -> io::Result<()> {
            release_all()?;
            Ok(set_pdeathsig(Signal::SIGKILL)?)
        };
        unsafe { command.pre_exec(begin) };
        command.spawn().map_err(|source| LabError::StartProgram {
            program: program.to_owned(),
            source,
        })
    }

    /// Waits for the program and forwards signals of processes. Signals of the terminal reach the program directly,
    /// because it is in the same group.
    pub(crate) fn attend(&self, mut child: Child) -> Result<u8, LabError> {
        let pid = Pid::from_raw(child.id() as i32);
        loop {
            let arrived = self.signals.next()?;
            if arrived.signal == Signal::SIGCHLD {
                match child.try_wait() {
                    Ok(Some(status)) => return Ok(exit_code(status)),
                    Ok(None) => {}
                    Err(error) => return Err(wait_failed(&error)),
                }
            } else if arrived.by_process {
                let _ = kill(pid, arrived.signal);
            }
        }
    }
}

fn wait_until_ready(lab: &Running) -> Result<Record, LabError> {
    let deadline = Instant::now() + START_TIMEOUT;
    while Instant::now() < deadline {
        match lab.record() {
            Some(record) if lab.is_ready() => return Ok(record),
            _ if !lab.is_alive() => return Err(LabError::NoLab),
            _ => thread::sleep(Duration::from_millis(10)),
        }
    }
    Err(LabError::StillStarting {
        name: lab.name.clone(),
    })
}

/// Moves this process, which must have one thread only, into the lab; its children will be seen
/// there and die with the lab.
fn join_lab(lab: &Running, first: Pid) -> Result<(), Errno> {
    let here = env::current_dir();
    let open = |space: &str| {
        File::open(format!("/proc/{first}/ns/{space}"))
            .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))
    };
    let [user, mnt, pid] = ["user", "mnt", "pid"].map(open);
    let (user, mnt, pid) = (user?, mnt?, pid?);
    // The lab was there all the time, so these are its namespaces and not a later process's.
    if !lab.is_alive() {
        return Err(Errno::ESRCH);
    }
    if is_elsewhere(&user)? {
        setns(user, CloneFlags::CLONE_NEWUSER)?;
    }
    setns(pid, CloneFlags::CLONE_NEWPID)?;
    setns(mnt, CloneFlags::CLONE_NEWNS)?;
    // The new mounts begin at their root; go back to where we were, if that exists there.
    let _ = here.and_then(env::set_current_dir);
    Ok(())
}

fn is_elsewhere(user: &File) -> Result<bool, Errno> {
    let own = nix::sys::stat::stat(Path::new("/proc/self/ns/user"))?;
    Ok(fstat(user)?.st_ino != own.st_ino)
}

fn wait_failed(error: &io::Error) -> LabError {
    LabError::Signals {
        source: Errno::from_raw(error.raw_os_error().unwrap_or(0)),
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| Some(SIGNAL_OFFSET + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok())
        .unwrap_or(FAILED)
}
