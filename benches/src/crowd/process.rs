//! CPU time and memory of a process.

use std::fs;

use nix::unistd::{SysconfVar, sysconf};

/// Returns the CPU seconds since its start.
pub(crate) fn core_s(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let (_, rest) = stat.rsplit_once(") ").unwrap_or_default();
    let fields: Vec<_> = rest.split(' ').collect();
    // In user mode and in the kernel.
    let ticks = fields
        .iter()
        .skip(11)
        .take(2)
        .filter_map(|it| it.parse::<f64>().ok());
    let per_s = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
    ticks.sum::<f64>() / per_s as f64
}

/// Returns the peak memory.
pub(crate) fn peak_mib(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next());
    kib.and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}
