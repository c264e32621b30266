//! `reweave dev`: a cluster of one machine, to look around in. No settings, no privileges, one command.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use reweave_common::member::Member;
use reweave_link::Role;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::interval;

use crate::ask::{Coordinator, PATIENCE, Reach, own_folder};
use crate::cluster;
use crate::config::beside;
use crate::dashboard::{self, Link};
use crate::error::CliError;

/// Where the commands look for a coordinator when nobody says where it is.
const AT: &str = "127.0.0.1:7332";
const DAYS: u64 = 1;
/// So often it is looked whether both still run.
const GLANCE: Duration = Duration::from_millis(200);

/// A coordinator and an agent on this machine, until Ctrl-C
///
/// What they keep stays in the folder, and the next time they go on with it. Measurements that this
/// user may not make are off; the agent's log names them.
#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// Where they keep what they keep [default: ~/.local/state/reweave/dev]
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
        place.prepare()?;
        let mut programs = place.start()?;
        println!("{}", place.dashboard(&mut programs)?);
        eprintln!(
            "{} is a cluster of one, until Ctrl-C; it is asked with REWEAVE_IDENTITY={}",
            place.node,
            place.operator().display()
        );
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(CliError::Start)?;
        runtime.block_on(until_the_end(&mut programs))
    }
}

/// Ctrl-C reaches the programs too, and they end by themselves.
async fn until_the_end(programs: &mut Programs) -> Result<ExitCode, CliError> {
    let mut interrupted = signal(SignalKind::interrupt()).map_err(CliError::Start)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(CliError::Start)?;
    let mut glances = interval(GLANCE);
    loop {
        tokio::select! {
            _ = glances.tick() => programs.expect_running()?,
            _ = interrupted.recv() => return Ok(ExitCode::SUCCESS),
            _ = terminated.recv() => return Ok(ExitCode::SUCCESS),
        }
    }
}

fn usual_folder() -> Option<PathBuf> {
    Some(own_folder("XDG_STATE_HOME", ".local/state")?.join("reweave/dev"))
}

/// As the machine calls itself, if a node may be called so.
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
    /// Certificates are made anew each time: they are good for a day.
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
            cluster::issue(role, &[name.to_owned()], &certificates, DAYS)?;
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

    /// A link to it, once the coordinator answers.
    fn dashboard(&self, programs: &mut Programs) -> Result<String, CliError> {
        let reach = Reach::to(AT, self.operator());
        let deadline = Instant::now() + PATIENCE;
        loop {
            programs.expect_running()?;
            let link = Coordinator::reach(&reach).and_then(|mut coordinator| {
                Link::ask(&mut coordinator, dashboard::LONGEST_HOURS)?.at(None)
            });
            match link {
                Ok(link) => return Ok(link),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => thread::sleep(GLANCE),
            }
        }
    }

    fn start(&self) -> Result<Programs, CliError> {
        let coordinator =
            "run --fabric fabric.toml --data data --identity certificates/coordinator";
        let agent = format!(
            "run --state state --coordinator {AT} --identity certificates/agents/{}",
            self.node
        );
        let listen = format!("{coordinator} --listen {AT}");
        Ok(Programs([
            self.program("reweave-coordinator", &listen)?,
            self.program("reweave-agent", &agent)?,
        ]))
    }

    /// What it says goes into a file beside what it keeps.
    fn program(&self, name: &'static str, arguments: &str) -> Result<Program, CliError> {
        let log = self.dir.join(format!("{name}.log"));
        let said = File::create(&log).map_err(|source| CliError::Write {
            path: log.clone(),
            source,
        })?;
        let program = beside(name);
        let mut command = Command::new(&program);
        command.current_dir(&self.dir).args(arguments.split(' '));
        let child = command.stdin(Stdio::null()).stderr(said).spawn();
        let child = child.map_err(|source| CliError::Program { program, source })?;
        Ok(Program { name, log, child })
    }
}

/// They end with this.
struct Programs([Program; 2]);

impl Programs {
    fn expect_running(&mut self) -> Result<(), CliError> {
        self.0.iter_mut().try_for_each(Program::expect_running)
    }
}

struct Program {
    name: &'static str,
    log: PathBuf,
    child: Child,
}

impl Program {
    /// Its last words say why it ended.
    fn expect_running(&mut self) -> Result<(), CliError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            _ => Err(CliError::Ended {
                name: self.name,
                words: last_line(&self.log),
                log: self.log.clone(),
            }),
        }
    }
}

fn last_line(log: &Path) -> String {
    let said = fs::read_to_string(log).unwrap_or_default();
    said.lines().last().unwrap_or("it said nothing").to_owned()
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
