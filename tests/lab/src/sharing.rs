//! TCP settings with which flows share a link evenly and without loss, as on the lossless fabrics of training clusters.
//!
//! Shallow queues drop packets, and with jumbo frames a drop halves a window of five packets, so the shares of four
//! flows differ by half. With deep queues alone nothing is dropped, but a flow keeps the share that it gets at its
//! start. If every receiver grants the same window and queues hold the windows of all flows, each flow has the same
//! window over the same round-trip time: shares differ by about 1 %.

use std::time::Duration;

use reweave_common::fabric::Fabric;
use reweave_common::units::Rate;

use crate::wiring::Sysctl;

/// Maximum window without window scaling: seven jumbo frames in flight.
const MAX_UNSCALED_WINDOW_BYTES: u64 = 64_000;
/// Just above, scaling makes the first connections differ from the others.
const MIN_SCALED_WINDOW_BYTES: u64 = 262_000;
/// Maximum TCP window, slightly below 1 GiB: twice as much still fits the kernel's buffers.
const MAX_WINDOW_BYTES: u64 = 1_000_000_000;
/// Number of flows that can share a link without loss.
const FLOWS_PER_QUEUE: u64 = 32;
/// Delay of a packet in a busy machine, in both directions.
const MAX_MACHINE_DELAY: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sharing {
    window_bytes: u64,
}

impl Sharing {
    /// The window that fills the fastest link over the longest round trip.
    pub(crate) fn of(fabric: &Fabric) -> Self {
        let fastest = fabric.links().map(|(_, link)| link.rate).max();
        let slowest = fabric
            .links()
            .map(|(_, link)| link.latency)
            .max()
            .unwrap_or_default();
        // A path over four links and back. Longer ones, of relays, share their links anyway.
        let round_trip = MAX_MACHINE_DELAY + slowest * 8;
        let rate = fastest.map_or(0, Rate::bits_per_s);
        let needed = (u128::from(rate) * round_trip.as_nanos() / 8_000_000_000) as u64;
        let window_bytes = match needed {
            0..=MAX_UNSCALED_WINDOW_BYTES => MAX_UNSCALED_WINDOW_BYTES,
            _ => needed.clamp(MIN_SCALED_WINDOW_BYTES, MAX_WINDOW_BYTES),
        };
        Self { window_bytes }
    }

    /// Returns the attribute of a host's route for ip, which applies to the flows on it.
    pub(crate) fn route_attribute(self) -> String {
        format!("window {}", self.window_bytes)
    }

    /// Returns the size of a port's queue.
    pub(crate) fn queue_bytes(self) -> u64 {
        FLOWS_PER_QUEUE * self.window_bytes
    }

    pub(crate) fn sysctls(self) -> Vec<Sysctl> {
        let buffer = 2 * self.window_bytes;
        let mut sysctls = vec![
            // Keeps the window that is granted at the start.
            ("net/ipv4/tcp_moderate_rcvbuf", "0".to_owned()),
            // Keeps the window after a pause for computation.
            ("net/ipv4/tcp_slow_start_after_idle", "0".to_owned()),
            // No probing for lost tails: a retransmission then means a loss.
            ("net/ipv4/tcp_early_retrans", "0".to_owned()),
            // The one that every kernel has and allows.
            ("net/ipv4/tcp_congestion_control", "reno".to_owned()),
        ];
        if self.window_bytes > MAX_UNSCALED_WINDOW_BYTES {
            sysctls.push(("net/ipv4/tcp_rmem", format!("4096 {buffer} {buffer}")));
        }
        let sysctl = |(key, value)| Sysctl {
            key,
            value,
            required: false,
        };
        sysctls.into_iter().map(sysctl).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(gbps: f64, latency_us: f64) -> u64 {
        let text = format!(
            "kind = \"direct\"\nhosts = 4\nlink_gbps = {gbps}\nstrides = [1]\n\
             latency_us = {latency_us}\n"
        );
        Sharing::of(&Fabric::parse("f.toml", &text).unwrap()).window_bytes
    }

    #[test]
    fn window_covers_bandwidth_delay_product() {
        assert_eq!(window(0.2, 0.0), MAX_UNSCALED_WINDOW_BYTES);
        assert_eq!(window(0.5, 0.0), MAX_UNSCALED_WINDOW_BYTES);
        assert_eq!(window(1.0, 0.0), MIN_SCALED_WINDOW_BYTES);
        // 1 Gb/s over 1 ms + 8 x 5 ms.
        assert_eq!(window(1.0, 5000.0), 5_125_000);
        assert_eq!(window(30_000.0, 1e6), MAX_WINDOW_BYTES);
    }
}
