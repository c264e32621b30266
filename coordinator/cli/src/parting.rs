//! No session is left behind: a member that goes without a word is thought there for seconds, and keeps a session from
//! others.
//!
//! Sessions live on a runtime that never ends, so that one can be closed in any state of this program when it is asked
//! to end.

use std::process::{self, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::{fs, io, mem, thread};

use reweave_common::exit_code::SIGNAL_OFFSET;
use reweave_common::lock::lock;
use reweave_link::{Session, SessionClose};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::CliError;
use crate::voice::tell;

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
/// A program asks over one session at a time.
static OPEN_SESSION: Mutex<Option<SessionClose>> = Mutex::new(None);
/// What is said when a signal ends this program.
static SIGNAL_MESSAGE: Mutex<Option<String>> = Mutex::new(None);
/// Held while another program runs that must not be left alone, and by the thread that ends this one.
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

/// It is to be ended, too, when a signal ends this program.
pub(crate) fn opened(session: &Session) {
    *lock(&OPEN_SESSION) = Some(session.parting());
}

/// Ends the session that is open, if one is.
pub(crate) async fn part(why: &str) {
    let open = lock(&OPEN_SESSION).take();
    if let Some(open) = open {
        open.say(why).await;
    }
}

/// Said should a signal end this program, until another is left.
pub(crate) fn leave_word(word: String) {
    *lock(&SIGNAL_MESSAGE) = Some(word);
}

/// Runs a program to its end. A signal that is to end this one does so afterwards: the user must not take it for ended
/// while it goes on. Ctrl-C reaches both.
pub(crate) fn attend(program: &mut process::Command) -> io::Result<ExitStatus> {
    let attended = lock(&CHILD_LOCK);
    let ended = program.status();
    drop(attended);
    while IS_ENDING.load(Ordering::SeqCst) {
        thread::park();
    }
    ended
}

/// From now on a signal that ends this program ends its session first.
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

/// As `nohup` has it, and shells for what runs beside them.
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
    // Never given back: nothing else is begun.
    let _ended = tokio::task::spawn_blocking(|| mem::forget(lock(&CHILD_LOCK))).await;
    if let Some(word) = lock(&SIGNAL_MESSAGE).take() {
        tell(&word);
    }
    process::exit(SIGNAL_OFFSET + number);
}
