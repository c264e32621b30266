//! A coordinator that runs, and what its cluster looks like from outside.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use reweave_common::member::Member;
use reweave_common::operator::{Refused, Request, Response, Status};
use reweave_common::time_span::TimeSpan;
use reweave_link::join::Token;
use reweave_link::pki::{Authority, Validity};
use reweave_link::{Channel, Identity, LinkError, Role, Session, connect};
use tempfile::TempDir;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::http::is_ready;

pub(crate) const ONE_HOUR: Duration = Duration::from_hours(1);
/// Far more than anything here takes; only a test that hangs meets it.
const TEST_TIMEOUT: Duration = Duration::from_mins(3);
const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
                      host_gbps = 0.4\nuplink_gbps = 0.2\n";

/// Awaits what must happen.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    let done = timeout(TEST_TIMEOUT, future).await;
    done.expect("it happens within minutes")
}

/// Good from this long ago until so far ahead.
pub(crate) fn validity(ago: Duration, ahead: Duration) -> Validity {
    let now = SystemTime::now();
    Validity {
        not_before: now - ago,
        not_after: now + ahead,
    }
}

pub(crate) struct House {
    home: TempDir,
    child: Child,
    runs: u32,
    pub(crate) authority: Authority,
    pub(crate) operator: Identity,
    pub(crate) address: SocketAddr,
    pub(crate) door: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) https: SocketAddr,
}

impl House {
    pub(crate) fn new() -> Self {
        Self::led_by(Validity::day())
    }

    /// By a coordinator whose certificate is good for that time.
    pub(crate) fn led_by(coordinator: Validity) -> Self {
        Self::over(FABRIC, coordinator)
    }

    /// What its core is asked can be read, where [`House::recorded`] says.
    pub(crate) fn overheard() -> Self {
        let mut house = Self::new();
        let recording = house.path("recording");
        house.start_again(&["--record".as_ref(), recording.as_os_str()]);
        house
    }

    /// Once the core has been asked something with these words.
    pub(crate) fn recorded(&self, words: &str) -> String {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let recorded = fs::read_to_string(self.path("recording")).unwrap();
            if let Some(line) = recorded.lines().find(|line| line.contains(words)) {
                return line.to_owned();
            }
            assert!(Instant::now() < deadline, "no log says {words}");
            thread::park_timeout(Duration::from_millis(10));
        }
    }

    /// The same over this fabric.
    pub(crate) fn over(fabric: &str, coordinator: Validity) -> Self {
        let home = tempfile::tempdir().unwrap();
        let authority = Authority::create(&home.path().join("authority"), "lab").unwrap();
        let identity = home.path().join("c0");
        let issued = authority.issue(Role::Coordinator, "c0", coordinator, &identity);
        issued.unwrap();
        let year = Validity::lasting(365 * 24 * ONE_HOUR).unwrap();
        authority.issue_signer("c0", year, &identity).unwrap();
        let ann = home.path().join("ann");
        authority
            .issue(Role::Operator, "ann", Validity::day(), &ann)
            .unwrap();
        fs::write(home.path().join("fabric.toml"), fabric).unwrap();
        let (child, places) = start(home.path(), 0, &[]);
        Self {
            operator: Identity::load(&ann).unwrap(),
            home,
            child,
            runs: 1,
            authority,
            address: places[0],
            door: places[1],
            http: places[2],
            https: places[3],
        }
    }

    /// Killed, and started again on the same data.
    pub(crate) fn restart(&mut self) {
        self.start_again(&[]);
    }

    pub(crate) fn start_again(&mut self, more: &[&OsStr]) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let (child, places) = start(self.home.path(), self.runs, more);
        self.child = child;
        self.runs += 1;
        [self.address, self.door, self.http, self.https] = places;
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn member(&self, role: Role, name: &str) -> Identity {
        self.member_for(role, name, Validity::day())
    }

    pub(crate) fn member_for(&self, role: Role, name: &str, validity: Validity) -> Identity {
        let dir = self.path(&format!("{role}-{name}"));
        self.authority.issue(role, name, validity, &dir).unwrap();
        Identity::load(&dir).unwrap()
    }

    /// On a machine that is busy a client may have to come again.
    pub(crate) async fn connect(&self, ours: &Identity) -> Result<Session, LinkError> {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let session = connect(&[self.address], ours, Role::Coordinator).await;
            let is_late = matches!(session, Err(LinkError::HandshakeTimedOut { .. }));
            if !is_late || Instant::now() > deadline {
                return session;
            }
        }
    }

    pub(crate) async fn operator(&self) -> Session {
        soon(self.connect(&self.operator)).await.unwrap()
    }

    pub(crate) async fn invite(&self, member: &Member) -> Token {
        let token = Token::new(&self.operator, member.clone());
        let request = Request::Invite {
            member: member.clone(),
            token: token.digest(),
            lasting: TimeSpan::from_secs(600),
        };
        let answer = ask(&self.operator().await, &request).await;
        assert!(matches!(answer, Response::Invited { .. }), "{answer:?}");
        token
    }

    /// Once it is as it should be.
    pub(crate) async fn status_when(&self, what: &str, holds: impl Fn(&Status) -> bool) -> Status {
        let session = self.operator().await;
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut looks = interval(Duration::from_millis(20));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let status = status(&session).await;
            if holds(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "not so: {what}\n{status:#?}");
            looks.tick().await;
        }
    }

    /// The most memory it has held so far.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let text = fs::read_to_string(path).unwrap();
        let line = text.lines().find(|line| line.starts_with("VmHWM:"));
        let words: Vec<_> = line.unwrap().split_whitespace().collect();
        words[1].parse::<u64>().unwrap() * 1024
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Once it leads, which takes it a moment.
pub(crate) async fn ask(session: &Session, request: &Request) -> Response {
    let mut tries = interval(Duration::from_millis(20));
    tries.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let answer = ask_once(session, request).await;
        let waits = matches!(answer, Response::Refused(Refused::NotLeading { .. }));
        if !waits || Instant::now() > deadline {
            return answer;
        }
        tries.tick().await;
    }
}

async fn ask_once(session: &Session, request: &Request) -> Response {
    soon(session.send(Channel::Commands, request))
        .await
        .unwrap();
    soon(session.receive(Channel::Commands)).await.unwrap()
}

pub(crate) async fn status(session: &Session) -> Status {
    match ask(session, &Request::Status).await {
        Response::Status(status) => *status,
        other => panic!("no status: {other:?}"),
    }
}

/// The program, and where it listens, is joined, serves HTTP, and does so over TLS.
fn start(home: &Path, run: u32, more: &[&OsStr]) -> (Child, [SocketAddr; 4]) {
    let log = home.join(format!("log-{run}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_reweave-coordinator"));
    command.current_dir(home).arg("run");
    command.args([
        "--fabric",
        "fabric.toml",
        "--identity",
        "c0",
        "--data",
        "data",
    ]);
    for place in ["--listen", "--door", "--http", "--https"] {
        command.args([place, "127.0.0.1:0"]);
    }
    let child = command
        .args(more)
        .stdin(Stdio::null())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    (child, places(&log))
}

fn places(log: &Path) -> [SocketAddr; 4] {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let said = fs::read_to_string(log).unwrap();
        let log_prefixes = [
            "listens on ",
            "join listener on ",
            "health and metrics on ",
            "over TLS on ",
        ]
        .map(|words| place_after(&said, words));
        if let [Some(address), Some(door), Some(http), Some(https)] = log_prefixes
            && is_ready(http)
        {
            return [address, door, http, https];
        }
        assert!(Instant::now() < deadline, "it does not start:\n{said}");
        thread::park_timeout(Duration::from_millis(10));
    }
}

fn place_after(said: &str, words: &str) -> Option<SocketAddr> {
    let (_, rest) = said.split_once(words)?;
    let place = rest.split(|c: char| c == ',' || c.is_whitespace()).next()?;
    place.parse().ok()
}
