//! A command that gets the signals its wrapper gets, and by whose end the wrapper ends.

use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::runtime::Builder;
use tokio::signal::unix::{self, SignalKind};
use tokio::task::JoinSet;

use crate::error::CliError;
use crate::page::tell;

/// As shells and `env` have it.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;
const BY_SIGNAL: i32 = 128;

/// What schedulers and people send jobs.
const PASSED_ON: [Signal; 6] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

pub(super) fn run(command: &mut Command) -> Result<ExitCode, CliError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CliError::Start)?;
    let _inside = runtime.enter();
    // Before it is there, so that none is missed.
    let signals = heeded().map_err(CliError::Start)?;
    match command.spawn() {
        Ok(child) => {
            let ended = runtime.block_on(attend(child, signals));
            ended.map(exit_code).map_err(CliError::Start)
        }
        Err(error) => Ok(not_run(command, &error)),
    }
}

type Signals = Vec<(Signal, unix::Signal)>;

/// A terminal sends its own to the command as well.
fn heeded() -> io::Result<Signals> {
    let by_terminal = [Signal::SIGINT, Signal::SIGQUIT];
    let is_sent_twice = |it: &Signal| by_terminal.contains(it) && io::stdin().is_terminal();
    let heed = |signal: Signal| {
        let kind = SignalKind::from_raw(signal as i32);
        Ok((signal, unix::signal(kind)?))
    };
    let heeded = PASSED_ON.into_iter().map(heed);
    let heeded = heeded.collect::<io::Result<Signals>>()?;
    Ok(heeded
        .into_iter()
        .filter(|(it, _)| !is_sent_twice(it))
        .collect())
}

async fn attend(mut child: Child, signals: Signals) -> io::Result<ExitStatus> {
    let id = i32::try_from(child.id()).map(Pid::from_raw);
    let mut passing = JoinSet::new();
    for (signal, mut came) in signals {
        passing.spawn(async move {
            while came.recv().await.is_some() {
                // It may have ended just now.
                let _ = id.map(|id| kill(id, signal));
            }
        });
    }
    let ended = tokio::task::spawn_blocking(move || child.wait()).await;
    ended.map_err(io::Error::other)?
}

fn exit_code(ended: ExitStatus) -> ExitCode {
    let by_signal = || ended.signal().map_or(1, |signal| BY_SIGNAL + signal);
    let code = ended.code().unwrap_or_else(by_signal);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

fn not_run(command: &Command, error: &io::Error) -> ExitCode {
    let program = command.get_program().to_string_lossy();
    tell(&format!("error: cannot run {program}: {error}"));
    ExitCode::from(match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_RUN,
    })
}
