//! A coordinator that answers as a test says, and programs that ask it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use reweave_common::operator::Request;
use reweave_link::pki::{Authority, Validity};
use reweave_link::{Channel, Identity, LinkError, Listener, Role, Session};
use tempfile::TempDir;

/// Goes when its test does, also when that fails.
pub(crate) struct Program(pub(crate) Child);

impl Program {
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) struct Scene {
    home: TempDir,
    pub(crate) listener: Listener,
    pub(crate) address: SocketAddr,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        let authority = Authority::create(&path("authority"), "lab").unwrap();
        for (role, name) in [(Role::Coordinator, "c1"), (Role::Operator, "ann")] {
            let issued = authority.issue(role, name, Validity::day(), &path(name));
            issued.unwrap();
        }
        let ours = Identity::load(&path("c1")).unwrap();
        let anywhere = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(anywhere, &ours, &[Role::Operator]).unwrap();
        Self {
            address: listener.address().unwrap(),
            home,
            listener,
        }
    }

    pub(crate) fn identity(&self) -> PathBuf {
        self.home.path().join("ann")
    }

    /// The program that asks for this, and its session once it has asked.
    pub(crate) async fn asked(&mut self, command: &[&str]) -> (Program, Session) {
        let child = reweave(self.address, &self.identity(), command);
        let session = self.listener.accept().await.unwrap().unwrap();
        request(&session).await.unwrap();
        (child, session)
    }
}

/// What a command asks for. Before that it asks for the deny lists, which need no answer.
pub(crate) async fn request(session: &Session) -> Result<Request, LinkError> {
    loop {
        match session.receive(Channel::Commands).await? {
            Request::DenyLists => {}
            request => return Ok(request),
        }
    }
}

/// It heeds signals, also where these tests were started to ignore some.
fn reweave(to: SocketAddr, identity: &Path, command: &[&str]) -> Program {
    let program = Command::new("env")
        .args(["--default-signal", env!("CARGO_BIN_EXE_reweave")])
        .args(["--coordinator", &to.to_string(), "--identity"])
        .arg(identity)
        .args(command)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Program(program.unwrap())
}
