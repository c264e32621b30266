//! A leaf whose routes FRR makes, among switches whose kernels are told by their agents: a link of it is drained
//! under a job, and carries again.

use libtest_mimic::Trial;
use reweave_common::operator::Outcome;
use reweave_tests::{Leadership, Stage};
use serde_json::Value;

use crate::drained::{AS_GOOD_AS_NOTHING_BYTES, DRAINED, FABRIC, carried, drain, job, sends};
use crate::needs::{Need, trial};
use crate::play::must;
use crate::scene::led;

const FRR: &str = "/usr/lib/frr";
/// Sockets and process numbers.
const FOLDER: &str = "/run/frr-leaf0";

pub(crate) fn tests() -> Vec<Trial> {
    let needs = [Need::Lab, Need::Root, Need::Program("vtysh")];
    let name = "a_leaf_whose_routes_frr_makes_is_drained_like_the_others";
    vec![trial(name, &needs, drained_by_frr)]
}

/// The daemons of a node, until dropped.
struct Daemons<'s> {
    stage: &'s Stage,
}

fn start_frr(stage: &Stage) {
    let start = |daemon: &str| {
        format!(
            "{FRR}/{daemon} -d -u frr -g frr --vty_socket {FOLDER} -f {FOLDER}/empty \
             -z {FOLDER}/zserv.api -i {FOLDER}/{daemon}.pid"
        )
    };
    let script = format!(
        "mkdir -p {FOLDER} && : >{FOLDER}/empty && chown -R frr:frr {FOLDER} && {} && {}",
        start("zebra"),
        start("staticd")
    );
    must(stage.output("leaf0", &["sh", "-c", &script]));
}

/// As if FRR had always made this leaf's routes: those that the kernel was given become FRR's, of a distance that
/// routing protocols have.
fn hand_over(stage: &Stage) {
    let given = must(stage.output("leaf0", &["ip", "-j", "route", "show"]));
    let given: Vec<Value> = serde_json::from_str(&given).expect("JSON");
    let to_host = |route: &&Value| route["scope"] != "link" && !text(&route["dst"]).contains('/');
    let given: Vec<_> = given.iter().filter(to_host).collect();
    let lines: Vec<_> = given.iter().flat_map(|route| lines_of(route)).collect();
    vtysh(
        stage,
        &[&["configure terminal".to_owned()], &lines[..]].concat(),
    );
    for route in given {
        let destination = text(&route["dst"]);
        must(stage.output("leaf0", &["ip", "route", "del", destination]));
    }
}

fn lines_of(route: &Value) -> Vec<String> {
    let destination = text(&route["dst"]);
    let alone = [route.clone()];
    let hops = route["nexthops"]
        .as_array()
        .map_or(&alone[..], Vec::as_slice);
    let line = |hop: &Value| {
        let (gateway, port) = (text(&hop["gateway"]), text(&hop["dev"]));
        match gateway == destination {
            true => format!("ip route {destination}/32 {port} 20"),
            false => format!("ip route {destination}/32 {gateway} {port} onlink 20"),
        }
    };
    hops.iter().map(line).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}

fn vtysh(stage: &Stage, commands: &[String]) -> String {
    let words = ["vtysh", "--vty_socket", FOLDER].into_iter();
    let commands = commands.iter().flat_map(|it| ["-c", it.as_str()]);
    let words: Vec<_> = words.chain(commands).collect();
    must(stage.output("leaf0", &words))
}

/// In place of the agent that told the kernel.
fn start_agent_by_frr(stage: &mut Stage) {
    let script = format!("exec \"$@\" --routes-by frr --vty {FOLDER}");
    must(stage.start_agent_under("leaf0", &["sh", "-c", &script, "sh"]));
    must(stage.wait_until_known());
}

impl Drop for Daemons<'_> {
    fn drop(&mut self) {
        let script = format!("kill -9 $(cat {FOLDER}/*.pid); rm -rf {FOLDER}");
        let _ = self.stage.output("leaf0", &["sh", "-c", &script]);
    }
}

fn routes_of_ours(stage: &Stage) -> usize {
    let configured = vtysh(stage, &["show running-config".to_owned()]);
    configured.matches("tag 213213").count()
}

fn drained_by_frr() {
    let mut stage = led(FABRIC, &job("train", [0, 1, 4, 5]), &Leadership::default());
    start_frr(&stage);
    hand_over(&stage);
    start_agent_by_frr(&mut stage);
    let daemons = Daemons { stage: &stage };
    let mut train = sends(&stage, "train");
    assert!(
        carried(&stage, &mut train) > 1_000_000,
        "one of two goes there"
    );
    assert_eq!(drain(&stage, &[DRAINED]), Outcome::Committed);
    assert_eq!(routes_of_ours(&stage), 4, "to the other leaf's hosts");
    let left = carried(&stage, &mut train);
    assert!(left < AS_GOOD_AS_NOTHING_BYTES, "{left}");
    assert_eq!(drain(&stage, &["--none"]), Outcome::Committed);
    assert!(carried(&stage, &mut train) > 1_000_000, "it carries again");
    assert_eq!(routes_of_ours(&stage), 0);
    let report = must(train.stop());
    assert!(report.kept_all_sessions(), "{report:#?}");
    drop(daemons);
}
