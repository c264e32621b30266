//! The judge is judged: by histories whose verdict is known, and by a slower judge.

use proptest::prelude::*;
use reweave_sim_cluster::replicas::linear::{Event, Model, judge};
use reweave_sim_cluster::replicas::machine::{Answer, Op, carried_out};

/// One register.
pub(crate) struct Register;

impl Model for Register {
    type State = u64;
    type Call = Op;
    type Answer = Answer;

    fn carry_out(state: &u64, call: &Op) -> (u64, Answer) {
        carried_out(*state, *call)
    }
}

type Step = Event<Op, Answer>;

fn called(id: u64, call: Op) -> Step {
    Event::Called { id, call }
}

fn returned(id: u64, answer: Answer) -> Step {
    Event::Returned { id, answer }
}

fn is_linearizable(history: &[Step]) -> bool {
    judge::<Register>(0, history).is_ok()
}

#[test]
fn read_sees_last_write() {
    let read = |value| {
        [
            called(1, Op::Write(5)),
            returned(1, Answer::Written),
            called(2, Op::Read),
            returned(2, Answer::Value(value)),
        ]
    };
    assert!(is_linearizable(&read(5)));
    assert!(!is_linearizable(&read(0)));
}

#[test]
fn pending_write_is_never_unseen_again() {
    let reads = |first, second| {
        [
            called(1, Op::Write(5)),
            called(2, Op::Read),
            returned(2, Answer::Value(first)),
            called(3, Op::Read),
            returned(3, Answer::Value(second)),
        ]
    };
    for (first, second) in [(0, 0), (0, 5), (5, 5)] {
        assert!(is_linearizable(&reads(first, second)));
    }
    assert!(!is_linearizable(&reads(5, 0)));
}

#[test]
fn one_of_two_equal_swaps_fails() {
    let swaps = |second| {
        [
            called(1, Op::Swap(0, 1)),
            called(2, Op::Swap(0, 2)),
            returned(1, Answer::Swapped(true)),
            returned(2, Answer::Swapped(second)),
        ]
    };
    assert!(is_linearizable(&swaps(false)));
    assert!(!is_linearizable(&swaps(true)));
}

/// Every order of the calls that keeps who returned before whom.
fn by_all_orders(history: &[Step]) -> bool {
    let mut calls: Vec<(u64, Op, usize, usize, Option<Answer>)> = Vec::new();
    for (at, step) in history.iter().enumerate() {
        match step {
            Event::Called { id, call } => calls.push((*id, *call, at, usize::MAX, None)),
            Event::Returned { id, answer } => {
                let call = calls.iter_mut().find(|call| call.0 == *id);
                let call = call.expect("all that returns was called");
                (call.3, call.4) = (at, Some(*answer));
            }
        }
    }
    place(0, &calls, &mut vec![false; calls.len()])
}

fn place(
    state: u64,
    calls: &[(u64, Op, usize, usize, Option<Answer>)],
    placed: &mut [bool],
) -> bool {
    let is_due = |index: usize, placed: &[bool]| !placed[index] && calls[index].4.is_some();
    if !(0..calls.len()).any(|index| is_due(index, placed)) {
        return true;
    }
    for next in (0..calls.len())
        .filter(|&next| !placed[next])
        .collect::<Vec<_>>()
    {
        let is_late =
            (0..calls.len()).any(|other| !placed[other] && calls[other].3 < calls[next].2);
        let (after, answer) = carried_out(state, calls[next].1);
        if is_late || calls[next].4.is_some_and(|given| given != answer) {
            continue;
        }
        placed[next] = true;
        let fits = place(after, calls, placed);
        placed[next] = false;
        if fits {
            return true;
        }
    }
    false
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        Just(Op::Read),
        (1_u64..3).prop_map(Op::Write),
        (0_u64..3, 1_u64..3).prop_map(|(old, new)| Op::Swap(old, new)),
    ]
}

fn any_answer(op: Op) -> BoxedStrategy<Answer> {
    match op {
        Op::Read => (0_u64..3).prop_map(Answer::Value).boxed(),
        Op::Write(_) => Just(Answer::Written).boxed(),
        Op::Swap(..) => any::<bool>().prop_map(Answer::Swapped).boxed(),
    }
}

/// Calls of three clients, some of which never return.
fn any_history() -> impl Strategy<Value = Vec<Step>> {
    let call = any_op().prop_flat_map(|op| (Just(op), any_answer(op), 0_usize..3, any::<bool>()));
    prop::collection::vec(call, 1..7).prop_map(|calls| {
        let mut history = Vec::new();
        let mut open: [Option<(u64, Answer)>; 3] = [None; 3];
        for ((op, answer, client, lost), id) in calls.into_iter().zip(1..) {
            if let Some((before, answer)) = open[client].take() {
                history.push(returned(before, answer));
            }
            history.push(called(id, op));
            open[client] = (!lost).then_some((id, answer));
        }
        for (id, answer) in open.into_iter().flatten() {
            history.push(returned(id, answer));
        }
        history
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn both_judges_agree(history in any_history()) {
        prop_assert_eq!(is_linearizable(&history), by_all_orders(&history));
    }
}
