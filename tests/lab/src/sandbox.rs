//! The lab's own world: namespaces in which it may do as it likes, and which vanish with it.
//!
//! Three processes hold it together:
//! - the *supervisor* stays outside, passes signals on and waits;
//! - the lab's *first process* is pid 1 of the lab's pid namespace and reaps what dies in it. When
//!   it ends, for whatever reason, the kernel kills everything else in the lab and clears away its
//!   namespaces. It dies with the supervisor, so kill -9 of either leaves nothing behind;
//! - the *keeper* is its child and does the work, with threads and programs of its own.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{
    ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, fork, getegid, geteuid, pipe2, setsid,
};

use crate::error::LabError;
use crate::signals::{Interrupt, Signals, TERMINATION_SIGNALS};

/// Exit code of Rust programs that panic.
const EXIT_PANICKED: u8 = 101;

/// The lab's first process as its supervisor sees it.
pub(crate) struct FirstProcess {
    pid: Pid,
    signals: Signals,
}

/// End of the lab's first process.
pub(crate) enum Ending {
    Exited(u8),
    Killed,
}

impl FirstProcess {
    /// Starts the lab's first process, which runs `keep` in a child. Must be called while this
    /// process has one thread only.
    pub(crate) fn start(keep: impl FnOnce(&Interrupt) -> u8) -> Result<Self, LabError> {
        let signals = Signals::hold(TERMINATION_SIGNALS.into_iter().chain([Signal::SIGCHLD]))?;
        leave_for_own_namespaces()?;
        let pipe = || pipe2(OFlag::O_CLOEXEC).map_err(|source| LabError::Fork { source });
        let [(tied_in, tied_out), (go_in, go_out)] = [pipe()?, pipe()?];
        match fork_once()? {
            ForkResult::Child => {
                drop((tied_in, go_out));
                end_with(|| be_first_process(tied_out, go_in, keep))
            }
            ForkResult::Parent { child } => {
                drop((tied_out, go_in));
                let_go(tied_in, go_out)?;
                Ok(Self {
                    pid: child,
                    signals,
                })
            }
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Passes on what asks the lab to end (a second time it ends at once), and waits until it did.
    pub(crate) fn supervise(&self) -> Result<Ending, LabError> {
        let mut asked = false;
        loop {
            if self.signals.next()?.signal != Signal::SIGCHLD {
                let signal = if asked {
                    Signal::SIGKILL
                } else {
                    Signal::SIGTERM
                };
                asked = true;
                // The process may have just ended; SIGCHLD follows.
                let _ = kill(self.pid, signal);
            } else if let Some(ending) = self.ending()? {
                return Ok(ending);
            }
        }
    }

    fn ending(&self) -> Result<Option<Ending>, LabError> {
        match waitpid(self.pid, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, code)) => {
                Ok(Some(Ending::Exited(u8::try_from(code).unwrap_or(1))))
            }
            Ok(WaitStatus::Signaled(..)) => Ok(Some(Ending::Killed)),
            Ok(_) => Ok(None),
            Err(source) => Err(LabError::Signals { source }),
        }
    }
}

/// Ends a forked process with what `work` returns. After any failure, nothing of what the process
/// was copied from is run or dropped a second time.
fn end_with(work: impl FnOnce() -> u8) -> ! {
    let code = catch_unwind(AssertUnwindSafe(work)).unwrap_or(EXIT_PANICKED);
    process::exit(i32::from(code))
}

/// Waits until the first process has tied its life to this one, then lets it begin. Were it let
/// begin earlier, this process could die in between and leave it alone in the world.
fn let_go(tied: OwnedFd, go: OwnedFd) -> Result<(), LabError> {
    let exchange = || -> io::Result<()> {
        fs::File::from(tied).read_exact(&mut [0])?;
        fs::File::from(go).write_all(&[0])
    };
    exchange().map_err(|source| LabError::Handshake { source })
}

fn be_first_process(tied: OwnedFd, go: OwnedFd, keep: impl FnOnce(&Interrupt) -> u8) -> u8 {
    let begin = || -> io::Result<()> {
        set_pdeathsig(Signal::SIGKILL)?;
        fs::File::from(tied).write_all(&[0])?;
        fs::File::from(go).read_exact(&mut [0])?;
        // Out of the terminal's reach: Ctrl-C is the supervisor's to pass on.
        setsid()?;
        Ok(())
    };
    if begin().is_err() {
        return 1;
    }
    let outcome = furnish().and_then(|()| start_keeper(keep)).and_then(reap);
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        error.exit_code()
    })
}

/// Prepares the lab before its first node: private mounts, a /run of its own for namespace names, and views of its own
/// processes and devices.
fn furnish() -> Result<(), LabError> {
    let make = |what, flags| unshare(flags).map_err(|source| LabError::Namespaces { what, source });
    make("a mount namespace", CloneFlags::CLONE_NEWNS)?;
    make("a network namespace", CloneFlags::CLONE_NEWNET)?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
        .map_err(|source| LabError::Mount { what: "/", source })?;
    mount_fresh("tmpfs", "/run")?;
    mount_fresh("proc", "/proc")?;
    mount_sysfs().map_err(|source| LabError::Mount {
        what: "/sys",
        source,
    })
}

fn mount_fresh(kind: &str, at: &'static str) -> Result<(), LabError> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some(kind), at, Some(kind), flags, None::<&str>)
        .map_err(|source| LabError::Mount { what: at, source })
}

/// Mounts /sys for the caller's network namespace. The kernel refuses that if the machine's own is read-only, as in
/// containers. Allocates nothing, because it is called between fork and exec.
pub(crate) fn mount_sysfs() -> Result<(), Errno> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let with = |flags| mount(Some(c"sysfs"), c"/sys", Some(c"sysfs"), flags, None::<&str>);
    with(flags).or_else(|_| with(flags | MsFlags::MS_RDONLY))
}

fn start_keeper(keep: impl FnOnce(&Interrupt) -> u8) -> Result<Pid, LabError> {
    match fork_once()? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => end_with(|| match Interrupt::install() {
            Ok(interrupt) => keep(&interrupt),
            Err(error) => error.exit_code(),
        }),
    }
}

/// Reaps all that dies in the lab, until the keeper does; says what that said.
fn reap(keeper: Pid) -> Result<u8, LabError> {
    let signals = Signals::hold(TERMINATION_SIGNALS.into_iter().chain([Signal::SIGCHLD]))?;
    // The keeper speaks for the lab. A reader of its output must not wait for this process.
    silence();
    loop {
        let arrived = signals.next()?;
        if arrived.signal != Signal::SIGCHLD {
            let _ = kill(keeper, arrived.signal);
        } else if let Some(code) = reap_dead(keeper) {
            return Ok(code);
        }
    }
}

/// Reaps all dead children, because one SIGCHLD may stand for many.
fn reap_dead(keeper: Pid) -> Option<u8> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == keeper => {
                return Some(u8::try_from(code).unwrap_or(1));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == keeper => {
                return Some(128 + signal as u8);
            }
            Ok(WaitStatus::StillAlive) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// Lets go of the terminal or pipes this process was started with.
pub(crate) fn silence() {
    if let Ok(null) = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty()) {
        let _ = dup2_stdin(&null);
        let _ = dup2_stdout(&null);
        let _ = dup2_stderr(&null);
    }
}

#[allow(
    unsafe_code,
    reason = "fork; this process has one thread, so its copy is whole"
)]
pub(crate) fn fork_once() -> Result<ForkResult, LabError> {
    let _ = io::stdout().flush();
    unsafe { fork() }.map_err(|source| LabError::Fork { source })
}

/// A pid namespace for the next child; first a user namespace in which this process is root, unless
/// it is root already.
fn leave_for_own_namespaces() -> Result<(), LabError> {
    if geteuid().is_root() && unshare(CloneFlags::CLONE_NEWPID).is_ok() {
        return Ok(());
    }
    let (uid, gid) = (geteuid(), getegid());
    let become_root = || -> Result<(), Errno> {
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID)?;
        // A kernel that hands out the namespace and withholds its powers refuses the maps.
        write_map("setgroups", "deny")?;
        write_map("uid_map", &format!("0 {uid} 1"))?;
        write_map("gid_map", &format!("0 {gid} 1"))
    };
    become_root().map_err(|source| LabError::UserNamespaces {
        hint: user_namespace_hint(&read_setting),
        source,
    })
}

fn write_map(file: &str, map: &str) -> Result<(), Errno> {
    let errno = |error: io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(0));
    fs::write(Path::new("/proc/self").join(file), map).map_err(errno)
}

fn read_setting(name: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?;
    Some(text.trim().to_owned())
}

/// Returns the kernel setting that prevents user namespaces, if a known one does, and the remedies.
fn user_namespace_hint(setting: &dyn Fn(&str) -> Option<String>) -> String {
    let settings = [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
        ("kernel/unprivileged_userns_clone", "0", "1"),
        ("user/max_user_namespaces", "0", "10000"),
    ];
    let blocking = settings
        .iter()
        .find(|(name, bad, _)| setting(name).as_deref() == Some(bad));
    match blocking {
        Some((name, _, good)) => {
            let name = name.replace('/', ".");
            format!("run it with sudo, or allow them with `sudo sysctl -w {name}={good}`")
        }
        None => "run it with sudo; in a container, allow them (docker run --privileged)".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(name: &str, value: &str) -> String {
        user_namespace_hint(&|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn blocking_sysctl_names_both_remedies() {
        let ubuntu = hint("kernel/apparmor_restrict_unprivileged_userns", "1");
        assert!(ubuntu.contains("sudo, or"), "{ubuntu}");
        assert!(
            ubuntu.contains("sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
            "{ubuntu}"
        );
        let debian = hint("kernel/unprivileged_userns_clone", "0");
        assert!(debian.contains("unprivileged_userns_clone=1"), "{debian}");
    }

    #[test]
    fn permissive_sysctls_are_not_blamed() {
        for (name, value) in [
            ("kernel/apparmor_restrict_unprivileged_userns", "0"),
            ("kernel/unprivileged_userns_clone", "1"),
            ("user/max_user_namespaces", "96365"),
        ] {
            assert!(!hint(name, value).contains("sysctl"), "{name}");
        }
    }
}
