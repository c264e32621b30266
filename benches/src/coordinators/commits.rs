//! Time per decision, and decisions per second, with one, ten and fifty clients.

use std::time::Duration;

use reweave_tests::StageError;

use crate::client::{Order, Running};
use crate::machine;
use crate::system::System;
use crate::times::Spread;
use crate::trio::Trio;

const TURN_COUNT: usize = 5;
/// Operators have a rate limit, and this is its burst.
const DECISION_COUNT: usize = 300;

/// Median, 99th percentile, and decisions per second.
type Figures = [f64; 3];

pub(crate) fn race() -> Result<(), StageError> {
    machine::introduce();
    let trio = Trio::up()?;
    for system in System::ALL {
        trio.steady_leader(system, Duration::from_secs(1))?;
    }
    println!("clients system p50_ms p99_ms per_s");
    for clients in [1, 10, 50] {
        let mut turns = [Vec::new(), Vec::new()];
        for _ in 0..TURN_COUNT {
            for (system, turns) in System::ALL.into_iter().zip(&mut turns) {
                turns.push(measure(&trio, system, clients));
            }
        }
        let middles = turns.map(|turns| [0, 1, 2].map(|figure| middle(&turns, figure)));
        for (system, [p50, p99, per_s]) in System::ALL.into_iter().zip(middles) {
            println!("{clients} {} {p50:.2} {p99:.2} {per_s:.0}", system.name());
        }
        let ratios = [1, 2].map(|figure: usize| middles[0][figure] / middles[1][figure]);
        let [p99, per_s] = ratios;
        println!("# {clients}: p99 is {p99:.2} of etcd's (goal: 1.1), throughput {per_s:.2} (1.0)");
    }
    Ok(())
}

fn middle(turns: &[Figures], figure: usize) -> f64 {
    let mut each: Vec<_> = turns.iter().map(|turn| turn[figure]).collect();
    each.sort_by(f64::total_cmp);
    each[each.len() / 2]
}

fn measure(trio: &Trio, system: System, clients: usize) -> Figures {
    let order = Order {
        system,
        home: trio.stage.path(""),
        clients,
        decisions: Some(DECISION_COUNT),
        pause_ms: 0,
    };
    let all = Running::carrying_out(&trio.stage, &order).all();
    let began = all
        .iter()
        .map(|[began, _]| *began)
        .min()
        .unwrap_or_default();
    let ended = all
        .iter()
        .map(|[_, ended]| *ended)
        .max()
        .unwrap_or_default();
    let per_s = all.len() as f64 / (ended - began).as_secs_f64();
    let spread = Spread::of(
        all.into_iter()
            .map(|[began, ended]| ended - began)
            .collect(),
    );
    [spread.ms(0.5), spread.ms(0.99), per_s]
}
