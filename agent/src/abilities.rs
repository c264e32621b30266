//! What this agent can measure and do here, and how to allow it the rest.

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use serde::Serialize;

use crate::probing::may_stamp;
use crate::role::Role;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ability {
    pub what: &'static str,
    /// What stands in the way; absent when nothing does.
    pub missing: Option<String>,
    pub allow_by: &'static str,
}

/// Looks once more at each, since rights may change.
pub fn abilities(role: Role) -> Vec<Ability> {
    let probes = Ability {
        what: "latency and loss",
        missing: in_words(may_stamp()),
        allow_by: "a kernel with SO_TIMESTAMPING, and sysctl net.core.tstamp_allow_data=1",
    };
    let traces = Ability {
        what: "paths of flows",
        missing: in_words(may_trace()),
        allow_by: "CAP_NET_RAW: run it as root, or setcap cap_net_raw+ep on the program",
    };
    let pins = Ability {
        what: "pins of flows",
        missing: in_words(may_pin()),
        allow_by: "CAP_NET_ADMIN: run it as root, or setcap cap_net_admin+ep on the program",
    };
    let on_hosts = [probes, traces];
    let on_switches = (role == Role::Switch).then_some(pins);
    on_hosts.into_iter().chain(on_switches).collect()
}

fn in_words(may: nix::Result<()>) -> Option<String> {
    may.err().map(|errno| errno.desc().to_owned())
}

fn may_trace() -> nix::Result<()> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let raw = socket(
        AddressFamily::Inet,
        SockType::Raw,
        flags,
        SockProtocol::Icmp,
    );
    raw.map(drop)
}

/// The kernel asks for the right before it looks at what is to be changed.
fn may_pin() -> nix::Result<()> {
    const CAP_NET_ADMIN: u32 = 12;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok());
    let has = held.is_some_and(|held| held >> CAP_NET_ADMIN & 1 == 1);
    has.then_some(()).ok_or(nix::errno::Errno::EPERM)
}
