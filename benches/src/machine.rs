//! Description of the machine and the build.

use std::fs;

pub(crate) fn introduce() {
    let cpu = line_of("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    println!("# processor: {cpu}, Linux {}", kernel.trim());
    println!("# seconds are those of one core: who else computes beside it does not count");
}

pub(crate) fn line_of(file: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
