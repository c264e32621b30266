//! A command that receives the signals of its wrapper. The wrapper ends as the command ends.

use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reweave_common::exit_code::{FAILED, NOT_EXECUTABLE, NOT_FOUND, SIGNAL_OFFSET};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{self, SignalKind};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::error::CliError;
use crate::parting::is_ignored;
use crate::voice::print_note;

/// Signals that schedulers and users send to jobs.
const FORWARDED_SIGNALS: [Signal; 6] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// A command that is about to start. Signals that arrive before it starts are kept.
pub(super) struct Attendant {
    runtime: Runtime,
    signals: Signals,
}

impl Attendant {
    pub(super) fn new() -> Result<Self, CliError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(CliError::Start)?;
        let inside = runtime.enter();
        let signals = heeded().map_err(CliError::Start)?;
        drop(inside);
        Ok(Self { runtime, signals })
    }

    /// Runs the command. After a request to end that came earlier, it does not start.
    pub(super) fn run(mut self, command: &mut Command) -> Result<ExitCode, CliError> {
        if let Some(signal) = self.runtime.block_on(come(&mut self.signals)) {
            return Ok(exit_by(signal as i32));
        }
        match command.spawn() {
            Ok(child) => {
                let ended = self.runtime.block_on(attend(child, self.signals));
                ended.map(exit_code).map_err(CliError::Start)
            }
            Err(error) => Ok(not_run(command, &error)),
        }
    }
}

type Signals = Vec<(Signal, unix::Signal)>;

/// Returns the signals to forward. Signals that are ignored here stay ignored for the command.
fn heeded() -> io::Result<Signals> {
    let kinds = FORWARDED_SIGNALS.into_iter();
    let kinds = kinds.map(|signal| (signal, SignalKind::from_raw(signal as i32)));
    let heeded = kinds.filter(|(_, kind)| !is_ignored(*kind));
    heeded
        .map(|(signal, kind)| Ok((signal, unix::signal(kind)?)))
        .collect()
}

/// Returns a signal that has already arrived.
async fn come(signals: &mut Signals) -> Option<Signal> {
    // The runtime must poll once to notice it.
    tokio::task::yield_now().await;
    for (signal, coming) in signals {
        if timeout(Duration::ZERO, coming.recv()).await.is_ok() {
            return Some(*signal);
        }
    }
    None
}

/// Whether the terminal sends this signal to the command as well.
fn is_sent_twice(signal: Signal) -> bool {
    [Signal::SIGINT, Signal::SIGQUIT].contains(&signal) && io::stdin().is_terminal()
}

async fn attend(mut child: Child, signals: Signals) -> io::Result<ExitStatus> {
    let id = i32::try_from(child.id()).map(Pid::from_raw);
    let mut passing = JoinSet::new();
    let signals = signals.into_iter();
    for (signal, mut came) in signals.filter(|(signal, _)| !is_sent_twice(*signal)) {
        passing.spawn(async move {
            while came.recv().await.is_some() {
                // The command may have just ended.
                let _ = id.map(|id| kill(id, signal));
            }
        });
    }
    let ended = tokio::task::spawn_blocking(move || child.wait()).await;
    ended.map_err(io::Error::other)?
}

fn exit_code(ended: ExitStatus) -> ExitCode {
    match (ended.code(), ended.signal()) {
        (None, Some(signal)) => exit_by(signal),
        (code, _) => ExitCode::from(
            code.and_then(|code| u8::try_from(code).ok())
                .unwrap_or(FAILED),
        ),
    }
}

fn exit_by(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(SIGNAL_OFFSET + signal).unwrap_or(FAILED))
}

fn not_run(command: &Command, error: &io::Error) -> ExitCode {
    let program = command.get_program().to_string_lossy();
    print_note(&format!("error: cannot run {program}: {error}"));
    ExitCode::from(match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    })
}
