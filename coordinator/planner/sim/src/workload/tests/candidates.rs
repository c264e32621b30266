//! Plans are judged as if each were simulated whole, and with less work.

use super::*;
use crate::workload::candidates::{Candidate, Choice, Jobs, Judge, Seat};

/// Two jobs of four hosts each: a ring with some computing around it.
fn jobs() -> Vec<Iteration> {
    [3_000_000, 5_000_000]
        .map(|bytes| {
            let mut sketch = Sketch::of(4);
            let computed: Vec<_> = (0..4).map(|rank| sketch.compute(rank, 1, &[])).collect();
            let reduced = sketch.all(Operation::AllReduce, bytes, &computed);
            sketch.all(Operation::AllToAll, bytes / 2, &[reduced]);
            sketch.done()
        })
        .into()
}

fn judge<'j>(iterations: &'j [Iteration], settings: &'j Settings) -> Judge<'j> {
    Judge::new(Jobs {
        iterations,
        settings,
        limit: MAX_SIMULATION_WORK,
    })
}

fn shared() -> Fabric {
    fabric(
        "kind = \"leaf-spine\"\nleaves = 4\nspines = 1\nhosts_per_leaf = 2\nhost_gbps = 8\n\
         uplink_gbps = 8\nlatency_us = 1",
    )
}

fn seats(fabric: &Fabric, order: [usize; 8]) -> Vec<Seat> {
    let hosts = hosts(fabric);
    let seat = |of: &[usize]| Seat {
        placement: of.iter().map(|&nth| hosts[nth]).collect(),
        carriage: ExplicitPaths::default(),
    };
    order.chunks(4).map(seat).collect()
}

fn candidates(fabric: &Fabric) -> Vec<Candidate<'_>> {
    let mut orders = vec![[0, 1, 2, 3, 4, 5, 6, 7], [0, 2, 4, 6, 1, 3, 5, 7]];
    for nth in 0..6 {
        let mut order = orders[nth % 2];
        order.swap(nth, 7 - nth / 2);
        orders.push(order);
    }
    let candidate = |order| Candidate {
        fabric,
        seats: seats(fabric, order),
    };
    orders.into_iter().map(candidate).collect()
}

/// The two jobs as one iteration of eight ranks on the whole fabric: when each of them is done.
fn together(candidate: &Candidate<'_>, settings: &Settings) -> Vec<SimTime> {
    let jobs = jobs();
    let mut builder = IterationBuilder::new(8);
    let mut ends = Vec::new();
    for (nth, job) in jobs.iter().enumerate() {
        let moved = |of: Rank| rank(of.index() + 4 * nth);
        let mut tasks = Vec::new();
        for (_, task) in job.tasks() {
            let name = builder.name(job.name(task.name));
            let work = match task.work {
                TaskWork::Compute { rank, time } => TaskWork::Compute {
                    rank: moved(rank),
                    time,
                },
                TaskWork::Collective {
                    operation,
                    group,
                    bytes,
                    local,
                } => {
                    let members: Vec<_> = job.group(group).iter().map(|&of| moved(of)).collect();
                    let group = builder.group(&members);
                    TaskWork::Collective {
                        operation,
                        group,
                        bytes,
                        local,
                    }
                }
                other => other,
            };
            tasks.push(builder.add(name, work));
        }
        for (id, task) in job.tasks() {
            for next in &task.then {
                builder.then(tasks[id.index()], tasks[next.index()]);
            }
        }
        ends.push(tasks);
    }
    let placement: Vec<_> = candidate
        .seats
        .iter()
        .flat_map(|seat| seat.placement.clone())
        .collect();
    let carriage = ExplicitPaths::default();
    let network = Network::new(candidate.fabric, &placement, &carriage, settings.clone());
    let timeline = simulate(&builder.build().unwrap(), &network, MAX_SIMULATION_WORK).unwrap();
    let end = |tasks: &Vec<TaskId>| tasks.iter().map(|task| timeline.finish[task.index()]).max();
    ends.iter().map(|tasks| end(tasks).unwrap()).collect()
}

#[test]
fn times_match_joint_simulation() {
    let (jobs, settings, fabric) = (jobs(), Settings::default(), shared());
    let mut judge = judge(&jobs, &settings);
    for candidate in candidates(&fabric) {
        let times = judge.times(&candidate).unwrap();
        let bounds = judge.bounds(&candidate).unwrap();
        assert_eq!(times, together(&candidate, &settings));
        assert!(bounds.iter().zip(&times).all(|(bound, time)| bound <= time));
    }
}

#[test]
fn best_plan_found_without_simulating_all() {
    let (jobs, settings, fabric) = (jobs(), Settings::default(), shared());
    let candidates = candidates(&fabric);
    let sum = |times: &[SimTime]| times.iter().map(|time| time.ticks()).sum::<u64>();
    let each = candidates.iter().map(|it| sum(&together(it, &settings)));
    let least = each.clone().min().unwrap();
    let first = each.clone().position(|it| it == least).unwrap();
    let choice = judge(&jobs, &settings)
        .best(&candidates, usize::MAX)
        .unwrap();
    assert_eq!((choice.best, sum(&choice.times)), (first, least));
    assert!(
        choice.proven && choice.simulated < candidates.len(),
        "{choice:?}"
    );
    let hurried = judge(&jobs, &settings).best(&candidates, 1).unwrap();
    assert_eq!(
        (hurried.simulated, hurried.proven),
        (1, choice.simulated == 1)
    );
}

#[test]
fn only_affected_jobs_are_simulated_again() {
    let (jobs, settings) = (jobs(), Settings::default());
    let ring = |second: &str| {
        let mut text = String::from("kind = \"graph\"\n");
        for host in 0..8 {
            text += &format!("[[node]]\nname = \"h{host}\"\nrole = \"relay\"\n");
        }
        for [a, b] in [[0, 1], [1, 2], [2, 3], [3, 0]] {
            text += &format!("[[link]]\na = \"h{a}\"\nb = \"h{b}\"\ngbps = 8\n");
        }
        fabric(&(text + second))
    };
    let wire = |pairs: &[[usize; 2]]| {
        let link =
            |[a, b]: &[usize; 2]| format!("[[link]]\na = \"h{a}\"\nb = \"h{b}\"\ngbps = 8\n");
        pairs.iter().map(link).collect::<String>()
    };
    let around = ring(&wire(&[[4, 5], [5, 6], [6, 7], [7, 4]]));
    // One cable less before those of the other job: its links are counted otherwise.
    let across = ring(&wire(&[[4, 6], [6, 5], [5, 7], [7, 4], [4, 5]]));
    let mut judge = judge(&jobs, &settings);
    let order = [0, 1, 2, 3, 4, 5, 6, 7];
    let on = |fabric| Candidate {
        fabric,
        seats: seats(fabric, order),
    };
    let before = judge.times(&on(&around)).unwrap();
    assert_eq!(judge.effort().simulated, 2);
    let after = judge.times(&on(&across)).unwrap();
    assert_eq!(judge.effort().simulated, 3);
    assert_eq!(before[0], after[0]);
    assert_ne!(before[1], after[1]);
    assert_eq!(after, together(&on(&across), &settings));
    judge.times(&on(&around)).unwrap();
    assert_eq!(judge.effort().simulated, 3);
}

#[test]
fn infeasible_plans_are_refused_others_judged() {
    let (jobs, settings) = (jobs(), Settings::default());
    let whole = shared();
    let apart = fabric(
        "kind = \"graph\"\n[[node]]\nname = \"h0\"\nrole = \"relay\"\n[[node]]\nname = \"h1\"\n\
         role = \"relay\"\n[[link]]\na = \"h0\"\nb = \"h1\"\ngbps = 1\n",
    );
    let few = Candidate {
        fabric: &apart,
        seats: vec![
            Seat {
                placement: hosts(&apart),
                carriage: ExplicitPaths::default()
            };
            2
        ],
    };
    let fine = candidates(&whole).remove(0);
    let Choice { best, refused, .. } = judge(&jobs, &settings)
        .best(&[few.clone(), fine], 9)
        .unwrap();
    assert_eq!((best, refused[0].0, refused.len()), (1, 0, 1));
    assert_eq!(judge(&jobs, &settings).best(&[few], 9), None);
}

#[test]
fn single_lane_bound_is_reached() {
    let mut sketch = Sketch::of(2);
    sketch.transfer([0, 1], 4_000_000, &[]);
    sketch.transfer([0, 1], 4_000_000, &[]);
    let (jobs, settings) = ([sketch.done()], bare());
    let mut judge = judge(&jobs, &settings);
    for (gbps, ms) in [(8, 8.0), (4, 16.0), (8, 8.0)] {
        let fabric = ideal(2, gbps);
        let candidate = Candidate {
            fabric: &fabric,
            seats: vec![Seat {
                placement: hosts(&fabric),
                carriage: ExplicitPaths::default(),
            }],
        };
        let [time] = judge.times(&candidate).unwrap()[..] else {
            panic!("there is one job");
        };
        let [bound] = judge.bounds(&candidate).unwrap()[..] else {
            panic!("there is one job");
        };
        near(time.millis(), ms);
        near(bound.millis(), ms);
        assert!(bound <= time);
    }
}
