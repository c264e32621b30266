//! A leaf whose routes FRR installs, among switches whose kernels get routes from their agents: a link of it is
//! drained under a job, and used again.

use libtest_mimic::Trial;
use reweave_common::operator::Outcome;
use reweave_tests::{Leadership, Stage};

use crate::drained::{DRAINED_LINK, FABRIC, MAX_IDLE_BYTES, carried, drain, job, sends};
use crate::needs::{Need, trial};
use crate::play::must;
use crate::scene::led;

pub(crate) fn tests() -> Vec<Trial> {
    let needs = [Need::Lab, Need::Root, Need::Program("vtysh")];
    let name = "frr_leaf_is_drained";
    vec![trial(name, &needs, drained_by_frr)]
}

fn vtysh(stage: &Stage, commands: &[&str]) -> String {
    let folder = stage.frr("leaf0").expect("FRR makes its routes");
    let words = ["vtysh", "--vty_socket", folder].into_iter();
    let commands = commands.iter().flat_map(|it| ["-c", *it]);
    let words: Vec<_> = words.chain(commands).collect();
    must(stage.output("leaf0", &words))
}

fn routes_of_ours(stage: &Stage) -> usize {
    let configured = vtysh(stage, &["show running-config"]);
    configured.matches("tag 213213").count()
}

fn drained_by_frr() {
    let tables = format!("frr = [\"leaf0\"]\n{}", job("train", [0, 1, 4, 5]));
    let stage = led(FABRIC, &tables, &Leadership::without_rate_rollback());
    let mut train = sends(&stage, "train");
    assert!(
        carried(&stage, &mut train) > 1_000_000,
        "one of two goes there"
    );
    assert_eq!(drain(&stage, &[DRAINED_LINK]), Outcome::Committed);
    assert_eq!(routes_of_ours(&stage), 4, "to the other leaf's hosts");
    let left = carried(&stage, &mut train);
    assert!(left < MAX_IDLE_BYTES, "{left}");
    assert_eq!(drain(&stage, &["--none"]), Outcome::Committed);
    assert!(carried(&stage, &mut train) > 1_000_000, "it carries again");
    assert_eq!(routes_of_ours(&stage), 0);
    let report = must(train.stop());
    assert!(report.kept_all_sessions(), "{report:#?}");
}
