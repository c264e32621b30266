//! Any message at all.

mod discovered;
mod driver;
mod jobs;
mod probes;
mod rewiring;
mod traces;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use reweave_common::bandwidth::BandwidthReading;
use reweave_common::cause::{Cause, Class, Subject};
use reweave_common::finding::Imbalance;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::holding::{Holding, RouteHop, RouteRule};
use reweave_common::instruction::{Ack, Install, Refusal, Token, Watch};
use reweave_common::member::{Admission, DenyList, Member, Role};
use reweave_common::moment::Moment;
use reweave_common::operator::{
    AgentState, AgentStatus, Alternative, Collision, Finding, Findings, FlowChange, FlowImbalance,
    FlowOutcome, FlowStatus, Hop, Iteration, IterationOutcome, LinkStatus, Loser, Mode, Move,
    NoWayBack, NotSeen, Outcome, Pin, Plan, Prediction, Record, Refused, Report, Request, Response,
    Status, TouchedJob, Useless, UselessPin,
};
use reweave_common::plan::{Generation, LostBecause};
use reweave_common::sample::{
    Counters, FlowReading, Interface, PinRule, Reading, Sample, TracedPath,
};
use reweave_common::units::{Bytes, Rate};

pub(super) use driver::{driver_message, driver_order};

use super::hosts::host_reading;
use super::{hosts, members, rdma};
use crate::hello::{Hello, Version};
use crate::message::{AgentMessage, CoordinatorMessage};

pub(super) const MANY: usize = 6;

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
    vec(text(), 0..MANY)
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

pub(super) fn duration() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_nanos)
}

fn addresses() -> impl Strategy<Value = Vec<Ipv4Addr>> {
    vec(any::<Ipv4Addr>(), 0..MANY)
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

fn holding() -> impl Strategy<Value = Holding> {
    let parts = (rules(), vec(route(), 0..MANY));
    parts.prop_map(|(rules, routes)| Holding { rules, routes })
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
    vec(rule, 0..MANY)
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
        option::of(duration()),
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
    let routers = || vec(option::of(any::<Ipv4Addr>()), 0..MANY);
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
    let parts = (any::<u64>(), vec(reading(), 0..MANY));
    parts.prop_map(|(micros, readings)| Sample {
        taken: Moment::from_micros(micros),
        readings,
    })
}

fn refusal() -> impl Strategy<Value = Refusal> {
    prop_oneof![
        generation().prop_map(|held| Refusal::Older {
            held,
            token: Token(held.0)
        }),
        generation().prop_map(|held| Refusal::DifferentContent {
            held,
            token: Token(held.0)
        }),
        text().prop_map(|error| Refusal::Kernel { error }),
        text().prop_map(|error| Refusal::NotDurable { error }),
        Just(Refusal::NotASwitch),
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
        vec(any::<u8>(), 0..MANY).prop_map(|request| AgentMessage::Renew { request }),
    ]
}

pub(super) fn coordinator_message() -> impl Strategy<Value = CoordinatorMessage> {
    let watch = vec(flow(), 0..MANY).prop_map(|trace| CoordinatorMessage::Watch(Watch { trace }));
    let install =
        (generation(), any::<u64>(), holding()).prop_map(|(generation, token, holding)| {
            CoordinatorMessage::Install(Install {
                generation,
                token: Token(token),
                holding,
            })
        });
    let renewed = proptest::option::of(text())
        .prop_map(|chain_pem| CoordinatorMessage::Renewed { chain_pem });
    let list = probes::list().prop_map(CoordinatorMessage::Probe);
    let elsewhere = Just(CoordinatorMessage::Elsewhere(None));
    let here = Just(CoordinatorMessage::Here);
    let seats = members::seats().prop_map(CoordinatorMessage::Coordinators);
    prop_oneof![
        watch,
        install,
        renewed,
        denied(),
        list,
        elsewhere,
        here,
        seats
    ]
}

fn denied() -> impl Strategy<Value = CoordinatorMessage> {
    prop_oneof![
        deny_list().prop_map(CoordinatorMessage::Denied),
        deny_list().prop_map(CoordinatorMessage::DeniedMore),
    ]
}

fn deny_list() -> impl Strategy<Value = DenyList> {
    vec((text(), any::<u64>()), 0..MANY).prop_map(|denied| {
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
        vec(text(), 0..MANY).prop_map(|links| Request::Drain { links }),
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
        texts().prop_map(|hosts| Request::Freeze { hosts }),
        texts().prop_map(|hosts| Request::Thaw { hosts }),
        rewiring::maintain(),
        members::request(),
        jobs::request(),
        traces::request(),
        discovered::request(),
    ]
}

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
    let path = || option::of(vec(hop(), 0..MANY));
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

fn status() -> impl Strategy<Value = Status> {
    let mode = prop_oneof![Just(Mode::Manual), Just(Mode::Auto)];
    let said = (mode, texts(), option::of(text()));
    let seen = (
        vec(agent_status(), 0..MANY),
        vec(link_status(), 0..MANY),
        vec(flow_status(), 0..MANY),
        vec(pin(), 0..MANY),
        vec(useless_pin(), 0..MANY),
        option::of(flow_imbalance()),
        (
            probes::status(),
            vec(probes::path_bandwidth(), 0..MANY),
            vec(rdma::status(), 0..MANY),
            vec(rewiring::optical_status(), 0..MANY),
            vec(hosts::lack_status(), 0..MANY),
            vec(rewiring::maintenance(), 0..MANY),
            vec(rewiring::frozen(), 0..MANY),
        ),
    );
    let peers = (
        texts(),
        vec(members::coordinator(), 0..MANY),
        vec(members::refused(), 0..MANY),
        vec(members::invitation(), 0..MANY),
        vec(members::member(), 0..MANY),
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

fn flow_imbalance() -> impl Strategy<Value = FlowImbalance> {
    let uneven = (finite(), vec(hop(), 0..MANY), imbalance());
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

fn loser() -> impl Strategy<Value = Loser> {
    (flow(), rate(), rate()).prop_map(|(flow, rate, fair_rate)| Loser {
        flow,
        rate_bits_per_s: rate,
        fair_rate_bits_per_s: fair_rate,
    })
}

fn imbalance() -> impl Strategy<Value = Imbalance> {
    [finite(), finite(), finite(), finite()].prop_map(|[fim, floor, weighted, most]| Imbalance {
        fim_percent: fim,
        floor_percent: floor,
        weighted_percent: weighted,
        max_over_mean: most,
    })
}

fn finding() -> impl Strategy<Value = Finding> {
    prop_oneof![
        collision(),
        useless_pin().prop_map(Finding::UselessPin),
        cause().prop_map(Finding::Cause)
    ]
}

fn cause() -> impl Strategy<Value = Cause> {
    let class = proptest::sample::select(Class::ALL.to_vec());
    (class, subject(), texts(), finite(), texts()).prop_map(
        |(class, subject, evidence, confidence, jobs)| Cause {
            class,
            subject,
            evidence,
            confidence,
            remedy: class.remedy().to_owned(),
            jobs,
        },
    )
}

fn subject() -> impl Strategy<Value = Subject> {
    let one = prop_oneof![
        text().prop_map(Subject::Host),
        text().prop_map(Subject::Switch),
        (text(), text(), text()).prop_map(|(from, to, link)| Subject::Hop { from, to, link }),
        ([text(), text()], text()).prop_map(|(ends, link)| Subject::Link { ends, link }),
        text().prop_map(Subject::Job),
        [text(), text()].prop_map(Subject::Pair),
    ];
    let several = vec(one.clone(), 0..MANY).prop_map(Subject::either);
    prop_oneof![one, several]
}

fn useless_pin() -> impl Strategy<Value = UselessPin> {
    let because = prop_oneof![
        texts().prop_map(|links| Useless::WayDown { links }),
        Just(Useless::FlowEnded)
    ];
    (flow(), hop(), because).prop_map(|(flow, hop, because)| UselessPin { flow, hop, because })
}

fn not_seen() -> impl Strategy<Value = NotSeen> {
    let parts = (texts(), vec(flow(), 0..MANY), texts());
    parts.prop_map(|(nodes, ways_of, doubts)| NotSeen {
        nodes,
        ways_of,
        doubts,
    })
}

fn collision() -> impl Strategy<Value = Finding> {
    let hops = vec(hop(), 0..MANY);
    let parts = (hop(), finite(), vec(loser(), 0..MANY), hops, imbalance());
    parts.prop_map(|(hop, utilization, losers, with_room, imbalance)| {
        Finding::EcmpCollision(Collision {
            hop,
            utilization,
            losers,
            with_room,
            imbalance,
        })
    })
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = (flow(), hop(), hop()).prop_map(|(flow, from, to)| Move { flow, from, to });
    vec(one, 0..MANY)
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
    let lost = vec(alternative(), 0..MANY);
    let parts = (vec(finding(), 0..MANY), rate(), rate(), lost);
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

fn plan() -> impl Strategy<Value = Plan> {
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
        (vec(pin(), 0..MANY), rewiring::rewired(), texts()),
        moves(),
        (vec(prediction, 0..MANY), vec(iteration(), 0..MANY)),
        report(),
        (
            vec(touched_job(), 0..MANY),
            option::of(rewiring::course()),
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
            course: touched.1,
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
        vec(flow_outcome(), 0..MANY),
        vec(iteration_outcome(), 0..MANY),
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
        generation().prop_map(|generation| Refused::NoWayBack(NoWayBack::NotKept { generation })),
    ]
}

pub(super) fn response() -> impl Strategy<Value = Response> {
    let findings = (generation(), vec(finding(), 0..MANY), not_seen());
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
        texts().prop_map(|hosts| Response::Froze { hosts }),
        vec(record(), 0..MANY).prop_map(Response::History),
        option::of(record().prop_map(Box::new)).prop_map(Response::Record),
        refused().prop_map(Response::Refused),
        jobs::response(),
        traces::response(),
        discovered::response(),
        members::standing(),
    ]
}
