//! Small courses of events whose times can be computed by hand.

use reweave_common::units::Rate;

use super::super::{Problem, Run, SimError, SimTime, circle, simulate, watched, watched_within};

const MAX_SIMULATION_WORK: u64 = 1 << 20;

fn us(micros: f64) -> SimTime {
    SimTime::from_micros(micros).unwrap()
}

/// Links of 10 Gb/s: 10 bits take a nanosecond.
fn links(count: usize) -> Problem {
    let mut problem = Problem::new();
    for _ in 0..count {
        problem
            .add_link(Rate::from_bits_per_s(10_000_000_000))
            .unwrap();
    }
    problem
}

fn finishes_us(problem: &Problem) -> Vec<f64> {
    let outcome = simulate(problem, MAX_SIMULATION_WORK).unwrap();
    outcome.finishes.iter().map(|time| time.micros()).collect()
}

#[test]
fn long_flow_shares_with_two_short() {
    let mut problem = links(2);
    for path in [&[0, 1][..], &[0], &[1]] {
        let path = problem.add_path(path).unwrap();
        problem.add_transfer(path, 10_000.0, SimTime::ZERO).unwrap();
    }
    // All have half until all end.
    assert_eq!(finishes_us(&problem), [2.0, 2.0, 2.0]);
}

#[test]
fn late_flow_shares_then_releases() {
    let mut problem = links(1);
    let path = problem.add_path(&[0]).unwrap();
    problem.add_transfer(path, 40_000.0, SimTime::ZERO).unwrap();
    problem.add_transfer(path, 10_000.0, us(1.0)).unwrap();
    assert_eq!(finishes_us(&problem), [5.0, 3.0]);
}

#[test]
fn weights_divide_link() {
    let mut problem = links(1);
    let path = problem.add_path(&[0]).unwrap();
    let heavy = problem.add_transfer(path, 30_000.0, SimTime::ZERO).unwrap();
    problem.add_transfer(path, 10_000.0, SimTime::ZERO).unwrap();
    problem.set_weight(heavy, 3).unwrap();
    assert_eq!(finishes_us(&problem), [4.0, 4.0]);
}

#[test]
fn device_serves_in_ready_order() {
    let mut problem = links(1);
    let path = problem.add_path(&[0]).unwrap();
    let device = problem.add_device().unwrap();
    let first = problem.add_compute(device, us(2.0)).unwrap();
    let second = problem.add_compute(device, us(4.0)).unwrap();
    // Ready while the first is served, and before what waits for that.
    let sent = problem.add_transfer(path, 10_000.0, SimTime::ZERO).unwrap();
    let third = problem.add_compute(device, us(8.0)).unwrap();
    problem.add_wait(sent, third).unwrap();
    let last = problem.add_compute(device, us(1.0)).unwrap();
    problem.add_wait(first, last).unwrap();
    assert_eq!(finishes_us(&problem), [2.0, 6.0, 1.0, 14.0, 15.0]);
    assert_eq!([first, second, third, last], [0, 1, 3, 4]);
}

#[test]
fn wait_precedes_delay() {
    let mut problem = links(1);
    let path = problem.add_path(&[0]).unwrap();
    let first = problem.add_transfer(path, 10_000.0, us(0.5)).unwrap();
    let second = problem.add_transfer(path, 10_000.0, us(2.0)).unwrap();
    problem.add_wait(first, second).unwrap();
    let outcome = simulate(&problem, MAX_SIMULATION_WORK).unwrap();
    assert_eq!(outcome.starts, [us(0.5), us(3.5)]);
    assert_eq!(outcome.finishes, [us(1.5), us(4.5)]);
}

#[test]
fn same_path_steps_reuse_rates() {
    let mut problem = links(2);
    let paths = [[0], [1]].map(|path| problem.add_path(&path).unwrap());
    for step in 0..100 {
        for path in paths {
            let task = problem.add_transfer(path, 10_000.0, SimTime::ZERO).unwrap();
            if step > 0 {
                problem.add_wait(task - 2, task).unwrap();
            }
        }
    }
    let outcome = simulate(&problem, MAX_SIMULATION_WORK).unwrap();
    assert_eq!(outcome.makespan(), us(100.0));
    assert_eq!(outcome.events, 101);
    assert!(outcome.work < 10, "{} units of work", outcome.work);
}

#[test]
fn device_serves_ready_task_first() {
    let mut problem = links(1);
    let device = problem.add_device().unwrap();
    let path = problem.add_path(&[0]).unwrap();
    let early = problem.add_transfer(path, 10_000.0, SimTime::ZERO).unwrap();
    let tasks = [5.0, 1.0, 1.0].map(|time| problem.add_compute(device, us(time)).unwrap());
    problem.add_wait(early, tasks[1]).unwrap();
    // Ready at once, and behind the one that runs; the other stands behind it.
    let outcome = simulate(&problem, MAX_SIMULATION_WORK).unwrap();
    let starts = tasks.map(|task| outcome.starts[task as usize].micros());
    assert_eq!(starts, [0.0, 6.0, 5.0]);
}

#[test]
fn empty_transfer_takes_no_time() {
    let mut problem = links(1);
    let [none, some] = [&[][..], &[0]].map(|path| problem.add_path(path).unwrap());
    let sent = [(none, 10_000.0), (some, 0.0), (some, 10_000.0)];
    let tasks = sent.map(|(path, bits)| problem.add_transfer(path, bits, SimTime::ZERO).unwrap());
    problem.add_wait(tasks[0], tasks[1]).unwrap();
    problem.add_wait(tasks[1], tasks[2]).unwrap();
    assert_eq!(finishes_us(&problem), [0.0, 0.0, 1.0]);
    assert_eq!(finishes_us(&Problem::new()), [0.0; 0]);
}

#[test]
fn dependency_cycle_is_named() {
    let mut problem = links(1);
    let path = problem.add_path(&[0]).unwrap();
    let tasks = [(); 5].map(|()| problem.add_transfer(path, 1.0, SimTime::ZERO).unwrap());
    for [before, after] in [[0, 1], [1, 2], [2, 3], [3, 1], [3, 4]] {
        problem.add_wait(tasks[before], tasks[after]).unwrap();
    }
    let error = simulate(&problem, MAX_SIMULATION_WORK).unwrap_err();
    let SimError::Cycle { tasks } = &error else {
        panic!("{error}");
    };
    let mut sorted = tasks.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [1, 2, 3]);
    assert_eq!(circle(&problem).as_ref(), Some(tasks));
}

#[test]
fn simulation_work_and_time_are_bounded() {
    let mut problem = links(1);
    let path = problem.add_path(&[0]).unwrap();
    for _ in 0..100 {
        problem.add_transfer(path, 10_000.0, SimTime::ZERO).unwrap();
    }
    assert!(simulate(&problem, 0).is_err());
    let endless = problem.add_transfer(path, 8e18, SimTime::ZERO).unwrap();
    assert_eq!(
        simulate(&problem, MAX_SIMULATION_WORK),
        Err(SimError::TooLong)
    );
    let late = problem.add_transfer(path, 1.0, SimTime::MAX).unwrap();
    problem.add_wait(endless, late).unwrap();
    assert_eq!(
        simulate(&problem, MAX_SIMULATION_WORK),
        Err(SimError::TooLong)
    );
}

#[test]
fn invalid_problem_parts_are_refused() {
    let mut problem = links(2);
    assert!(problem.add_link(Rate::from_bits_per_s(0)).is_err());
    assert!(problem.add_link(Rate::from_bits_per_s(u64::MAX)).is_err());
    assert!(problem.add_path(&[2]).is_err());
    assert!(problem.add_path(&[1, 0, 1]).is_err());
    let path = problem.add_path(&[0]).unwrap();
    for bits in [-1.0, f64::NAN, f64::INFINITY, 1e30] {
        assert!(problem.add_transfer(path, bits, SimTime::ZERO).is_err());
    }
    let task = problem.add_transfer(path, 1.0, SimTime::ZERO).unwrap();
    assert!(problem.add_transfer(path + 1, 1.0, SimTime::ZERO).is_err());
    assert!(problem.add_compute(0, SimTime::ZERO).is_err());
    assert!(problem.add_wait(task, task).is_err());
    assert!(problem.add_wait(task, task + 1).is_err());
    assert!(problem.set_weight(task, 0).is_err());
}

/// One transfer after another.
#[test]
fn observer_may_stop_simulation() {
    let mut problem = links(1);
    let path = problem.add_path(&[0]).unwrap();
    let mut last = problem.add_transfer(path, 10.0, SimTime::ZERO).unwrap();
    for _ in 1..1000 {
        let next = problem.add_transfer(path, 10.0, SimTime::ZERO).unwrap();
        problem.add_wait(last, next).unwrap();
        last = next;
    }
    let stopped = watched(&problem, MAX_SIMULATION_WORK, &mut |at| at.done < 500);
    let Err(SimError::Stopped(at)) = stopped else {
        panic!("it went on to its end");
    };
    assert!((500..600).contains(&at.done) && at.tasks == 1000, "{at:?}");
    assert_eq!(
        watched(&problem, MAX_SIMULATION_WORK, &mut |_| true),
        simulate(&problem, MAX_SIMULATION_WORK)
    );
}

/// After a computation of 1 us come ten flows of 1 us over one link, and a chain of ten.
#[test]
fn missed_deadline_is_noticed_early() {
    let wide = |chained: bool| {
        let mut problem = links(10);
        let device = problem.add_device().unwrap();
        let mut before = problem.add_compute(device, us(1.0)).unwrap();
        for nth in 0..10 {
            let path = problem.add_path(&[if chained { nth } else { 0 }]).unwrap();
            let flow = problem.add_transfer(path, 10_000.0, SimTime::ZERO).unwrap();
            problem.add_wait(before, flow).unwrap();
            before = if chained { flow } else { before };
        }
        problem
    };
    let within = |problem: &Problem, latest: f64| {
        let outcome = watched_within(problem, MAX_SIMULATION_WORK, us(latest), &mut |_| true);
        outcome.unwrap().map(|it| it.makespan().micros())
    };
    for problem in [wide(false), wide(true)] {
        assert_eq!(within(&problem, 11.0), Some(11.0));
        assert_eq!(within(&problem, 10.9), None);
    }
    // A chain is known beforehand, and what a link must carry when the first of it begins.
    let [wide, chained] = [false, true].map(wide);
    let refused = Run::within(&chained, MAX_SIMULATION_WORK, us(10.9));
    assert_eq!(refused.err(), Some(SimError::TooLate));
    let mut run = Run::within(&wide, MAX_SIMULATION_WORK, us(10.9)).unwrap();
    assert_eq!(run.step(), Err(SimError::TooLate));
    assert_eq!(run.progress().done, 1);
}
