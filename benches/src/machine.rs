//! What measures, and with what.

use std::fs;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

pub(crate) fn introduce() {
    let cpu = line_of("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    println!("# processor: {cpu}, Linux {}", kernel.trim());
    println!("# seconds are those of one core: who else computes beside it does not count");
}

/// The most memory that this process has had at once.
pub(crate) fn peak_mib() -> f64 {
    let line = line_of("/proc/self/status", "VmHWM").unwrap_or_default();
    let kib = line
        .split_ascii_whitespace()
        .next()
        .and_then(|it| it.parse().ok());
    kib.unwrap_or(0.0) / 1024.0
}

fn line_of(file: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Runs it and says how many seconds of a core it took.
pub(crate) fn timed<T>(run: impl FnOnce() -> T) -> (T, f64) {
    let began = core_time();
    let result = run();
    (result, (core_time() - began).as_secs_f64())
}

fn core_time() -> Duration {
    let clock = ClockId::CLOCK_THREAD_CPUTIME_ID;
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}
