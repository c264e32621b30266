//! Plans for circuits, made by a person, judged and carried out by the cluster while sessions run.

use std::collections::BTreeSet;

use libtest_mimic::Trial;
use reweave_common::operator::{Outcome, Tag, What};

use crate::LAB;
use crate::cluster::Cluster;
use crate::needs::trial;
use crate::scene::Thirds;
use crate::sessions::Running;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("a_plan_for_circuits_says_what_it_asks_of_jobs", LAB, is_shown),
        trial("sessions_outlive_plans_for_circuits", LAB, sessions_outlive_plans),
    ]
}

/// Reconfigurations under one run of jobs; `REWEAVE_RECONFIGURATIONS` says how many otherwise.
const RECONFIGURATIONS: usize = 100;

fn is_shown() {
    let cluster = Cluster::up();
    let plan = cluster.plan(Thirds::Along);
    let tags = |is_kind: fn(&What) -> bool| -> BTreeSet<Tag> {
        let lines = plan.changes.iter().filter(|line| is_kind(&line.what));
        lines.map(|line| line.tag).collect()
    };
    let circuits = tags(|what| matches!(what, What::Connect(_) | What::Disconnect(_)));
    assert_eq!(circuits, BTreeSet::from([Tag::NeedsDrain]), "{plan:#?}");
    let routes = tags(|what| matches!(what, What::Routes { .. }));
    assert_eq!(routes, BTreeSet::from([Tag::LiveSafe]), "{plan:#?}");
    let none = cluster.reweave(&["plan", "circuits", "ocs1=1-2"]);
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(said.contains("no optical switch called \"ocs1\""), "{said}");
    let apart = cluster.reweave(&["plan", "circuits", "ocs0="]);
    let said = String::from_utf8_lossy(&apart.stderr).into_owned();
    assert_eq!(apart.status.code(), Some(1), "{said}");
    assert!(said.contains("unsound"), "{said}");
}

fn sessions_outlive_plans() {
    let count = std::env::var("REWEAVE_RECONFIGURATIONS").ok();
    let count = count.map_or(RECONFIGURATIONS, |count| count.parse().expect("a number"));
    let cluster = Cluster::up();
    let running = Running::begin(&cluster.scene);
    let turns = [Thirds::Along, Thirds::Across].into_iter().cycle();
    let before = cluster.scene.thrown_away();
    for to in turns.take(count) {
        let record = cluster.apply(&cluster.plan(to));
        assert_eq!(record.outcome, Outcome::Committed, "{record:#?}");
        running.go_on(2);
    }
    assert_eq!(cluster.scene.thrown_away(), before, "packets were thrown away");
    running.end_without_loss();
}
