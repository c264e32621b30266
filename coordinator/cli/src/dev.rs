//! `reweave dev`: a cluster on one machine to try out. It needs no settings and no privileges.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use reweave_common::member::Member;
use reweave_link::Role;
use reweave_link::durable_files::{LockedFolder, LockedFolderError};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::interval;

use crate::ask::{ANSWER_TIMEOUT, Coordinator, Reach, own_folder};
use crate::cluster;
use crate::config::beside;
use crate::dashboard::{self, Link};
use crate::error::CliError;
use crate::parting::is_ignored;
use crate::voice::{print_data, print_note};

/// Address that commands use when no option names one.
const DEFAULT_LISTEN: &str = "127.0.0.1:7332";
const VALIDITY_DAYS: u64 = 1;
/// How often both programs are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Time limit for the programs of a killed run to end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Each program, with the folder that it locks while it runs.
const COORDINATOR_PROGRAM: (&str, &str) = ("reweave-coordinator", "data");
const AGENT_PROGRAM: (&str, &str) = ("reweave-agent", "state");

/// Run a cluster of one machine, until Ctrl-C
///
/// Run a coordinator and an agent on this machine, until Ctrl-C
///
/// State is kept in the folder and used by the next run. Measurements that this user has no privilege for are off; the
/// log of the agent names them.
#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// State folder [default: ~/.local/state/reweave/dev]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Dev {
    pub(crate) fn run(&self) -> Result<ExitCode, CliError> {
        let dir = self.dir.clone().or_else(usual_folder);
        let place = Place {
            dir: dir.ok_or(CliError::NoFolder)?,
            node: node_name(),
        };
        let _held = place.hold()?;
        place.prepare()?;
        let mut programs = place.start()?;
        print_data(&(place.dashboard(&mut programs)? + "\n"))?;
        print_note(&format!(
            "{} runs as a cluster of one, until Ctrl-C; use it with REWEAVE_IDENTITY={}",
            place.node,
            place.operator().display()
        ));
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(CliError::Start)?;
        runtime.block_on(until_the_end(&mut programs))
    }
}

/// Waits for a signal or for the end of a program. Ctrl-C reaches the programs too, and they end by themselves.
async fn until_the_end(programs: &mut Programs) -> Result<ExitCode, CliError> {
    let heeds_hangups = !is_ignored(SignalKind::hangup());
    let mut hung_up = signal(SignalKind::hangup()).map_err(CliError::Start)?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(CliError::Start)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(CliError::Start)?;
    let mut glances = interval(POLL_INTERVAL);
    loop {
        tokio::select! {
            _ = glances.tick() => programs.expect_running()?,
            _ = interrupted.recv() => return Ok(ExitCode::SUCCESS),
            _ = terminated.recv() => return Ok(ExitCode::SUCCESS),
            _ = hung_up.recv(), if heeds_hangups => return Ok(ExitCode::SUCCESS),
        }
    }
}

fn usual_folder() -> Option<PathBuf> {
    Some(own_folder("XDG_STATE_HOME", ".local/state")?.join("reweave/dev"))
}

/// Returns the host name if it is a valid node name.
fn node_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname");
    let name = name.map(|name| name.trim().to_owned()).ok();
    let sound = name.filter(|name| Member::new(Role::Agent, name).is_sound());
    sound.unwrap_or_else(|| "this-machine".to_owned())
}

struct Place {
    dir: PathBuf,
    node: String,
}

impl Place {
    /// Locks the state folder before anything in it is changed.
    fn hold(&self) -> Result<LockedFolder, CliError> {
        let held = LockedFolder::hold(&self.dir).map_err(|error| match error {
            LockedFolderError::InUse { folder, by } => CliError::DevRuns { folder, by },
            error => CliError::Keep(error),
        })?;
        for (program, folder) in [COORDINATOR_PROGRAM, AGENT_PROGRAM] {
            self.await_end(program, folder)?;
        }
        Ok(held)
    }

    /// Waits until a program of a killed run has released its folder.
    fn await_end(&self, program: &'static str, folder: &str) -> Result<(), CliError> {
        let deadline = Instant::now() + EXIT_TIMEOUT;
        loop {
            match LockedFolder::hold(&self.dir.join(folder)) {
                Ok(_) => return Ok(()),
                Err(LockedFolderError::InUse { folder, by }) if Instant::now() > deadline => {
                    return Err(CliError::LeftBehind {
                        program,
                        folder,
                        by,
                    });
                }
                Err(LockedFolderError::InUse { .. }) => thread::sleep(POLL_INTERVAL),
                Err(error) => return Err(CliError::Keep(error)),
            }
        }
    }

    /// Issues new certificates on each start: they are valid for one day.
    fn prepare(&self) -> Result<(), CliError> {
        let certificates = self.dir.join("certificates");
        if !certificates.join("ca.pem").exists() {
            cluster::init(&certificates, "dev")?;
        }
        for (role, name) in [
            (Role::Coordinator, "coordinator"),
            (Role::Operator, "operator"),
            (Role::Agent, self.node.as_str()),
        ] {
            cluster::issue(role, &[name.to_owned()], &certificates, VALIDITY_DAYS)?;
        }
        let fabric = format!(
            "kind = \"graph\"\nlink = []\n\n[[node]]\nname = \"{}\"\nrole = \"host\"\n",
            self.node
        );
        let path = self.dir.join("fabric.toml");
        fs::write(&path, fabric).map_err(|source| CliError::Write { path, source })
    }

    fn operator(&self) -> PathBuf {
        self.dir.join("certificates/operator")
    }

    /// Waits until the coordinator answers, and returns a link to the dashboard.
    fn dashboard(&self, programs: &mut Programs) -> Result<String, CliError> {
        let reach = Reach::to(DEFAULT_LISTEN, self.operator());
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        loop {
            programs.expect_running()?;
            let link = Coordinator::reach(&reach).and_then(|mut coordinator| {
                Link::ask(&mut coordinator, dashboard::MAX_VISIT_HOURS)?.at(None)
            });
            match link {
                Ok(link) => return Ok(link),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => thread::sleep(POLL_INTERVAL),
            }
        }
    }

    fn start(&self) -> Result<Programs, CliError> {
        let (coordinator, data) = COORDINATOR_PROGRAM;
        let (agent, state) = AGENT_PROGRAM;
        let settings =
            format!("--fabric fabric.toml --data {data} --identity certificates/coordinator");
        let identity = format!("certificates/agents/{}", self.node);
        Ok(Programs([
            self.program(
                coordinator,
                &format!("run {settings} --listen {DEFAULT_LISTEN}"),
            )?,
            self.program(
                agent,
                &format!(
                    "run --state {state} --coordinator {DEFAULT_LISTEN} --identity {identity}"
                ),
            )?,
        ]))
    }

    /// Starts a program. Its output is appended to a log file beside its state folder.
    fn program(&self, name: &'static str, arguments: &str) -> Result<Program, CliError> {
        let path = self.dir.join(format!("{name}.log"));
        let log = Log::open(path)?;
        let said = log.file.try_clone().map_err(CliError::Start)?;
        let program = beside(name);
        let mut command = Command::new(&program);
        command.current_dir(&self.dir).args(arguments.split(' '));
        command.stdin(Stdio::null()).stderr(said);
        let child = spawn_bound(&mut command);
        let child = child.map_err(|source| CliError::Program { program, source })?;
        Ok(Program { name, log, child })
    }
}

/// The kernel ends the child with this process, even if this process is killed.
#[allow(
    unsafe_code,
    reason = "the code between fork and exec makes one system call"
)]
fn spawn_bound(command: &mut Command) -> io::Result<Child> {
    unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?)) };
    command.spawn()
}

/// Output of a program since its start.
struct Log {
    path: PathBuf,
    file: File,
    begins: u64,
}

impl Log {
    fn open(path: PathBuf) -> Result<Self, CliError> {
        let file = File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(&path);
        let opened = file.and_then(|file| Ok((file.metadata()?.len(), file)));
        match opened {
            Ok((begins, file)) => Ok(Self { path, file, begins }),
            Err(source) => Err(CliError::Write { path, source }),
        }
    }

    fn last_line(&self) -> String {
        let mut file = &self.file;
        let mut said = Vec::new();
        let read = file.seek(SeekFrom::Start(self.begins));
        let _ = read.and_then(|_| file.read_to_end(&mut said));
        let said = String::from_utf8_lossy(&said);
        said.lines().last().unwrap_or("no output").to_owned()
    }
}

/// Both programs. Dropping this value ends them.
struct Programs([Program; 2]);

impl Programs {
    fn expect_running(&mut self) -> Result<(), CliError> {
        self.0.iter_mut().try_for_each(Program::expect_running)
    }
}

struct Program {
    name: &'static str,
    log: Log,
    child: Child,
}

impl Program {
    /// Fails if a program has ended, with the last lines of its log.
    fn expect_running(&mut self) -> Result<(), CliError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            _ => Err(CliError::Ended {
                name: self.name,
                words: self.log.last_line(),
                log: self.log.path.clone(),
            }),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Write as _;
    use std::path::Path;

    use super::*;

    fn refused(dir: &Path) -> CliError {
        let dir = Some(dir.to_owned());
        Dev { dir }.run().unwrap_err()
    }

    /// Returns all files below a folder, with their contents.
    fn content(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.append(&mut content(&path));
            } else {
                let bytes = fs::read(&path).unwrap();
                found.insert(path, bytes);
            }
        }
        found
    }

    #[test]
    fn folder_of_running_dev_stays_untouched() {
        let scratch = tempfile::tempdir().unwrap();
        let place = Place {
            dir: scratch.path().to_owned(),
            node: node_name(),
        };
        let _held = place.hold().unwrap();
        place.prepare().unwrap();
        for (program, _) in [COORDINATOR_PROGRAM, AGENT_PROGRAM] {
            fs::write(place.dir.join(format!("{program}.log")), "it leads\n").unwrap();
        }
        let before = content(&place.dir);
        let words = refused(&place.dir).error_chain();
        let who = format!(
            "another `reweave dev` runs in {}: process {};",
            place.dir.display(),
            std::process::id()
        );
        assert!(words.starts_with(&who), "{words}");
        assert_eq!(content(&place.dir), before);
    }

    #[test]
    fn leftover_process_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let _left = LockedFolder::hold(&scratch.path().join("data")).unwrap();
        let words = refused(scratch.path()).error_chain();
        let who = format!(
            "reweave-coordinator still runs on {}/data: process {};",
            scratch.path().display(),
            std::process::id()
        );
        assert!(words.starts_with(&who), "{words}");
    }

    #[test]
    fn log_appends_and_shows_own_line() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("a.log");
        fs::write(&path, "it led\n").unwrap();
        let log = Log::open(path.clone()).unwrap();
        assert_eq!(log.last_line(), "no output");
        writeln!(&log.file, "it leads").unwrap();
        assert_eq!(log.last_line(), "it leads");
        assert_eq!(fs::read_to_string(path).unwrap(), "it led\nit leads\n");
    }
}
