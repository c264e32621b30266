//! An operator that makes one decision after the other, remembers which were acknowledged, and checks that they are
//! visible.
//!
//! Each decision revokes a member of a new name: a revocation stays in the state whatever the clock says.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use reweave_tests::Stage;

use crate::cluster::status_of;

pub(crate) struct Witness {
    known: Arc<Known>,
    thread: Option<JoinHandle<()>>,
    /// Keeps the lab up while this is in use.
    _stage: Arc<Stage>,
}

#[derive(Default)]
struct Known {
    acknowledged: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

impl Witness {
    pub(crate) fn begin(name: &str, stage: Arc<Stage>, reweave: Command) -> Self {
        let known = Arc::new(Known::default());
        let (name, knows) = (name.to_owned(), Arc::clone(&known));
        let thread = thread::spawn(move || knows.go_on(&name, &reweave));
        Self {
            known,
            thread: Some(thread),
            _stage: stage,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.known.lock().len()
    }

    /// All acknowledged decisions. Panics when an answer had fewer than were acknowledged before.
    #[track_caller]
    pub(crate) fn end(mut self) -> Vec<String> {
        let ended = self.stop();
        assert!(ended.is_none_or(|it| it.is_ok()), "see above");
        std::mem::take(&mut self.known.lock())
    }

    fn stop(&mut self) -> Option<thread::Result<()>> {
        self.known.is_over.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

impl Known {
    fn go_on(&self, witness: &str, reweave: &Command) {
        for number in 0_u64.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let name = format!("{witness}-{number}");
            let mut revoke = again(reweave);
            revoke.args(["cluster", "revoke", "--role", "viewer", &name]);
            let output = revoke.output().expect("it was built");
            // Without an answer, the decision may have been made or not.
            if output.status.success() {
                self.lock().push(name);
            }
            self.look(&mut again(reweave));
        }
    }

    /// Checks that a coordinator that answers knows everything acknowledged before the question.
    fn look(&self, reweave: &mut Command) {
        let Some(status) = status_of(reweave) else {
            return;
        };
        let seen = status.revoked;
        for name in self.lock().iter() {
            let is_seen = seen.iter().any(|member| member.name == *name);
            assert!(is_seen, "{name} was acknowledged, and not seen later");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.acknowledged
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A copy of the command with the same program, arguments and environment.
fn again(command: &Command) -> Command {
    let mut again = Command::new(command.get_program());
    again.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => again.env(name, value),
            None => again.env_remove(name),
        };
    }
    again
}
