//! Any status of a cluster.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use reweave_common::operator::{AgentState, AgentStatus, FlowStatus, LinkStatus, Mode, Status};

use super::super::{hosts, members, rdma};
use super::findings::useless_pin;
use super::{
    MAX_LIST_ITEMS, addresses, flow, flow_imbalance, generation, hop, pin, probes, rate, rewiring,
    text, texts,
};

fn agent_status() -> impl Strategy<Value = AgentStatus> {
    let state = prop_oneof![
        Just(AgentState::Up),
        Just(AgentState::Silent),
        Just(AgentState::Down),
        Just(AgentState::Unseen),
    ];
    let links = any::<(usize, usize, u64)>();
    let parts = (
        (text(), addresses()),
        state,
        any::<Option<u64>>(),
        option::of(generation()),
        links,
        option::of((text(), text(), any::<u64>(), any::<i64>())),
        option::of(hosts::port_strays()),
    );
    parts.prop_map(
        |(who, state, age_ms, generation, links, about, strays)| AgentStatus {
            node: who.0,
            addresses: who.1,
            state,
            age_ms,
            generation,
            known_links: links.0,
            links: links.1,
            discarded_readings: links.2,
            strays,
            build: about.clone().map(|about| about.0),
            protocol: about.clone().map(|about| about.1),
            certificate_left_s: about.as_ref().map(|about| about.2),
            clock_skew_ms: about.map(|about| about.3),
        },
    )
}

fn link_status() -> impl Strategy<Value = LinkStatus> {
    let rates = (rate(), rate(), option::of(rate()));
    let parts = (hop(), any::<[bool; 2]>(), rates, any::<u64>());
    parts.prop_map(
        |(hop, [up, drained], (rate, capacity, spare), age_ms)| LinkStatus {
            hop,
            up,
            drained,
            rate_bits_per_s: rate,
            capacity_bits_per_s: capacity,
            spare_bits_per_s: spare,
            age_ms,
        },
    )
}

fn flow_status() -> impl Strategy<Value = FlowStatus> {
    let path = || option::of(vec(hop(), 0..MAX_LIST_ITEMS));
    let rates = [rate(), rate(), rate()];
    let ways = (path(), path());
    let parts = (flow(), text(), text(), rates, ways, any::<u64>());
    parts.prop_map(
        |(flow, from, to, [rate, least, most], (path, path_back), age_ms)| FlowStatus {
            flow,
            from,
            to,
            rate_bits_per_s: rate,
            least_bits_per_s: least,
            most_bits_per_s: most,
            path,
            path_back,
            age_ms,
        },
    )
}

pub(super) fn status() -> impl Strategy<Value = Status> {
    let mode = prop_oneof![Just(Mode::Manual), Just(Mode::Auto)];
    let said = (mode, texts(), option::of(text()));
    let seen = (
        vec(agent_status(), 0..MAX_LIST_ITEMS),
        vec(link_status(), 0..MAX_LIST_ITEMS),
        vec(flow_status(), 0..MAX_LIST_ITEMS),
        vec(pin(), 0..MAX_LIST_ITEMS),
        vec(useless_pin(), 0..MAX_LIST_ITEMS),
        option::of(flow_imbalance()),
        (
            probes::status(),
            vec(probes::path_bandwidth(), 0..MAX_LIST_ITEMS),
            vec(rdma::status(), 0..MAX_LIST_ITEMS),
            vec(rewiring::optical_status(), 0..MAX_LIST_ITEMS),
            vec(hosts::lack_status(), 0..MAX_LIST_ITEMS),
            vec(rewiring::maintenance(), 0..MAX_LIST_ITEMS),
            vec(rewiring::frozen(), 0..MAX_LIST_ITEMS),
        ),
    );
    let peers = (
        texts(),
        vec(members::coordinator(), 0..MAX_LIST_ITEMS),
        vec(members::refused(), 0..MAX_LIST_ITEMS),
        vec(members::invitation(), 0..MAX_LIST_ITEMS),
        vec(members::member(), 0..MAX_LIST_ITEMS),
    );
    let parts = (
        generation(),
        said,
        prop::collection::vec(rewiring::running_change(), 0..3),
        seen,
        peers,
    );
    parts.prop_map(|(generation, said, changes, seen, peers)| Status {
        generation,
        mode: said.0,
        alarms: said.1,
        waits_because: said.2,
        changes,
        agents: seen.0,
        links: seen.1,
        flows: seen.2,
        pins: seen.3,
        useless_pins: seen.4,
        flow_imbalance: seen.5,
        probes: seen.6.0,
        bandwidths: seen.6.1,
        rdma: seen.6.2,
        opticals: seen.6.3,
        lacks: seen.6.4,
        maintenance: seen.6.5,
        frozen: seen.6.6,
        warnings: peers.0,
        coordinators: peers.1,
        refused: peers.2,
        invitations: peers.3,
        revoked: peers.4,
    })
}
