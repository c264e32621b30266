//! A thousand switches change a table: a leaf's link to a spine is drained, so all others send traffic for its host
//! over the other spine. Then the drain ends.

use std::sync::Arc;

use reweave_common::fabric::Role;
use reweave_common::operator::Request;

use super::followers::Followers;
use super::operator::{approve, committed, offered};
use super::scenery::{Scenery, leaf_spine};
use super::tell;
use crate::load::until_all_report;
use crate::members::Members;

/// Number of leaves, so that a thousand nodes get instructions, without the leaf of the host and the unused spine.
const LEAVES: usize = 1001;
const AGENT_COUNT: usize = 1000;
const TURN_COUNT: usize = 6;
const MAX_TIME_MS: f64 = 2000.0;

pub(crate) async fn measure() {
    let fabric = leaf_spine(LEAVES, 2);
    let world = Arc::new(Scenery::of(&fabric));
    let nodes = world.nodes(|_, role| role == Role::Switch);
    let names: Vec<_> = nodes.iter().map(|(_, name)| name.clone()).collect();
    let mut members = Members::among(&fabric, 1, &names, "");
    members.start(0);
    let mut followers = Followers::of(&members, &nodes, &world);
    let mut operator = members.operator(0);
    until_all_report(&mut operator, nodes.len()).await;
    let (mut held, mut kept) = (vec![], vec![]);
    for turn in 0..TURN_COUNT {
        let links = match turn % 2 {
            0 => vec!["leaf0-spine0".to_owned()],
            _ => vec![],
        };
        let generation = offered(&mut operator, &Request::Drain { links }).await;
        followers.forget();
        let Some(said) = approve(&mut operator, generation).await else {
            break;
        };
        let last = followers.all_hold(generation, AGENT_COUNT).await;
        held.extend(last.map(|at| at - said));
        let Some(at) = committed(&mut operator, generation).await else {
            break;
        };
        kept.push(at - said);
    }
    tell("table-held-by-1000", held, MAX_TIME_MS);
    tell("table-committed-by-1000", kept, MAX_TIME_MS);
}
