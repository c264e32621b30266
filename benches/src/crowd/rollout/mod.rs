//! Time from the approval of a plan until it is in force. Coordinator and driver are those of the product, and agents
//! answer as real ones do; only their kernels are simulated.

mod circuits;
mod followers;
mod operator;
mod pins;
mod repair;
mod scenery;
mod tables;

use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::Builder;

use crate::machine;
use crate::times::Spread;

/// Typical time for a kernel to change a few routes and to be read back.
const APPLY_TIME: Duration = Duration::from_millis(5);
const BENCH_PARTS: [&str; 4] = ["circuits", "pins", "repair", "tables"];

pub(crate) fn measure(parts: &[&str]) -> ExitCode {
    if let Some(unknown) = parts.iter().find(|part| !BENCH_PARTS.contains(part)) {
        eprintln!(
            "there is no part {unknown:?}, only {}",
            BENCH_PARTS.join(", ")
        );
        return ExitCode::from(2);
    }
    machine::introduce();
    println!(
        "# each kernel takes {} ms to change",
        APPLY_TIME.as_millis()
    );
    println!("figure times min_ms p50_ms p99_ms max_ms asked_ms verdict");
    for part in BENCH_PARTS {
        if parts.is_empty() || parts.contains(&part) {
            run(part);
        }
    }
    ExitCode::SUCCESS
}

fn run(part: &str) {
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    match part {
        "tables" => runtime.block_on(tables::measure()),
        "pins" => runtime.block_on(pins::measure()),
        "circuits" => runtime.block_on(circuits::measure()),
        _ => runtime.block_on(repair::measure()),
    }
}

/// Prints the times, with the limit for the largest.
fn tell(figure: &str, times: Vec<Duration>, asked_ms: f64) {
    if times.is_empty() {
        return println!("{figure} 0 - - - - {asked_ms:.0} missed");
    }
    let times = Spread::of(times);
    let [least, p50, p99, most] = [0.0, 0.5, 0.99, 1.0].map(|share| times.ms(share));
    let count = times.count();
    let verdict = if p99 < asked_ms { "met" } else { "missed" };
    println!("{figure} {count} {least:.1} {p50:.1} {p99:.1} {most:.1} {asked_ms:.0} {verdict}");
}
