//! Programs that run: in the background, or to their end.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::StageError;
use crate::notifier::read_lines;
use crate::wait::{STAGE_TIMEOUT, wait_for};

/// A program in a node, running. What runs here is the command that entered the node for it and
/// passes signals on; when that is killed, so is the program.
#[derive(Debug)]
pub struct Program {
    name: String,
    entrance: Child,
}

impl Program {
    pub(crate) fn start(name: &str, mut command: Command) -> Result<Self, StageError> {
        let entrance = command.spawn().map_err(|source| StageError::Start {
            command: name.to_owned(),
            source,
        })?;
        Ok(Self {
            name: name.to_owned(),
            entrance,
        })
    }

    /// The same; each line that it prints goes to `on_line`.
    pub(crate) fn start_reading(
        name: &str,
        mut command: Command,
        on_line: impl FnMut(String) + Send + 'static,
    ) -> Result<Self, StageError> {
        command.stdout(Stdio::piped());
        let mut program = Self::start(name, command)?;
        if let Some(stdout) = program.entrance.stdout.take() {
            read_lines(stdout, on_line);
        }
        Ok(program)
    }

    /// As a loss of power would: at once, and without a word. When this returns, it is gone.
    pub fn kill(&mut self) {
        // The entrance ends after the program. Without a program, there is only the entrance.
        if self.signal_inner(Signal::SIGKILL).is_err() {
            let _ = self.entrance.kill();
        }
        let _ = self.entrance.wait();
    }

    /// Asks it to end, waits until it did, and says how.
    pub fn end(&mut self) -> Result<i32, StageError> {
        self.signal(Signal::SIGTERM);
        self.ended()
    }

    /// Waits until it ends, and says how.
    pub fn ended(&mut self) -> Result<i32, StageError> {
        let what = format!("{} ends", self.name);
        wait_for(&what, STAGE_TIMEOUT, || {
            let status = self.entrance.try_wait();
            let status = status.map_err(|source| StageError::Start {
                command: self.name.clone(),
                source,
            })?;
            Ok(status.map(|status| status.code().unwrap_or(-1)))
        })
    }

    /// Makes it stand still: it lives, and does nothing.
    pub fn freeze(&self) -> Result<(), StageError> {
        self.signal_inner(Signal::SIGSTOP)
    }

    pub fn thaw(&self) -> Result<(), StageError> {
        self.signal_inner(Signal::SIGCONT)
    }

    /// Makes all processes of its node stand still, itself among them; the kernel goes on.
    pub fn freeze_node(&self) -> Result<FrozenNode, StageError> {
        let network = network_of(self.pid()?);
        let network = network.ok_or_else(|| self.gone("no network of it"))?;
        let mut frozen = FrozenNode(BTreeSet::new());
        loop {
            let is_new = |pid: &u32| !frozen.0.contains(pid);
            let living = processes().filter(is_new);
            let living = living.filter(|pid| network_of(*pid).is_some_and(|it| it == network));
            let living: Vec<_> = living.collect();
            if living.is_empty() {
                return Ok(frozen);
            }
            for pid in living {
                // It may be gone already.
                let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGSTOP);
                frozen.0.insert(pid);
            }
        }
    }

    /// The program itself, not what entered the node for it.
    pub fn pid(&self) -> Result<u32, StageError> {
        child_of(self.entrance.id()).ok_or_else(|| self.gone("no process of it"))
    }

    pub fn expect_running(&mut self) -> Result<(), StageError> {
        match self.entrance.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.gone(&status.to_string())),
            Err(error) => Err(self.gone(&error.to_string())),
        }
    }

    fn gone(&self, how: &str) -> StageError {
        StageError::Gone {
            name: self.name.clone(),
            how: how.to_owned(),
        }
    }

    fn signal(&self, signal: Signal) {
        // It may be gone already.
        let _ = kill(Pid::from_raw(self.entrance.id().cast_signed()), signal);
    }

    /// Signals that cannot be passed on go to the program itself.
    fn signal_inner(&self, signal: Signal) -> Result<(), StageError> {
        let sent = kill(Pid::from_raw(self.pid()?.cast_signed()), signal);
        sent.map_err(|errno| self.gone(&errno.to_string()))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Processes that stand still. They go on when this is dropped.
#[derive(Debug)]
pub struct FrozenNode(BTreeSet<u32>);

impl Drop for FrozenNode {
    fn drop(&mut self) {
        for pid in &self.0 {
            // It may have been killed.
            let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGCONT);
        }
    }
}

/// The only child of a process.
fn child_of(parent: u32) -> Option<u32> {
    processes().find(|pid| parent_of(*pid) == Some(parent))
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Every node has its own.
fn network_of(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the name in brackets, which may hold anything: the state and the parent.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

/// What a command prints; it must succeed, and soon.
pub(crate) fn output(command: &mut Command) -> Result<String, StageError> {
    let shown = shown(command);
    let output = finish(command)?;
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(StageError::Failed {
        command: shown,
        code: output.status.code(),
        said: text(&output.stderr).trim().to_owned(),
    })
}

/// Runs a command to its end, which must come soon.
pub(crate) fn finish(command: &mut Command) -> Result<Output, StageError> {
    let shown = shown(command);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|source| StageError::Start {
        command: shown.clone(),
        source,
    })?;
    let (tell, report) = mpsc::channel();
    thread::spawn(move || tell.send(child.wait_with_output()));
    let patience = STAGE_TIMEOUT + Duration::from_secs(30);
    match report.recv_timeout(patience) {
        Ok(output) => output.map_err(|source| StageError::Start {
            command: shown,
            source,
        }),
        Err(_) => Err(StageError::Endless { command: shown }),
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The words of a command, without the folders of programs.
fn shown(command: &Command) -> String {
    let words = [command.get_program()]
        .into_iter()
        .chain(command.get_args());
    let words = words.map(|word| word.to_string_lossy().into_owned());
    words.collect::<Vec<_>>().join(" ")
}
