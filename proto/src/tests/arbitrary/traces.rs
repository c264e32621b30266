//! Any way of a flow, and any imbalance.

use std::net::Ipv4Addr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use reweave_common::flow::Protocol;
use reweave_common::operator::{
    Between, FlowEnd, GroupImbalance, Imbalances, JobImbalance, LayerImbalance, NotedImbalance,
    Request, Response, TracedFlow, TracedStep, TracedWay,
};

use super::findings::imbalance;
use super::{MAX_LIST_ITEMS, finite, flow, flow_imbalance, hop, text};

pub(super) fn request() -> impl Strategy<Value = Request> {
    let end = || (text(), any::<Option<u16>>()).prop_map(|(host, port)| FlowEnd { host, port });
    let protocol = prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)];
    let between = (option::of(protocol), end(), end()).prop_map(|(protocol, from, to)| Between {
        protocol,
        from,
        to,
    });
    let trace = (between, any::<bool>());
    let trace = trace.prop_map(|(between, refresh)| Request::Trace { between, refresh });
    prop_oneof![trace, Just(Request::Imbalance)]
}

pub(super) fn response() -> impl Strategy<Value = Response> {
    let traced = vec(traced(), 0..MAX_LIST_ITEMS).prop_map(Response::Traced);
    prop_oneof![traced, imbalances().prop_map(Response::Imbalances)]
}

fn traced() -> impl Strategy<Value = TracedFlow> {
    let ways = (option::of(way()), option::of(way()), any::<Option<bool>>());
    (flow(), text(), text(), ways).prop_map(|(flow, from, to, ways)| TracedFlow {
        flow,
        from,
        to,
        there: ways.0,
        back: ways.1,
        is_symmetric: ways.2,
    })
}

fn way() -> impl Strategy<Value = TracedWay> {
    let step = (
        option::of(text()),
        any::<Option<Ipv4Addr>>(),
        option::of(text()),
    );
    let step = step.prop_map(|(node, address, link)| TracedStep {
        node,
        address,
        link,
    });
    let parts = (vec(step, 0..MAX_LIST_ITEMS), any::<bool>(), any::<u64>());
    parts.prop_map(|(steps, is_confirmed, age_ms)| TracedWay {
        steps,
        is_confirmed,
        age_ms,
    })
}

fn imbalances() -> impl Strategy<Value = Imbalances> {
    let layers = vec(layer(), 0..MAX_LIST_ITEMS);
    let groups = vec(group(), 0..MAX_LIST_ITEMS);
    let jobs = vec(job(), 0..MAX_LIST_ITEMS);
    let history = vec(noted(), 0..MAX_LIST_ITEMS);
    let over_all = (option::of(flow_imbalance()), any::<usize>());
    let parts = (over_all, layers, groups, jobs, history);
    parts.prop_map(
        |((all, unknown_flows), layers, groups, jobs, history)| Imbalances {
            all,
            layers,
            groups,
            unknown_flows,
            jobs,
            history,
        },
    )
}

fn job() -> impl Strategy<Value = JobImbalance> {
    let parts = (text(), any::<usize>(), flow_imbalance());
    parts.prop_map(|(job, flows, all)| JobImbalance { job, flows, all })
}

fn noted() -> impl Strategy<Value = NotedImbalance> {
    let parts = (any::<u64>(), finite(), imbalance());
    parts.prop_map(|(age_ms, mean_fim_percent, worst)| NotedImbalance {
        age_ms,
        mean_fim_percent,
        worst,
    })
}

fn layer() -> impl Strategy<Value = LayerImbalance> {
    let counts = any::<(u32, u32, bool, usize)>();
    (counts, finite(), imbalance(), finite()).prop_map(|(counts, mean, worst, peak)| {
        LayerImbalance {
            from_tier: counts.0,
            to_tier: counts.1,
            is_chosen: counts.2,
            groups: counts.3,
            mean_fim_percent: mean,
            worst,
            max_over_mean: peak,
        }
    })
}

fn group() -> impl Strategy<Value = GroupImbalance> {
    let parts = (
        any::<(u32, u32, bool)>(),
        vec(hop(), 0..MAX_LIST_ITEMS),
        imbalance(),
    );
    parts.prop_map(|(counts, over, imbalance)| GroupImbalance {
        from_tier: counts.0,
        to_tier: counts.1,
        is_chosen: counts.2,
        over,
        imbalance,
    })
}
