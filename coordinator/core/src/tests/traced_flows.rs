//! Traced paths of flows: known hops are shown, and unknown ones are left open.

use std::time::Duration;

use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::instruction::Instruction;
use reweave_common::member::{Member, Role};
use reweave_common::operator::{
    Between, FlowEnd, Imbalances, Mode, Refused, Request, Response, TracedFlow, TracedStep,
};
use reweave_common::snapshot::Hop;

use super::cluster::Cluster;
use super::scene::{SETTLE_TIME, collision};
use crate::{Effect, Input};

fn end(host: &str, port: Option<u16>) -> FlowEnd {
    let host = host.to_owned();
    FlowEnd { host, port }
}

fn request(from: FlowEnd, to: FlowEnd, refresh: bool) -> Request {
    let between = Between {
        protocol: None,
        from,
        to,
    };
    Request::Trace { between, refresh }
}

fn traced(cluster: &mut Cluster, request: Request) -> Vec<TracedFlow> {
    match cluster.ask(request) {
        Response::Traced(flows) => flows,
        other => panic!("{other:?}"),
    }
}

fn between(cluster: &mut Cluster, from: &str, to: &str) -> Vec<TracedFlow> {
    traced(cluster, request(end(from, None), end(to, None), false))
}

fn running() -> (Cluster, [FlowKey; 2]) {
    let (mut cluster, flows) = collision(Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    (cluster, flows)
}

fn nodes(steps: &[TracedStep]) -> Vec<&str> {
    let names = steps.iter().map(|step| step.node.as_deref());
    names.map(|name| name.unwrap_or("?")).collect()
}

#[test]
fn traced_flow_names_nodes_and_links() {
    let (mut cluster, flows) = running();
    let report = between(&mut cluster, "h0", "h3");
    assert_eq!(report.len(), 1);
    let there = report[0].there.as_ref().unwrap();
    assert_eq!(report[0].flow, flows[0]);
    assert_eq!(nodes(&there.steps), ["leaf0", "spine0", "leaf1", "h3"]);
    let links = ["h0-leaf0", "leaf0-spine0", "leaf1-spine0", "h3-leaf1"];
    assert_eq!(there.links().unwrap(), links);
    assert!(there.is_confirmed && there.age_ms < 1000);
    assert_eq!(between(&mut cluster, "h3", "h0"), [], "no host sends that");
    let by_address = flows[0].source.ip().to_string();
    assert_eq!(between(&mut cluster, &by_address, "h3"), report);
}

/// In this network, return traffic takes the spine of its own hash.
#[test]
fn asymmetric_return_path_is_reported() {
    let (mut cluster, [flow, _]) = running();
    let back = flow.reversed();
    let back = cluster.network.start_as(back, 1);
    cluster.run_for(SETTLE_TIME);
    let report = between(&mut cluster, "h0", "h3");
    let way = report[0].back.as_ref().unwrap();
    assert_eq!(nodes(&way.steps), ["leaf1", "spine1", "leaf0", "h0"]);
    assert_eq!(report[0].is_symmetric, Some(false));
    cluster.network.end(back);
    cluster.network.start_as(back, 0);
    cluster.run_for(2 * SETTLE_TIME);
    assert_eq!(
        between(&mut cluster, "h0", "h3")[0].is_symmetric,
        Some(true)
    );
}

#[test]
fn silent_router_leaves_links_unknown() {
    let (mut cluster, _) = running();
    let from = cluster.network.node("spine0");
    let leaf = cluster.network.node("leaf1");
    let link = cluster.network.fabric.links_between(from, leaf).next();
    let link = link.unwrap();
    cluster.network.dead.insert(Hop { from, link });
    cluster.run_for(SETTLE_TIME);
    let report = between(&mut cluster, "h0", "h3");
    let there = report[0].there.as_ref().unwrap();
    assert_eq!(nodes(&there.steps), ["leaf0", "spine0", "?", "h3"]);
    let links: Vec<_> = there.steps.iter().map(|it| it.link.as_deref()).collect();
    assert_eq!(links, [Some("h0-leaf0"), Some("leaf0-spine0"), None, None]);
    assert_eq!((report[0].is_symmetric, there.is_confirmed), (None, false));
}

fn is_watched(cluster: &Cluster, flow: &FlowKey) -> bool {
    let sender = cluster.network.node("h2");
    let mut reports = cluster.effects.iter().rev();
    let last = reports.find_map(|effect| match effect {
        Effect::Send {
            node,
            instruction: Instruction::Watch(watch),
        } if *node == sender => Some(watch.trace.contains(flow)),
        _ => None,
    });
    last == Some(true)
}

#[test]
fn named_idle_flow_is_traced_briefly() {
    let (mut cluster, flows) = running();
    let port = Some(7000);
    let asked = |refresh| request(end("h2", port), end("h3", port), refresh);
    let report = traced(&mut cluster, asked(false));
    assert_eq!((report.len(), &report[0].there), (1, &None));
    let flow = report[0].flow;
    assert_eq!(flow.protocol, Protocol::Tcp);
    assert_eq!(flow.destination.ip(), flows[0].destination.ip());
    cluster.run_for(SETTLE_TIME);
    assert!(!is_watched(&cluster, &flow), "it was not asked for");
    traced(&mut cluster, asked(true));
    assert!(is_watched(&cluster, &flow), "at once");
    cluster.run_for(Duration::from_secs(11));
    assert!(!is_watched(&cluster, &flow), "for a while only");
}

#[test]
fn viewers_cannot_start_traces() {
    let (mut cluster, _) = running();
    let mut refused = |refresh| {
        let id = cluster.effects.len() as u64;
        cluster.handle(Input::Operator {
            id,
            principal: Member::new(Role::Viewer, "bob"),
            request: request(end("h2", Some(1)), end("h3", Some(1)), refresh),
        });
        let reply = cluster
            .effects
            .iter()
            .rev()
            .find_map(|effect| match effect {
                Effect::Reply { id: to, response } if *to == id => Some(response.clone()),
                _ => None,
            });
        matches!(reply, Some(Response::Refused(Refused::NotAllowed { .. })))
    };
    assert_eq!([false, true].map(&mut refused), [false, true]);
    let before = cluster.effects.len();
    cluster.run_for(SETTLE_TIME);
    let is_watch = |effect: &Effect| {
        let Effect::Send { instruction, .. } = effect else {
            return false;
        };
        matches!(instruction, Instruction::Watch(_))
    };
    assert!(!cluster.effects[before..].iter().any(is_watch));
}

#[test]
fn unknown_trace_hosts_are_refused() {
    let (mut cluster, _) = running();
    for (from, to, name) in [
        ("h9", "h3", "h9"),
        ("h0", "leaf0", "leaf0"),
        ("h0", "10.9.9.9", "10.9.9.9"),
    ] {
        let refused = Refused::NoSuchHost {
            name: name.to_owned(),
        };
        let asked = request(end(from, None), end(to, None), true);
        assert_eq!(cluster.ask(asked), Response::Refused(refused));
    }
}

#[test]
fn imbalance_lists_layers_worst_first() {
    let (mut cluster, _) = running();
    let Response::Imbalances(Imbalances {
        all,
        layers,
        groups,
        unknown_flows,
        ..
    }) = cluster.ask(Request::Imbalance)
    else {
        panic!("no imbalance")
    };
    let all = all.unwrap();
    assert_eq!((all.worst.fim_percent, unknown_flows), (100.0, 0));
    let reports: Vec<_> = layers
        .iter()
        .map(|it| (it.from_tier, it.to_tier, it.is_chosen, it.groups))
        .collect();
    assert_eq!(reports, [(1, 2, true, 1), (2, 1, false, 1)]);
    let over = |nth: usize| -> Vec<_> {
        let over = groups[nth].over.iter();
        over.map(|hop| format!("{} > {}", hop.from, hop.to))
            .collect()
    };
    assert_eq!(over(0), ["leaf0 > spine0", "leaf0 > spine1"]);
    assert_eq!(over(1), ["spine0 > leaf1", "spine1 > leaf1"]);
    assert_eq!(groups[0].imbalance, all.worst);
}
