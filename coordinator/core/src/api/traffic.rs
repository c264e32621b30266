//! The training traffic between hosts, per rail: flows that kernels report, and what ranks report beside them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use reweave_common::ids::NodeId;
use reweave_common::operator::{PairTraffic, PairTraffics, Response};
use reweave_common::snapshot::FlowState;
use reweave_common::units::Rate;

use crate::estimate::rank_reports::{Ranks, ReportedPair};
use crate::model::world::World;

/// Sender, receiver, and the rail of the sender's NIC; none if that is unknown.
type Between = (NodeId, NodeId, Option<u16>);

/// The pairs with the highest rate, of one rail or all.
pub(super) fn traffic(world: &World<'_>, rail: Option<u16>, most: u32) -> Response {
    let flows = world.flows();
    let of_flows = rates_of(world, &flows).into_iter();
    let of_flows = of_flows.map(|(between, rates)| {
        let count = rates.len();
        named(world, between, count, rates.into_iter().sum())
    });
    let of_ranks = past_the_kernel(world, &flows).into_iter();
    let of_ranks = of_ranks.map(|pair| named(world, (pair.from, pair.to, None), 0, pair.rate));
    let mut pairs: Vec<_> = of_flows.chain(of_ranks).collect();
    pairs.retain(|pair| rail.is_none() || pair.rail == rail);
    pairs.sort_by_key(|pair| Reverse(pair.rate_bits_per_s));
    let all_pairs = pairs.len();
    pairs.truncate(most as usize);
    Response::Traffic(PairTraffics { pairs, all_pairs })
}

fn named(world: &World<'_>, (from, to, rail): Between, flows: usize, rate: Rate) -> PairTraffic {
    let [from, to] = [from, to].map(|host| world.fabric().name(host).to_owned());
    PairTraffic {
        from,
        to,
        rail,
        flows,
        rate_bits_per_s: rate,
    }
}

fn rates_of(world: &World<'_>, flows: &[FlowState]) -> BTreeMap<Between, Vec<Rate>> {
    let fabric = world.fabric();
    let mut rates: BTreeMap<Between, Vec<Rate>> = BTreeMap::new();
    for flow in flows {
        let nic = world.wiring.nic(fabric, *flow.flow.source.ip());
        let rail = nic.map(|nic| fabric.nic(nic).rail);
        let of_pair = rates.entry((flow.from, flow.to, rail)).or_default();
        of_pair.push(flow.rate);
    }
    rates
}

/// What ranks report of pairs without a large flow.
fn past_the_kernel(world: &World<'_>, flows: &[FlowState]) -> Vec<ReportedPair> {
    let large = flows.iter();
    let large = large.filter(|flow| world.known.is_elephant(flow.rate));
    let seen: BTreeSet<_> = large.map(|flow| (flow.from, flow.to)).collect();
    let mut reported = Ranks::of(world.known.ingest).pairs();
    reported.retain(|pair| !seen.contains(&(pair.from, pair.to)));
    reported
}
