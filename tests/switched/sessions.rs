//! Sessions across switches whose pins and tables change: none breaks, no packet is lost, and the longest stalls are
//! printed beside those of a control.

use std::collections::BTreeMap;

use libtest_mimic::Trial;
use reweave_common::operator::Outcome;
use reweave_tests::{Leadership, STAGE_TIMEOUT, Stage, wait_for};

use crate::mpi::{MPI_NEEDS, Mpi};
use crate::needs::trial;
use crate::play::{STAGE_NEEDS, ended, must, thrown_away};
use crate::scene::{carried_out, leaf_spine, led};
use crate::session_jobs::{JOB_TABLES, Running, go_on, outlive, reconfigurations};

/// A pin takes about 3 s, and its removal less: the next traces, one per second, find the collision.
const PIN_COUNT: usize = 12;
/// About 8 s each: the job's iterations are measured before and after.
const TABLE_COUNT: usize = 6;

/// Of two flows that meet on an uplink, one is pinned to the other uplink.
const COLLIDING_JOB: &str = "[[job]]\nname = \"train\"\npattern = \"streams\"\nhosts = [\"h0\", \"h1\", \"h2\", \"h3\"]\n\
    pairs = [[0, 2], [1, 3]]\nbytes = 4_000_000\ncompute_ms = 5\niterations = 1_000_000\npaths = \"collide\"\n";
/// A machine with few processors fills no link with this many sessions, and its rates are unreliable.
const POLICY_TOML: &str = "full_at = 0.6\nreadings = 1\nsettle_ms = 100\n";

/// The routes of an agent, without the ids of next hops, which the agent chooses.
pub(crate) const AGENT_ROUTES_SCRIPT: &str =
    "ip -o -4 route show table all proto 213 | sed 's/nhid [0-9]*//' | sort";

const HOSTS: &str = "h0 slots=1\nh1 slots=1\nh2 slots=1\nh3 slots=1\n";
/// Prints the number of each all-reduce; runs until its input closes.
const LOOP_PROGRAM: &str = "\
from mpi4py import MPI
import array, itertools, time
comm = MPI.COMM_WORLD
ones, sums = (array.array('d', [it]) * 1000 for it in (1.0, 0.0))
for done in itertools.count(1):
    comm.Allreduce(ones, sums)
    assert sums[0] == comm.size
    if comm.rank == 0:
        print(done, flush=True)
    time.sleep(0.05)
";

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("sessions_outlive_pins", STAGE_NEEDS, pins),
        trial("sessions_outlive_tables_of_switches", MPI_NEEDS, tables),
    ]
}

/// Each pair of hosts in different racks has a UDP flow over each spine.
pub(crate) fn jobs() -> String {
    let udp = "transport = \"udp\"\n";
    JOB_TABLES.replace(udp, &format!("{udp}paths = \"spread\"\n"))
}

fn leadership() -> Leadership {
    Leadership {
        policy: POLICY_TOML.to_owned(),
        ..Leadership::default()
    }
}

fn pins() {
    let stage = led(
        &leaf_spine(2, 2, 2),
        &(jobs() + COLLIDING_JOB),
        &leadership(),
    );
    let train = must(stage.job("train"));
    must(train.wait_until("it sends", |progress| progress.iterations >= 2));
    outlive(&stage, |running| change_pins(&stage, running));
    go_on(&train, 2);
    let report = must(train.stop());
    assert!(report.kept_all_sessions(), "{report:#?}");
}

fn change_pins(stage: &Stage, running: &Running) {
    let before = thrown_away_by_switches(stage);
    let changes: [fn(&Stage) -> usize; 2] = [pin, unpin];
    for change in changes
        .into_iter()
        .cycle()
        .take(reconfigurations(PIN_COUNT))
    {
        let pins = change(stage);
        let rules = ["leaf0", "leaf1"].map(|leaf| must(stage.output(leaf, &["ip", "rule"])));
        let held = rules.iter().map(|it| it.matches("proto 213").count());
        assert_eq!(held.sum::<usize>(), pins, "{rules:?}");
        running.go_on(1);
    }
    let after = thrown_away_by_switches(stage);
    assert_eq!(after, before, "packets were thrown away");
}

/// Pins a flow, and returns the number of pins.
fn pin(stage: &Stage) -> usize {
    let operator = stage.operator();
    let plan = must(wait_for("a pin is begun", STAGE_TIMEOUT, || {
        let Some(plan) = operator.plan()? else {
            return Ok(None);
        };
        let begun = operator.begin_anyway(&plan)?.code == Some(0);
        Ok(begun.then_some(plan))
    }));
    assert_eq!(ended(stage).outcome, Outcome::Committed);
    assert!(!plan.pins.is_empty(), "{plan:#?}");
    plan.pins.len()
}

fn unpin(stage: &Stage) -> usize {
    let outcome = carried_out(stage, &["rollback"], true);
    assert_eq!(outcome, Outcome::Committed);
    0
}

/// Changes tables while Open MPI's sessions cross the switches.
fn tables() {
    let stage = led(&leaf_spine(2, 2, 2), &jobs(), &leadership());
    let mut ranks = Mpi::start(&stage, HOSTS, LOOP_PROGRAM);
    ranks_go_on(&mut ranks);
    outlive(&stage, |running| change_tables(&stage, running, &mut ranks));
    ranks_go_on(&mut ranks);
}

/// Drops of switches. Bursts fill the queues of hosts, which TCP expects, so only the nodes whose pins and tables
/// change are counted.
fn thrown_away_by_switches(stage: &Stage) -> BTreeMap<String, u64> {
    let mut counts = thrown_away(stage);
    counts.retain(|node, _| node.starts_with("leaf") || node.starts_with("spine"));
    counts
}

fn change_tables(stage: &Stage, running: &Running, ranks: &mut Mpi<'_>) {
    let before = thrown_away_by_switches(stage);
    let mut held = String::new();
    let spines = ["spine1", "spine0"].into_iter().cycle();
    for spine in spines.take(reconfigurations(TABLE_COUNT)) {
        let outcome = carried_out(stage, &["plan", "drain", spine], true);
        assert_eq!(outcome, Outcome::Committed);
        let holds = must(stage.output("leaf0", &["sh", "-c", AGENT_ROUTES_SCRIPT]));
        assert_ne!(holds, held, "without {spine} the leaf sends as before");
        held = holds;
        running.go_on(1);
        ranks_go_on(ranks);
    }
    let after = thrown_away_by_switches(stage);
    assert_eq!(after, before, "packets were thrown away");
}

fn ranks_go_on(ranks: &mut Mpi<'_>) {
    let before = all_reduces(ranks);
    must(wait_for("all-reduces go on", STAGE_TIMEOUT, || {
        let are_over = ranks.looked_after();
        assert!(!are_over, "the ranks have ended: {}", ranks.said());
        Ok((all_reduces(ranks) > before).then_some(()))
    }));
}

fn all_reduces(ranks: &Mpi<'_>) -> usize {
    ranks.said().lines().count()
}
