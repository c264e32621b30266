//! A queue pair under plans that a cluster carries out: all that it sends is led over one spine and then
//! over the other, again and again, and it never fails.

use std::collections::BTreeMap;
use std::time::Duration;

use libtest_mimic::Trial;
use reweave_common::operator::{Outcome, Plan};
use reweave_tests::{STAGE_TIMEOUT, wait_for};
use serde::Deserialize;

use crate::scene::{PROBER_NODE, RESPONDER_NODE, Scene, must, trial};
use crate::watch::Watch;
use crate::{cluster, perftest};

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial("queue_pair_outlives_reconfigurations", outlives)]
}

/// How often its way is changed, and how often it is looked at before that; `REWEAVE_REROUTES` says how many otherwise.
const DEFAULT_REROUTES: usize = 4;
/// A machine that is busy may stand still once more than it did before.
const MAX_TRIES: usize = 3;
/// 67 ms each time, as perftest has it by default.
const MIN_ACK_TIMEOUT_EXPONENT: u8 = 14;
/// 7.5 s in all, a fourth of what NCCL waits.
const MAX_ACK_TIMEOUT_EXPONENT: u8 = 18;
const ACK_RETRIES: u32 = 7;
const SPINES: [&str; 2] = ["spine0", "spine1"];
/// What has gone over the spine that it was led to, before it is led away again.
const MIN_SENT_BYTES: u64 = 1 << 20;
/// What it sends while nothing is changed takes about as long as a change.
const WATCHED_BYTES: u64 = 32 << 20;
/// Greetings of neighbours would be less.
const MAX_IDLE_BYTES: u64 = 10_000;
/// What the kernel counts where a queue pair gives up.
const FAILURE_COUNTERS: [&str; 2] = ["retry_exceeded_err", "retry_rnr_exceeded_err"];

#[derive(Deserialize)]
struct Offered {
    plan: Option<Plan>,
}

fn outlives(scene: &mut Scene) {
    cluster::join(scene);
    // What is at the other ends of the leaves' uplinks.
    for spine in SPINES {
        must(scene.stage.start_agent(spine));
    }
    let count = std::env::var("REWEAVE_REROUTES").ok();
    let count = count.map_or(DEFAULT_REROUTES, |count| count.parse().expect("a number"));
    let outlived = (0..MAX_TRIES).any(|_| is_outlived(scene, count));
    assert!(outlived, "a queue pair would have given up");
}

/// Whether changes hold it up for less than a card would wait, where standing still does.
fn is_outlived(scene: &mut Scene, count: usize) -> bool {
    let idle = run(scene, MIN_ACK_TIMEOUT_EXPONENT, |scene| {
        for _ in 0..count {
            spine_that_sent(scene, WATCHED_BYTES);
        }
    });
    let timeout =
        (MIN_ACK_TIMEOUT_EXPONENT..=MAX_ACK_TIMEOUT_EXPONENT).find(|&it| idle < patience(it));
    let timeout = timeout.expect("this machine stands still for less");
    eprintln!("{count} looks without a change: nothing for {idle:?}, timeout {timeout}");
    let stalled = run(scene, timeout, |scene| {
        let mut used = spine_that_sent(scene, MIN_SENT_BYTES);
        for _ in 0..count {
            used = lead_over_the_other(scene, used);
        }
    });
    eprintln!("{count} changes: nothing for {stalled:?}");
    stalled < patience(timeout)
}

/// As long as a card tries. Soft-RoCE never gives up with 7 retries, so time tells what would have become of others.
fn patience(timeout: u8) -> Duration {
    Duration::from_nanos(4096 << timeout) * ACK_RETRIES
}

/// The longest time in which nothing came to either machine, while a queue pair writes.
fn run(scene: &mut Scene, timeout: u8, act: impl FnOnce(&Scene)) -> Duration {
    let before = Facts::of(scene);
    perftest::begin_writes(scene, timeout);
    spine_that_sent(scene, MIN_SENT_BYTES);
    let ways = [("leaf0", PROBER_NODE), ("leaf1", RESPONDER_NODE)];
    let watches = ways.map(|(leaf, host)| Watch::begin(&scene.stage, leaf, host));
    act(scene);
    let stalled = watches.map(Watch::end);
    assert_eq!(perftest::failed_writes(scene), None);
    perftest::end_writes(scene);
    let after = Facts::of(scene);
    eprintln!("{}", after.since(&before));
    assert_eq!(after.failures(), before.failures(), "queue pairs gave up");
    assert_eq!(after.addresses, before.addresses);
    stalled[0].max(stalled[1])
}

/// All its packets go the same way.
fn spine_that_sent(scene: &Scene, bytes: u64) -> usize {
    let before = crossed(scene);
    must(wait_for("it sends", STAGE_TIMEOUT, || {
        let now = crossed(scene);
        Ok((0..SPINES.len()).find(|&it| now[it] >= before[it] + bytes))
    }))
}

/// Nothing is left on the one, and all goes over the other, which is answered.
fn lead_over_the_other(scene: &Scene, used: usize) -> usize {
    drain(scene, SPINES[used]);
    let before = crossed(scene)[used];
    let other = spine_that_sent(scene, MIN_SENT_BYTES);
    let left = crossed(scene)[used] - before;
    assert!(other != used && left < MAX_IDLE_BYTES, "{left}");
    other
}

/// By a plan as any other, which the coordinator has checked, carried out and verified.
fn drain(scene: &Scene, spine: &str) {
    let operator = scene.stage.operator();
    // Agents have reported before it may begin.
    must(wait_for("the plan begins", STAGE_TIMEOUT, || {
        let offered: Offered = operator.ask(&["plan", "drain", spine])?;
        let plan = offered.plan.expect("there is something to change");
        // Rates wander where a machine is busy, and that is not what is looked at here.
        let begun = operator.begin_anyway(&plan)?;
        Ok((begun.code == Some(0)).then_some(()))
    }));
    let outcome = must(wait_for("the plan ends", STAGE_TIMEOUT, || {
        let newest = operator.history()?.into_iter().next();
        let outcome = newest.map(|record| record.outcome);
        Ok(outcome.filter(|outcome| !outcome.is_open()))
    }));
    assert_eq!(outcome, Outcome::Committed);
}

/// Bytes that each spine has sent towards the machine that is written to.
fn crossed(scene: &Scene) -> [u64; 2] {
    SPINES.map(|spine| must(scene.stage.sent_bytes(spine, "leaf1")))
}

/// What both machines' kernels say of the device.
struct Facts {
    counts: BTreeMap<String, u64>,
    addresses: Vec<String>,
}

impl Facts {
    fn of(scene: &mut Scene) -> Self {
        let mut facts = Self {
            counts: BTreeMap::new(),
            addresses: Vec::new(),
        };
        for node in [PROBER_NODE, RESPONDER_NODE] {
            let machine = scene.machine(node);
            let port = "/sys/class/infiniband/rxe0/ports/1";
            let counters = machine.succeed(&format!("cd {port}/hw_counters && grep . *"));
            for line in counters.lines() {
                if let Some((name, count)) = line.split_once(':') {
                    let sum = facts.counts.entry(name.to_owned()).or_default();
                    *sum += count.parse::<u64>().unwrap_or(0);
                }
            }
            let own = machine.succeed(&format!("cat {port}/gids/0 {port}/gids/1; ip -o address"));
            facts.addresses.push(own);
        }
        facts
    }

    fn failures(&self) -> [u64; 2] {
        FAILURE_COUNTERS.map(|name| self.counts[name])
    }

    /// What has been counted meanwhile.
    fn since(&self, before: &Self) -> String {
        let grown = self.counts.iter().filter_map(|(name, now)| {
            let more = now.saturating_sub(*before.counts.get(name)?);
            (more > 0).then(|| format!("{more} {name}"))
        });
        grown.collect::<Vec<_>>().join(", ")
    }
}
