//! Three coordinators as processes with certificates, folders and sessions between them, all on this machine. The
//! simulated clusters test what they agree on; these tests check that the programs do it.

#[path = "trio/policy.rs"]
mod policy;
#[path = "trio/removal.rs"]
mod removal;
#[path = "trio/schedulers.rs"]
mod schedulers;
#[path = "lab/tests/support/timed.rs"]
mod timed;

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reweave_agent::session::AgentUplink;
use reweave_common::member::Admission;
use reweave_link::uplink::{Certificate, Uplink, UplinkEvent};
use reweave_link::{Channel, Dialer, Identity, LinkError, Listener, Role, Session, connect};
use reweave_proto::message::CoordinatorMessage;
use reweave_tests::{Programs, STAGE_TIMEOUT, settings_of};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::{interval, timeout};

use timed::timed;

const FABRIC: &str = "kind = \"ideal\"\nhosts = 2\nnic_gbps = 1\n";
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// `reweave status` tries a silent coordinator three times before it reports it: 3 s on an idle machine.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

const REVOCATION_TIMEOUT: Duration = Duration::from_secs(5);

const VIEWER_NAMES: [&str; 3] = ["vic", "eve", "mal"];

struct Trio {
    folder: TempDir,
    programs: Programs,
    addresses: Vec<String>,
    running: [Option<Child>; 3],
}

impl Drop for Trio {
    fn drop(&mut self) {
        for index in 0..3 {
            if thread::panicking() {
                eprintln!("--- c{index}\n{}", self.said(index));
            }
            self.kill(index);
        }
    }
}

impl Trio {
    fn started() -> Self {
        let mut trio = Self::prepared();
        (0..3).for_each(|index| trio.start(index));
        trio
    }

    /// Makes the certificates and settings of three coordinators, without starting any.
    fn prepared() -> Self {
        let trio = Self {
            folder: tempfile::tempdir().expect("there is room"),
            programs: Programs::beside_this().expect("the programs are built"),
            addresses: free_addresses(),
            running: [None, None, None],
        };
        trio.certify();
        fs::write(trio.path("fabric.toml"), FABRIC).expect("there is room");
        for index in 0..3 {
            fs::write(trio.path(&format!("c{index}.toml")), trio.settings(index)).expect("room");
        }
        trio
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn certify(&self) {
        let certificates = self.path("certificates");
        let mut init = Command::new(self.programs.reweave());
        let init = init.args(["cluster", "init", "--name", "trio"]);
        done(init.arg(&certificates));
        let mut issue = Command::new(self.programs.reweave());
        let issue = issue.args(["cluster", "issue", "--role", "coordinator", "--dir"]);
        done(issue.arg(&certificates).args(["--name", "c0", "c1", "c2"]));
        let mut issue = Command::new(self.programs.reweave());
        let issue = issue.args(["cluster", "issue", "--role", "viewer", "--dir"]);
        done(issue.arg(&certificates).arg("--name").args(VIEWER_NAMES));
        let mut issue = Command::new(self.programs.reweave());
        let issue = issue.args(["cluster", "issue", "--role", "agent", "--dir"]);
        done(issue.arg(&certificates).args(["--name", "h0"]));
    }

    /// Opens the agent's session with this coordinator and returns it with the leader that the coordinator names. A
    /// coordinator refuses agents until it has connected to the others, so this retries until one is admitted.
    async fn agent_at(&self, index: usize) -> (Session, Result<SocketAddr, LinkError>) {
        let identity = Identity::load(&self.path("certificates/agents/h0"));
        let identity = identity.expect("it was issued");
        let address = self.addresses[index].parse().expect("an address");
        let mut tries = interval(POLL_INTERVAL);
        let is_lost = |error: &LinkError| error.fault().contains("retry soon");
        let asked = timeout(STAGE_TIMEOUT, async {
            loop {
                tries.tick().await;
                let session = match connect(&[address], &identity, Role::Coordinator).await {
                    // On a busy machine the handshake may time out.
                    Err(LinkError::HandshakeTimedOut { .. }) => continue,
                    Err(error) if is_lost(&error) => continue,
                    session => session.expect("it lets agents in"),
                };
                let report = hear_who_leads(&session).await;
                if !report.as_ref().is_err_and(is_lost) {
                    break (session, report);
                }
            }
        });
        asked.await.expect("it finds the others")
    }

    fn settings(&self, index: usize) -> String {
        let identities = "certificates/coordinators/";
        let settings = settings_of(index, &self.addresses, "fabric.toml", identities);
        format!("http = \"127.0.0.1:0\"\ndoor = \"127.0.0.1:0\"\n{settings}")
    }

    fn start(&mut self, index: usize) {
        let log = self.path(&format!("c{index}.log"));
        let log = File::options().create(true).append(true).open(log);
        let mut run = Command::new(self.programs.coordinator());
        run.arg("run").arg("--config");
        run.arg(self.path(&format!("c{index}.toml")));
        run.stderr(log.expect("there is room"))
            .stdout(Stdio::null());
        self.running[index] = Some(run.spawn().expect("it was built"));
    }

    fn kill(&mut self, index: usize) {
        if let Some(mut child) = self.running[index].take() {
            // The process may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn signal(&self, index: usize, signal: Signal) {
        let child = self.running[index].as_ref().expect("it runs");
        kill(Pid::from_raw(child.id().cast_signed()), signal).expect("it runs");
    }

    /// The last term in which each coordinator was elected, by index.
    fn led(&self) -> Vec<(usize, u64)> {
        let log = |index| fs::read_to_string(self.path(&format!("c{index}.log")));
        let led = (0..3).filter_map(|index| Some((index, last_term(&log(index).ok()?)?)));
        led.collect()
    }

    /// Waits for a leader whose term is later than `term`.
    fn leader_after(&self, term: u64) -> (usize, u64) {
        wait(|| {
            let latest = self.led().into_iter().max_by_key(|(_, term)| *term);
            latest.filter(|(_, latest)| *latest > term)
        })
    }

    fn status(&self) -> Output {
        self.reweave().arg("status").output().expect("it was built")
    }

    /// Checks that `reweave status` names which of the three answers and which do not.
    fn tells_who_is_missing(&self, there: usize) {
        let ask = || {
            let mut viewer = self.reweave();
            viewer.arg("--identity");
            viewer.arg(self.path("certificates/viewers/vic"));
            let result = viewer.arg("status").output().expect("it was built");
            assert_eq!(result.status.code(), Some(1), "{result:?}");
            serde_json::from_slice::<Value>(&result.stdout).ok()
        };
        let seen = wait(ask);
        timed(
            "status where two of three are missing",
            STATUS_TIMEOUT,
            || {
                let began = Instant::now();
                ask();
                began.elapsed()
            },
        );
        let each = seen["coordinators"].as_array().expect("a list").iter();
        for (index, one) in each.enumerate() {
            assert_eq!(one["name"], format!("c{index}"), "{seen}");
            assert_eq!(one["answers"], index == there, "{seen}");
            assert_eq!(one["last"].is_u64(), index == there, "{seen}");
        }
        assert!(seen["coordinators"][there]["term"].is_u64(), "{seen}");
        let missing: Vec<_> = (0..3).filter(|&it| it != there).collect();
        let missing = format!("2 of 3 do not answer: c{}, c{};", missing[0], missing[1]);
        let alarm = seen["alarms"][1].as_str().expect("a word");
        assert!(alarm.starts_with(&missing), "{seen}");
    }

    /// Replaces this coordinator by one with an empty folder and another address.
    fn moves(&mut self, index: usize) {
        self.kill(index);
        let address = free_addresses().swap_remove(0);
        let replaced = self.changed(&["replace", &format!("c{index}"), "--at", &address]);
        assert!(replaced.status.success(), "{replaced:?}");
        self.addresses[index] = address;
        fs::remove_dir_all(self.path(&format!("data{index}"))).expect("it was there");
        fs::write(self.path(&format!("c{index}.toml")), self.settings(index)).expect("room");
        self.start(index);
    }

    /// The uplink of an agent that was started with these addresses; it reconnects until it has a session.
    fn line_to(&self, configured: &[String]) -> AgentUplink {
        let certificate = Certificate::load(&self.path("certificates/agents/h0"), Role::Agent);
        let certificate = certificate.expect("it was issued");
        let addresses = configured.iter().map(|it| it.parse().expect("an address"));
        let ours = certificate.identity();
        let dialer = Dialer::new(ours, addresses.collect(), Role::Coordinator);
        Uplink::start(dialer.expect("there are some"), certificate)
    }

    /// An operator's command with the addresses of all three coordinators.
    fn reweave(&self) -> Command {
        let mut reweave = self.reweave_in_words();
        reweave.args(["--output", "json"]);
        reweave
    }

    /// The same, with text instead of JSON.
    fn reweave_in_words(&self) -> Command {
        let mut reweave = Command::new(self.programs.reweave());
        reweave.args(["--coordinator", &self.addresses.join(",")]);
        reweave.arg("--identity");
        reweave.arg(self.path("certificates/operator"));
        reweave
    }

    /// The status as an operator sees it who knows this address alone.
    fn status_at(&self, address: &str) -> Output {
        let mut status = Command::new(self.programs.reweave());
        status.args(["--coordinator", address, "status", "--identity"]);
        status.arg(self.path("certificates/operator"));
        status.output().expect("it was built")
    }

    /// Listens with the certificate of this coordinator on a free address, and returns that address.
    fn listen_as(&self, name: &str, runtime: &Handle) -> String {
        let ours = Identity::load(&self.path("certificates/coordinators").join(name));
        let anywhere = "127.0.0.1:0".parse().expect("an address");
        let listener = Listener::bind(anywhere, &ours.expect("it was issued"), &[Role::Operator]);
        let mut listener = listener.expect("a socket");
        let address = listener.address().expect("it listens").to_string();
        runtime.spawn(async move { while listener.accept().await.is_some() {} });
        address
    }

    /// Runs `reweave cluster member` with these words.
    fn member(&self, words: &[&str]) -> Output {
        let mut member = self.reweave();
        member.args(["cluster", "member"]).args(words);
        member.output().expect("it was built")
    }

    /// Runs the command until it is accepted. A voter that stalls counts as unreachable for a while, and the leader
    /// refuses the change meanwhile.
    fn changed(&self, words: &[&str]) -> Output {
        wait(|| {
            let output = self.member(words);
            let why = String::from_utf8_lossy(&output.stderr);
            (!why.contains("must be connected")).then_some(output)
        })
    }

    /// The number, the name, and whether it is connected and votes, of each member.
    fn members(&self) -> Vec<(u64, String, bool)> {
        let listed = wait(|| Some(self.member(&["list"])).filter(|it| it.status.success()));
        let answer: Value = serde_json::from_slice(&listed.stdout).expect("it is JSON");
        let each = answer["coordinators"].as_array().expect("a list").iter();
        let one = |one: &Value| {
            let name = one["name"].as_str().expect("a name").to_owned();
            let number = one["number"].as_u64().expect("a number");
            let is_connected = one["state"] != "silent" && one["state"] != "unseen";
            (number, name, is_connected && one["votes"] == true)
        };
        each.map(one).collect()
    }

    /// Waits until exactly these numbers are members, are connected and vote.
    fn come_to_be(&self, numbers: [u64; 3]) {
        wait(|| {
            let mut members = self.members();
            members.sort_unstable();
            let found: Vec<_> = members.iter().map(|(number, ..)| *number).collect();
            let all_vote = members.iter().all(|(.., votes)| *votes);
            (found == numbers && all_vote).then_some(())
        });
    }

    /// Waits until the status lists how long each coordinator can sign certificates.
    fn signers_are_known(&self) {
        wait(|| {
            let listed = self.member(&["list"]);
            let answer: Value = serde_json::from_slice(&listed.stdout).ok()?;
            let each = answer["coordinators"].as_array()?.iter();
            let left = each.filter_map(|one| one["signer_left_s"].as_u64());
            (left.filter(|left_s| *left_s > 300 * 86_400).count() == 3).then_some(())
        });
    }

    fn said(&self, index: usize) -> String {
        fs::read_to_string(self.path(&format!("c{index}.log"))).unwrap_or_default()
    }

    /// The exit code, once the process has ended by itself.
    fn ends(&mut self, index: usize) -> Option<i32> {
        let child = self.running[index].as_mut().expect("it was started");
        let status = wait(|| child.try_wait().expect("it is ours"));
        self.running[index] = None;
        status.code()
    }

    /// Waits until an operator gets an answer.
    fn answers(&self) {
        wait(|| self.status().status.success().then_some(()));
    }
}

fn last_term(log: &str) -> Option<u64> {
    let line = log.lines().rfind(|line| line.contains("leader in term "))?;
    let (_, rest) = line.split_once("in term ")?;
    rest.split(';').next()?.parse().ok()
}

fn done(command: &mut Command) {
    let output = command.output().expect("it was built");
    assert!(output.status.success(), "{output:?}");
}

/// Loopback addresses that no other process uses, at a port outside the kernel's ephemeral range: a free ephemeral
/// port may be taken before the coordinator binds it, or while it restarts.
fn free_addresses() -> Vec<String> {
    static NEXT_STATION: AtomicU8 = AtomicU8::new(1);
    let run = std::process::id();
    let [high, low] = [(run >> 8) % 128 + 128, run % 256];
    let address = |_| {
        let own = NEXT_STATION.fetch_add(1, Ordering::Relaxed);
        format!("127.{high}.{low}.{own}:7391")
    };
    (0..3).map(address).collect()
}

fn wait<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + STAGE_TIMEOUT;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < end, "it never came to that");
        thread::park_timeout(POLL_INTERVAL);
    }
}

fn bytes_in(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |about| about.len())
}

#[test]
fn killed_leader_is_replaced_and_returns() {
    let mut trio = Trio::started();
    let (first, term) = trio.leader_after(0);
    trio.answers();
    trio.kill(first);
    let (second, next) = trio.leader_after(term);
    assert_ne!(first, second);
    trio.answers();
    let log = trio.path(&format!("data{first}/log"));
    let before = bytes_in(&log);
    trio.start(first);
    // The restarted coordinator reads the entries that it missed.
    wait(|| (bytes_in(&log) > before).then_some(()));
    trio.kill(second);
    let (third, _) = trio.leader_after(next);
    assert_ne!(third, second);
    trio.answers();
}

#[test]
fn stalled_leader_finds_new_leader() {
    let trio = Trio::started();
    let (first, term) = trio.leader_after(0);
    trio.signal(first, Signal::SIGSTOP);
    let (second, _) = trio.leader_after(term);
    assert_ne!(first, second);
    trio.signal(first, Signal::SIGCONT);
    let log = trio.path(&format!("c{first}.log"));
    wait(|| {
        let said = fs::read_to_string(&log).ok()?;
        said.contains("lost leadership").then_some(())
    });
    trio.answers();
}

#[test]
fn timed_minority_reports_missing_quorum() {
    let mut trio = Trio::started();
    let (first, term) = trio.leader_after(0);
    let others: Vec<_> = (0..3).filter(|&other| other != first).collect();
    trio.kill(others[0]);
    trio.kill(others[1]);
    let log = trio.path(&format!("c{first}.log"));
    wait(|| {
        let said = fs::read_to_string(&log).ok()?;
        said.contains("lost leadership").then_some(())
    });
    trio.tells_who_is_missing(first);
    trio.start(others[0]);
    trio.leader_after(term);
    trio.answers();
}

#[test]
fn single_coordinator_reports_missing_quorum() {
    let mut trio = Trio::prepared();
    trio.start(0);
    wait(|| {
        let said = trio.status().stderr;
        let said = String::from_utf8_lossy(&said);
        let known = said.contains("the coordinators are connecting to each other");
        known.then_some(())
    });
    trio.start(1);
    trio.start(2);
    trio.leader_after(0);
    trio.answers();
}

/// An agent reaches the cluster although no coordinator listens at the addresses that it was started with.
#[test]
fn agents_find_unconfigured_members() {
    let mut trio = Trio::started();
    trio.leader_after(0);
    trio.come_to_be([1, 2, 3]);
    let configured = trio.addresses.clone();
    let beside = beside();
    let _inside = beside.enter();
    let line = trio.line_to(&configured);
    for (index, numbers) in [[2, 3, 4], [3, 4, 5], [4, 5, 6]].into_iter().enumerate() {
        trio.moves(index);
        trio.come_to_be(numbers);
    }
    let known = trio.path("certificates/agents/h0/coordinators.json");
    wait(|| {
        let known = fs::read_to_string(&known).ok()?;
        let is_known = |address: &String| known.contains(&format!("\"{address}\""));
        trio.addresses.iter().all(is_known).then_some(())
    });
    beside.block_on(line.close());
    let mut again = trio.line_to(&configured);
    let found = timeout(STAGE_TIMEOUT, again.next());
    let found = beside.block_on(found).expect("it finds one of them");
    assert!(matches!(found, Some(UplinkEvent::Connected)), "{found:?}");
}

/// A runtime whose tasks go on while the test waits for something else.
fn beside() -> Handle {
    let runtime = runtime();
    let handle = runtime.handle().clone();
    thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
}

fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime")
}

/// The next message other than the lists of present and removed coordinators. No coordinator is in its own list of the latter.
async fn hear(session: &Session) -> Result<CoordinatorMessage, LinkError> {
    loop {
        match session.receive(Channel::Commands).await? {
            CoordinatorMessage::Coordinators(_) => {}
            CoordinatorMessage::Removed(removed) => {
                assert!(!removed.list.names(session.peer()), "{removed:?}");
                assert!(removed.as_of > Admission::default(), "{removed:?}");
            }
            heard => return Ok(heard),
        }
    }
}

/// The leader, once the coordinator names one: a follower may not know it at first.
async fn hear_who_leads(session: &Session) -> Result<SocketAddr, LinkError> {
    loop {
        match hear(session).await? {
            CoordinatorMessage::Elsewhere(Some(leader)) => return Ok(leader),
            CoordinatorMessage::Elsewhere(None) => {}
            other => panic!("it does not follow: {other:?}"),
        }
    }
}

/// The message that calls the agent, from whichever follower becomes leader.
async fn hear_the_call(session: &Session) -> Result<CoordinatorMessage, LinkError> {
    loop {
        let heard = hear(session).await?;
        if !matches!(heard, CoordinatorMessage::Elsewhere(_)) {
            return Ok(heard);
        }
    }
}

/// After the leader is lost, agents use their standby sessions, without being admitted again.
#[test]
fn new_leader_calls_standby_agents() {
    let mut trio = Trio::started();
    let (first, term) = trio.leader_after(0);
    let waiting = runtime();
    let leader = trio.addresses[first].parse().expect("an address");
    let mut waits: Vec<Option<Session>> = vec![None, None, None];
    waiting.block_on(async {
        for follower in (0..3).filter(|&it| it != first) {
            let (session, report) = trio.agent_at(follower).await;
            assert_eq!(report.expect("it says who leads"), leader);
            waits[follower] = Some(session);
        }
    });
    trio.kill(first);
    let (second, _) = trio.leader_after(term);
    let called = waits[second].as_ref().expect("it waited there");
    let heard = waiting.block_on(hear_the_call(called));
    let said = trio.said(second);
    let heard = heard.unwrap_or_else(|error| panic!("it is not called: {error}\n{said}"));
    assert_eq!(heard, CoordinatorMessage::Here);
}

/// An agent that reconnects repeatedly holds at most two sessions, and so takes no room from others.
#[test]
fn agent_has_two_standby_sessions() {
    let trio = Trio::started();
    let (first, _) = trio.leader_after(0);
    let follower = (first + 1) % 3;
    runtime().block_on(async {
        let [(one, first), (other, second)] =
            [trio.agent_at(follower).await, trio.agent_at(follower).await];
        for report in [first, second] {
            report.expect("it says who leads");
        }
        // The answer to the fourth session arrives after the third was closed.
        for _ in ["third", "fourth"] {
            let (more, _) = trio.agent_at(follower).await;
            // That message may overtake the one that names the leader.
            let end = hear_the_call(&more).await.expect_err("it is sent away");
            assert!(matches!(end, LinkError::ClosedByPeer { .. }), "{end}");
        }
        let answers = |session| timeout(POLL_INTERVAL, hear(session));
        assert!(
            answers(&one).await.is_err() && answers(&other).await.is_err(),
            "they stay"
        );
    });
}

fn revoked_after(trio: &Trio, viewer: &str) -> Duration {
    let identity = trio.path(&format!("certificates/viewers/{viewer}"));
    let is_refused = |address: &String| {
        let mut look = Command::new(trio.programs.reweave());
        look.args(["--coordinator", address, "status", "--identity"]);
        let said = look.arg(&identity).output();
        let said = said.expect("it was built").stderr;
        String::from_utf8_lossy(&said).contains("refuses this certificate")
    };
    assert!(!trio.addresses.iter().any(is_refused));
    let began = Instant::now();
    let mut revoke = trio.reweave();
    done(revoke.args(["cluster", "revoke", viewer, "--role", "viewer"]));
    wait(|| trio.addresses.iter().all(is_refused).then_some(()));
    began.elapsed()
}

/// After `cluster revoke`, the leader and all followers refuse the member.
#[test]
fn timed_revocation_reaches_all_coordinators() {
    let trio = Trio::started();
    trio.leader_after(0);
    trio.answers();
    trio.signers_are_known();
    let mut viewers = VIEWER_NAMES.iter();
    timed(
        "all three refuse a revoked viewer",
        REVOCATION_TIMEOUT,
        || revoked_after(&trio, viewers.next().expect("one for each try")),
    );
    let misspelt = trio.reweave().args(["cluster", "revoke", "h00"]).output();
    assert_eq!(misspelt.expect("it was built").status.code(), Some(2));
    for (node, is_known) in [("h0", true), ("h00", false)] {
        let words = ["cluster", "revoke", node, "--force"];
        let revoked = trio.reweave().args(words).output();
        let revoked = revoked.expect("it was built").stdout;
        let answer: Value = serde_json::from_slice(&revoked).expect("it is JSON");
        assert_eq!(answer["known"], is_known, "{answer}");
    }
}

/// A coordinator that lost its disk must rejoin under a new number: under its old one it could vote twice in a term.
#[test]
fn lost_disk_gives_new_member_number() {
    let mut trio = Trio::started();
    let (leader, _) = trio.leader_after(0);
    trio.come_to_be([1, 2, 3]);
    let lost = (leader + 1) % 3;
    trio.kill(lost);
    fs::remove_dir_all(trio.path(&format!("data{lost}"))).expect("it was there");
    trio.start(lost);
    assert_eq!(trio.ends(lost), Some(2));
    let said = trio.said(lost);
    assert!(
        said.contains("must not rejoin under its old number"),
        "{said}"
    );
    assert!(said.contains("cluster member replace"), "{said}");

    let name = format!("c{lost}");
    let replaced = trio.changed(&["replace", &name]);
    assert!(replaced.status.success(), "{replaced:?}");
    let twice = trio.member(&["add", "c9", "127.0.0.1:9"]);
    let why = String::from_utf8_lossy(&twice.stderr);
    assert_eq!(twice.status.code(), Some(1), "{why}");
    assert!(why.contains("is still learning"), "{why}");
    trio.start(lost);
    let kept = (1..=3).filter(|&number| number != lost as u64 + 1);
    let expected: Vec<_> = kept.chain([4]).collect();
    trio.come_to_be(expected.try_into().expect("three"));
    // With one of three stopped, the new member's vote is needed for every decision.
    let (leader, _) = trio.leader_after(0);
    let other = (0..3).find(|&index| index != lost && index != leader);
    trio.kill(other.unwrap_or(leader));
    trio.answers();
}

#[test]
fn change_losing_quorum_is_refused() {
    let mut trio = Trio::started();
    let (leader, _) = trio.leader_after(0);
    trio.come_to_be([1, 2, 3]);
    let [dead, alive] = [(leader + 1) % 3, (leader + 2) % 3];
    trio.kill(dead);
    let missed = format!("coordinator c{dead} has been unreachable");
    wait(|| {
        let status = String::from_utf8(trio.status().stdout).ok()?;
        status.contains(&missed).then_some(())
    });
    let refused = trio.member(&["remove", &format!("c{alive}")]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(why.contains("must be connected"), "{why}");
    let gone = trio.changed(&["remove", &format!("c{dead}")]);
    assert!(gone.status.success(), "{gone:?}");
    trio.answers();
    assert_eq!(trio.members().len(), 2);
}

/// Agents and operators refuse a removed coordinator as soon as they have the list, and accept it again once it is
/// added.
#[test]
fn removed_coordinator_is_refused_until_added() {
    let mut trio = Trio::started();
    let (leader, _) = trio.leader_after(0);
    trio.come_to_be([1, 2, 3]);
    let beside = beside();
    let _inside = beside.enter();
    let line = trio.line_to(&trio.addresses);
    let lists = ["agents/h0/denied.json", "operator/denied.json"];
    let lists = lists.map(|list| trio.path("certificates").join(list));
    let gone = (leader + 1) % 3;
    let name = format!("c{gone}");
    let is_listed = |list: &PathBuf| {
        let list = fs::read_to_string(list).unwrap_or_default();
        list.contains(&format!("\"{name}\""))
    };
    trio.kill(gone);
    let out = trio.changed(&["remove", &name]);
    assert!(out.status.success(), "{out:?}");
    wait(|| {
        trio.members();
        lists.iter().all(is_listed).then_some(())
    });
    let refused = trio.status_at(&trio.listen_as(&name, &beside));
    let why = String::from_utf8_lossy(&refused.stderr);
    let expected = format!("coordinator {name} was removed from the cluster");
    assert!(why.contains(&expected), "{why}");

    fs::remove_dir_all(trio.path(&format!("data{gone}"))).expect("it was there");
    let back = trio.changed(&["add", &name, &trio.addresses[gone]]);
    assert!(back.status.success(), "{back:?}");
    trio.start(gone);
    let kept = (1..=3).filter(|&number| number != gone as u64 + 1);
    let expected: Vec<_> = kept.chain([4]).collect();
    trio.come_to_be(expected.try_into().expect("three"));
    wait(|| {
        trio.members();
        (!lists.iter().any(is_listed)).then_some(())
    });
    let address = trio.addresses[gone].clone();
    wait(|| trio.status_at(&address).status.success().then_some(()));
    beside.block_on(line.close());
}
