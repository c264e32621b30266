//! Without a leader, after a host's restart, or with a stopped agent, every node holds its last instruction.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use reweave_common::operator::{AgentState, Outcome};
use reweave_tests::{Program, STAGE_TIMEOUT, wait_for};

use crate::LAB_NEEDS;
use crate::cluster::Cluster;
use crate::needs::trial;
use crate::scene::{Over, Thirds};
use crate::session_jobs::{Running, go_on, lost};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("missing_coordinator_changes_nothing", LAB_NEEDS, leaderless),
        trial(
            "unconfirmed_round_is_rolled_back",
            LAB_NEEDS,
            unconfirmed_round_rolls_back,
        ),
        trial(
            "restarted_host_holds_its_instructions",
            LAB_NEEDS,
            boots_without_coordinator,
        ),
        trial("rebooted_host_disturbs_no_other", LAB_NEEDS, reboots),
        trial("stopped_host_has_plan_rolled_back", LAB_NEEDS, stopped),
    ]
}

/// The time without a coordinator, unless `REWEAVE_ALONE_S` sets it.
const DEFAULT_ALONE_S: u64 = 20;
/// Routes that agents install have this protocol number. The ids of next hops are left out: agents choose them.
const AGENT_ROUTES_SCRIPT: &str = "ip -o -4 route show table all proto 213 | sed 's/nhid [0-9]*//' | sort; \
                    ip -4 rule show | sed -n /213/p";

impl Cluster {
    /// All routes and rules that Reweave installed on a host.
    fn held(&self, host: &str) -> String {
        let held = self
            .scene
            .0
            .output(host, &["sh", "-c", AGENT_ROUTES_SCRIPT]);
        held.expect("it is reported")
    }

    fn held_by_all(&self) -> BTreeMap<String, String> {
        let hosts = self.scene.0.nodes();
        hosts
            .map(|host| (host.to_owned(), self.held(host)))
            .collect()
    }

    fn wait_until_missed(&self, host: &str) {
        let is_missed = || {
            let agents = self.status().map(|it| it.agents).unwrap_or_default();
            let own = agents.into_iter().find(|it| it.node == host);
            Ok(own.filter(|it| it.state != AgentState::Up).map(drop))
        };
        wait_for("its agent is missed", STAGE_TIMEOUT, is_missed).expect("it is");
    }

    /// Leaves a host as a power loss does: no agent, empty tables, interfaces down.
    fn lose_power(&mut self, host: &str) {
        self.kill_agent(host);
        let forget = "ip nexthop flush proto 213; ip -4 route flush table all proto 213; \
                      while ip -4 rule del prio 21301 2>/dev/null; do :; done; \
                      for it in fab0 fab1 fab2; do ip link set $it down; done";
        let forgotten = self.scene.0.output(host, &["sh", "-c", forget]);
        forgotten.expect("it forgets");
    }

    fn boot(&mut self, host: &str) {
        let boot = "for it in fab0 fab1 fab2; do ip link set $it up; done";
        let booted = self.scene.0.output(host, &["sh", "-c", boot]);
        booted.expect("it boots");
        self.start_agent(host);
    }

    /// Waits until the host holds this state, and prints how long that took.
    #[track_caller]
    fn wait_until_held(&self, host: &str, expected: &str) {
        let began = Instant::now();
        let holds = || Ok((self.held(host) == expected).then_some(()));
        wait_for("its routes are back", STAGE_TIMEOUT, holds)
            .unwrap_or_else(|error| panic!("{error}: {} and not {expected}", self.held(host)));
        let took = began.elapsed();
        eprintln!("{host} has its routes back after {took:.1?}");
    }

    /// Starts listeners on every host for route changes in the kernel.
    fn listen(&self) -> Vec<Program> {
        let stage = &self.scene.0;
        let monitor = |host: &str| {
            let mut run = stage.inside(host, "ip");
            run.args(["monitor", "route", "rule", "nexthop"]);
            let started = stage.start_heard(&monitor_of(host), run);
            started.expect("it starts")
        };
        stage.nodes().map(monitor).collect()
    }

    fn assert_changes_are_heard(&self) {
        for host in self.scene.0.nodes() {
            let change = ["ip", "route", "add", "unreachable", "203.0.113.0/24"];
            let changed = self.scene.0.output(host, &change);
            changed.expect("it is changed");
            let is_heard = || self.scene.0.said(&monitor_of(host)).contains("203.0.113.0");
            let heard = wait_for(
                "it is heard",
                STAGE_TIMEOUT,
                || Ok(is_heard().then_some(())),
            );
            heard.unwrap_or_else(|error| panic!("{host}: {error}"));
        }
    }

    fn heard(&self) -> String {
        let stage = &self.scene.0;
        let heard = stage.nodes().map(|host| stage.said(&monitor_of(host)));
        heard.collect()
    }
}

fn monitor_of(host: &str) -> String {
    format!("monitor-{host}")
}

fn alone() -> Duration {
    let seconds = std::env::var("REWEAVE_ALONE_S").ok();
    let seconds = seconds.map_or(DEFAULT_ALONE_S, |seconds| {
        seconds.parse().expect("a number")
    });
    Duration::from_secs(seconds)
}

fn leaderless() {
    let alone = alone();
    let mut cluster = Cluster::up(Over::Restconf);
    let record = cluster.apply(&cluster.plan(Thirds::Along));
    assert_eq!(record.outcome, Outcome::Committed, "{record:#?}");
    let running = Running::begin(&cluster.scene.0);
    let thrown_away = cluster.scene.thrown_away();
    cluster.kill_coordinators();
    let _monitors = cluster.listen();
    let began = Instant::now();
    while began.elapsed() < alone {
        running.go_on(1);
    }
    assert_eq!(cluster.heard(), "", "no instruction was sent");
    assert_eq!(cluster.scene.thrown_away(), thrown_away);
    cluster.start_coordinators();
    cluster.wait_until_led();
    let led = Instant::now();
    cluster.wait_until_known();
    let took = led.elapsed();
    eprintln!("after {alone:?} alone, all are back {took:.1?} after a coordinator leads");
    assert_eq!(cluster.heard(), "", "they held already what they hold");
    cluster.assert_changes_are_heard();
    running.end_without_loss();
}

/// Coordinators die while a round is open because one host's agent is paused: all hosts roll back by themselves.
fn unconfirmed_round_rolls_back() {
    let mut cluster = Cluster::up(Over::Restconf);
    let record = cluster.apply(&cluster.plan(Thirds::Along));
    assert_eq!(record.outcome, Outcome::Committed, "{record:#?}");
    let plan = cluster.plan(Thirds::Across);
    let migration = plan.migration.as_ref().expect("circuits move");
    let round: Vec<_> = migration.waves[0].drain[0].keys().cloned().collect();
    let [still, changed, ..] = &round[..] else {
        panic!("a round of one host cannot be held open: {migration:?}")
    };
    let hosts: Vec<_> = cluster.scene.0.nodes().map(str::to_owned).collect();
    let held = |cluster: &Cluster| {
        hosts
            .iter()
            .map(|host| cluster.held(host))
            .collect::<Vec<_>>()
    };
    let (before, before_instructed) = (held(&cluster), cluster.held(changed));
    let running = Running::begin(&cluster.scene.0);
    let thrown_away = cluster.scene.thrown_away();
    cluster.agent(still).freeze().expect("it is there");
    cluster.begin(&plan);
    let follows = || Ok((cluster.held(changed) != before_instructed).then_some(()));
    wait_for("a host follows", STAGE_TIMEOUT, follows).expect("it is instructed");
    cluster.kill_coordinators();
    let began = Instant::now();
    let is_back = || Ok((held(&cluster) == before).then_some(()));
    wait_for("all hold what they held", STAGE_TIMEOUT, is_back)
        .unwrap_or_else(|error| panic!("{error}: {:#?} and not {before:#?}", held(&cluster)));
    eprintln!("{:.1?} after the last coordinator died", began.elapsed());
    while began.elapsed() < alone() {
        running.go_on(1);
    }
    assert!(held(&cluster) == before, "it stays so");
    assert_eq!(cluster.scene.thrown_away(), thrown_away);
    cluster.agent(still).thaw().expect("it is there");
    cluster.start_coordinators();
    cluster.wait_until_led();
    let outcome = cluster.ended(&plan);
    let is_whole = matches!(outcome, Outcome::Committed | Outcome::RolledBack { .. });
    assert!(is_whole, "{outcome:?}");
    cluster.wait_until_known();
    running.end_without_loss();
}

/// A host that boots without a coordinator installs what it held before the power loss.
fn boots_without_coordinator() {
    let mut cluster = Cluster::up(Over::Restconf);
    let installed = changed_once(&cluster);
    cluster.kill_coordinators();
    cluster.lose_power("h1");
    assert_ne!(cluster.held("h1"), installed);
    cluster.boot("h1");
    cluster.wait_until_held("h1", &installed);
    let running = Running::begin(&cluster.scene.0);
    cluster.start_coordinators();
    cluster.wait_until_known();
    running.go_on(10);
    running.end_without_loss();
}

/// Applies a plan for circuits and routes, and returns the routes of h1.
fn changed_once(cluster: &Cluster) -> String {
    let record = cluster.apply(&cluster.plan(Thirds::Along));
    assert_eq!(record.outcome, Outcome::Committed, "{record:#?}");
    let held = cluster.held("h1");
    assert!(held.contains("10.0.0."), "{held}");
    held
}

/// A host reboots: its neighbours lose light, and jobs of other hosts lose no packet.
fn reboots() {
    let mut cluster = Cluster::up(Over::Restconf);
    changed_once(&cluster);
    let before = cluster.held_by_all();
    let others = ["others-tcp", "others-udp"].map(|name| {
        let job = cluster.scene.0.job(name).expect("the job starts");
        go_on(&job, 20);
        job
    });
    cluster.lose_power("h1");
    assert_ne!(cluster.held("h1"), before["h1"]);
    cluster.wait_until_missed("h1");
    others.iter().for_each(|job| go_on(job, 20));
    cluster.boot("h1");
    for host in ["h1", "h0", "h2", "h3"] {
        cluster.wait_until_held(host, &before[host]);
    }
    cluster.wait_until_known();
    let running = Running::begin(&cluster.scene.0);
    others.iter().for_each(|job| go_on(job, 20));
    running.end_without_loss();
    let [tcp, udp] = others.map(|job| job.stop().expect("the job ends"));
    for report in [&tcp, &udp] {
        assert!(report.kept_all_sessions(), "{report:#?}");
    }
    assert_eq!(lost(&udp), 0, "{udp:#?}");
}

/// Stops the agent and the ranks of a host in the plan's first round. TCP has no idle timeout, so the sessions survive
/// until the plan is rolled back.
fn stopped() {
    let cluster = Cluster::up(Over::Restconf);
    changed_once(&cluster);
    let plan = cluster.plan(Thirds::Across);
    let migration = plan.migration.as_ref().expect("circuits move");
    let mut round = migration.waves[0].drain[0].keys();
    let stopped = round.next().expect("a round has nodes");
    let before = cluster.held_by_all();
    let job = cluster.scene.0.job("tcp").expect("the job starts");
    go_on(&job, 20);
    let frozen = cluster.agent(stopped).freeze_node().expect("it is there");
    cluster.begin(&plan);
    let outcome = cluster.outcome(&plan);
    assert_ne!(outcome, Outcome::Committed);
    drop(frozen);
    let outcome = cluster.ended(&plan);
    assert!(matches!(outcome, Outcome::RolledBack { .. }), "{outcome:?}");
    assert_eq!(cluster.held_by_all(), before);
    cluster.wait_until_known();
    go_on(&job, 20);
    let report = job.stop().expect("the job ends");
    assert!(report.kept_all_sessions(), "{report:#?}");
}
