//! Any message at all.

mod discovered;
mod driver;
mod findings;
mod jobs;
mod nics;
mod policy;
mod probes;
mod rewiring;
mod status;
mod traces;

use std::net::{Ipv4Addr, SocketAddrV4};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use reweave_common::bandwidth::BandwidthReading;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::forwarding_state::{ForwardingState, RouteHop, RouteRule};
use reweave_common::instruction::{
    Ack, FastSampling, Install, InstallRefusal, Token, Unconfirmed, Watch,
};
use reweave_common::member::{Admission, DenyList, Member, RemovedCoordinators, Role};
use reweave_common::moment::Moment;
use reweave_common::operator::{
    Alternative, Findings, FlowChange, FlowImbalance, FlowOutcome, Hop, Iteration,
    IterationOutcome, Move, Outcome, Pin, Plan, Prediction, Record, Refused, Report, Request,
    Response, RollbackRefused, TouchedJob,
};
use reweave_common::plan::{Generation, LostBecause};
use reweave_common::sample::{
    Counters, FlowReading, Interface, PinRule, Reading, Sample, TracedPath,
};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::{Bytes, Percent, Rate};

pub(super) use driver::{driver_message, driver_order};
use findings::{finding, imbalance, not_seen};
use status::status;

use super::hosts::host_reading;
use super::members;
use crate::hello::{Hello, Version};
use crate::message::{AgentMessage, CoordinatorMessage};

pub(super) const MAX_LIST_ITEMS: usize = 6;

/// The same messages in every run.
pub(super) fn seeded() -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

pub(super) fn text() -> impl Strategy<Value = String> {
    // Line and paragraph separators do not pass as they are.
    "[\\PC&&[^\u{2028}\u{2029}]]{0,20}"
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    vec(text(), 0..MAX_LIST_ITEMS)
}

fn generation() -> impl Strategy<Value = Generation> {
    any::<u64>().prop_map(Generation)
}

pub(super) fn rate() -> impl Strategy<Value = Rate> {
    any::<u64>().prop_map(Rate::from_bits_per_s)
}

pub(super) fn bytes() -> impl Strategy<Value = Bytes> {
    any::<u64>().prop_map(Bytes::new)
}

pub(super) fn time_span() -> impl Strategy<Value = TimeSpan> {
    any::<u64>().prop_map(TimeSpan::from_nanos)
}

pub(super) fn percent() -> impl Strategy<Value = Percent> {
    (0..=100_u8).prop_map(|percent| Percent::new(percent).unwrap())
}

fn addresses() -> impl Strategy<Value = Vec<Ipv4Addr>> {
    vec(any::<Ipv4Addr>(), 0..MAX_LIST_ITEMS)
}

fn finite() -> impl Strategy<Value = f64> {
    -1e12..1e12
}

pub(super) fn flow() -> impl Strategy<Value = FlowKey> {
    let protocol = prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)];
    let end = || any::<(Ipv4Addr, u16)>().prop_map(|(host, port)| SocketAddrV4::new(host, port));
    (protocol, end(), end()).prop_map(|(protocol, source, destination)| FlowKey {
        protocol,
        source,
        destination,
    })
}

fn holding() -> impl Strategy<Value = ForwardingState> {
    let parts = (rules(), vec(route(), 0..MAX_LIST_ITEMS));
    parts.prop_map(|(rules, routes)| ForwardingState { rules, routes })
}

fn route() -> impl Strategy<Value = RouteRule> {
    let hop =
        (text(), any::<Ipv4Addr>(), any::<u32>()).prop_map(|(interface, next_hop, weight)| {
            RouteHop {
                interface,
                next_hop,
                weight,
            }
        });
    let parts = (any::<Ipv4Addr>(), vec(hop, 0..4));
    parts.prop_map(|(destination, hops)| RouteRule { destination, hops })
}

fn rules() -> impl Strategy<Value = Vec<PinRule>> {
    let rule =
        (flow(), text(), any::<Ipv4Addr>()).prop_map(|(flow, interface, next_hop)| PinRule {
            flow,
            interface,
            next_hop,
        });
    vec(rule, 0..MAX_LIST_ITEMS)
}

fn interface() -> impl Strategy<Value = Interface> {
    let parts = (text(), addresses(), addresses());
    parts.prop_map(|(name, addresses, gateways)| Interface {
        name,
        addresses,
        gateways,
    })
}

fn counters() -> impl Strategy<Value = Counters> {
    let rates = (option::of(rate()), option::of(rate()));
    let counts = (bytes(), bytes(), any::<u64>());
    (text(), any::<bool>(), counts, rates).prop_map(|(interface, up, counts, rates)| Counters {
        interface,
        up,
        sent: counts.0,
        received: counts.1,
        dropped_packets: counts.2,
        send_rate: rates.0,
        receive_rate: rates.1,
    })
}

fn flow_reading() -> impl Strategy<Value = FlowReading> {
    let parts = (
        flow(),
        bytes(),
        option::of(rate()),
        option::of(time_span()),
        any::<Option<u64>>(),
    );
    parts.prop_map(|(flow, bytes, rate, rtt, retransmits)| FlowReading {
        flow,
        bytes,
        rate,
        rtt,
        retransmits,
    })
}

fn reading() -> impl Strategy<Value = Reading> {
    let routers = || vec(option::of(any::<Ipv4Addr>()), 0..MAX_LIST_ITEMS);
    let path = (flow(), routers(), any::<bool>());
    let path = path.prop_map(|(flow, routers, confirmed)| {
        Reading::Path(TracedPath {
            flow,
            routers,
            confirmed,
        })
    });
    let holds = (generation(), holding()).prop_map(|(generation, holding)| Reading::Holds {
        generation,
        holding,
    });
    let trains = (flow(), probes::bandwidth(), option::of(routers()));
    let trains = trains.prop_map(|(flow, bandwidth, routers)| {
        Reading::Bandwidth(BandwidthReading {
            flow,
            bandwidth,
            routers,
        })
    });
    prop_oneof![
        interface().prop_map(Reading::Interface),
        counters().prop_map(Reading::Counters),
        flow_reading().prop_map(Reading::Flow),
        flow().prop_map(Reading::FlowEnded),
        probes::reading().prop_map(|reading| Reading::Probes(Box::new(reading))),
        path,
        trains,
        holds,
        host_reading().prop_map(Reading::Host),
    ]
}

pub(super) fn sample() -> impl Strategy<Value = Sample> {
    let parts = (any::<u64>(), vec(reading(), 0..MAX_LIST_ITEMS));
    parts.prop_map(|(micros, readings)| Sample {
        taken: Moment::from_micros(micros),
        readings,
    })
}

fn refusal() -> impl Strategy<Value = InstallRefusal> {
    prop_oneof![
        generation().prop_map(|held| InstallRefusal::Older {
            held,
            token: Token(held.0)
        }),
        generation().prop_map(|held| InstallRefusal::DifferentContent {
            held,
            token: Token(held.0)
        }),
        text().prop_map(|error| InstallRefusal::Kernel { error }),
        text().prop_map(|error| InstallRefusal::NotDurable { error }),
        Just(InstallRefusal::NotASwitch),
        text().prop_map(|error| InstallRefusal::RestoreFailed { error }),
    ]
}

fn ack() -> impl Strategy<Value = Ack> {
    let outcome = prop_oneof![holding().prop_map(Ok), refusal().prop_map(Err)];
    (generation(), any::<u64>(), outcome).prop_map(|(generation, token, outcome)| Ack {
        generation,
        token: Token(token),
        outcome,
    })
}

pub(super) fn agent_message() -> impl Strategy<Value = AgentMessage> {
    prop_oneof![
        sample().prop_map(AgentMessage::Sample),
        ack().prop_map(AgentMessage::Ack),
        any::<u64>().prop_map(|time_of_day_us| AgentMessage::Clock { time_of_day_us }),
        vec(any::<u8>(), 0..MAX_LIST_ITEMS).prop_map(|request| AgentMessage::Renew { request }),
    ]
}

pub(super) fn coordinator_message() -> impl Strategy<Value = CoordinatorMessage> {
    let watch =
        vec(flow(), 0..MAX_LIST_ITEMS).prop_map(|trace| CoordinatorMessage::Watch(Watch { trace }));
    let unconfirmed = (install(), any::<u32>()).prop_map(|(install, confirm_timeout_ms)| {
        CoordinatorMessage::Unconfirmed(Unconfirmed {
            install,
            confirm_timeout_ms,
        })
    });
    let renewed = proptest::option::of(text())
        .prop_map(|chain_pem| CoordinatorMessage::Renewed { chain_pem });
    let closely =
        any::<u32>().prop_map(|for_ms| CoordinatorMessage::Closely(FastSampling { for_ms }));
    let list = probes::list().prop_map(CoordinatorMessage::Probe);
    let elsewhere = Just(CoordinatorMessage::Elsewhere(None));
    let here = Just(CoordinatorMessage::Here);
    let seats = members::seats().prop_map(CoordinatorMessage::Coordinators);
    prop_oneof![
        watch,
        install().prop_map(CoordinatorMessage::Install),
        unconfirmed,
        renewed,
        denied(),
        list,
        closely,
        elsewhere,
        here,
        seats
    ]
}

fn install() -> impl Strategy<Value = Install> {
    let parts = (generation(), any::<u64>(), holding());
    parts.prop_map(|(generation, token, holding)| Install {
        generation,
        token: Token(token),
        holding,
    })
}

fn denied() -> impl Strategy<Value = CoordinatorMessage> {
    prop_oneof![
        deny_list().prop_map(CoordinatorMessage::Denied),
        deny_list().prop_map(CoordinatorMessage::DeniedMore),
        removed().prop_map(CoordinatorMessage::Removed),
    ]
}

fn removed() -> impl Strategy<Value = RemovedCoordinators> {
    (any::<u64>(), deny_list()).prop_map(|(as_of, list)| RemovedCoordinators {
        as_of: Admission(as_of),
        list,
    })
}

fn deny_list() -> impl Strategy<Value = DenyList> {
    vec((text(), any::<u64>()), 0..MAX_LIST_ITEMS).prop_map(|denied| {
        let mut list = DenyList::default();
        for (name, admission) in denied {
            list.deny(Member::new(Role::Coordinator, &name), Admission(admission));
        }
        list
    })
}

pub(super) fn hello() -> impl Strategy<Value = Hello> {
    (any::<(u16, u16)>(), text(), text()).prop_map(|((major, minor), cluster, build)| Hello {
        version: Version { major, minor },
        cluster,
        build,
    })
}

pub(super) fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        Just(Request::Status),
        Just(Request::Diagnose),
        Just(Request::Plan),
        generation().prop_map(|generation| Request::Apply { generation }),
        option::of(generation()).prop_map(|before| Request::History { before }),
        generation().prop_map(|generation| Request::Record { generation }),
        rewiring::wishes().prop_map(|circuits| Request::Rewire { circuits }),
        vec(text(), 0..MAX_LIST_ITEMS).prop_map(|links| Request::Drain { links }),
        any::<bool>().prop_map(|by_worth| Request::Weigh { by_worth }),
        generation().prop_map(|generation| Request::ApplyAnyway { generation }),
        option::of(generation()).prop_map(|generation| Request::TakeBack { generation }),
        (generation(), any::<bool>())
            .prop_map(|(generation, anyway)| Request::ApplyNow { generation, anyway }),
        any::<Option<u64>>().prop_map(|before| Request::Audit { before }),
        (generation(), any::<[bool; 2]>(), texts()).prop_map(
            |(generation, [anyway, now], seals)| {
                Request::ApplySealed {
                    generation,
                    anyway,
                    now,
                    seals,
                }
            }
        ),
        rewiring::steering().prop_map(|(generation, how)| Request::Steer { generation, how }),
        any::<Option<u16>>().prop_map(|minor| Request::ClusterVersion { minor }),
        texts().prop_map(|hosts| Request::Freeze { hosts }),
        texts().prop_map(|hosts| Request::Thaw { hosts }),
        rewiring::maintain(),
        members::request(),
        jobs::request(),
        nics::request(),
        policy::request(),
        traces::request(),
        discovered::request(),
    ]
}

fn flow_imbalance() -> impl Strategy<Value = FlowImbalance> {
    let uneven = (finite(), vec(hop(), 0..MAX_LIST_ITEMS), imbalance());
    uneven.prop_map(|(mean_fim_percent, worst_over, worst)| FlowImbalance {
        mean_fim_percent,
        worst_over,
        worst,
    })
}

fn pin() -> impl Strategy<Value = Pin> {
    (flow(), hop()).prop_map(|(flow, hop)| Pin { flow, hop })
}

fn hop() -> impl Strategy<Value = Hop> {
    (text(), text(), text()).prop_map(|(from, to, link)| Hop { from, to, link })
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = (flow(), hop(), hop()).prop_map(|(flow, from, to)| Move { flow, from, to });
    vec(one, 0..MAX_LIST_ITEMS)
}

fn alternative() -> impl Strategy<Value = Alternative> {
    let because = prop_oneof![Just(LostBecause::Slower), Just(LostBecause::MoreMoves)];
    (moves(), rate(), because).prop_map(|(moves, slowest_after, lost_because)| Alternative {
        moves,
        slowest_after_bits_per_s: slowest_after,
        lost_because,
    })
}

fn report() -> impl Strategy<Value = Report> {
    let lost = vec(alternative(), 0..MAX_LIST_ITEMS);
    let parts = (vec(finding(), 0..MAX_LIST_ITEMS), rate(), rate(), lost);
    parts.prop_map(|(findings, before, after, alternatives)| Report {
        findings,
        slowest_before_bits_per_s: before,
        slowest_after_bits_per_s: after,
        alternatives,
    })
}

fn touched_job() -> impl Strategy<Value = TouchedJob> {
    let counts = [0..9_usize, 0..9_usize, 0..9_usize];
    (text(), counts).prop_map(|(job, [flows, moved, slowed])| TouchedJob {
        job,
        flows,
        moved,
        slowed,
    })
}

fn iteration() -> impl Strategy<Value = Iteration> {
    (text(), [ms(), ms(), ms(), ms()]).prop_map(|(job, [before, after, low, high])| Iteration {
        job,
        before_ms: before,
        after_ms: after,
        low_ms: low,
        high_ms: high,
    })
}

fn ms() -> impl Strategy<Value = f64> {
    0.0..1e9
}

pub(super) fn plan() -> impl Strategy<Value = Plan> {
    let rates = [rate(), rate(), rate(), rate()];
    let prediction = (flow(), rates).prop_map(|(flow, [before, after, low, high])| Prediction {
        flow,
        before_bits_per_s: before,
        after_bits_per_s: after,
        low_bits_per_s: low,
        high_bits_per_s: high,
    });
    let parts = (
        (generation(), generation(), option::of(generation())),
        (vec(pin(), 0..MAX_LIST_ITEMS), rewiring::rewired(), texts()),
        moves(),
        (
            vec(prediction, 0..MAX_LIST_ITEMS),
            vec(iteration(), 0..MAX_LIST_ITEMS),
        ),
        report(),
        (
            vec(touched_job(), 0..MAX_LIST_ITEMS),
            option::of(rewiring::migration()),
            option::of(rewiring::base()),
        ),
    );
    parts.prop_map(
        |((generation, parent, takes_back), pins, moves, predictions, report, touched)| Plan {
            generation,
            parent,
            takes_back,
            pins: pins.0,
            tables: pins.1.0,
            circuits: pins.1.1,
            changes: pins.1.2,
            seal: pins.2.concat(),
            hindered_by: pins.2,
            touched: touched.0,
            migration: touched.1,
            base: touched.2,
            moves,
            predictions: predictions.0,
            iterations: predictions.1,
            report,
        },
    )
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let rolled_back =
        (texts(), generation()).prop_map(|(reasons, generation)| Outcome::RolledBack {
            reasons,
            generation,
        });
    prop_oneof![
        Just(Outcome::Offered),
        Just(Outcome::Running),
        Just(Outcome::Committed),
        rolled_back,
        texts().prop_map(|reasons| Outcome::Abandoned { reasons }),
        texts().prop_map(|reasons| Outcome::Held { reasons }),
    ]
}

fn flow_outcome() -> impl Strategy<Value = FlowOutcome> {
    let change = prop_oneof![
        Just(FlowChange::Faster),
        Just(FlowChange::Same),
        Just(FlowChange::Slower),
        Just(FlowChange::Vanished),
        Just(FlowChange::New),
    ];
    let maybe = || option::of(rate());
    let parts = (
        flow(),
        maybe(),
        option::of([rate(), rate()]),
        maybe(),
        change,
    );
    parts.prop_map(|(flow, before, predicted, measured, change)| FlowOutcome {
        flow,
        before_bits_per_s: before,
        predicted_bits_per_s: predicted,
        measured_bits_per_s: measured,
        change,
    })
}

fn iteration_outcome() -> impl Strategy<Value = IterationOutcome> {
    let parts = (text(), ms(), [ms(), ms()], option::of(ms()));
    parts.prop_map(
        |(job, before_ms, predicted_ms, measured_ms)| IterationOutcome {
            job,
            before_ms,
            predicted_ms,
            measured_ms,
        },
    )
}

fn record() -> impl Strategy<Value = Record> {
    let by = (text(), option::of(text()));
    let ages = any::<(u64, Option<u64>)>();
    let outcomes = (
        vec(flow_outcome(), 0..MAX_LIST_ITEMS),
        vec(iteration_outcome(), 0..MAX_LIST_ITEMS),
    );
    let parts = (plan(), by, ages, outcome(), outcomes);
    parts.prop_map(|(plan, by, ages, outcome, (flows, iterations))| Record {
        plan,
        proposed_by: by.0,
        approved_by: by.1,
        age_ms: ages.0,
        ended_age_ms: ages.1,
        outcome,
        flows,
        iterations,
    })
}

fn refused() -> impl Strategy<Value = Refused> {
    prop_oneof![
        text().prop_map(|role| Refused::NotAllowed { role }),
        Just(Refused::NoPlan),
        prop::collection::vec(generation(), 0..3)
            .prop_map(|offered| Refused::OtherPlan { offered }),
        generation().prop_map(|running| Refused::Busy { running }),
        generation().prop_map(|generation| Refused::ChangedMeanwhile { generation }),
        [any::<u64>(), any::<u64>()].prop_map(|[touched_percent, most_percent]| Refused::TooWide {
            touched_percent,
            most_percent,
        }),
        texts().prop_map(|reasons| Refused::Unfit { reasons }),
        text().prop_map(|job| Refused::NotReordered { job }),
        text().prop_map(|why| Refused::VersionStays { why }),
        (text(), any::<u64>()).prop_map(|(job, least_gain_percent)| Refused::NoBetterOrder {
            job,
            least_gain_percent,
        }),
        generation()
            .prop_map(|generation| Refused::NoWayBack(RollbackRefused::NotKept { generation })),
        rewiring::under_maintenance(),
        policy::refused(),
    ]
}

pub(super) fn response() -> impl Strategy<Value = Response> {
    let findings = (generation(), vec(finding(), 0..MAX_LIST_ITEMS), not_seen());
    let findings = findings.prop_map(|(generation, findings, not_seen)| {
        Response::Findings(Findings {
            generation,
            findings,
            not_seen,
        })
    });
    prop_oneof![
        status().prop_map(|status| Response::Status(Box::new(status))),
        findings,
        (option::of(plan().prop_map(Box::new)), not_seen())
            .prop_map(|(plan, not_seen)| Response::Plan { plan, not_seen }),
        generation().prop_map(|generation| Response::ApplyStarted { generation }),
        rewiring::steering().prop_map(|(generation, how)| Response::Steered { generation, how }),
        (any::<u16>(), option::of(text()))
            .prop_map(|(minor, lowered_by)| Response::ClusterVersion { minor, lowered_by }),
        texts().prop_map(|hosts| Response::Froze { hosts }),
        vec(record(), 0..MAX_LIST_ITEMS).prop_map(Response::History),
        option::of(record().prop_map(Box::new)).prop_map(Response::Record),
        refused().prop_map(Response::Refused),
        jobs::response(),
        nics::response(),
        policy::response(),
        traces::response(),
        discovered::response(),
        members::standing(),
        members::deny_lists(),
    ]
}
