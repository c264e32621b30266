//! Leaf-spine clusters for these tests, and faults for them.

use reweave_common::operator::{Outcome, Plan};
use reweave_tests::{Labs, Leadership, STAGE_TIMEOUT, Setting, Stage, wait_for};
use serde::Deserialize;

use crate::play::{ended, must};

pub(crate) fn leaf_spine(leaves: u32, spines: u32, hosts_per_leaf: u32) -> String {
    format!(
        "kind = \"leaf-spine\"\nleaves = {leaves}\nspines = {spines}\n\
         hosts_per_leaf = {hosts_per_leaf}\nhost_gbps = 0.2\nuplink_gbps = 0.1\n"
    )
}

/// A cluster on this fabric with these jobs, with no program started.
pub(crate) fn up(fabric: &str, jobs: &str) -> Stage {
    let scenario = format!(
        "name = \"switched\"\nseed = 1\nmanagement = true\nfabric = \"two-leaves.toml\"\n{jobs}"
    );
    let setting = Setting {
        scenario: &scenario,
        fabric,
    };
    must(Stage::up(setting, Labs::Hidden))
}

/// The same with all programs started and connected.
pub(crate) fn led(fabric: &str, jobs: &str, leadership: &Leadership) -> Stage {
    let mut stage = up(fabric, jobs);
    must(stage.lead(leadership));
    must(stage.start_agents());
    must(stage.wait_until_known());
    stage
}

/// Plans are rolled back if a rate halves, and not for the variation of a busy machine.
pub(crate) fn rollback_on_halved_rates() -> Leadership {
    Leadership {
        policy: "tolerance = 0.2\n".to_owned(),
        ..Leadership::default()
    }
}

#[derive(Debug, Deserialize)]
struct Offered {
    plan: Option<Plan>,
}

/// The plan that this command proposes.
pub(crate) fn offered(stage: &Stage, words: &[&str]) -> Plan {
    let offered: Offered = must(stage.operator().ask(words));
    offered.plan.expect("there is something to change")
}

/// The record of the plan that this command proposes, forced if `anyway`. Until the plan starts, a proposal with newer
/// measurements may replace it.
pub(crate) fn carried_out(stage: &Stage, words: &[&str], anyway: bool) -> Outcome {
    let operator = stage.operator();
    must(wait_for("a plan is begun", STAGE_TIMEOUT, || {
        let offered: Offered = operator.ask(words)?;
        let plan = offered.plan.expect("there is something to change");
        let begun = if anyway {
            operator.begin_anyway(&plan)?
        } else {
            operator.begin(&plan)?
        };
        Ok((begun.code == Some(0)).then_some(()))
    }));
    ended(stage).outcome
}

pub(crate) fn address(stage: &Stage, node: &str, interface: &str) -> String {
    let line = format!(
        "ip -4 -o addr show dev {interface} scope global | sed -n 's/.* inet \\([0-9.]*\\).*/\\1/p'"
    );
    let said = must(stage.output(node, &["sh", "-c", &line]));
    let first = said.lines().next();
    first.expect("it has an address").to_owned()
}

/// The bytes that a node's port to this neighbour has sent so far.
pub(crate) fn sent_bytes(stage: &Stage, node: &str, to: &str) -> u64 {
    must(stage.sent_bytes(node, to))
}

/// Limits both directions of the link to this share of its rate.
pub(crate) fn narrow_down(stage: &Stage, ends: [&str; 2], share: f64) {
    let fabric = stage.fabric();
    let [a, b] = ends.map(|name| fabric.find(name).expect("it is there"));
    let link = fabric.links_between(a, b).next();
    let rate = fabric.link(link.expect("they are joined")).rate;
    let rate = (rate.bits_per_s() as f64 * share) as u64;
    for [node, to] in [ends, [ends[1], ends[0]]] {
        let port = stage.port(node, to);
        let line =
            format!("tc qdisc change dev {port} root tbf rate {rate}bit burst 16kb limit 1mb");
        must(stage.output(node, &["sh", "-c", &line]));
    }
}
