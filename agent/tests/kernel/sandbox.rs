//! Namespaces of this program's own, in which it is root.

use std::cell::Cell;
use std::fs;
use std::process::{Command, Stdio};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};
use reweave_agent::traffic::TrafficReader;
use reweave_common::traffic::TrafficSource;

thread_local! {
    static IS_ENTERED: Cell<bool> = const { Cell::new(false) };
}

/// Must be called while the program has one thread. Says what is missing.
pub(crate) fn enter() -> Result<(), String> {
    let (uid, gid) = (geteuid(), getegid());
    if !uid.is_root() {
        unshare(CloneFlags::CLONE_NEWUSER)
            .map_err(|errno| format!("user namespace: {}", errno.desc()))?;
        become_root(uid.as_raw(), gid.as_raw())
            .map_err(|error| format!("user namespace: {error}"))?;
    }
    enter_thread()?;
    has("ip")
}

/// Gives the calling thread, and the threads and processes that it starts, a network and a /run of their own: fabrics of
/// tests that run at once have the same names. Once per thread.
pub(crate) fn enter_thread() -> Result<(), String> {
    if IS_ENTERED.get() {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)
        .map_err(|errno| format!("namespaces: {}", errno.desc()))?;
    furnish().map_err(|errno| format!("mounts: {}", errno.desc()))?;
    IS_ENTERED.set(true);
    Ok(())
}

fn become_root(uid: u32, gid: u32) -> std::io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {gid} 1"))
}

/// A /run for the names of network namespaces.
fn furnish() -> nix::Result<()> {
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), none)
}

pub(crate) fn has(tool: &str) -> Result<(), String> {
    if tool == "bpf" {
        return may_load_programs();
    }
    // What is written to SONiC there goes on to FRR.
    if tool == "redis-server" {
        has("vtysh")?;
    }
    if ["lldpd", "vtysh"].contains(&tool) && !has_many_users() {
        return Err(format!("no users to run what belongs to {tool} as"));
    }
    let mut asked = Command::new(tool);
    let version = match tool {
        "lldpd" | "redis-server" => "-v",
        "vtysh" => "-h",
        "ethtool" => "--version",
        _ => "-V",
    };
    asked
        .arg(version)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    match asked.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("no {tool}")),
    }
}

/// Whose namespace of users is its own has but one.
fn has_many_users() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let count = map.split_whitespace().nth(2).and_then(|it| it.parse().ok());
    count.unwrap_or(0_u64) > 1
}

fn may_load_programs() -> Result<(), String> {
    let reader = TrafficReader::open(TrafficSource::Ebpf);
    match reader.refused() {
        [] => Ok(()),
        [refusal, ..] => Err(format!("no eBPF: {}", refusal.because)),
    }
}
