use proptest::prelude::*;

use super::*;

fn rank(index: usize) -> Rank {
    Rank::from_index(index)
}

fn compute(rank_index: usize) -> TaskWork {
    TaskWork::Compute {
        rank: rank(rank_index),
        time: Duration::from_micros(5),
    }
}

fn built(
    ranks: usize,
    works: &[TaskWork],
    arrows: &[(usize, usize)],
) -> Result<Iteration, IterationError> {
    let mut builder = IterationBuilder::new(ranks);
    let name = builder.name("task");
    let ids: Vec<_> = works.iter().map(|&work| builder.add(name, work)).collect();
    for &(a, b) in arrows {
        builder.then(ids[a], ids[b]);
    }
    builder.build()
}

#[test]
fn task_order_respects_dependencies() {
    let works = [compute(0); 4];
    let diamond = built(1, &works, &[(3, 1), (3, 2), (1, 0), (2, 0)]).unwrap();
    let order: Vec<_> = diamond
        .order()
        .tasks()
        .iter()
        .map(|id| id.index())
        .collect();
    assert_eq!(order, [3, 1, 2, 0]);
}

#[test]
fn cycle_error_names_task_on_cycle() {
    let works = [compute(0); 5];
    let behind_and_on = [(0, 1), (1, 2), (2, 3), (3, 1), (3, 4)];
    match built(1, &works, &behind_and_on) {
        Err(IterationError::Cycle { task, .. }) => assert!((1..=3).contains(&task), "{task}"),
        other => panic!("{other:?}"),
    }
    let selfish = built(1, &works, &[(2, 2)]).unwrap_err();
    assert_eq!(selfish.to_string(), "task 2 (task) waits for itself");
}

#[test]
fn infeasible_iterations_are_refused() {
    let refused = |works: &[TaskWork]| built(2, works, &[]).unwrap_err().to_string();
    assert_eq!(
        refused(&[compute(7)]),
        "task 0 is of rank 7, and there are 2"
    );
    let transfer = |bytes| TaskWork::Transfer {
        from: rank(0),
        to: rank(1),
        bytes: Bytes::new(bytes),
    };
    assert!(refused(&[transfer(u64::MAX)]).starts_with("task 0 moves more than"));
    let delay = TaskWork::Delay {
        time: Duration::MAX,
    };
    assert_eq!(
        refused(&[compute(0), delay]),
        "task 1 takes longer than 10 days"
    );
    assert_eq!(built(0, &[], &[]).unwrap_err(), IterationError::NoRanks);
    for (members, problem) in [(vec![], "no members"), (vec![rank(1), rank(1)], "twice")] {
        let mut builder = IterationBuilder::new(2);
        let name = builder.name("all-reduce");
        let group = builder.group(&members);
        builder.add(
            name,
            TaskWork::Collective {
                operation: Operation::AllReduce,
                group,
                bytes: Bytes::new(1),
                local: Duration::ZERO,
            },
        );
        assert!(builder.build().unwrap_err().to_string().contains(problem));
    }
}

#[test]
fn sent_volumes_match_operations() {
    let sent = |operation: Operation| operation.sent_bytes(4, Bytes::new(1000));
    assert_eq!(
        Operation::ALL.map(sent),
        [1500.0, 750.0, 750.0, 750.0, 750.0]
    );
    let works = [compute(1), compute(0), compute(1)];
    let times = built(2, &works, &[]).unwrap().compute_times();
    assert_eq!(times, [5, 10].map(Duration::from_micros));
}

proptest! {
    #[test]
    fn any_dependencies_give_order_or_cycle(
        arrows in proptest::collection::vec((0usize..9, 0usize..9), 0..20)
    ) {
        let works = [compute(0); 9];
        match built(1, &works, &arrows) {
            Ok(iteration) => {
                let order = iteration.order();
                let place = |task| order.tasks().iter().position(|id| id.index() == task);
                for (a, b) in arrows {
                    prop_assert!(place(a) < place(b));
                }
            }
            Err(IterationError::Cycle { task, .. }) => {
                let mut reached = vec![task];
                let mut at = 0;
                while at < reached.len() {
                    let from = reached[at];
                    for &(_, b) in arrows.iter().filter(|&&(a, _)| a == from) {
                        if !reached.contains(&b) {
                            reached.push(b);
                        }
                    }
                    at += 1;
                }
                let back = arrows.iter().any(|&(a, b)| b == task && reached.contains(&a));
                prop_assert!(back, "{task} is not on a cycle");
            }
            Err(other) => panic!("{other}"),
        }
    }
}
