//! Numbers that agents claim to hold, and optical switches that plans claim.

use reweave_common::circuit::{Circuit, CircuitSet, PortId, Readback};
use reweave_common::migration_plan::{MigrationPlan, Wave};

use super::*;

/// Many false claims, each slightly above the last one, may have raised the numbers close to the limit.
#[test]
fn claimed_numbers_are_exact_in_json() {
    const MAX_EXACT: u64 = (1 << 53) - 1;
    for claimed in [MAX_EXACT - 1, MAX_EXACT, MAX_EXACT + 1] {
        let mut state = applied(&[propose(0, 1), approve(1), step(1, INSTALL_AIM, &[0, 1])]);
        state.newest = Generation(MAX_EXACT - 9);
        state.ahead = MAX_EXACT - 9 - state.applied;
        let older = InstallRefusal::Older {
            held: Generation(claimed),
            token: Token(claimed),
        };
        apply(&mut state, acked(0, 1, 2, Err(older)));
        let generation = state.next_generation().0;
        apply(&mut state, step(generation, UNDO_AIM, &[0, 1]));
        let undo = state.rollouts().next().unwrap().phase.step().unwrap();
        assert_eq!(undo.generation, Generation(generation), "it is taken up");
        assert!(generation <= MAX_EXACT, "{generation} after {claimed}");
        assert!(undo.token.0 <= MAX_EXACT, "{undo:?} after {claimed}");
    }
}

/// A plan for these optical switches that claims only the first one, with its ports proven idle.
fn proven(opticals: &[OpticalId]) -> Vec<Change> {
    let generation = Generation(1);
    let circuits = |&optical: &OpticalId| (optical, CircuitSet::default());
    let wave = Wave {
        circuits: opticals.iter().map(circuits).collect(),
        ..Wave::default()
    };
    let claims = ResourceSet {
        opticals: opticals.iter().take(1).copied().collect(),
        ..ResourceSet::default()
    };
    vec![
        Change::PlanProposed {
            plan: Box::new(plan(0, 1)),
            claims: Box::new(claims),
            by: Author::Policy,
        },
        approve(1),
        Change::Departed(Departure {
            generation,
            migration_plan: MigrationPlan { waves: vec![wave] },
            circuits: Circuits::new(),
            before: vec![],
        }),
        Change::DrainProof {
            generation,
            quiet: vec![],
        },
    ]
}

fn switching(opticals: &[OpticalId]) -> Change {
    let moves = opticals.iter().map(|&it| {
        let unmoved = Move {
            expected: CircuitSet::default(),
            desired: CircuitSet::default(),
        };
        (it, unmoved)
    });
    Change::CircuitIntent {
        plan: Generation(1),
        generation: Generation(2),
        moves: moves.collect(),
    }
}

#[test]
fn plan_moves_only_claimed_opticals() {
    let both = [0, 1].map(OpticalId::from_index);
    let stage_after = |moved: &[OpticalId]| {
        let log = [proven(&both), vec![switching(moved)]].concat();
        stage_in(&applied_by(1, &log))
    };
    assert_eq!(stage_after(&both), Stage::Proven);
    assert!(matches!(stage_after(&both[..1]), Stage::Switching(_)));
}

fn found() -> CircuitSet {
    [Circuit::new(PortId(1), PortId(2))].into_iter().collect()
}

/// The driver reports these circuits without an instruction.
fn unordered(optical: OpticalId) -> Change {
    Change::CircuitObserved {
        optical,
        readback: Readback::unordered(found()),
    }
}

/// What a switch holds while it moves is no answer to the plan, and is not in force.
#[test]
fn unordered_circuits_answer_no_plan() {
    let optical = OpticalId::from_index(0);
    let log = [proven(&[optical]), vec![switching(&[optical])]].concat();
    let mut state = applied_by(2, &log);
    let before = stage_in(&state);
    apply(&mut state, unordered(optical));
    assert_eq!(stage_in(&state), before);
    assert!(state.in_force().circuits.is_empty());
}

#[test]
fn unordered_circuits_are_in_force() {
    let optical = OpticalId::from_index(0);
    let in_force = |version| {
        let state = applied_by(version, &[unordered(optical)]);
        state.in_force().circuits.get(&optical).cloned()
    };
    assert_eq!(in_force(2), Some(found()));
    assert_eq!(in_force(1), None, "a build of 1.1 takes no notice");
}

/// The plan would start from other circuits than the device has.
#[test]
fn unordered_circuits_withdraw_waiting_plan() {
    let optical = OpticalId::from_index(0);
    let waiting = &proven(&[optical])[..2];
    let mut state = applied_by(2, waiting);
    apply(&mut state, unordered(OpticalId::from_index(1)));
    assert_eq!(state.rollouts().count(), 1, "another switch has changed");
    apply(&mut state, unordered(optical));
    assert_eq!(state.rollouts().count(), 0);
    let ended = state.history().next_back().unwrap();
    assert!(matches!(ended.outcome, Outcome::Withdrawn { .. }));
}
