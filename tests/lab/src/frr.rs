//! FRR in the switches that a scenario names, as switches run it themselves: its daemons have the routes that the lab
//! would give to the kernel, and the kernel has them from those.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::geteuid;
use reweave_common::ids::NodeId;
use reweave_common::scenario::Scenario;

use crate::error::LabError;
use crate::nodes::Nodes;
use crate::parallel::in_parallel;
use crate::progress::Progress;
use crate::tools::Tool;
use crate::wiring::Wiring;

/// Folders of the daemons in packages of Debian, and of Fedora.
const FRR_PATHS: [&str; 2] = ["/usr/lib/frr", "/usr/libexec/frr"];
/// The first is the one the other needs.
const FRR_DAEMONS: [&str; 2] = ["zebra", "staticd"];
/// One folder for each switch, with its daemons' sockets. It is the lab's own, as all of /run is there.
const STATE_PATH: &str = "/run/frr";
/// Daemons that start come to it within a second.
const START_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A switch, and its routes in FRR's words.
pub(crate) type Charge = (NodeId, Vec<String>);

/// Refuses what this machine cannot run before anything is made.
pub(crate) fn check(scenario: &Scenario) -> Result<(), LabError> {
    if scenario.frr.is_empty() {
        return Ok(());
    }
    if place().is_none() {
        return Err(LabError::MissingFrr);
    }
    geteuid()
        .is_root()
        .then_some(())
        .ok_or(LabError::FrrForRoot)
}

fn place() -> Option<&'static Path> {
    let has_all = |place: &&Path| {
        FRR_DAEMONS
            .iter()
            .all(|daemon| place.join(daemon).is_file())
    };
    FRR_PATHS.iter().map(Path::new).find(has_all)
}

pub(crate) fn charges(scenario: &Scenario, wiring: &Wiring<'_>) -> Vec<Charge> {
    let switches = scenario.frr.iter();
    switches
        .map(|&node| (node, wiring.routes_for_frr(node)))
        .collect()
}

pub(crate) fn start(
    nodes: &Nodes,
    charges: &[Charge],
    progress: &Progress,
) -> Result<(), LabError> {
    in_parallel(charges.len(), |index| {
        progress.count("routing daemons", index, charges.len());
        start_one(nodes, &charges[index])
    })
    .map(drop)
}

/// Starts the daemons of a switch, and waits until its kernel has the routes. They end with the lab.
fn start_one(nodes: &Nodes, (node, routes): &Charge) -> Result<(), LabError> {
    let name = nodes.fabric().name(*node);
    let failed = |source: io::Error| LabError::StartFrr {
        node: name.to_owned(),
        source,
    };
    let folder = Path::new(STATE_PATH).join(name);
    prepare(&folder, routes).map_err(failed)?;
    for daemon in FRR_DAEMONS {
        start_daemon(nodes, *node, &folder, daemon).map_err(failed)?;
    }
    let deadline = Instant::now() + START_TIMEOUT;
    while held(nodes, *node)? < routes_of(routes) {
        if Instant::now() >= deadline {
            return Err(failed(io::Error::other(
                "its routes do not come to the kernel",
            )));
        }
        thread::park_timeout(POLL_INTERVAL);
    }
    Ok(())
}

/// Prepares the folder. The daemons run as a user of their own, which must have access.
fn prepare(folder: &Path, routes: &[String]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("frr.conf"), routes.join("\n") + "\n")?;
    let owned = Command::new("chown")
        .args(["-R", "frr:frr"])
        .arg(folder)
        .output()?;
    if owned.status.success() {
        return Ok(());
    }
    Err(io::Error::other(first_line(&owned.stderr)))
}

fn start_daemon(nodes: &Nodes, node: NodeId, folder: &Path, daemon: &str) -> io::Result<()> {
    let program = place().unwrap_or(Path::new(FRR_PATHS[0])).join(daemon);
    let said = folder.join(format!("{daemon}.said"));
    let mut command = nodes.command(node, &program.display().to_string());
    command
        .args(["-d", "-u", "frr", "-g", "frr", "--vty_socket"])
        .arg(folder);
    command.arg("-f").arg(folder.join("frr.conf"));
    command.arg("-z").arg(folder.join("zserv.api"));
    command.arg("-i").arg(folder.join(format!("{daemon}.pid")));
    // The daemon continues in the background and would keep a pipe open.
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&said)?);
    if command.status()?.success() {
        return Ok(());
    }
    let words = first_line(&fs::read(&said)?);
    Err(io::Error::other(format!("{daemon}: {words}")))
}

fn first_line(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    text.lines().next().unwrap_or("no reason given").to_owned()
}

/// Returns the number of hosts to which the kernel has routes from FRR.
fn held(nodes: &Nodes, node: NodeId) -> Result<usize, LabError> {
    // By number: ip has the same name for static routes, and knows FRR's name only with a configuration file.
    let shown = nodes.batch(node, Tool::Ip, "route show proto 196\n")?;
    // The next hops of a multipath route are on lines of their own.
    let is_route = |line: &&str| line.starts_with(|it: char| it.is_ascii_digit());
    Ok(shown.lines().filter(is_route).count())
}

/// Counts routes; each next hop has a line of its own.
fn routes_of(lines: &[String]) -> usize {
    let to = |line: &String| line.split_whitespace().nth(2).map(str::to_owned);
    let hosts: BTreeSet<_> = lines.iter().filter_map(to).collect();
    hosts.len()
}

/// Returns the folder for `vtysh --vty_socket`, inside the lab.
pub(crate) fn folder(node: &str) -> PathBuf {
    Path::new(STATE_PATH).join(node)
}
