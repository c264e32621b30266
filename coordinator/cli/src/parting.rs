//! No session is left behind: whoever goes without a word is thought there for seconds, and keeps a
//! chair from others.
//!
//! Sessions live on a runtime that never ends, so that one can be closed whatever this program is busy
//! with when it is told to end.

use std::fs;
use std::process;
use std::sync::{Mutex, OnceLock};

use reweave_common::lock::lock;
use reweave_link::{Parting, Session};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::CliError;

/// What shells add to the number of the signal that ended a program.
const BY_SIGNAL: i32 = 128;

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
/// A program asks over one session at a time.
static OPEN: Mutex<Option<Parting>> = Mutex::new(None);

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
    *lock(&OPEN) = Some(session.parting());
}

/// Ends the session that is open, if one is.
pub(crate) async fn part(why: &str) {
    let open = lock(&OPEN).take();
    if let Some(open) = open {
        open.say(why).await;
    }
}

/// From now on a signal that ends this program ends its session first.
pub(crate) fn heed_signals() -> Result<(), CliError> {
    static HEEDED: OnceLock<()> = OnceLock::new();
    let runtime = runtime()?;
    if HEEDED.set(()).is_err() {
        return Ok(());
    }
    let _inside = runtime.enter();
    for kind in [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ] {
        // As `nohup` has it, and shells for what runs beside them.
        if is_ignored(kind) {
            continue;
        }
        let ending = signal(kind).map_err(CliError::Start)?;
        runtime.spawn(end_by(ending, kind.as_raw_value()));
    }
    Ok(())
}

fn is_ignored(kind: SignalKind) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (kind.as_raw_value() - 1) & 1 == 1)
}

async fn end_by(mut ending: Signal, number: i32) {
    ending.recv().await;
    part("told to end").await;
    process::exit(BY_SIGNAL + number);
}
