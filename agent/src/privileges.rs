//! Which measurements are off because this process may not make them, and how to allow them.

use std::fs;

use reweave_common::hardware::Lack;

/// Numbers as in linux/capability.h.
const NET_ADMIN: Capability = Capability(12, "CAP_NET_ADMIN");
const NET_RAW: Capability = Capability(13, "CAP_NET_RAW");
const BPF: Capability = Capability(39, "CAP_BPF");

#[derive(Clone, Copy)]
struct Capability(u32, &'static str);

/// What takes which capabilities.
const NEEDS: &[(&str, &[Capability])] = &[
    ("latency, loss and traces", &[NET_RAW]),
    ("traffic by eBPF", &[BPF, NET_ADMIN]),
    ("traffic by nftables", &[NET_ADMIN]),
    ("pins", &[NET_ADMIN]),
];

/// What this process may not do.
pub fn lacks() -> Vec<Lack> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    effective(&status).map(missing).unwrap_or_default()
}

/// A measurement that was tried and refused.
pub fn refused(measurement: String, because: &str) -> Lack {
    let remedy = missing(0)
        .into_iter()
        .find(|it| it.measurement == measurement);
    let otherwise = "see what the reason says".to_owned();
    Lack {
        measurement,
        because: because.to_owned(),
        remedy: remedy.map_or(otherwise, |it| it.remedy),
    }
}

/// The capabilities in force, by their bits.
fn effective(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let bits = lines.find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(bits.trim(), 16).ok()
}

fn missing(effective: u64) -> Vec<Lack> {
    let lack = |(measurement, needs): &(&str, &[Capability])| {
        let absent = needs.iter().filter(|it| effective & (1 << it.0) == 0);
        let absent: Vec<_> = absent.map(|it| it.1).collect();
        (!absent.is_empty()).then(|| Lack {
            measurement: (*measurement).to_owned(),
            because: format!("this process has no {}", absent.join(" and no ")),
            remedy: remedy(needs),
        })
    };
    NEEDS.iter().filter_map(lack).collect()
}

fn remedy(needs: &[Capability]) -> String {
    let names: Vec<_> = needs.iter().map(|it| it.1).collect();
    let setcap = names.join(",").to_lowercase();
    format!(
        "run it as root, with AmbientCapabilities={} in its systemd unit, or after `setcap {setcap}+ep` on the \
         program",
        names.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn off(effective: u64) -> Vec<String> {
        missing(effective)
            .into_iter()
            .map(|it| it.measurement)
            .collect()
    }

    #[test]
    fn root_may_do_everything() {
        let status = "Name:\tx\nCapPrm:\t0\nCapEff:\t000001ffffffffff\n";
        assert_eq!(effective(status).map(off), Some(vec![]));
    }

    #[test]
    fn what_is_off_is_named_with_what_allows_it() {
        assert_eq!(off(0).len(), NEEDS.len());
        assert_eq!(off(1 << 12 | 1 << 13), ["traffic by eBPF"]);
        let [lack] = &missing(1 << 12 | 1 << 13)[..] else {
            panic!("one thing is off");
        };
        assert_eq!(lack.because, "this process has no CAP_BPF");
        let setcap = "setcap cap_bpf,cap_net_admin+ep";
        assert!(lack.remedy.contains(setcap), "{}", lack.remedy);
    }

    #[test]
    fn garbage_names_nothing() {
        assert_eq!(effective("CapEff:\tzz\n"), None);
        assert_eq!(effective(""), None);
    }
}
