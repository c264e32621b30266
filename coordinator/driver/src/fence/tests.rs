//! The fence against a device made of plain values.

use proptest::prelude::*;
use reweave_common::instruction::Token;
use reweave_common::plan::Generation;

use super::*;
use crate::examples::circuits;

/// A device, its driver's disk, and what may go wrong with both.
#[derive(Default)]
struct World {
    device: CircuitSet,
    disk: Record,
    disk_full: bool,
    deaf: bool,
    refuses: bool,
    /// Refuses all of it.
    is_busy: bool,
    /// Says nothing of what it does.
    silent: bool,
    /// The driver dies after this many effects.
    dies_after: Option<usize>,
    moved: usize,
}

impl World {
    fn at(pairs: &[(u16, u16)]) -> Self {
        Self {
            device: circuits(pairs),
            ..Self::default()
        }
    }

    fn fence(&self) -> Fence {
        Fence::new(self.disk.clone(), 8)
    }

    fn instruct(&mut self, fence: &mut Fence, switchover: Switchover) -> Option<Readback> {
        fence.handle_switchover(switchover);
        let mut sent = None;
        while let Some(effect) = fence.poll_effect() {
            if self.dies_after == Some(0) {
                return None;
            }
            self.dies_after = self.dies_after.map(|left| left - 1);
            match effect {
                Effect::Note(record) => fence.handle_noted(self.note(record)),
                Effect::Read { .. } => fence.handle_read((!self.deaf).then(|| self.device.clone())),
                Effect::Move(moves) => fence.handle_moved(self.carry_out(&moves)),
                Effect::Send(answer) => sent = Some(answer),
            }
        }
        sent
    }

    fn note(&mut self, record: Record) -> Result<(), String> {
        if self.disk_full {
            return Err("disk full".to_owned());
        }
        self.disk = record;
        Ok(())
    }

    /// Refusing, it still does the first thing.
    fn carry_out(&mut self, moves: &Moves) -> Moved {
        self.moved += 1;
        if self.is_busy {
            return Moved::Refused("busy".to_owned());
        }
        let most = if self.refuses { 1 } else { usize::MAX };
        let gone: Vec<_> = moves.disconnect.iter().take(most).collect();
        let come = moves.connect.iter().take(most - gone.len().min(most));
        let kept = self
            .device
            .iter()
            .filter(|circuit| !gone.contains(&circuit));
        self.device = kept.chain(come.copied()).collect();
        if self.refuses {
            return Moved::Refused("out of order".to_owned());
        }
        if self.silent {
            Moved::Late
        } else {
            Moved::Done
        }
    }
}

fn switchover(token: u64, expected: &[(u16, u16)], desired: &[(u16, u16)]) -> Switchover {
    Switchover {
        generation: Generation(token),
        token: Token(token),
        optical: "ocs0".to_owned(),
        expected: circuits(expected),
        desired: circuits(desired),
    }
}

const CIRCUITS_BEFORE: &[(u16, u16)] = &[(1, 5), (2, 6), (3, 7)];
const CIRCUITS_AFTER: &[(u16, u16)] = &[(1, 6), (2, 5), (3, 7)];

#[track_caller]
fn outcome(answer: Option<Readback>) -> Result<CircuitSet, NotSwitched> {
    answer.expect("an answer").outcome
}

#[test]
fn matching_circuits_are_moved_and_verified() {
    let mut world = World::at(CIRCUITS_BEFORE);
    let answer = world.instruct(
        &mut world.fence(),
        switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER),
    );
    assert_eq!(outcome(answer), Ok(circuits(CIRCUITS_AFTER)));
    assert_eq!(world.device, circuits(CIRCUITS_AFTER));
}

#[test]
fn mismatching_circuits_are_left_alone() {
    let mut world = World::at(&[(1, 5)]);
    let answer = world.instruct(
        &mut world.fence(),
        switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER),
    );
    let found = circuits(&[(1, 5)]);
    assert_eq!(outcome(answer), Err(NotSwitched::Mismatch { found }));
    assert_eq!(world.moved, 0);
}

#[test]
fn older_or_conflicting_tokens_are_refused() {
    let mut world = World::at(CIRCUITS_BEFORE);
    let mut fence = world.fence();
    world.instruct(&mut fence, switchover(5, CIRCUITS_BEFORE, CIRCUITS_AFTER));
    let (held, token) = (Generation(5), Token(5));
    let older = world.instruct(&mut fence, switchover(4, CIRCUITS_AFTER, CIRCUITS_BEFORE));
    assert_eq!(outcome(older), Err(NotSwitched::Older { held, token }));
    let other = world.instruct(&mut fence, switchover(5, CIRCUITS_AFTER, CIRCUITS_BEFORE));
    assert_eq!(
        outcome(other),
        Err(NotSwitched::DifferentContent { held, token })
    );
    let mut restarted = world.fence();
    let older = world.instruct(
        &mut restarted,
        switchover(4, CIRCUITS_AFTER, CIRCUITS_BEFORE),
    );
    assert_eq!(outcome(older), Err(NotSwitched::Older { held, token }));
    assert_eq!(world.device, circuits(CIRCUITS_AFTER));
}

#[test]
fn duplicate_instruction_moves_nothing() {
    let mut world = World::at(CIRCUITS_BEFORE);
    let mut fence = world.fence();
    world.instruct(&mut fence, switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER));
    // A circuit was removed by hand since.
    world.device = circuits(&[(1, 6), (3, 7)]);
    let again = world.instruct(&mut fence, switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER));
    assert_eq!(outcome(again), Ok(circuits(&[(1, 6), (3, 7)])));
    assert_eq!(world.moved, 1);
}

#[test]
fn refusing_device_is_judged_by_readback() {
    let mut world = World::at(CIRCUITS_BEFORE);
    world.refuses = true;
    let answer = world.instruct(
        &mut world.fence(),
        switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER),
    );
    let found = circuits(&[(2, 6), (3, 7)]);
    let error = "out of order".to_owned();
    assert_eq!(outcome(answer), Err(NotSwitched::Device { error, found }));
    // After the same intent again, it goes on from there.
    world.refuses = false;
    let answer = world.instruct(
        &mut world.fence(),
        switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER),
    );
    assert_eq!(outcome(answer), Ok(circuits(CIRCUITS_AFTER)));
}

#[test]
fn repeated_instruction_keeps_its_answer() {
    let mut world = World::at(CIRCUITS_BEFORE);
    let mut fence = world.fence();
    world.is_busy = true;
    let answer = world.instruct(&mut fence, switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER));
    let (found, error) = (circuits(CIRCUITS_BEFORE), "busy".to_owned());
    assert_eq!(outcome(answer), Err(NotSwitched::Device { error, found }));
    world.is_busy = false;
    let again = world.instruct(&mut fence, switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER));
    assert_eq!(outcome(again), Ok(circuits(CIRCUITS_BEFORE)));
    assert_eq!(world.device, circuits(CIRCUITS_BEFORE));
}

#[test]
fn silent_device_is_read_back() {
    let mut world = World::at(CIRCUITS_BEFORE);
    world.silent = true;
    let mut fence = world.fence();
    fence.handle_switchover(switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER));
    fence.handle_noted(Ok(()));
    fence.handle_read(Some(circuits(CIRCUITS_BEFORE)));
    fence.handle_moved(Moved::Late);
    let last = std::iter::from_fn(|| fence.poll_effect()).last();
    let until = Some(circuits(CIRCUITS_AFTER));
    assert_eq!(last, Some(Effect::Read { until }));
    let answer = world.instruct(
        &mut world.fence(),
        switchover(2, CIRCUITS_BEFORE, CIRCUITS_AFTER),
    );
    assert_eq!(outcome(answer), Ok(circuits(CIRCUITS_AFTER)));
}

/// To hold what it held is no answer of a device that did not answer: it may move in the next moment.
#[test]
fn late_device_is_not_unmoved() {
    let mut world = World::at(CIRCUITS_BEFORE);
    let mut fence = world.fence();
    fence.handle_switchover(switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER));
    fence.handle_noted(Ok(()));
    fence.handle_read(Some(circuits(CIRCUITS_BEFORE)));
    fence.handle_moved(Moved::Late);
    fence.handle_read(Some(circuits(CIRCUITS_BEFORE)));
    fence.handle_noted(Ok(()));
    let sent = std::iter::from_fn(|| fence.poll_effect()).find_map(|effect| match effect {
        Effect::Send(answer) => Some(answer),
        _ => None,
    });
    assert_eq!(outcome(sent), Err(NotSwitched::TimedOut));
    world.is_busy = true;
    let refused = world.instruct(&mut fence, switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER));
    let error = "busy".to_owned();
    assert_eq!(
        outcome(refused),
        Err(NotSwitched::Unclear { error }),
        "with it"
    );
    (world.is_busy, world.moved) = (false, 0);
    world.device = circuits(CIRCUITS_AFTER);
    let asked_again = world.instruct(&mut fence, switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER));
    assert_eq!(outcome(asked_again), Ok(circuits(CIRCUITS_AFTER)));
    assert_eq!(world.moved, 0, "it had moved by itself");
}

/// It has said neither that it moved nor what it holds: what it refuses afterwards proves nothing.
#[test]
fn unreadable_late_device_stays_unclear() {
    let mut world = World::at(CIRCUITS_BEFORE);
    let mut fence = world.fence();
    fence.handle_switchover(switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER));
    fence.handle_noted(Ok(()));
    fence.handle_read(Some(circuits(CIRCUITS_BEFORE)));
    fence.handle_moved(Moved::Late);
    fence.handle_read(None);
    fence.handle_noted(Ok(()));
    let last = std::iter::from_fn(|| fence.poll_effect()).last();
    assert!(matches!(last, Some(Effect::Send(_))), "{last:?}");
    world.is_busy = true;
    let refused = world.instruct(&mut fence, switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER));
    let error = "busy".to_owned();
    assert_eq!(outcome(refused), Err(NotSwitched::Unclear { error }));
}

/// The driver ended between what it had noted and the device's answer.
#[test]
fn interrupted_move_stays_unclear() {
    let report = switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER);
    let mut world = World {
        disk: promise(report.clone()),
        is_busy: true,
        ..World::at(CIRCUITS_BEFORE)
    };
    let refused = world.instruct(&mut world.fence(), report);
    let error = "busy".to_owned();
    assert_eq!(outcome(refused), Err(NotSwitched::Unclear { error }));
}

#[test]
fn unreadable_device_is_not_touched() {
    let mut world = World::at(CIRCUITS_BEFORE);
    world.deaf = true;
    let mut fence = world.fence();
    let answer = world.instruct(&mut fence, switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER));
    assert_eq!(outcome(answer), Err(NotSwitched::TimedOut));
    assert_eq!(world.moved, 0);
    world.deaf = false;
    let answer = world.instruct(&mut fence, switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER));
    assert_eq!(outcome(answer), Ok(circuits(CIRCUITS_AFTER)));
}

#[test]
fn move_requires_durable_record() {
    let mut world = World::at(CIRCUITS_BEFORE);
    world.disk_full = true;
    let mut fence = world.fence();
    let answer = world.instruct(&mut fence, switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER));
    let error = "disk full".to_owned();
    assert_eq!(outcome(answer), Err(NotSwitched::NotDurable { error }));
    assert_eq!(world.device, circuits(CIRCUITS_BEFORE));
}

#[test]
fn impossible_circuits_are_refused() {
    let mut world = World::at(CIRCUITS_BEFORE);
    for (desired, says) in [
        (&[(1, 5), (5, 2)], "two circuits"),
        (&[(1, 5), (3, 9)], "port 9"),
    ] {
        let answer = world.instruct(&mut world.fence(), switchover(1, CIRCUITS_BEFORE, desired));
        let Err(NotSwitched::Impossible { error }) = outcome(answer) else {
            panic!("{desired:?} is taken");
        };
        assert!(error.contains(says), "{error}");
    }
    assert_eq!(world.disk, Record::default());
}

proptest! {
    #[test]
    fn driver_crash_anywhere_is_recoverable(
        dies_after in 0..7_usize,
        refuses: bool,
    ) {
        let mut world = World::at(CIRCUITS_BEFORE);
        world.dies_after = Some(dies_after);
        world.refuses = refuses;
        world.instruct(&mut world.fence(), switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER));
        world.dies_after = None;
        world.refuses = false;
        let answer = world.instruct(&mut world.fence(), switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER));
        let held = outcome(answer);
        prop_assert_eq!(held, Ok(circuits(CIRCUITS_AFTER)));
        prop_assert_eq!(world.device, circuits(CIRCUITS_AFTER));
    }
}

#[test]
fn half_done_move_finishes_on_repeat() {
    let mut world = World::at(CIRCUITS_BEFORE);
    let mut fence = world.fence();
    world.refuses = true;
    let halves =
        outcome(world.instruct(&mut fence, switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER)));
    assert!(
        matches!(halves, Err(NotSwitched::Device { .. })),
        "{halves:?}"
    );
    assert!(world.device != circuits(CIRCUITS_BEFORE) && world.device != circuits(CIRCUITS_AFTER));
    world.refuses = false;
    // Something else, from where it was thought to be, is none of it.
    let other = world.instruct(
        &mut world.fence(),
        switchover(2, CIRCUITS_BEFORE, &[(3, 7)]),
    );
    assert!(matches!(outcome(other), Err(NotSwitched::Mismatch { .. })));
}

#[test]
fn half_done_move_finishes_after_restart() {
    let mut world = World::at(CIRCUITS_BEFORE);
    world.refuses = true;
    world.instruct(
        &mut world.fence(),
        switchover(1, CIRCUITS_BEFORE, CIRCUITS_AFTER),
    );
    world.refuses = false;
    let again = world.instruct(
        &mut world.fence(),
        switchover(2, CIRCUITS_BEFORE, CIRCUITS_AFTER),
    );
    assert_eq!(outcome(again), Ok(circuits(CIRCUITS_AFTER)));
}

#[test]
fn foreign_move_is_never_undone() {
    let between = &[(1, 5), (3, 7)];
    let mut world = World::at(between);
    for token in 1..4 {
        let answer = world.instruct(
            &mut world.fence(),
            switchover(token, CIRCUITS_BEFORE, CIRCUITS_AFTER),
        );
        let found = circuits(between);
        assert_eq!(outcome(answer), Err(NotSwitched::Mismatch { found }));
    }
    assert_eq!(world.moved, 0);
}
