//! Which jobs a plan touches, and how many of their flows.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use reweave_check::{Sent, Touch, touch};
use reweave_common::claims::Claims;
use reweave_common::operator::{Refused, TouchedJob};
use reweave_common::plan::Plan;
use reweave_common::snapshot::FlowState;

use crate::jobs::Job;
use crate::model::Picture;
use crate::soundness::with_network;
use crate::state::State;

/// Those first of which it touches most; jobs that it does not touch are not told.
pub(crate) fn touched(
    picture: &Picture<'_>,
    state: &State,
    (plan, claims): (&Plan, &Claims),
) -> Vec<TouchedJob> {
    let mut told = all(picture, state, (plan, claims));
    told.retain(|job| job.moved + job.slowed > 0);
    told.sort_by_key(|job| Reverse(job.moved + job.slowed));
    told
}

/// Why only who insists may approve it.
pub(crate) fn too_wide(
    picture: &Picture<'_>,
    state: &State,
    (plan, claims): (&Plan, &Claims),
) -> Option<Refused> {
    let most = picture.known.policy.most_touched;
    if most >= 1.0 {
        return None;
    }
    let jobs = all(picture, state, (plan, claims));
    let flows: usize = jobs.iter().map(|job| job.flows).sum();
    let touched: usize = jobs.iter().map(|job| job.moved + job.slowed).sum();
    let share = touched as f64 / flows.max(1) as f64;
    (share > most).then(|| Refused::TooWide {
        touched_percent: percent(share),
        most_percent: percent(most),
    })
}

fn percent(share: f64) -> u64 {
    (100.0 * share).round() as u64
}

fn all(picture: &Picture<'_>, state: &State, (plan, claims): (&Plan, &Claims)) -> Vec<TouchedJob> {
    with_network(picture, state, plan, |network| {
        let one = |job: &Job| {
            let touches = job
                .flows
                .iter()
                .map(|flow| touch(network, (plan, claims), &sent(flow)));
            let touches: Vec<_> = touches.collect();
            let count = |wanted| touches.iter().filter(|it| **it == Some(wanted)).count();
            TouchedJob {
                job: job.name(picture.known),
                flows: touches.len(),
                moved: count(Touch::Moved),
                slowed: count(Touch::Slowed),
            }
        };
        let jobs = picture.known.resting.all_jobs(picture);
        jobs.iter().map(one).collect()
    })
}

fn sent(flow: &FlowState) -> Sent {
    let path = flow.path.as_ref();
    Sent {
        flow: flow.flow,
        from: flow.from,
        to: flow.to,
        path: path.map(|path| path.iter().map(|hop| hop.link).collect::<BTreeSet<_>>()),
    }
}
