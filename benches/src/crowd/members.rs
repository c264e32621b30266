//! A cluster with certificates for all members, on the loopback address.

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use reweave_common::operator::{Request, Response, Status};
use reweave_link::pki::{Authority, Validity};
use reweave_link::{Channel, Identity, Role, Session, connect};
use reweave_tests::{Programs, settings_of, term_led};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Coordinators with their settings.
pub(crate) struct Members {
    folder: TempDir,
    /// Folders of the agents. Each would have a disk of its own, so here they are in memory.
    agents: TempDir,
    programs: Programs,
    pub(crate) addresses: Vec<SocketAddr>,
    running: Vec<Option<Child>>,
}

impl Drop for Members {
    fn drop(&mut self) {
        (0..self.running.len()).for_each(|place| self.kill(place));
    }
}

fn free_udp() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    socket.local_addr().expect("it is bound")
}

impl Members {
    /// Prepares a cluster; nothing runs yet.
    pub(crate) fn new(coordinators: usize, agents: usize) -> Self {
        let fabric = format!("kind = \"ideal\"\nhosts = {agents}\nnic_gbps = 100\n");
        Self::on(&fabric, coordinators, agents)
    }

    /// Prepares a cluster with this fabric.
    pub(crate) fn on(fabric: &str, coordinators: usize, agents: usize) -> Self {
        let names: Vec<_> = (0..agents).map(|host| format!("h{host}")).collect();
        Self::among(fabric, coordinators, &names, "")
    }

    /// Prepares a cluster with agents of these names; `policy` is added to the coordinators' files.
    pub(crate) fn among(
        fabric: &str,
        coordinators: usize,
        agents: &[String],
        policy: &str,
    ) -> Self {
        let members = Self {
            folder: tempfile::tempdir().expect("there is room"),
            agents: tempfile::tempdir_in("/dev/shm").expect("there is room"),
            programs: Programs::beside_this().expect("the programs are built"),
            addresses: (0..coordinators).map(|_| free_udp()).collect(),
            running: (0..coordinators).map(|_| None).collect(),
        };
        members.certify(agents);
        members.write("fabric.toml", fabric);
        for place in 0..coordinators {
            let settings = members.settings(place) + policy;
            members.write(&format!("c{place}.toml"), &settings);
        }
        members
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn agent(&self, host: usize) -> PathBuf {
        self.agent_of(&format!("h{host}"))
    }

    /// Returns the folder of a node's agent.
    pub(crate) fn agent_of(&self, node: &str) -> PathBuf {
        self.agents.path().join(node)
    }

    pub(crate) fn programs(&self) -> &Programs {
        &self.programs
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("there is room");
    }

    fn certify(&self, agents: &[String]) {
        let authority = Authority::create(&self.path("authority"), "crowd").expect("there is room");
        let issue = |role, name: &str, folder: &Path| {
            let issued = authority.issue(role, name, Validity::day(), folder);
            issued.expect("there is room");
        };
        issue(Role::Operator, "op", &self.path("op"));
        for name in (0..self.addresses.len()).map(|place| format!("c{place}")) {
            issue(Role::Coordinator, &name, &self.path(&name));
        }
        issue(Role::Driver, "d0", &self.path("d0"));
        for node in agents {
            issue(Role::Agent, node, &self.agent_of(node));
        }
    }

    fn settings(&self, place: usize) -> String {
        let addresses: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        let settings = settings_of(place, &addresses, "fabric.toml", "");
        // A single coordinator names no others.
        let alone = settings.split("[[member]]").next().unwrap_or_default();
        let settings = if addresses.len() > 1 {
            &settings
        } else {
            alone
        };
        format!("http = \"127.0.0.1:0\"\ndoor = \"127.0.0.1:0\"\n{settings}")
    }

    pub(crate) fn start(&mut self, place: usize) {
        let log = File::create(self.path(&format!("c{place}.log"))).expect("there is room");
        let mut run = Command::new(self.programs.coordinator());
        run.args(["run", "--config"])
            .arg(self.path(&format!("c{place}.toml")));
        let child = run.stdout(Stdio::null()).stderr(log).spawn();
        self.running[place] = Some(child.expect("it was built"));
    }

    pub(crate) fn kill(&mut self, place: usize) {
        if let Some(mut child) = self.running[place].take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn pid(&self, place: usize) -> u32 {
        self.running[place].as_ref().expect("it runs").id()
    }

    pub(crate) fn said(&self, place: usize) -> String {
        fs::read_to_string(self.path(&format!("c{place}.log"))).unwrap_or_default()
    }

    /// Returns the last coordinator that reported to lead.
    pub(crate) fn leader(&self) -> Option<usize> {
        let lead = self
            .who_run()
            .filter_map(|place| Some((term_led(&self.said(place))?, place)));
        lead.max().map(|(_, place)| place)
    }

    pub(crate) fn who_run(&self) -> impl Iterator<Item = usize> {
        (0..self.running.len()).filter(|place| self.running[*place].is_some())
    }

    /// Returns the number of agents with a session, by the coordinator's metrics.
    pub(crate) async fn agents_of(&self, place: usize) -> Option<usize> {
        let page = get(self.watched_at(place)?, "/metrics").await.ok()?;
        let mut lines = page.lines();
        let count = lines.find_map(|line| line.strip_prefix("reweave_sessions{role=\"agent\"} "));
        count?.trim().parse().ok()
    }

    pub(crate) fn watched_at(&self, place: usize) -> Option<SocketAddr> {
        let said = self.said(place);
        let line = said.lines().find(|line| line.contains("metrics on "))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    pub(crate) fn identity(&self, name: &str) -> Identity {
        Identity::load(&self.path(name)).expect("it was issued")
    }

    pub(crate) fn agent_identity(&self, host: usize) -> Identity {
        Identity::load(&self.agent(host)).expect("it was issued")
    }

    pub(crate) fn operator(&self, place: usize) -> Operator {
        Operator {
            identity: self.identity("op"),
            address: self.addresses[place],
            session: None,
        }
    }
}

async fn get(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let asked = format!("GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n");
    stream.write_all(asked.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// An operator with a session to this coordinator.
pub(crate) struct Operator {
    identity: Identity,
    address: SocketAddr,
    session: Option<Arc<Session>>,
}

impl Operator {
    /// Returns none without a leader.
    pub(crate) async fn ask(&mut self, request: &Request) -> Option<Response> {
        if self.session.is_none() {
            let session = connect(&[self.address], &self.identity, Role::Coordinator).await;
            self.session = session.ok().map(Arc::new);
        }
        let session = Arc::clone(self.session.as_ref()?);
        let sent = session.send(Channel::Commands, request).await;
        let answer = match sent {
            Ok(()) => session.receive(Channel::Commands).await,
            Err(error) => Err(error),
        };
        answer.inspect_err(|_| self.session = None).ok()
    }

    pub(crate) async fn status(&mut self) -> Option<Status> {
        match self.ask(&Request::Status).await? {
            Response::Status(status) => Some(*status),
            _ => None,
        }
    }
}
