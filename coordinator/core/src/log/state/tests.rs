use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use proptest::prelude::*;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::ids::LinkId;
use reweave_common::plan::Report;
use reweave_common::sample::PinRule;
use reweave_common::units::Rate;

use super::*;
use crate::log::command::Author;
use crate::log::verdict::Verdict;

mod claims;

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
        orders: Vec::new(),
        pins: vec![],
        tables: BTreeMap::new(),
        circuits: BTreeMap::new(),
        moves: vec![],
        predictions: vec![],
        iterations: vec![],
        report: Report {
            findings: vec![],
            slowest_before: rate,
            slowest_after: rate,
            alternatives: vec![],
        },
    }
}

fn holding() -> impl Strategy<Value = ForwardingState> {
    prop::collection::vec((0..3_u16).prop_map(rule), 0..2).prop_map(ForwardingState::of_pins)
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
        (generation(), 0..60_u64).prop_map(|(held, token)| Err(InstallRefusal::Older {
            held,
            token: Token(token)
        })),
        Just(Err(InstallRefusal::NotASwitch)),
        Just(Err(InstallRefusal::RestoreFailed {
            error: "no space".to_owned()
        })),
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
        [generation(), generation()],
        aim,
        prop::collection::btree_map(node(), holding(), 0..3),
    )
        .prop_map(|([plan, generation], aim, targets)| StepIntent {
            plan,
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
        iterations: vec![],
    })
}

fn change() -> impl Strategy<Value = Change> {
    let by = Author::Policy;
    let nodes = prop::collection::btree_set(node(), 0..3);
    let proposed = (0..4_u64, 0..6_u64, nodes);
    let proposed = proposed.prop_map(|(parent, generation, nodes)| Change::PlanProposed {
        plan: Box::new(plan(parent, generation)),
        claims: Box::new(of_nodes(nodes)),
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
        3 => generation().prop_map(|plan| Change::ConfirmIntent { plan }),
        1 => (0..3_u16).prop_map(|minor| Change::ClusterVersion { minor }),
        1 => (0..2_u16).prop_map(|minor| Change::ClusterVersionLowered { minor, by: Author::Policy }),
    ]
}

fn applied(changes: &[Change]) -> State {
    applied_by(0, changes)
}

/// The state of a cluster of this version after these changes.
fn applied_by(cluster_version: u16, changes: &[Change]) -> State {
    let mut state = State::founded(cluster_version);
    for change in changes {
        apply(&mut state, change.clone());
    }
    state
}

fn apply(state: &mut State, change: Change) {
    let at = Moment::default();
    state.apply(Command { at, change });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_commands_keep_state_sane(
        changes in prop::collection::vec(change(), 0..120),
    ) {
        let mut state = State::default();
        for (index, change) in (0_u64..).zip(&changes) {
            let before = state.clone();
            state.apply(Command { at: Moment::default(), change: change.clone() });
            prop_assert_eq!(state.applied(), index + 1);
            prop_assert!(state.newest >= before.newest);
            prop_assert!(state.in_force.generation <= state.newest);
            for step in state.rollouts().filter_map(|rollout| rollout.phase.step()) {
                prop_assert!(step.token <= Token(index) && step.generation <= state.newest);
            }
            prop_assert!(share_nothing(&state));
            let is_lowered = state.cluster_version() < before.cluster_version();
            prop_assert!(!is_lowered || state.under_way().next().is_none());
        }
        prop_assert_eq!(applied(&changes), state, "the log alone leads to the state");
    }

    #[test]
    fn serialized_log_gives_same_state(
        changes in prop::collection::vec(change(), 0..40),
    ) {
        let written = postcard::to_stdvec(&changes).unwrap();
        #[expect(clippy::disallowed_methods, reason = "it was just written")]
        let read: Vec<Change> = postcard::from_bytes(&written).unwrap();
        prop_assert_eq!(applied(&read), applied(&changes));
    }
}

/// Invariant S6: approved plans share no resource.
fn share_nothing(state: &State) -> bool {
    let under_way: Vec<_> = state.under_way().map(|it| &it.claims).collect();
    let mut pairs = under_way.iter().enumerate();
    pairs.all(|(index, one)| {
        let mut others = under_way[..index].iter();
        others.all(|other| one.shared_with(other).is_none())
    })
}

fn of_nodes(nodes: BTreeSet<NodeId>) -> ResourceSet {
    ResourceSet {
        nodes,
        ..ResourceSet::default()
    }
}

fn propose(parent: u64, generation: u64) -> Change {
    Change::PlanProposed {
        plan: Box::new(plan(parent, generation)),
        claims: Box::new(of_nodes((0..3).map(NodeId::from_index).collect())),
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
        .map(|&index| (NodeId::from_index(index), installed_state()))
        .collect();
    Change::StepIntent(StepIntent {
        plan: Generation(1),
        generation: Generation(generation),
        aim,
        targets,
    })
}

fn acked(
    index: usize,
    generation: u64,
    token: u64,
    outcome: Result<ForwardingState, InstallRefusal>,
) -> Change {
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

fn installed_state() -> ForwardingState {
    ForwardingState::of_pins(vec![rule(1)])
}

fn done(index: usize, generation: u64, token: u64) -> Change {
    acked(index, generation, token, Ok(installed_state()))
}

const INSTALL_AIM: Aim = Aim::Install { before: vec![] };
const UNDO_AIM: Aim = Aim::Undo { reasons: vec![] };

fn kernel() -> InstallRefusal {
    InstallRefusal::Kernel {
        error: "full".to_owned(),
    }
}

#[test]
fn intent_token_is_its_log_index() {
    let state = applied(&[
        propose(0, 1),
        approve(1),
        approve(1),
        step(1, INSTALL_AIM, &[0]),
    ]);
    let step = state
        .rollouts()
        .next()
        .unwrap()
        .phase
        .step()
        .unwrap()
        .clone();
    assert_eq!(step.token, Token(3));
    assert_eq!(step.install(NodeId::from_index(0)).unwrap().token, Token(3));
}

#[test]
fn plan_verifies_after_every_switch_acks() {
    let begun = [
        propose(0, 1),
        approve(1),
        step(1, INSTALL_AIM, &[0, 1]),
        done(0, 1, 2),
    ];
    assert!(matches!(stage_in(&applied(&begun)), Stage::Installing(_)));
    let all = applied(&[&begun[..], &[done(1, 1, 2)]].concat());
    assert!(is_verifying(&all.rollouts().next().unwrap().phase));
}

/// The stage of the only running plan.
fn stage_in(state: &State) -> Stage {
    let phase = &state.rollouts().next().expect("a plan").phase;
    phase.migration().expect("it is on its way").stage.clone()
}

fn is_verifying(phase: &Phase) -> bool {
    let migration = phase.migration();
    migration.is_some_and(|it| it.is_over() && !it.leads_back())
}

fn only_phase(log: &[Change]) -> Phase {
    let state = applied_by(1, log);
    state.rollouts().next().expect("a plan").phase.clone()
}

const CONFIRM_CHANGE: Change = Change::ConfirmIntent {
    plan: Generation(1),
};

#[test]
fn plan_verifies_after_all_confirm_step() {
    let mut log = vec![
        propose(0, 1),
        approve(1),
        step(1, INSTALL_AIM, &[0, 1]),
        done(0, 1, 2),
        CONFIRM_CHANGE,
    ];
    let stage = |log: &[Change]| stage_in(&applied_by(1, log));
    assert!(matches!(stage(&log), Stage::Unconfirmed(_)));
    log.extend([done(1, 1, 2), CONFIRM_CHANGE]);
    // Late answers to the first instruction do not answer the second.
    log.push(done(0, 1, 2));
    let Stage::Confirming(step) = stage(&log) else {
        panic!("{:?}", stage(&log))
    };
    assert_eq!((step.token, step.unanswered().count()), (Token(6), 2));
    log.extend([done(0, 1, 6), done(1, 1, 6)]);
    assert!(is_verifying(&only_phase(&log)));
}

#[test]
fn unconfirmed_nodes_may_hold_either() {
    let log = [
        propose(0, 1),
        approve(1),
        step(1, INSTALL_AIM, &[0]),
        done(0, 1, 2),
        CONFIRM_CHANGE,
        done(0, 1, 4),
    ];
    let is_unsure =
        |entries: usize| only_phase(&log[..entries]).is_unsure_of(NodeId::from_index(0));
    assert_eq!([3, 4, 5, 6].map(is_unsure), [true, true, true, false]);
}

/// A node that refuses the confirmation may still hold the plan's rules.
#[test]
fn refused_confirmation_does_not_prove_rules() {
    let refused = |generation, token| acked(0, generation, token, Err(kernel()));
    let log = [
        propose(0, 1),
        approve(1),
        step(1, INSTALL_AIM, &[0]),
        done(0, 1, 2),
        CONFIRM_CHANGE,
        refused(1, 4),
        step(2, UNDO_AIM, &[0]),
        refused(2, 6),
    ];
    let phase = only_phase(&log);
    let migration = phase.migration().expect("it is on its way");
    assert!(migration.leads_back() && !migration.is_restored());
}

/// A plan that began before steps were confirmed keeps its rules after the version rises: there, a refusal proves that
/// the state is unchanged.
#[test]
fn raised_version_leaves_proofs_alone() {
    let log = [
        propose(0, 1),
        approve(1),
        step(1, INSTALL_AIM, &[0]),
        acked(0, 1, 2, Err(kernel())),
        Change::ClusterVersion { minor: 1 },
        step(2, UNDO_AIM, &[0]),
        acked(0, 2, 5, Err(kernel())),
        Change::RolledBack {
            generation: Generation(1),
        },
    ];
    let state = applied(&log);
    assert_eq!((state.cluster_version(), state.ended()), (1, 1));
}

#[test]
fn wrong_parent_or_old_generation_ignored() {
    assert!(applied(&[propose(1, 2)]).rollouts().next().is_none());
    let again = applied(&[propose(0, 5), propose(0, 5), propose(0, 4)]);
    assert_eq!((again.ended(), again.next_generation()), (0, Generation(6)));
}

#[test]
fn rollback_ends_once_every_switch_acks() {
    let rolled_back = Change::RolledBack {
        generation: Generation(1),
    };
    let begun = [
        propose(0, 1),
        approve(1),
        step(1, INSTALL_AIM, &[0, 1]),
        done(0, 1, 2),
        acked(1, 1, 2, Err(kernel())),
        step(2, UNDO_AIM, &[0, 1]),
        acked(1, 2, 5, Err(kernel())),
        rolled_back.clone(),
    ];
    let waiting = applied(&begun);
    assert!(waiting.rollouts().next().unwrap().leads_back());
    let ended = applied(&[&begun[..], &[done(0, 2, 5), rolled_back]].concat());
    assert_eq!(
        (ended.ended(), ended.in_force().generation),
        (1, Generation(2))
    );
}

#[test]
fn refused_undo_leaves_step_unconfirmed() {
    let log = [
        propose(0, 1),
        approve(1),
        step(1, INSTALL_AIM, &[0, 1]),
        done(0, 1, 2),
        step(2, UNDO_AIM, &[0, 1]),
        acked(0, 2, 4, Err(kernel())),
        done(1, 2, 4),
        Change::RolledBack {
            generation: Generation(1),
        },
    ];
    let state = applied(&log);
    let migration = state.rollouts().next().unwrap().phase.migration().unwrap();
    assert_eq!(
        migration.unrestored().collect::<Vec<_>>(),
        [NodeId::from_index(0)]
    );
    assert!(migration.leads_back() && !migration.has_followed(NodeId::from_index(0)));
}

#[test]
fn next_generation_exceeds_agents_unless_absurd() {
    let begun = [propose(0, 1), approve(1), step(1, INSTALL_AIM, &[0, 1])];
    let most = 1 + (1 << 20);
    for (held, expected) in [
        (0, 2),
        (9, 10),
        (most, most + 1),
        (most + 1, 2),
        (u64::MAX, 2),
    ] {
        let older = InstallRefusal::Older {
            held: Generation(held),
            token: Token(0),
        };
        let heard = [acked(0, 1, 2, Err(older))];
        let state = applied(&[&begun[..], &heard].concat());
        assert_eq!(state.next_generation(), Generation(expected), "{held}");
    }
}

#[test]
fn next_token_exceeds_agents_unless_absurd() {
    let begun = [propose(0, 1), approve(1), step(1, INSTALL_AIM, &[0, 1])];
    let most = 4 + (1 << 20);
    for (claimed, expected) in [
        (0, 4),
        (9, 10),
        (most, most + 1),
        (most + 1, 4),
        (u64::MAX, 4),
    ] {
        let older = InstallRefusal::Older {
            held: Generation(0),
            token: Token(claimed),
        };
        let heard = [acked(0, 1, 2, Err(older)), step(2, UNDO_AIM, &[0, 1])];
        let state = applied(&[&begun[..], &heard].concat());
        let next = state.rollouts().next().unwrap().phase.step().unwrap().token;
        assert_eq!(next, Token(expected), "{claimed}");
    }
}

#[test]
fn undo_needs_newer_generation() {
    let begun = [
        propose(0, 1),
        approve(1),
        step(1, INSTALL_AIM, &[0]),
        step(1, UNDO_AIM, &[0]),
    ];
    assert!(!applied(&begun).rollouts().next().unwrap().leads_back());
}

#[test]
fn plan_history_is_bounded() {
    let plans = (1..=300).map(|generation| propose(0, generation));
    let state = applied(&plans.collect::<Vec<_>>());
    assert_eq!(
        (state.ended(), state.history().count()),
        (299, MAX_HISTORY_PLANS)
    );
    assert_eq!(
        state.history().next_back().unwrap().plan.generation,
        Generation(299)
    );
}

fn pinned(port: u16, at: usize) -> Pin {
    Pin {
        flow: rule(port).flow,
        at: NodeId::from_index(at),
        link: LinkId::from_index(at),
    }
}

/// Plan `number`, made for the initial state, pins one flow at the node of this index.
fn beside(number: u64, at: usize) -> Vec<Change> {
    let generation = Generation(number);
    let plan = Plan {
        pins: vec![pinned(number as u16, at)],
        ..plan(0, number)
    };
    let node = NodeId::from_index(at);
    vec![
        Change::PlanProposed {
            plan: Box::new(plan),
            claims: Box::new(of_nodes([node].into())),
            by: Author::Policy,
        },
        approve(number),
        Change::StepIntent(StepIntent {
            plan: generation,
            generation,
            aim: INSTALL_AIM,
            targets: [(node, installed_state())].into(),
        }),
    ]
}

fn kept(number: u64) -> Change {
    let verdict = Verdict {
        decision: Decision::Commit,
        flows: vec![],
        iterations: vec![],
    };
    Change::Verified {
        generation: Generation(number),
        verdict,
    }
}

/// The entries of both plans in one log.
fn both() -> Vec<Change> {
    let values = [beside(1, 0), beside(2, 1)].concat();
    [values, vec![done(0, 1, 2), done(1, 2, 5)]].concat()
}

#[test]
fn disjoint_plans_commit_in_any_order() {
    for order in [[1, 2], [2, 1]] {
        let all = [both(), order.map(kept).to_vec()].concat();
        let state = applied(&all);
        let in_force = state.in_force();
        let mut pins = in_force.pins.clone();
        pins.sort_unstable();
        assert_eq!(pins, [pinned(1, 0), pinned(2, 1)], "{order:?}");
        let describe = |at| in_force.installs[&NodeId::from_index(at)].generation;
        assert_eq!([describe(0), describe(1)], [Generation(1), Generation(2)]);
        assert_eq!(in_force.generation, Generation(order[1]));
        let ended: Vec<_> = state
            .history()
            .map(|it| (it.plan.generation.0, it.plan.parent.0))
            .collect();
        assert_eq!(
            ended,
            [(order[0], 0), (order[1], order[0])],
            "one follows upon the other"
        );
    }
}

#[test]
fn rollback_keeps_pins_of_concurrent_plan() {
    let worse = Change::Verified {
        generation: Generation(1),
        verdict: Verdict {
            decision: Decision::RollBack { reasons: vec![] },
            flows: vec![],
            iterations: vec![],
        },
    };
    let undo = Change::StepIntent(StepIntent {
        plan: Generation(1),
        generation: Generation(3),
        aim: UNDO_AIM,
        targets: [(NodeId::from_index(0), ForwardingState::default())].into(),
    });
    let back = Change::RolledBack {
        generation: Generation(1),
    };
    let token = both().len() as u64 + 2;
    let undone = vec![
        worse,
        kept(2),
        undo,
        acked(0, 3, token, Ok(ForwardingState::default())),
        back,
    ];
    let state = applied(&[both(), undone].concat());
    assert_eq!(state.in_force().pins, [pinned(2, 1)]);
    assert!(state.rollouts().next().is_none());
    let last = &state.history().next_back().unwrap().outcome;
    assert!(matches!(
        last,
        Outcome::RolledBack {
            generation: Generation(3),
            ..
        }
    ));
}

/// A proposal is made for the state after the other plan's rollback.
#[test]
fn rollback_takes_no_offered_number() {
    let offer = beside(3, 1)[0].clone();
    let back = Change::RolledBack {
        generation: Generation(1),
    };
    let undone = vec![
        done(0, 1, 2),
        step(2, UNDO_AIM, &[0]),
        offer,
        done(0, 2, 4),
        back,
    ];
    let state = applied(&[beside(1, 0), undone].concat());
    let offered: Vec<_> = state.rollouts().map(|it| it.plan.generation).collect();
    assert_eq!(offered, [Generation(3)]);
    assert_eq!(state.in_force().generation, Generation(4));
}

#[test]
fn concurrent_plans_claim_disjoint_resources() {
    let first = beside(1, 0);
    let state = applied(&[first.clone(), beside(2, 0)].concat());
    let open: Vec<_> = state.rollouts().map(|it| it.plan.generation.0).collect();
    assert_eq!(open, [1], "what is taken is not even offered");
    // Proposed before the other plan was approved, and not approved after.
    let [offer, approval, _] = <[Change; 3]>::try_from(beside(2, 1)).unwrap();
    let Change::PlanProposed { plan, by, .. } = offer else {
        panic!("it is a proposal")
    };
    let nodes = [0, 1].map(NodeId::from_index).into();
    let claims = Box::new(of_nodes(nodes));
    let offer = Change::PlanProposed { plan, claims, by };
    let state = applied(&[&first[..1], &[offer, approve(1), approval][..]].concat());
    let open: Vec<_> = state
        .rollouts()
        .map(|it| (it.plan.generation.0, it.phase.clone()))
        .collect();
    assert_eq!(
        open,
        [(2, Phase::Approved)],
        "an offer takes the place of one that shares with it"
    );
}

#[test]
fn offer_lapses_when_its_parent_changes() {
    let alone = beside(1, 0);
    let [for_the_same, elsewhere] =
        [(2, 0), (3, 1)].map(|(number, at)| beside(number, at)[0].clone());
    let end = vec![done(0, 1, 3), kept(1)];
    // Proposed before the other plan was approved; otherwise it would be refused.
    let all = [vec![alone[0].clone(), elsewhere], alone[1..].to_vec(), end].concat();
    let state = applied(&all);
    let open: Vec<_> = state.rollouts().map(|it| it.plan.clone()).collect();
    assert_eq!(open.len(), 1);
    assert_eq!(
        open[0].pins,
        [pinned(3, 1), pinned(1, 0)],
        "it speaks for its own node alone"
    );
    let refused = applied(&[alone, vec![for_the_same]].concat());
    assert_eq!(refused.rollouts().count(), 1);
}

#[test]
fn plan_instructs_only_claimed_nodes() {
    let mut changes = beside(1, 0);
    if let Some(Change::StepIntent(intent)) = changes.last_mut() {
        intent
            .targets
            .insert(NodeId::from_index(1), installed_state());
    }
    let state = applied(&changes);
    assert_eq!(state.rollouts().next().unwrap().phase, Phase::Approved);
}

/// A plan for a fabric in which each node has a route to each other.
fn wide(generation: u64, next_hops: usize) -> Change {
    let hop = NextHop {
        link: LinkId::from_index(0),
        weight: 1,
    };
    let at = NodeId::from_index(0);
    let table = ForwardingTable {
        at,
        towards: BTreeMap::from([(at, vec![hop; next_hops])]),
        raises: vec![],
    };
    Change::PlanProposed {
        plan: Box::new(Plan {
            tables: BTreeMap::from([(at, table)]),
            ..plan(0, generation)
        }),
        claims: Box::new(of_nodes((0..3).map(NodeId::from_index).collect())),
        by: Author::Policy,
    }
}

#[test]
fn fewer_large_plans_are_remembered() {
    let each = MAX_HISTORY_ENTRIES / 4 - 1;
    // The last one is still proposed.
    let plans = (1..=11).map(|generation| wide(generation, each));
    assert_eq!(applied(&plans.collect::<Vec<_>>()).history().count(), 4);
    let larger = [
        wide(1, 2 * MAX_HISTORY_ENTRIES),
        propose(0, 2),
        propose(0, 3),
    ];
    let remembered = applied(&larger[..2]);
    assert_eq!(remembered.history().count(), 1, "the last one in any case");
    assert_eq!(applied(&larger).history().count(), 1);
}
