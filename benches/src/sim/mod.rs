//! The flow simulator.

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_planner::sim::ecmp::{Ecmp, Fields};
use reweave_planner::sim::network::{Costs, Network, Way};
use reweave_planner::sim::{self, Problem, SimTime};

use crate::timed;

fn all_to_all_jobs(fabric: &Fabric, nics: usize, qps: u16, bytes: f64, shuffle: bool) -> Problem {
    let network = Network::of(fabric, Costs::default());
    let mut problem = network.problem().unwrap();
    let endpoints: Vec<_> = fabric.endpoints().collect();
    let servers = endpoints.len() / nics;
    let per_job = servers / 16;
    let mut order: Vec<usize> = (0..servers).collect();
    if shuffle {
        let mut seed = 1u64;
        for i in (1..servers).rev() {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            order.swap(i, (seed >> 33) as usize % (i + 1));
        }
    }
    let ecmp = Ecmp::default();
    let mut way = Way::default();
    let towards: Vec<_> = endpoints.iter().map(|&to| network.towards(to)).collect();
    for job in 0..16 {
        for a in 0..per_job {
            for b in 0..per_job {
                if a == b {
                    continue;
                }
                for nic in 0..nics {
                    for qp in 0..qps {
                        let from = order[job * per_job + a] * nics + nic;
                        let to = order[job * per_job + b] * nics + nic;
                        let label = ecmp.label(Fields {
                            source: from as u32,
                            destination: to as u32,
                            source_port: qp,
                            destination_port: 4791,
                            protocol: 17,
                        });
                        assert!(network.find_way(
                            endpoints[from],
                            &towards[to],
                            &ecmp,
                            label,
                            &mut way
                        ));
                        let path = problem.add_path(&way.links).unwrap();
                        problem
                            .add_transfer(path, bytes * 8.0, SimTime::ZERO)
                            .unwrap();
                    }
                }
            }
        }
    }
    problem
}

fn measure(name: &str, problem: &Problem) {
    let (outcome, took) = timed(|| sim::simulate(problem, u64::MAX).unwrap());
    println!(
        "{name}: {} flows, {} events, work {}, makespan {}, {took:.4} s",
        problem.tasks(),
        outcome.events,
        outcome.work,
        outcome.makespan()
    );
}

fn ideal_all_to_all(hosts: usize) -> Problem {
    let text = format!("kind = \"ideal\"\nhosts = {hosts}\nnic_gbps = 100");
    let fabric = Fabric::parse("f", &text).unwrap();
    let network = Network::of(&fabric, Costs::default());
    let mut problem = network.problem().unwrap();
    for a in 0..hosts as u32 {
        for b in 0..hosts as u32 {
            if a != b {
                let path = problem.add_path(&[2 * a, 2 * b + 1]).unwrap();
                problem.add_transfer(path, 8e6, SimTime::ZERO).unwrap();
            }
        }
    }
    problem
}

fn shifted(hosts: u32) -> Problem {
    let text = format!("kind = \"ideal\"\nhosts = {hosts}\nnic_gbps = 100");
    let fabric = Fabric::parse("f", &text).unwrap();
    let network = Network::of(&fabric, Costs::default());
    let mut problem = network.problem().unwrap();
    for shift in 1..hosts {
        for a in 0..hosts {
            let b = (a + shift) % hosts;
            let path = problem.add_path(&[2 * a, 2 * b + 1]).unwrap();
            let task = problem.add_transfer(path, 8e6, SimTime::ZERO).unwrap();
            if shift > 1 {
                problem.add_wait(task - hosts, task).unwrap();
            }
        }
    }
    problem
}

fn ring(hosts: u32) -> Problem {
    let text = format!("kind = \"ideal\"\nhosts = {hosts}\nnic_gbps = 100");
    let fabric = Fabric::parse("f", &text).unwrap();
    let network = Network::of(&fabric, Costs::default());
    let mut problem = network.problem().unwrap();
    let paths: Vec<_> = (0..hosts)
        .map(|a| {
            problem
                .add_path(&[2 * a, 2 * ((a + 1) % hosts) + 1])
                .unwrap()
        })
        .collect();
    for step in 0..2 * (hosts - 1) {
        for a in 0..hosts {
            let task = problem
                .add_transfer(paths[a as usize], 781250.0, SimTime::ZERO)
                .unwrap();
            if step > 0 {
                problem
                    .add_wait(task - a - hosts + (a + hosts - 1) % hosts, task)
                    .unwrap();
            }
        }
    }
    problem
}

pub(crate) fn run() {
    let which = std::env::args().nth(1).unwrap_or_default();
    let on = |name: &str| which.is_empty() || name.contains(&which);
    if on("ls") {
        for shuffle in [false, true] {
            let text = "kind = \"leaf-spine\"\nleaves = 108\nspines = 32\nhosts_per_leaf = 32\nhost_gbps = 100\nuplink_gbps = 100";
            let (fabric, _) = timed(|| Fabric::parse("f", text).unwrap());
            let (problem, took) = timed(|| all_to_all_jobs(&fabric, 8, 3, 1e6, shuffle));
            println!("built in {took:.3}");
            measure("leaf-spine 100G uplinks", &problem);
            let text = "kind = \"leaf-spine\"\nleaves = 108\nspines = 16\nhosts_per_leaf = 32\nhost_gbps = 100\nuplink_gbps = 400";
            let fabric = Fabric::parse("f", text).unwrap();
            measure(
                "leaf-spine 400G uplinks x2",
                &all_to_all_jobs(&fabric, 8, 3, 1e6, shuffle),
            );
        }
    }
    if on("direct") {
        for shuffle in [false, true] {
            let text = "kind = \"direct\"\nhosts = 432\nlink_gbps = 100\nstrides = [1, 5, 25, 125]";
            let fabric = Fabric::parse("f", text).unwrap();
            measure("direct", &all_to_all_jobs(&fabric, 1, 24, 1e6, shuffle));
        }
    }
    if on("a2a") {
        {
            let p = ideal_all_to_all(256);
            for _ in 0..40 {
                measure("256 a2a", &p);
            }
        }
    }
    if on("ring") {
        let (p, took) = timed(|| ring(1024));
        println!("built in {took:.3}");
        measure("1024 ring", &p);
    }
    if on("shifted") {
        let (p, took) = timed(|| shifted(4096));
        println!("built in {took:.3}");
        measure("4096 shifted", &p);
        println!(
            "{}",
            std::fs::read_to_string("/proc/self/status")
                .unwrap()
                .lines()
                .find(|l| l.starts_with("VmHWM"))
                .unwrap()
        );
    }
}
