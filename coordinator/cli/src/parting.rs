//! Closes the session at every end of this program. A session that is not closed counts as alive for seconds, and takes
//! a place from others.
//!
//! Sessions run on a runtime that never ends, so a session can be closed in any state of the program.

use std::process::{self, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::{fs, io, mem, thread};

use reweave_common::exit_code::SIGNAL_OFFSET;
use reweave_common::lock::lock;
use reweave_link::{Session, SessionCloser};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::CliError;
use crate::voice::print_note;

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
/// The open session; a program has one at a time.
static OPEN_SESSION: Mutex<Option<SessionCloser>> = Mutex::new(None);
/// Message printed when a signal ends this program.
static SIGNAL_MESSAGE: Mutex<Option<String>> = Mutex::new(None);
/// Held while another program runs that must not be orphaned, and by the thread that ends this one.
static CHILD_LOCK: Mutex<()> = Mutex::new(());
static IS_ENDING: AtomicBool = AtomicBool::new(false);

pub(crate) fn runtime() -> Result<&'static Runtime, CliError> {
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let runtime = runtime.map_err(CliError::Start)?;
    Ok(RUNTIME.get_or_init(|| runtime))
}

/// Registers the session, so that it is closed when a signal ends this program.
pub(crate) fn opened(session: &Session) {
    *lock(&OPEN_SESSION) = Some(session.closer());
}

/// Closes the open session, if there is one.
pub(crate) async fn part(why: &str) {
    let open = lock(&OPEN_SESSION).take();
    if let Some(open) = open {
        open.close(why).await;
    }
}

/// Sets the message that is printed if a signal ends this program.
pub(crate) fn leave_word(word: String) {
    *lock(&SIGNAL_MESSAGE) = Some(word);
}

/// Runs a program to its end. A signal to this program takes effect after that: the user must not believe that the
/// program has ended. Ctrl-C reaches both.
pub(crate) fn attend(program: &mut process::Command) -> io::Result<ExitStatus> {
    let attended = lock(&CHILD_LOCK);
    let ended = program.status();
    drop(attended);
    while IS_ENDING.load(Ordering::SeqCst) {
        thread::park();
    }
    ended
}

/// From now on, a signal that ends this program closes its session first.
pub(crate) fn heed_signals() -> Result<(), CliError> {
    static SIGNAL_HANDLER_SET: OnceLock<()> = OnceLock::new();
    let runtime = runtime()?;
    if SIGNAL_HANDLER_SET.set(()).is_err() {
        return Ok(());
    }
    let _inside = runtime.enter();
    for kind in [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ] {
        if is_ignored(kind) {
            continue;
        }
        let ending = signal(kind).map_err(CliError::Start)?;
        runtime.spawn(end_by(ending, kind.as_raw_value()));
    }
    Ok(())
}

/// Whether a signal is ignored, as `nohup` and shells set it for background programs.
pub(crate) fn is_ignored(kind: SignalKind) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (kind.as_raw_value() - 1) & 1 == 1)
}

async fn end_by(mut ending: Signal, number: i32) {
    ending.recv().await;
    IS_ENDING.store(true, Ordering::SeqCst);
    part("stopped by a signal").await;
    // The lock is never released, so no further program starts.
    let _ended = tokio::task::spawn_blocking(|| mem::forget(lock(&CHILD_LOCK))).await;
    if let Some(word) = lock(&SIGNAL_MESSAGE).take() {
        print_note(&word);
    }
    process::exit(SIGNAL_OFFSET + number);
}
