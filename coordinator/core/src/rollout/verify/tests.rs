use std::net::{Ipv4Addr, SocketAddrV4};

use proptest::prelude::*;
use reweave_common::flow::Protocol;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::plan::{Generation, Move, Prediction, Report};
use reweave_common::snapshot::Hop;

use super::*;

fn mbps(mbps: u64) -> Rate {
    Rate::from_bits_per_s(mbps * 1_000_000)
}

fn flow(port: u16) -> FlowKey {
    let address = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), port);
    FlowKey {
        protocol: Protocol::Tcp,
        source: address,
        destination: address,
    }
}

fn spread([least, mean, most]: [u64; 3]) -> RateSummary {
    RateSummary {
        mean: mbps(mean),
        least: mbps(least),
        most: mbps(most),
    }
}

/// A flow's readings before, its prediction if it is concerned, and its readings after.
#[derive(Debug, Clone)]
struct Case {
    port: u16,
    before: Option<[u64; 3]>,
    predicted: Option<[u64; 2]>,
    after: Option<[u64; 3]>,
}

fn case(port: u16, before: u64, predicted: Option<[u64; 2]>, after: u64) -> Case {
    let steady = |rate: u64| Some([rate - 1, rate, rate + 1]);
    Case {
        port,
        before: steady(before),
        predicted,
        after: steady(after),
    }
}

fn plan(cases: &[Case]) -> Plan {
    let prediction = |case: &Case| {
        let [low, high] = case.predicted?.map(mbps);
        Some(Prediction {
            flow: flow(case.port),
            before: low,
            after: high,
            low,
            high,
        })
    };
    let moved = |case: &Case| {
        let [from, to] = [0, 1].map(|link| Hop {
            from: NodeId::from_index(0),
            link: LinkId::from_index(link),
        });
        case.predicted.map(|_| Move {
            flow: flow(case.port),
            from,
            to,
        })
    };
    Plan {
        generation: Generation(1),
        parent: Generation(0),
        takes_back: None,
        orders: Vec::new(),
        pins: vec![],
        tables: BTreeMap::new(),
        circuits: BTreeMap::new(),
        moves: cases.iter().filter_map(moved).collect(),
        predictions: cases.iter().filter_map(prediction).collect(),
        iterations: vec![],
        report: Report {
            findings: vec![],
            slowest_before: mbps(0),
            slowest_after: mbps(0),
            alternatives: vec![],
        },
    }
}

fn verdict(cases: &[Case]) -> Verdict {
    let before = |case: &Case| {
        Some(Before {
            flow: flow(case.port),
            spread: spread(case.before?),
        })
    };
    let before: Vec<_> = cases.iter().filter_map(before).collect();
    let after = |case: &Case| Some((flow(case.port), spread(case.after?)));
    judge(
        &plan(cases),
        &before,
        &After {
            rates: cases.iter().filter_map(after).collect(),
            periods: vec![],
        },
        &Policy::default(),
    )
}

fn reasons(cases: &[Case]) -> Vec<Reason> {
    match verdict(cases).decision {
        Decision::Commit => vec![],
        Decision::RollBack { reasons } => reasons,
    }
}

const FASTER_RANGE: Option<[u64; 2]> = Some([90, 100]);

#[test]
fn gain_below_prediction_is_kept() {
    assert_eq!(
        reasons(&[case(1, 50, FASTER_RANGE, 95), case(2, 50, FASTER_RANGE, 96)]),
        []
    );
    assert_eq!(
        reasons(&[case(1, 50, FASTER_RANGE, 56), case(2, 60, FASTER_RANGE, 90)]),
        []
    );
}

#[test]
fn gain_of_faster_flows_is_insufficient() {
    let (before, after, needed) = (mbps(50), mbps(54), mbps(55));
    let reason = Reason::TooLittleGain {
        before,
        after,
        needed,
    };
    assert_eq!(
        reasons(&[
            case(1, 50, FASTER_RANGE, 54),
            case(2, 60, FASTER_RANGE, 100)
        ]),
        [reason]
    );
}

#[test]
fn plan_may_not_slow_bystander_flow() {
    let gain = case(1, 50, FASTER_RANGE, 95);
    let reason = Reason::GotSlower {
        flow: flow(2),
        before: mbps(80),
        after: mbps(60),
    };
    assert_eq!(reasons(&[gain.clone(), case(2, 80, None, 60)]), [reason]);
    assert_eq!(
        reasons(&[gain, case(2, 80, None, 77)]),
        [],
        "it wanders so much anyway"
    );
}

#[test]
fn flow_may_slow_only_as_predicted() {
    let gain = case(1, 30, Some([45, 50]), 50);
    assert_eq!(
        reasons(&[gain.clone(), case(2, 100, Some([48, 55]), 50)]),
        []
    );
    let reason = Reason::GotSlower {
        flow: flow(2),
        before: mbps(100),
        after: mbps(40),
    };
    assert_eq!(reasons(&[gain, case(2, 100, Some([48, 55]), 40)]), [reason]);
}

#[test]
fn vanished_planned_flow_proves_nothing() {
    let gone = |port, predicted| Case {
        after: None,
        ..case(port, 50, predicted, 50)
    };
    let vanished = Reason::Vanished { flow: flow(2) };
    assert_eq!(
        reasons(&[case(1, 50, FASTER_RANGE, 95), gone(2, FASTER_RANGE)]),
        [vanished]
    );
    let beside = verdict(&[case(1, 50, FASTER_RANGE, 95), gone(2, None)]);
    assert_eq!(
        (beside.decision, beside.flows[1].change),
        (Decision::Commit, FlowChange::Vanished)
    );
    assert_eq!(
        reasons(&[gone(1, FASTER_RANGE), gone(2, FASTER_RANGE)]).len(),
        2
    );
}

fn readings() -> impl Strategy<Value = [u64; 3]> {
    prop::array::uniform3(1..120_u64).prop_map(|mut rates| {
        rates.sort_unstable();
        rates
    })
}

fn cases() -> impl Strategy<Value = Vec<Case>> {
    let predicted =
        prop::option::of((1..100_u64, 0..50_u64).prop_map(|(low, more)| [low, low + more]));
    let some = || prop::option::weighted(0.9, readings());
    let case = (some(), predicted, some());
    prop::collection::vec(case, 1..6).prop_map(|cases| {
        let numbered = (1..).zip(cases);
        let case = |(port, (before, predicted, after))| Case {
            port,
            before,
            predicted,
            after,
        };
        numbered.map(case).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// The rule of `judge`, written independently.
    #[test]
    fn committed_plan_gains_and_harms_none(cases in cases()) {
        let commits = verdict(&cases).decision == Decision::Commit;
        let concerned: Vec<_> = cases.iter().filter(|case| case.predicted.is_some()).collect();
        let all_there = concerned.iter().all(|case| case.before.is_some() && case.after.is_some());
        let slowest = |of: fn(&Case) -> Option<[u64; 3]>| {
            concerned.iter().filter_map(|case| Some(of(case)?[1])).min()
        };
        let gained = match (slowest(|case| case.before), slowest(|case| case.after)) {
            (Some(before), Some(after)) => after * 100 >= before * 110,
            _ => true,
        };
        let harmed = cases.iter().any(|case| match (case.before, case.after) {
            (Some([least, ..]), Some([_, after, _])) => {
                let foreseen = case.predicted.is_some_and(|[low, _]| after * 100 >= low * 95);
                after * 100 < least * 95 && !foreseen
            }
            _ => false,
        });
        prop_assert_eq!(commits, all_there && gained && !harmed);
    }
}
