use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use proptest::prelude::*;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::plan::Report;
use reweave_common::sample::PinRule;
use reweave_common::units::Rate;

use super::*;
use crate::command::Author;
use crate::verify::Verdict;

fn rule(port: u16) -> PinRule {
    let address = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), port);
    PinRule {
        flow: FlowKey {
            protocol: Protocol::Tcp,
            source: address,
            destination: address,
        },
        interface: "swp1".to_owned(),
        next_hop: Ipv4Addr::new(10, 192, 0, 1),
    }
}

fn plan(parent: u64, generation: u64) -> Plan {
    let rate = Rate::from_bits_per_s(1);
    Plan {
        generation: Generation(generation),
        parent: Generation(parent),
        takes_back: None,
        pins: vec![],
        tables: BTreeMap::new(),
        circuits: BTreeMap::new(),
        moves: vec![],
        predictions: vec![],
        report: Report {
            findings: vec![],
            slowest_before: rate,
            slowest_after: rate,
            alternatives: vec![],
        },
    }
}

fn holding() -> impl Strategy<Value = Holding> {
    prop::collection::vec((0..3_u16).prop_map(rule), 0..2).prop_map(Holding::of_pins)
}

fn node() -> impl Strategy<Value = NodeId> {
    (0..3_usize).prop_map(NodeId::from_index)
}

fn generation() -> impl Strategy<Value = Generation> {
    prop_oneof![9 => (0..6_u64).prop_map(Generation), 1 => Just(Generation(u64::MAX))]
}

fn ack() -> impl Strategy<Value = Ack> {
    let outcome = prop_oneof![
        holding().prop_map(Ok),
        (generation(), 0..60_u64).prop_map(|(held, token)| Err(Refusal::Older {
            held,
            token: Token(token)
        })),
        Just(Err(Refusal::NotASwitch)),
    ];
    (generation(), 0..40_u64, outcome).prop_map(|(generation, token, outcome)| Ack {
        generation,
        token: Token(token),
        outcome,
    })
}

fn intent() -> impl Strategy<Value = StepIntent> {
    let aim = prop_oneof![
        Just(Aim::Install { before: vec![] }),
        Just(Aim::Undo {
            reasons: vec![Reason::NothingToMend]
        }),
    ];
    (
        generation(),
        aim,
        prop::collection::btree_map(node(), holding(), 0..3),
    )
        .prop_map(|(generation, aim, targets)| StepIntent {
            generation,
            aim,
            targets,
        })
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let reasons = vec![Reason::NothingToMend];
    let decision = prop_oneof![Just(Decision::Commit), Just(Decision::RollBack { reasons })];
    decision.prop_map(|decision| Verdict {
        decision,
        flows: vec![],
    })
}

fn change() -> impl Strategy<Value = Change> {
    let by = Author::Policy;
    let proposed = (0..4_u64, 0..6_u64).prop_map(|(parent, generation)| Change::PlanProposed {
        plan: Box::new(plan(parent, generation)),
        by: Author::Policy,
    });
    prop_oneof![
        3 => proposed,
        1 => generation().prop_map(|generation| Change::PlanRefused { generation, reasons: vec![] }),
        1 => generation().prop_map(|generation| Change::PlanWithdrawn { generation, reasons: vec![] }),
        3 => generation().prop_map(move |generation| Change::PlanApproved { generation, by: by.clone(), anyway: false }),
        4 => intent().prop_map(Change::StepIntent),
        6 => (node(), ack()).prop_map(|(node, ack)| Change::Acked { node, ack }),
        2 => (generation(), verdict())
            .prop_map(|(generation, verdict)| Change::Verified { generation, verdict }),
        1 => generation().prop_map(|generation| Change::Held { generation, reasons: vec![] }),
        1 => generation().prop_map(|generation| Change::RolledBack { generation }),
    ]
}

fn applied(changes: &[Change]) -> State {
    let mut state = State::default();
    for change in changes {
        state.apply(Command {
            at: Moment::default(),
            change: change.clone(),
        });
    }
    state
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_commands_in_any_order_lead_to_one_sane_state(
        changes in prop::collection::vec(change(), 0..120),
    ) {
        let mut state = State::default();
        for (index, change) in (0_u64..).zip(&changes) {
            let before = state.clone();
            state.apply(Command { at: Moment::default(), change: change.clone() });
            prop_assert_eq!(state.applied(), index + 1);
            prop_assert!(state.newest >= before.newest);
            prop_assert!(state.in_force.generation >= before.in_force.generation);
            prop_assert!(state.in_force.generation <= state.newest);
            if let Some(step) = state.rollout().and_then(|rollout| rollout.phase.step()) {
                prop_assert!(step.token <= Token(index) && step.generation <= state.newest);
            }
        }
        prop_assert_eq!(applied(&changes), state, "the log alone leads to the state");
    }

    #[test]
    fn a_log_that_was_written_and_read_leads_to_the_same_state(
        changes in prop::collection::vec(change(), 0..40),
    ) {
        let written = postcard::to_stdvec(&changes).unwrap();
        let read: Vec<Change> = postcard::from_bytes(&written).unwrap();
        prop_assert_eq!(applied(&read), applied(&changes));
    }
}

fn propose(parent: u64, generation: u64) -> Change {
    Change::PlanProposed {
        plan: Box::new(plan(parent, generation)),
        by: Author::Policy,
    }
}

fn approve(generation: u64) -> Change {
    Change::PlanApproved {
        generation: Generation(generation),
        by: Author::Policy,
        anyway: false,
    }
}

fn step(generation: u64, aim: Aim, switches: &[usize]) -> Change {
    let targets: BTreeMap<_, _> = switches
        .iter()
        .map(|&index| (NodeId::from_index(index), told()))
        .collect();
    Change::StepIntent(StepIntent {
        generation: Generation(generation),
        aim,
        targets,
    })
}

fn acked(index: usize, generation: u64, token: u64, outcome: Result<Holding, Refusal>) -> Change {
    let ack = Ack {
        generation: Generation(generation),
        token: Token(token),
        outcome,
    };
    Change::Acked {
        node: NodeId::from_index(index),
        ack,
    }
}

fn told() -> Holding {
    Holding::of_pins(vec![rule(1)])
}

fn done(index: usize, generation: u64, token: u64) -> Change {
    acked(index, generation, token, Ok(told()))
}

const INSTALL: Aim = Aim::Install { before: vec![] };
const UNDO: Aim = Aim::Undo { reasons: vec![] };

fn kernel() -> Refusal {
    Refusal::Kernel {
        error: "full".to_owned(),
    }
}

#[test]
fn the_token_of_an_intent_is_its_place_in_the_log() {
    let state = applied(&[
        propose(0, 1),
        approve(1),
        approve(1),
        step(1, INSTALL, &[0]),
    ]);
    let step = state.rollout().unwrap().phase.step().unwrap().clone();
    assert_eq!(step.token, Token(3));
    assert_eq!(step.install(NodeId::from_index(0)).unwrap().token, Token(3));
}

#[test]
fn a_plan_is_verified_when_every_switch_has_done_its_step_and_not_before() {
    let begun = [
        propose(0, 1),
        approve(1),
        step(1, INSTALL, &[0, 1]),
        done(0, 1, 2),
    ];
    assert!(matches!(
        applied(&begun).rollout().unwrap().phase,
        Phase::Applying(_)
    ));
    let all = [&begun[..], &[done(1, 1, 2)]].concat();
    assert!(matches!(
        applied(&all).rollout().unwrap().phase,
        Phase::Verifying(_)
    ));
}

#[test]
fn a_plan_that_builds_on_other_routes_or_has_an_old_number_is_not_taken() {
    assert!(applied(&[propose(1, 2)]).rollout().is_none());
    let again = applied(&[propose(0, 5), propose(0, 5), propose(0, 4)]);
    assert_eq!((again.ended(), again.next_generation()), (0, Generation(6)));
}

#[test]
fn it_is_taken_back_only_when_every_switch_is_known_to_hold_what_it_held() {
    let rolled_back = Change::RolledBack {
        generation: Generation(1),
    };
    let begun = [
        propose(0, 1),
        approve(1),
        step(1, INSTALL, &[0, 1]),
        done(0, 1, 2),
        acked(1, 1, 2, Err(kernel())),
        step(2, UNDO, &[0, 1]),
        acked(1, 2, 5, Err(kernel())),
        rolled_back.clone(),
    ];
    let waiting = applied(&begun);
    assert!(matches!(
        waiting.rollout().unwrap().phase,
        Phase::RollingBack(_)
    ));
    let ended = applied(&[&begun[..], &[done(0, 2, 5), rolled_back]].concat());
    assert_eq!(
        (ended.ended(), ended.in_force().generation),
        (1, Generation(2))
    );
}

#[test]
fn a_switch_that_did_the_step_and_refuses_to_undo_it_is_not_believed_to_have_undone_it() {
    let log = [
        propose(0, 1),
        approve(1),
        step(1, INSTALL, &[0, 1]),
        done(0, 1, 2),
        step(2, UNDO, &[0, 1]),
        acked(0, 2, 4, Err(kernel())),
        done(1, 2, 4),
        Change::RolledBack {
            generation: Generation(1),
        },
    ];
    let undo = applied(&log)
        .rollout()
        .unwrap()
        .phase
        .undo()
        .unwrap()
        .clone();
    assert_eq!(
        undo.unconfirmed().collect::<Vec<_>>(),
        [NodeId::from_index(0)]
    );
    assert!(undo.has_failed());
}

#[test]
fn the_next_generation_is_beyond_what_any_agent_has_heard_of_unless_it_lies() {
    let begun = [propose(0, 1), approve(1), step(1, INSTALL, &[0, 1])];
    let older = |held| {
        acked(
            0,
            1,
            2,
            Err(Refusal::Older {
                held: Generation(held),
                token: Token(0),
            }),
        )
    };
    let next = |held| applied(&[&begun[..], &[older(held)]].concat()).next_generation();
    assert_eq!(
        [next(0), next(9), next(u64::MAX)],
        [2, 10, 2].map(Generation)
    );
}

#[test]
fn tokens_go_on_beyond_what_any_agent_has_heard_of_unless_it_lies() {
    let begun = [propose(0, 1), approve(1), step(1, INSTALL, &[0, 1])];
    let next = |token| {
        let older = Refusal::Older {
            held: Generation(0),
            token: Token(token),
        };
        let heard = [acked(0, 1, 2, Err(older)), step(2, UNDO, &[0, 1])];
        let state = applied(&[&begun[..], &heard].concat());
        state.rollout().unwrap().phase.step().unwrap().token
    };
    assert_eq!([next(0), next(9), next(u64::MAX)], [4, 10, 4].map(Token));
}

#[test]
fn a_plan_is_not_undone_under_a_number_that_agents_have_heard_of() {
    let begun = [
        propose(0, 1),
        approve(1),
        step(1, INSTALL, &[0]),
        step(1, UNDO, &[0]),
    ];
    assert!(matches!(
        applied(&begun).rollout().unwrap().phase,
        Phase::Applying(_)
    ));
}

#[test]
fn only_so_many_plans_are_remembered() {
    let plans = (1..=300).map(|generation| propose(0, generation));
    let state = applied(&plans.collect::<Vec<_>>());
    assert_eq!(
        (state.ended(), state.history().count()),
        (299, MOST_HISTORY)
    );
    assert_eq!(
        state.history().next_back().unwrap().plan.generation,
        Generation(299)
    );
}
