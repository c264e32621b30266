//! What this agent can measure and do here, and how to enable the rest.
//!
//! Each capability is tested: the process's privileges alone are not enough, since those of a container may have no
//! effect.

use reweave_common::hardware::Lack;
use serde::Serialize;

use crate::netlink::RouteSocket;
use crate::rdma::{self, Helper};
use crate::role::Role;
use crate::traffic::Refusal;
use crate::{counters, lldp, probes, probing, traffic};
use reweave_common::error::error_chain;

/// A measurement or an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capability {
    pub measurement: &'static str,
    /// Why it is not possible; none if it is.
    pub because: Option<String>,
    /// How to enable it.
    pub remedy: String,
}

impl Capability {
    pub fn lack(&self) -> Option<Lack> {
        Some(Lack {
            measurement: self.measurement.to_owned(),
            because: self.because.clone()?,
            remedy: self.remedy.clone(),
        })
    }
}

struct CapabilityKind {
    name: &'static str,
    /// The roles that use it; none for all.
    of: Option<fn(Role) -> bool>,
    /// The required privileges; none if every user may.
    needs: &'static [&'static str],
    attempt: fn() -> Result<(), String>,
}

const ABILITY_KINDS: &[CapabilityKind] = &[
    CapabilityKind {
        name: "latency and loss",
        of: None,
        needs: &[],
        attempt: || in_words(probing::may_stamp()),
    },
    CapabilityKind {
        name: "paths of flows",
        of: None,
        needs: &["CAP_NET_RAW"],
        attempt: || in_words(probes::may_trace()),
    },
    CapabilityKind {
        name: "counters of drivers",
        of: None,
        needs: &["CAP_NET_ADMIN"],
        attempt: || in_words(counters::may_ask_drivers()),
    },
    CapabilityKind {
        name: "pins of flows",
        of: Some(Role::forwards),
        needs: &["CAP_NET_ADMIN"],
        attempt: || {
            let mut route = in_words(RouteSocket::open())?;
            in_words(route.may_pin())
        },
    },
];

/// The counting module tries these itself and reports refusals: testing them would cost an agent more than everything
/// else before its first report.
const COUNTING_KINDS: &[CapabilityKind] = &[
    CapabilityKind {
        name: "traffic by eBPF",
        of: Some(Role::is_endpoint),
        needs: &["CAP_BPF", "CAP_NET_ADMIN"],
        attempt: || in_words(traffic::may_load()),
    },
    CapabilityKind {
        name: "traffic by nftables",
        of: Some(Role::is_endpoint),
        needs: &["CAP_NET_ADMIN"],
        attempt: || in_words(traffic::may_use_nft()),
    },
];

/// Tests each capability again, since privileges may change.
pub fn abilities(role: Role) -> Vec<Capability> {
    let mut abilities = by_right(ABILITY_KINDS, role);
    abilities.extend(by_right(COUNTING_KINDS, role));
    let deaf = lldp::neighbours().err().map(|error| error.lack());
    abilities.push(by_program(lldp::MEASUREMENT_NAME, deaf));
    if role.is_endpoint() {
        let ports = Helper::start().and_then(|mut helper| helper.ports());
        let without = ports.err().map(|error| error.lack());
        abilities.push(by_program(rdma::MEASUREMENT_NAME, without));
    }
    abilities
}

/// Missing privileges. Modules that count traffic or use other programs report their own.
pub fn lacks(role: Role) -> Vec<Lack> {
    let abilities = by_right(ABILITY_KINDS, role);
    abilities.iter().filter_map(Capability::lack).collect()
}

fn by_right(kinds: &[CapabilityKind], role: Role) -> Vec<Capability> {
    let concern = |kind: &&CapabilityKind| kind.of.is_none_or(|is_of| is_of(role));
    kinds
        .iter()
        .filter(concern)
        .map(|kind| Capability {
            measurement: kind.name,
            because: (kind.attempt)().err(),
            remedy: remedy(kind.needs),
        })
        .collect()
}

fn by_program(measurement: &'static str, lack: Option<Lack>) -> Capability {
    let (because, remedy) = lack.map(|it| (it.because, it.remedy)).unzip();
    Capability {
        measurement,
        because,
        remedy: remedy.unwrap_or_default(),
    }
}

/// Missing capabilities, and what was refused since, which is more precise.
pub fn with_refused(off: &[Lack], refused: &[Refusal]) -> Vec<Lack> {
    let mut lacks: Vec<_> = refused.iter().filter_map(lack_of).collect();
    let untried = |off: &&Lack| lacks.iter().all(|it| it.measurement != off.measurement);
    let untried: Vec<_> = off.iter().filter(untried).cloned().collect();
    lacks.extend(untried);
    lacks
}

fn lack_of(refusal: &Refusal) -> Option<Lack> {
    let name = format!("traffic by {}", refusal.source);
    let kind = COUNTING_KINDS.iter().find(|kind| kind.name == name)?;
    Some(Lack {
        measurement: name,
        because: refusal.because.clone(),
        remedy: remedy(kind.needs),
    })
}

fn in_words<T, E: std::error::Error + 'static>(outcome: Result<T, E>) -> Result<T, String> {
    outcome.map_err(|error| error_chain(&error))
}

fn remedy(needs: &[&str]) -> String {
    if needs.is_empty() {
        return "use a kernel with SO_TIMESTAMPING, and `sysctl net.core.tstamp_allow_data=1`"
            .to_owned();
    }
    let setcap = needs.join(",").to_lowercase();
    format!(
        "run it as root, with AmbientCapabilities={} in its systemd unit, or after `setcap {setcap}+ep` on the \
         program",
        needs.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use reweave_common::traffic::TrafficSource;

    use super::*;

    #[test]
    fn missing_capability_names_remedy() {
        let off = Capability {
            measurement: "traffic by eBPF",
            because: Some("Operation not permitted".to_owned()),
            remedy: remedy(&["CAP_BPF", "CAP_NET_ADMIN"]),
        };
        let lack = off.lack().expect("it is off");
        assert!(
            lack.remedy
                .contains("AmbientCapabilities=CAP_BPF CAP_NET_ADMIN ")
        );
        assert!(lack.remedy.contains("`setcap cap_bpf,cap_net_admin+ep`"));
        let on = Capability {
            because: None,
            ..off
        };
        assert_eq!(on.lack(), None);
    }

    #[test]
    fn later_refusal_replaces_capability_lack() {
        let lack = |name: &str, because: &str| Lack {
            measurement: name.to_owned(),
            because: because.to_owned(),
            remedy: String::new(),
        };
        let off = [
            lack("traffic by nftables", "no"),
            lack("paths of flows", "no"),
        ];
        let refused = [TrafficSource::Ebpf, TrafficSource::Nftables].map(|source| Refusal {
            source,
            because: "never".to_owned(),
        });
        let report = with_refused(&off, &refused);
        let report: Vec<_> = report
            .iter()
            .map(|it| [&it.measurement, &it.because].map(String::as_str))
            .collect();
        let expected = [
            ["traffic by eBPF", "never"],
            ["traffic by nftables", "never"],
            ["paths of flows", "no"],
        ];
        assert_eq!(report, expected);
    }

    #[test]
    fn capabilities_depend_on_role() {
        let names = |role| -> Vec<_> {
            let abilities = abilities(role).into_iter();
            abilities.map(|it| it.measurement).collect()
        };
        let both = ["latency and loss", "paths of flows", "counters of drivers"];
        let host = ["traffic by eBPF", "traffic by nftables"];
        let by_programs = ["neighbours by LLDP", "RDMA"];
        assert_eq!(names(Role::Host), [&both[..], &host, &by_programs].concat());
        let pins = ["pins of flows"];
        assert_eq!(
            names(Role::Switch),
            [&both[..], &pins, &by_programs[..1]].concat()
        );
        assert_eq!(
            names(Role::Relay),
            [&both[..], &pins, &host, &by_programs].concat()
        );
    }
}
