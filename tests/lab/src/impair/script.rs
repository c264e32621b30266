//! Scripts for wires. Pure functions.
//!
//! Wire number 3 has its halves at the interfaces `w3a` and `w3b` of the duct.

use std::fmt::Write as _;
use std::time::Duration;

use reweave_common::ids::LinkId;
use reweave_common::units::Rate;

/// Resolution of random numbers in nft.
const LOSS_RESOLUTION: u32 = 1_000_000;
/// First interface index in the duct. An interface with the same index as its other half in a node would be taken for a
/// device without one, whose loss of carrier may be reported late.
const FIRST_DUCT_INDEX: usize = 1 << 20;
/// The shortest frame that netem may have to hold many of.
const MIN_FRAME_BYTES: u64 = 64;

pub(super) fn half(link: LinkId, end: usize) -> String {
    format!("w{link}{}", ["a", "b"][end])
}

/// Returns ip commands that create both halves of a wire for these ports.
pub(super) fn halves(link: LinkId, ports: [&str; 2], duct: &str, mtu_bytes: u64) -> String {
    let half = |end: usize| {
        let (name, port) = (half(link, end), ports[end]);
        let index = FIRST_DUCT_INDEX + 2 * link.index() + end;
        format!(
            "link add name {name} index {index} mtu {mtu_bytes} netns {duct} type veth peer {port}\n"
        )
    };
    half(0) + &half(1)
}

/// Returns ip commands in the duct that set the halves, and so the ports, up or down.
pub(super) fn carrier(links: impl IntoIterator<Item = LinkId>, up: bool) -> String {
    let state = if up { "up" } else { "down" };
    let lines = links
        .into_iter()
        .flat_map(|link| [0, 1].map(|end| half(link, end)));
    lines
        .map(|half| format!("link set {half} {state}\n"))
        .collect()
}

/// Returns an nft script in the duct that joins the two halves.
pub(super) fn joints(links: impl IntoIterator<Item = LinkId>) -> String {
    let mut script = String::new();
    for link in links {
        script += "add table netdev wires\n";
        for end in [0, 1] {
            let own = half(link, end);
            let hook = format!("type filter hook ingress device \"{own}\" priority 0;");
            let _ = writeln!(script, "add chain netdev wires {own} {{ {hook} }}");
        }
        script += &losing(link, 0.0);
    }
    script
}

/// Returns an nft script in the duct that drops each packet of the wire with this probability.
pub(super) fn loss(link: LinkId, probability: f64) -> String {
    let flush = |end| format!("flush chain netdev wires {}\n", half(link, end));
    flush(0) + &flush(1) + &losing(link, probability)
}

fn losing(link: LinkId, probability: f64) -> String {
    let lots = (probability * f64::from(LOSS_RESOLUTION)).round() as u32;
    let mut script = String::new();
    for (end, other) in [(0, 1), (1, 0)] {
        let (own, other) = (half(link, end), half(link, other));
        let _ = match lots {
            0 => Ok(()),
            // nft refuses a comparison that always holds.
            LOSS_RESOLUTION.. => writeln!(script, "add rule netdev wires {own} drop"),
            _ => writeln!(
                script,
                "add rule netdev wires {own} numgen random mod {LOSS_RESOLUTION} < {lots} drop"
            ),
        };
        let _ = writeln!(script, "add rule netdev wires {own} fwd to \"{other}\"");
    }
    script
}

/// Returns tc commands in the duct that delay packets of each half by `latency`.
pub(super) fn delay(link: LinkId, latency: Duration, rate: Rate) -> String {
    let packets = bytes_under_way(rate, latency) / MIN_FRAME_BYTES;
    let limit = packets.clamp(1000, 1_000_000);
    // Not all versions of tc know nanoseconds.
    let delay_us = latency.as_nanos() as f64 / 1e3;
    let line = |end| {
        let half = half(link, end);
        format!("qdisc add dev {half} root netem delay {delay_us}us limit {limit}\n")
    };
    line(0) + &line(1)
}

/// Returns ip commands in a node that disable segmentation offload, so that packets are lost one by one.
pub(super) fn packet_by_packet(interface: &str) -> String {
    format!("link set dev {interface} gso_max_segs 1\n")
}

/// Returns twice the bytes that a link can have in flight in one direction.
pub(super) fn bytes_under_way(rate: Rate, latency: Duration) -> u64 {
    let bits = u128::from(rate.bits_per_s()) * latency.as_nanos() / 1_000_000_000;
    u64::try_from(bits / 4).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: usize) -> LinkId {
        LinkId::from_index(index)
    }

    #[test]
    fn each_wire_half_belongs_to_port() {
        assert_eq!(
            halves(
                link(3),
                ["name eth0 netns a", "name swp1 netns b"],
                "duct",
                9000
            ),
            "link add name w3a index 1048582 mtu 9000 netns duct type veth peer name eth0 netns a\n\
             link add name w3b index 1048583 mtu 9000 netns duct type veth peer name swp1 netns b\n"
        );
    }

    #[test]
    fn joint_forwards_both_ways() {
        assert_eq!(
            joints([link(0)]),
            "add table netdev wires\n\
             add chain netdev wires w0a { type filter hook ingress device \"w0a\" priority 0; }\n\
             add chain netdev wires w0b { type filter hook ingress device \"w0b\" priority 0; }\n\
             add rule netdev wires w0a fwd to \"w0b\"\n\
             add rule netdev wires w0b fwd to \"w0a\"\n"
        );
    }

    #[test]
    fn loss_is_applied_before_forwarding() {
        let script = loss(link(0), 0.015);
        let lines: Vec<_> = script.lines().collect();
        assert_eq!(lines[0], "flush chain netdev wires w0a");
        assert_eq!(
            lines[2],
            "add rule netdev wires w0a numgen random mod 1000000 < 15000 drop"
        );
        assert_eq!(lines[3], "add rule netdev wires w0a fwd to \"w0b\"");
        assert_eq!(lines.len(), 6);
        assert!(!loss(link(0), 0.0).contains("drop"));
        assert!(loss(link(0), 1.0).contains("w0a drop"));
    }

    #[test]
    fn delay_queue_fits_bytes_in_flight() {
        let gigabit = Rate::from_bits_per_s(1_000_000_000);
        let script = delay(link(1), Duration::from_millis(10), gigabit);
        assert_eq!(
            script.lines().next(),
            Some("qdisc add dev w1a root netem delay 10000us limit 39062")
        );
        assert_eq!(
            bytes_under_way(gigabit, Duration::from_millis(10)),
            2_500_000
        );
    }
}
