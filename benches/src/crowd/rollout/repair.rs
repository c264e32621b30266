//! A link fails whose load others have to carry: time from its report to the new routes in all leaves, without an
//! approval.

use std::sync::Arc;
use std::time::Duration;

use reweave_common::operator::{Request, Status};
use reweave_common::plan::Generation;
use tokio::time::{sleep, timeout};

use super::followers::Followers;
use super::operator::{approve, committed, offered};
use super::scenery::{Scenery, leaf_spine};
use super::tell;
use crate::load::until_all_report;
use crate::members::{Members, Operator};
use crate::times::now;

const LEAVES: usize = 64;
const TURN_COUNT: usize = 8;
const MAX_TIME_MS: f64 = 500.0;
/// Reweave has routes for it, by which all leaves avoid this link to leaf0.
const DRAINED_LINK: &str = "leaf0-spine0";
/// Two of four links remain after this failure.
const FAILED_LINK: &str = "leaf0-spine1";
const POLICY_TOML: &str = "[policy]\nmode = \"auto\"\ncool_down_ms = 1\n";
const REPAIR_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) async fn measure() {
    let fabric = leaf_spine(LEAVES, 4);
    let world = Arc::new(Scenery::of(&fabric));
    let nodes = world.nodes(|_, _| true);
    let names: Vec<_> = nodes.iter().map(|(_, name)| name.clone()).collect();
    let mut members = Members::among(&fabric, 1, &names, POLICY_TOML);
    members.start(0);
    let mut followers = Followers::of(&members, &nodes, &world);
    let mut operator = members.operator(0);
    until_all_report(&mut operator, nodes.len()).await;
    let reporter = world.fabric.find("leaf0").expect("it is there");
    let mut held = vec![];
    for _ in 0..TURN_COUNT {
        drain(&mut operator).await;
        let before = at_rest(&mut operator).await;
        followers.forget();
        world.set_down(world.link(FAILED_LINK), true);
        let said = now();
        followers.look(reporter);
        let Some(at) = followers.all_hold(before.next(), LEAVES - 1).await else {
            let status = operator.status().await;
            println!("# not repaired: {:?}", status.map(|it| it.waits_because));
            break;
        };
        held.push(at - said);
        world.set_down(world.link(FAILED_LINK), false);
        followers.look(reporter);
        at_rest(&mut operator).await;
    }
    tell("repair-held-by-63-leaves", held, MAX_TIME_MS);
}

/// Drains the link; traffic may return later.
async fn drain(operator: &mut Operator) {
    let links = vec![DRAINED_LINK.to_owned()];
    let drained = offered(operator, &Request::Drain { links }).await;
    approve(operator, drained).await;
    committed(operator, drained).await;
}

/// Returns the generation in force once nothing changes.
async fn at_rest(operator: &mut Operator) -> Generation {
    let resting = async {
        let mut seen = (None, 0);
        while seen.1 < 20 {
            sleep(Duration::from_millis(100)).await;
            let status = operator.status().await;
            let in_force = status.filter(is_calm).map(|it| it.generation);
            let same = in_force.is_some() && in_force == seen.0;
            seen = (in_force, if same { seen.1 + 1 } else { 0 });
        }
        seen.0
    };
    let rested = timeout(REPAIR_TIMEOUT, resting)
        .await
        .expect("it comes to rest");
    rested.unwrap_or_default()
}

fn is_calm(status: &Status) -> bool {
    status.changes.is_empty()
}
