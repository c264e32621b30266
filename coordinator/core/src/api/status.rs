//! The status of the cluster.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use reweave_common::fabric::Fabric;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::member::Member;
use reweave_common::observations::NodeObservations;
use reweave_common::operator::{
    AgentState, AgentStatus, FlowStatus, Hop, LinkStatus, Mode, OpenInvitation, OpticalStatus, Pin,
    Refused, RefusedPeer, RunningChange, Status, Useless, UselessPin, hops,
};
use reweave_common::snapshot::{self, FlowState, LinkState};
use reweave_repair::paths::drained;

use super::LeaderView;
use super::held_rules;
use super::path_bandwidths::{bandwidths, spare};
use super::probes::probes;
use super::rdma::rdma;
use super::unmeasured::lacks;
use super::warnings::warnings;
use crate::ingest::admission::Admissions;
use crate::log::millis::millis;
use crate::log::policy_settings::EffectivePolicy;
use crate::log::state::{InForce, Migration, Rollout, State, Step};
use crate::model::circuit_drift;
use crate::model::imbalance::flow_imbalance;
use crate::model::world::{Measurements, World};
use crate::plan::{change_freeze, dark_routes, severed_routes, stale_pins};

/// More links are counted but not named.
const MAX_NAMED_LINKS: usize = 5;

/// The status without the coordinators, which the server adds: the core does not know them.
pub(super) fn status(world: &World<'_>, state: &State, seen: LeaderView<'_>) -> Status {
    let mut status = without_warnings(world, state, seen);
    let full = seen.disk_is_full.then(|| Refused::DiskFull.to_string());
    status.warnings = full
        .into_iter()
        .chain(unfit_settings(seen.policy))
        .chain(warnings(world.known, &status))
        .collect();
    status
}

/// Settings that an earlier leader accepted, and that contradict this leader's file or are unknown to its build.
fn unfit_settings(policy: &EffectivePolicy) -> Option<String> {
    let unfit: Vec<_> = policy.unfit().collect();
    (!unfit.is_empty()).then(|| {
        format!(
            "settings of the policy that operators have set and that are not in force, since they \
             do not fit the leader's file or release: {}",
            unfit.join(", ")
        )
    })
}

fn without_warnings(world: &World<'_>, state: &State, seen: LeaderView<'_>) -> Status {
    let known = world.known;
    let in_force = state.in_force();
    let drained = drained(known.fabric, &in_force.tables);
    let pins = in_force
        .pins
        .iter()
        .map(|pin| Pin::named(pin, known.fabric));
    let nodes = known.fabric.nodes().map(|(node, _)| node);
    let useless_pins = useless_pins(world, in_force);
    Status {
        generation: in_force.generation,
        mode: known.policy.mode,
        alarms: alarms(world, state, &useless_pins),
        waits_because: seen
            .waits
            .filter(|_| known.policy.mode == Mode::Auto)
            .map(ToString::to_string),
        changes: state
            .rollouts()
            .map(|rollout| running(known, rollout))
            .collect(),
        agents: nodes
            .map(|node| agent(known, world, seen.arrivals, node))
            .collect(),
        links: world
            .links_by(&in_force.circuits_of(known.fabric))
            .iter()
            .map(|(hop, link)| LinkStatus {
                drained: drained.contains(&hop.link),
                ..link_status(world, *hop, link)
            })
            .collect(),
        flows: world
            .flows()
            .iter()
            .map(|flow| flow_status(world, flow))
            .collect(),
        pins: pins.collect(),
        flow_imbalance: flow_imbalance(known, world, in_force),
        useless_pins,
        warnings: Vec::new(),
        coordinators: Vec::new(),
        refused: refused(known, seen.arrivals),
        invitations: invitations(known, state),
        revoked: revoked(state),
        opticals: opticals(known, in_force),
        probes: probes(known, seen.standings, seen.probing),
        bandwidths: bandwidths(world),
        rdma: rdma(known),
        lacks: lacks(known),
        frozen: change_freeze::status(known, state),
        maintenance: seen.upkeep.status(world, state),
    }
}

fn opticals(known: Measurements<'_>, in_force: &InForce) -> Vec<OpticalStatus> {
    let circuits = in_force.circuits_of(known.fabric);
    let opticals = known.fabric.opticals().map(|(id, optical)| OpticalStatus {
        optical: optical.name.clone(),
        is_driven: known.ingest.is_driven(id),
        circuits: circuits.get(&id).cloned().unwrap_or_default(),
    });
    opticals.collect()
}

fn useless_pins(world: &World<'_>, in_force: &InForce) -> Vec<UselessPin> {
    let mut useless = stale_pins::dead(world, in_force);
    for ended in stale_pins::left_over(world.known, &in_force.pins) {
        if !useless.iter().any(|pin| pin.flow == ended.flow) {
            useless.push(ended);
        }
    }
    let named = useless.iter();
    named
        .map(|pin| UselessPin::named(pin, world.fabric()))
        .collect()
}

fn refused(known: Measurements<'_>, arrivals: &Admissions) -> Vec<RefusedPeer> {
    let reports = arrivals.turned_away().map(|one| RefusedPeer {
        from: one.from.clone(),
        why: one.why.clone(),
        times: one.times,
        age_ms: millis(known.now.since(one.last)),
    });
    reports.collect()
}

fn invitations(known: Measurements<'_>, state: &State) -> Vec<OpenInvitation> {
    let open = state.membership().open(known.now);
    let reports = open.map(|invitation| OpenInvitation {
        member: invitation.member.clone(),
        by: invitation.by.to_string(),
        expires_in_ms: millis(invitation.expires.since(known.now)),
    });
    reports.collect()
}

fn revoked(state: &State) -> Vec<Member> {
    let denied = state.membership().denied().iter();
    denied.map(|(member, _)| member.clone()).collect()
}

fn running(known: Measurements<'_>, rollout: &Rollout) -> RunningChange {
    let step = rollout.phase.step();
    let waiting = step.into_iter().flat_map(Step::unanswered);
    let stopped_by = rollout.steered.stopped.as_ref();
    RunningChange {
        generation: rollout.plan.generation,
        parent: rollout.plan.parent,
        phase: rollout.shown_phase(),
        waiting_for: waiting
            .map(|node| known.fabric.name(node).to_owned())
            .collect(),
        reasons: why(known, rollout),
        stopped_by: stopped_by.map(|it| it.by.to_string()),
        age_ms: millis(known.now.since(rollout.proposed.at)),
    }
}

/// Why a plan is rolled back or held; empty for one that goes forward.
fn why(known: Measurements<'_>, rollout: &Rollout) -> Vec<String> {
    let reasons = rollout.phase.migration().map(Migration::reasons);
    crate::log::reason_list::texts(reasons.into_iter().flatten(), known.fabric)
}

/// Alarms: a failed rollback, circuits that no plan ordered, switches that hold other rules than instructed, and pins and
/// routes that lead nowhere.
fn alarms(world: &World<'_>, state: &State, useless: &[UselessPin]) -> Vec<String> {
    let known = world.known;
    let held = state.rollouts();
    let held = held.filter_map(|rollout| held_for(known.fabric, rollout));
    let drifts = circuit_drift::drifts(known.fabric, state).into_iter();
    let circuits = drifts.map(|drift| drift.alarm());
    let nodes = known.fabric.nodes().map(|(node, _)| node);
    let idle = nodes.filter(|node| is_idle(state, *node));
    let astray = idle.filter_map(|node| held_rules::alarm(world, state, node));
    let lost = useless
        .iter()
        .filter(|pin| pin.because != Useless::FlowEnded);
    let lost = lost.map(|pin| lost_flow(known.policy.mode, pin));
    let severed = severed(world, state.in_force());
    let dark = over_dark_links(world, state);
    let of_nodes = held.chain(circuits).chain(astray);
    of_nodes.chain(lost).chain(severed).chain(dark).collect()
}

fn severed(world: &World<'_>, in_force: &InForce) -> Option<String> {
    let severing = severed_routes::severing(world, in_force);
    let names = named_links(world.fabric(), &severing)?;
    let remedy = replaced(world.known.policy.mode);
    Some(format!(
        "routes in force lead to a link that is down: {names}; {remedy}"
    ))
}

/// The alarm about routes over circuits that are gone.
fn over_dark_links(world: &World<'_>, state: &State) -> Option<String> {
    let dark = dark_routes::led_over(world.fabric(), state.in_force());
    let names = named_links(world.fabric(), &dark)?;
    let remedy = match dark_routes::plan(world, state) {
        Some(_) => replaced(world.known.policy.mode),
        None => "no other path is left until the circuit is set again",
    };
    Some(format!(
        "routes in force lead over a circuit that is gone: {names}; {remedy}"
    ))
}

fn replaced(mode: Mode) -> &'static str {
    match mode {
        Mode::Manual => "replace them with the plan of `reweave plan`",
        Mode::Auto => "they are replaced as soon as possible",
    }
}

/// None if there are none.
fn named_links(fabric: &Fabric, links: &BTreeSet<LinkId>) -> Option<String> {
    let names = links.iter().map(|&link| fabric.link_name(link));
    let names: Vec<_> = names.take(MAX_NAMED_LINKS).collect();
    match links.len() - names.len() {
        _ if names.is_empty() => None,
        0 => Some(names.join(", ")),
        more => Some(format!("{} and {more} more", names.join(", "))),
    }
}

/// No plan under way claims it.
fn is_idle(state: &State, node: NodeId) -> bool {
    let mut under_way = state.under_way();
    !under_way.any(|it| it.claims.nodes.contains(&node))
}

/// The consequences of a held plan: packets avoid the circuits that were to move, so nothing is lost meanwhile.
fn held_for(fabric: &Fabric, rollout: &Rollout) -> Option<String> {
    let migration = rollout.phase.migration().filter(|it| it.is_held())?;
    let unclear = migration.unclear().map(|it| &*fabric.optical(it).name);
    let unclear = unclear.collect::<Vec<_>>().join(", ");
    let unrestored = migration.unrestored().map(|node| fabric.name(node));
    let unrestored = unrestored.collect::<Vec<_>>().join(", ");
    let generation = rollout.plan.generation;
    let what = if !unclear.is_empty() {
        format!("plan {generation} is held: the circuits of {unclear} are unknown, old or new")
    } else if !unrestored.is_empty() {
        format!(
            "rollback of plan {generation} is unconfirmed: {unrestored} may still hold its rules"
        )
    } else {
        format!("plan {generation} is held: it is blocked")
    };
    Some(format!(
        "{what}; it is retried, and its resources are locked for other plans"
    ))
}

fn lost_flow(mode: Mode, pin: &UselessPin) -> String {
    match mode {
        Mode::Manual => format!("{pin}; remove the pin with the plan of `reweave plan`"),
        Mode::Auto => format!("{pin}; the pin is removed as soon as possible"),
    }
}

fn agent(
    known: Measurements<'_>,
    world: &World<'_>,
    arrivals: &Admissions,
    node: NodeId,
) -> AgentStatus {
    let about = arrivals.about(node, known.now);
    let left = about.map(|(about, since)| about.good_for.saturating_sub(since.into()));
    let skew_us = about.and_then(|(about, _)| about.skew_us);
    let observed = known.ingest.observations().node(node);
    // Circuits determine where fibres lead.
    let links = known.fabric.links_of(node).iter().copied();
    let links: Vec<_> = links
        .filter(|&link| known.fabric.crossing(link).is_none())
        .collect();
    let known_links = links.iter().filter(|&&link| {
        let end = world.wiring.end(snapshot::Hop { from: node, link });
        end.is_some()
    });
    let holds = observed.and_then(|observed| observed.holds.as_ref());
    AgentStatus {
        node: known.fabric.name(node).to_owned(),
        addresses: observed.map(addresses).unwrap_or_default(),
        state: agent_state(known, node),
        age_ms: observed
            .and_then(|o| o.heard)
            .map(|at| millis(known.now.since(at))),
        generation: holds.map(|holds| holds.value.0),
        known_links: known_links.count(),
        links: links.len(),
        discarded_readings: known.ingest.discarded(node),
        strays: observed.and_then(|observed| Some(observed.host.strays.as_ref()?.value)),
        build: about.map(|(about, _)| about.build.clone()),
        protocol: about.map(|(about, _)| about.protocol.clone()),
        certificate_left_s: left.map(|left| left.as_secs()),
        clock_skew_ms: skew_us.map(|skew_us| skew_us / 1000),
    }
}

fn addresses(observed: &NodeObservations) -> Vec<Ipv4Addr> {
    let interfaces = observed.interfaces.values();
    let addresses = interfaces.flat_map(|interface| &interface.value.addresses);
    addresses.copied().collect()
}

fn agent_state(known: Measurements<'_>, node: NodeId) -> AgentState {
    match (known.ingest.is_connected(node), known.ingest.is_known(node)) {
        (true, _) if known.is_heard(node) => AgentState::Up,
        (true, _) => AgentState::Silent,
        (false, true) => AgentState::Down,
        (false, false) => AgentState::Unseen,
    }
}

fn link_status(world: &World<'_>, hop: snapshot::Hop, link: &LinkState) -> LinkStatus {
    let fabric = world.known.fabric;
    LinkStatus {
        hop: Hop::named(hop, fabric),
        up: link.up,
        drained: false,
        rate_bits_per_s: link.rate,
        capacity_bits_per_s: fabric.link(hop.link).rate,
        spare_bits_per_s: spare(world, hop, link.rate),
        age_ms: millis(link.age),
    }
}

fn flow_status(world: &World<'_>, state: &FlowState) -> FlowStatus {
    let fabric = world.fabric();
    let [least, most] = state.rate_range;
    FlowStatus {
        flow: state.flow,
        from: fabric.name(state.from).to_owned(),
        to: fabric.name(state.to).to_owned(),
        rate_bits_per_s: state.rate,
        least_bits_per_s: least,
        most_bits_per_s: most,
        path: state.path.as_deref().map(|path| hops(path, fabric)),
        path_back: world.path_back(state).map(|path| hops(&path, fabric)),
        age_ms: millis(state.age),
    }
}
