//! Parses the kernel's files. A text that is not understood counts as unknown.

use reweave_common::hardware::{Duplex, PcieLink};
use reweave_common::units::Rate;

pub fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// `200000`, in Mb/s; `-1` and errors if it is unknown.
pub fn speed(text: &str) -> Option<Rate> {
    let mbps = number(text).filter(|&mbps| mbps > 0 && mbps < u64::from(u32::MAX))?;
    Some(Rate::from_bits_per_s(mbps * 1_000_000))
}

pub fn duplex(text: &str) -> Option<Duplex> {
    match text.trim() {
        "full" => Some(Duplex::Full),
        "half" => Some(Duplex::Half),
        _ => None,
    }
}

/// `16.0 GT/s PCIe` and `16`; `Unknown` and 0 or 255 where there is no such link.
pub fn pcie_link(speed: &str, width: &str) -> Option<PcieLink> {
    let (gt_per_s, _) = speed.trim().split_once(" GT/s")?;
    let gt_per_s: f64 = gt_per_s.parse().ok()?;
    let mt_per_s = (gt_per_s * 1e3).round();
    if !(1.0..1e9).contains(&mt_per_s) {
        return None;
    }
    let lanes = number(width).and_then(|lanes| u8::try_from(lanes).ok());
    Some(PcieLink {
        mt_per_s: mt_per_s as u32,
        lanes: lanes.filter(|lanes| (1..=32).contains(lanes))?,
    })
}

/// `4: ACTIVE`
pub fn port_is_active(state: &str) -> bool {
    state
        .split(':')
        .nth(1)
        .is_some_and(|name| name.trim() == "ACTIVE")
}

/// `0000:0000:0000:0000:0000:ffff:0a00:0001`
pub fn is_of_ipv4(gid: &str) -> bool {
    let address: Option<std::net::Ipv6Addr> = gid.trim().parse().ok();
    address.is_some_and(|it| it.to_ipv4_mapped().is_some())
}

/// Segments of TCP that this host itself has sent and received, of `/proc/net/snmp`: a line of names, and one of
/// what they count.
pub fn segments(text: &str) -> Option<[u64; 2]> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let [names, counts] = [lines.next()?, lines.next()?].map(str::split_whitespace);
    let counted = names.zip(counts);
    let count = |name| {
        let (_, count) = counted.clone().find(|(it, _)| *it == name)?;
        number(count)
    };
    Some([count("OutSegs")?, count("InSegs")?])
}

/// Packets dropped and times put off, over all processors. One line each, in hexadecimal.
pub fn softnet(text: &str) -> Option<[u64; 2]> {
    let mut sums = [0_u64; 2];
    for line in text.lines() {
        let mut fields = line.split_whitespace().skip(1);
        for sum in &mut sums {
            let count = u32::from_str_radix(fields.next()?, 16).ok()?;
            *sum += u64::from(count);
        }
    }
    (!text.is_empty()).then_some(sums)
}

/// `0-3,8`: how many these are.
pub fn list_len(text: &str) -> Option<u32> {
    let text = text.trim();
    if text.is_empty() {
        return Some(0);
    }
    text.split(',').try_fold(0_u32, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let [first, last]: [u32; 2] = [first.parse().ok()?, last.parse().ok()?];
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// `Node 0 MemTotal:       24669420 kB`
pub fn node_memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.contains(" MemTotal:"))?;
    let (_, value) = line.split_once(':')?;
    number(value.trim().strip_suffix("kB")?)?.checked_mul(1024)
}

/// `0x030200`: a class code or a vendor.
pub fn pci_id(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

/// `Device Minor: 4`, in what NVIDIA's driver says of a GPU.
pub fn device_minor(information: &str) -> Option<u16> {
    let mut lines = information.lines();
    let minor = lines.find_map(|line| line.strip_prefix("Device Minor:"))?;
    minor.trim().parse().ok()
}

/// The lines of `ethtool -S`, or of any list of names and numbers.
pub fn named_numbers(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.rsplit_once(':')?;
        Some((name.trim(), number(value)?))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn segments_exclude_forwarded_packets() {
        let text = "Ip: Forwarding ForwDatagrams\nIp: 1 7000\n\
                    Tcp: RtoMin InSegs OutSegs RetransSegs\nTcp: 200 31 45 2\n\
                    Udp: InDatagrams OutDatagrams\nUdp: 5 6\n";
        assert_eq!(segments(text), Some([45, 31]));
        assert_eq!(segments("Tcp: InSegs OutSegs\nTcp: 31\n"), None);
        assert_eq!(segments("Ip: Forwarding\nIp: 1\n"), None);
    }

    #[test]
    fn invalid_link_speed_is_unknown() {
        assert_eq!(speed("200000\n").map(Rate::gbps), Some(200.0));
        for unknown in ["-1\n", "0", "", "4294967295", "fast"] {
            assert_eq!(speed(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn pcie_link_parses_all_kernel_formats() {
        let shown = |speed, width| pcie_link(speed, width).map(|link| link.to_string());
        let expected = Some("16 GT/s x16".to_owned());
        assert_eq!(shown("16.0 GT/s PCIe\n", "16\n"), expected);
        assert_eq!(shown("2.5 GT/s", "1"), Some("2.5 GT/s x1".to_owned()));
        assert_eq!(shown("Unknown", "0"), None);
        assert_eq!(shown("16.0 GT/s PCIe", "255"), None);
        assert_eq!(shown("NaN GT/s", "8"), None);
    }

    #[test]
    fn gid_maps_ipv4() {
        assert!(is_of_ipv4("0000:0000:0000:0000:0000:ffff:0a00:0001\n"));
        for other in ["fe80:0000:0000:0000:0202:c9ff:fe00:0001", "", "10.0.0.1"] {
            assert!(!is_of_ipv4(other), "{other}");
        }
    }

    #[test]
    fn softnet_is_summed_over_processors() {
        let text = "0000272d 00000002 00000001 0 0 0 0 0 0 0 0 00000000\n\
                    000034d9 0000000a 00000010 0 0 0 0 0 0 0 0 00000001\n";
        assert_eq!(softnet(text), Some([12, 17]));
        assert_eq!(softnet("garbage\n"), None);
        assert_eq!(softnet(""), None);
    }

    #[test]
    fn lists_of_processors_are_counted() {
        assert_eq!(list_len("0-3,8\n"), Some(5));
        assert_eq!(list_len("\n"), Some(0));
        assert_eq!(list_len("3-1"), None);
        assert_eq!(list_len("0-4294967295"), None);
    }

    #[test]
    fn node_memory_is_in_bytes() {
        let text = "Node 0 MemTotal:       24 kB\nNode 0 MemFree:    1 kB\n";
        assert_eq!(node_memory_bytes(text), Some(24 * 1024));
    }

    #[test]
    fn pci_ids_are_hexadecimal() {
        assert_eq!(pci_id("0x030200\n"), Some(0x030200));
        for other in ["030200", "0x", "0x1030200ff", "-1", ""] {
            assert_eq!(pci_id(other), None, "{other}");
        }
    }

    #[test]
    fn driver_numbers_gpu_by_minor() {
        let text = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 471\n\
                    Bus Location: \t 0000:1b:00.0\nDevice Minor: \t 4\nGPU Excluded:\t No\n";
        assert_eq!(device_minor(text), Some(4));
        for other in [
            "",
            "Device Minor: \t -1\n",
            "Device Minor: 65536",
            "IRQ: 4\n",
        ] {
            assert_eq!(device_minor(other), None, "{other}");
        }
    }

    #[test]
    fn names_may_have_colons() {
        let text = "NIC statistics:\n     rx_bytes: 7\n     [0]: tx: 9\n     bad: x\n";
        let read: Vec<_> = named_numbers(text).collect();
        assert_eq!(read, [("rx_bytes", 7), ("[0]: tx", 9)]);
    }

    proptest! {
        #![proptest_config(crate::seeded::config())]

        #[test]
        fn arbitrary_text_is_safe(text in "[0-9a-f:,. \\-\nGT/skBx]{0,80}", other in ".{0,8}") {
            let _ = (number(&text), speed(&text), duplex(&text), pcie_link(&text, &other));
            let _ = (softnet(&text), list_len(&text), node_memory_bytes(&text));
            let _ = (port_is_active(&text), named_numbers(&text).count());
            let _ = (pci_id(&text), device_minor(&text));
        }
    }
}
