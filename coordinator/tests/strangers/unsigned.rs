//! Coordinators of which one alone has a signer: the leader has it sign.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use reweave_common::operator::{CoordinatorState, Refused, Request, Response, Status};
use reweave_link::pki::{Authority, KeyRequest, Validity};
use reweave_link::{Channel, Identity, Role, Session, connect};
use tempfile::TempDir;
use tokio::time::{interval, timeout};

use super::house::{ONE_HOUR, validity};

const TEST_TIMEOUT: Duration = Duration::from_mins(2);
const COORDINATOR_NAMES: [&str; 3] = ["c1", "c2", "c3"];
/// Who has a signer.
const SIGNER_INDEX: usize = 0;

struct Trio {
    home: TempDir,
    addresses: [SocketAddr; 3],
    running: [Option<Child>; 3],
    operator: Identity,
}

impl Trio {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        let authority = Authority::create(&path("authority"), "lab").unwrap();
        for name in COORDINATOR_NAMES {
            // Two thirds of their lives are over.
            let old = validity(20 * ONE_HOUR, 4 * ONE_HOUR);
            let issued = authority.issue(Role::Coordinator, name, old, &path(name));
            issued.unwrap();
        }
        let year = Validity::lasting(365 * 24 * ONE_HOUR).unwrap();
        let signer = authority.issue_signer(
            COORDINATOR_NAMES[SIGNER_INDEX],
            year,
            &path(COORDINATOR_NAMES[SIGNER_INDEX]),
        );
        signer.unwrap();
        let issued = authority.issue(Role::Operator, "ann", Validity::day(), &path("ann"));
        issued.unwrap();
        let fabric = "kind = \"ideal\"\nhosts = 2\nnic_gbps = 1\n";
        fs::write(path("fabric.toml"), fabric).unwrap();
        let operator = Identity::load(&path("ann")).unwrap();
        let mut trio = Self {
            addresses: free_places(),
            home,
            running: [None, None, None],
            operator,
        };
        (0..3).for_each(|which| trio.start(which));
        trio
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn start(&mut self, which: usize) {
        let name = COORDINATOR_NAMES[which];
        let mut text = format!(
            "fabric = \"fabric.toml\"\nidentity = \"{name}\"\ndata = \"data-{name}\"\nlisten = \"{}\"\n\
             door = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\n",
            self.addresses[which]
        );
        for (at, address) in self.addresses.iter().enumerate() {
            let (id, name) = (at + 1, COORDINATOR_NAMES[at]);
            text += &format!("[[member]]\nid = {id}\nname = \"{name}\"\naddress = \"{address}\"\n");
        }
        let settings = self.path(&format!("{name}.toml"));
        fs::write(&settings, text).unwrap();
        let log = File::create(self.path(&format!("{name}.log"))).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_reweave-coordinator"))
            .args(["run", "--config"])
            .arg(settings)
            .stdin(Stdio::null())
            .stderr(log)
            .spawn();
        self.running[which] = Some(child.unwrap());
    }

    fn kill(&mut self, which: usize) {
        if let Some(mut child) = self.running[which].take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// The leader's answer that is as it should be.
    async fn answer<T>(
        &self,
        request: &Request,
        is_so: impl Fn(SocketAddr, Response) -> Option<T>,
    ) -> T {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut tries = interval(Duration::from_millis(100));
        loop {
            for address in self.addresses {
                let Some(answer) = self.ask(address, request).await else {
                    continue;
                };
                let said = format!("{answer:?}");
                if let Some(so) = is_so(address, answer) {
                    return so;
                }
                assert!(
                    Instant::now() < deadline,
                    "it does not come to that: {said}"
                );
            }
            assert!(Instant::now() < deadline, "no coordinator leads");
            tries.tick().await;
        }
    }

    /// None where no coordinator is, or one that does not lead.
    async fn ask(&self, address: SocketAddr, request: &Request) -> Option<Response> {
        let addresses = [address];
        let open = connect(&addresses, &self.operator, Role::Coordinator);
        let session = timeout(Duration::from_secs(2), open).await.ok()?.ok()?;
        let answer = exchange(&session, request).await;
        session.close("asked").await;
        answer.filter(|answer| !matches!(answer, Response::Refused(Refused::NotLeading { .. })))
    }

    async fn status(&self, is_so: impl Fn(&Status) -> bool) -> Status {
        let answer = self.answer(&Request::Status, |_, answer| match answer {
            Response::Status(status) if is_so(&status) => Some(*status),
            _ => None,
        });
        answer.await
    }

    /// The one with the signer follows, and all are there.
    async fn let_another_lead(&mut self) {
        let all_there = |status: &Status| {
            let there = |one: &&_| is_there(one);
            status.coordinators.iter().filter(there).count() == 3
        };
        self.status(all_there).await;
        self.kill(SIGNER_INDEX);
        let led_by_another =
            |status: &Status| leader(status) != Some(COORDINATOR_NAMES[SIGNER_INDEX]);
        self.status(led_by_another).await;
        self.start(SIGNER_INDEX);
        self.status(|status| led_by_another(status) && all_there(status))
            .await;
    }

    /// Each has its own certificate renewed, by any signer.
    async fn expect_renewed(&self) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut looks = interval(Duration::from_millis(100));
        let is_old = |name: &str| {
            let identity = Identity::load(&self.path(name)).unwrap();
            identity.validity().is_due(SystemTime::now())
        };
        while let Some(name) = COORDINATOR_NAMES.iter().find(|name| is_old(name)) {
            assert!(Instant::now() < deadline, "{name} is not renewed");
            looks.tick().await;
        }
    }

    fn renewal(&self, name: &str) -> Request {
        let request = KeyRequest::new(&self.path(name)).unwrap().der().to_vec();
        Request::Renew { request }
    }
}

impl Drop for Trio {
    fn drop(&mut self) {
        (0..3).for_each(|which| self.kill(which));
    }
}

fn is_there(one: &reweave_common::operator::CoordinatorStatus) -> bool {
    matches!(
        one.state,
        CoordinatorState::Leads | CoordinatorState::Follows
    )
}

fn leader(status: &Status) -> Option<&str> {
    let mut all = status.coordinators.iter();
    let leader = all.find(|one| one.state == CoordinatorState::Leads)?;
    Some(&leader.name)
}

async fn exchange(session: &Session, request: &Request) -> Option<Response> {
    session.send(Channel::Commands, request).await.ok()?;
    let answer = session.receive(Channel::Commands);
    timeout(Duration::from_secs(10), answer).await.ok()?.ok()
}

/// Addresses of the loopback interface that no other process has, at a port that the kernel gives to none: one that was
/// free a moment ago may be in use when a coordinator comes for it, or comes back to it.
fn free_places() -> [SocketAddr; 3] {
    let run = std::process::id();
    let [high, low] = [(run >> 8) % 128 + 128, run % 256].map(|it| it as u8);
    [1, 2, 3].map(|own| ([127, high, low, own], 7392).into())
}

#[tokio::test]
async fn leader_without_signer_asks_another() {
    let mut trio = Trio::new();
    trio.expect_renewed().await;
    trio.let_another_lead().await;
    let says = |status: &Status, words: &str| status.warnings.iter().any(|it| it.contains(words));
    trio.status(|status| says(status, "uses the signer of another"))
        .await;

    let renewal = trio.renewal("ann");
    let is_signed = |_, answer| matches!(answer, Response::Renewed { .. }).then_some(());
    trio.answer(&renewal, is_signed).await;

    trio.kill(SIGNER_INDEX);
    let is_refused = |_, answer| match answer {
        Response::Refused(Refused::CannotSign { why }) => Some(why),
        _ => None,
    };
    let why = trio.answer(&renewal, is_refused).await;
    assert!(why.contains("has a signer"), "{why}");
    let remedy = "`reweave cluster issue --role coordinator --name c";
    let is_reported = |status: &Status| {
        let is_warning =
            |it: &String| it.contains("cannot renew certificates") && it.contains(remedy);
        status.warnings.iter().any(is_warning)
    };
    trio.status(is_reported).await;
}
