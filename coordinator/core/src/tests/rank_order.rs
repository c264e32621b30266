//! Plans that change the rank order of a registered job: the job uses the order at its next start, and the plan is
//! rolled back like any other.

use std::collections::BTreeMap;

use reweave_common::operator::{
    JobOrder, Line, Mode, Plan, Ranks, Refused, Request, Response, Tag, What,
};

use super::cluster::Cluster;
use super::registered::{
    BOTH_RACKS_HOSTS, gate_of, register, registered, reordered, slow_within_racks, start, tell,
};
use super::rollback_plan::{back, carry_out, offered};
use super::scene::SETTLE_TIME;
use crate::{Aim, Author, Change, Decision, Outcome, Reason, StepIntent, Verdict};

const JOB_NAME: &str = "train";

fn reorder() -> Request {
    let job = JOB_NAME.to_owned();
    Request::Reorder { job }
}

fn refused(cluster: &mut Cluster) -> Refused {
    match cluster.ask(reorder()) {
        Response::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

/// The only change of a plan.
fn only_line(plan: &Plan) -> &Ranks {
    match &plan.changes[..] {
        [
            Line {
                what: What::Ranks(ranks),
                tag: Tag::NextRestart,
            },
        ] => ranks,
        other => panic!("{other:?}"),
    }
}

/// A job with the best order of its start, whose hosts have changed since; and that order.
fn outdated() -> (Cluster, Vec<String>) {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    let report = reordered(&mut cluster, JOB_NAME, &BOTH_RACKS_HOSTS);
    slow_within_racks(&mut cluster);
    (cluster, report)
}

#[test]
fn better_rank_order_applies_and_reverts() {
    let (mut cluster, report) = outdated();
    let plan = offered(&mut cluster, reorder());
    let better = only_line(&plan).order.clone();
    let [now, then] = only_line(&plan).ring_bits_per_s.unwrap();
    assert!(better != report && then > now, "{plan:?}");
    assert_eq!(
        offered(&mut cluster, reorder()).generation,
        plan.generation,
        "it is on offer already"
    );
    assert_eq!(start(&mut cluster, JOB_NAME).allocation.order, report);
    carry_out(&mut cluster, &plan);
    assert_eq!(cluster.installs_sent(), 0, "no switch is instructed");
    assert_eq!(registered(&mut cluster)[0].hosts, report, "ranks that run");
    for _ in 0..2 {
        let asked = gate_of(&mut cluster, Some(JOB_NAME), &BOTH_RACKS_HOSTS);
        assert_eq!(asked.order, better);
        assert_eq!(start(&mut cluster, JOB_NAME).allocation.order, better);
        // The next leader knows the same.
        cluster.restart();
        cluster.reconnect();
        cluster.run_for(SETTLE_TIME);
    }
    let undo = back(&mut cluster, Some(plan.generation.0));
    let line = only_line(&undo);
    assert_eq!((&line.order, line.ring_bits_per_s), (&report, None));
    carry_out(&mut cluster, &undo);
    assert_eq!(start(&mut cluster, JOB_NAME).allocation.order, report);
    assert_eq!(reordered(&mut cluster, JOB_NAME, &BOTH_RACKS_HOSTS), report);
}

#[test]
fn reported_ranks_follow_plan() {
    let (mut cluster, _) = outdated();
    let plan = offered(&mut cluster, reorder());
    carry_out(&mut cluster, &plan);
    let better = &only_line(&plan).order;
    assert_eq!(
        &reordered(&mut cluster, JOB_NAME, &BOTH_RACKS_HOSTS),
        better
    );
    assert_eq!(&registered(&mut cluster)[0].hosts, better);
}

#[test]
fn job_without_better_order_is_refused() {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    let job = JOB_NAME.to_owned();
    assert_eq!(
        refused(&mut cluster),
        Refused::NotRegistered { job: job.clone() }
    );
    register(&mut cluster, JOB_NAME, &BOTH_RACKS_HOSTS);
    assert_eq!(
        refused(&mut cluster),
        Refused::NotReordered { job: job.clone() }
    );
    reordered(&mut cluster, JOB_NAME, &BOTH_RACKS_HOSTS);
    let least_gain_percent = 10;
    let no_better = Refused::NoBetterOrder {
        job,
        least_gain_percent,
    };
    assert_eq!(refused(&mut cluster), no_better);
}

#[test]
fn order_for_ended_job_is_dropped() {
    let (mut cluster, _) = outdated();
    let plan = offered(&mut cluster, reorder());
    tell(&mut cluster, JOB_NAME, JobOrder::End);
    // The same hosts and name make another job, which gets the best order now.
    reordered(&mut cluster, JOB_NAME, &BOTH_RACKS_HOSTS);
    let report = start(&mut cluster, JOB_NAME).allocation.order;
    cluster.run_until_ended(1);
    let reasons = vec![other_ranks()];
    assert_eq!(*cluster.last_outcome(), Outcome::Withdrawn { reasons });
    let generation = plan.generation;
    let late = cluster.ask(Request::Apply { generation });
    assert_eq!(late, Response::Refused(Refused::NoPlan));
    assert_eq!(start(&mut cluster, JOB_NAME).allocation.order, report);
}

/// The verdict was already proposed when the job's end was committed.
#[test]
fn ended_job_gets_no_new_order() {
    let (mut cluster, _) = outdated();
    let generation = offered(&mut cluster, reorder()).generation;
    let by = Author::Operator("ada".to_owned());
    let job = JOB_NAME.to_owned();
    let verdict = Verdict {
        decision: Decision::Commit,
        flows: Vec::new(),
        iterations: Vec::new(),
    };
    for change in [
        Change::PlanApproved {
            generation,
            by: by.clone(),
            anyway: false,
        },
        Change::StepIntent(StepIntent {
            plan: generation,
            generation,
            aim: Aim::Install { before: Vec::new() },
            targets: BTreeMap::new(),
        }),
        Change::Registered {
            job,
            registration: None,
            by,
        },
        Change::Verified {
            generation,
            verdict,
        },
    ] {
        cluster.append(change);
    }
    cluster.run_until_ended(1);
    match cluster.last_outcome() {
        Outcome::RolledBack { reasons, .. } => assert_eq!(reasons, &[other_ranks()]),
        other => panic!("{other:?}"),
    }
    assert!(registered(&mut cluster).is_empty());
}

fn other_ranks() -> Reason {
    let job = JOB_NAME.to_owned();
    Reason::OtherRanks { job }
}
