//! Spare capacity of interfaces: the speed of the link less the rate of its counters.

use reweave_common::hardware::NicReport;
use reweave_common::sample::{Counters, Spare};
use reweave_common::units::Rate;

/// None where the speed is not known, the interface is down, or it was read for the first time.
pub fn spare(nic: &NicReport, counters: &Counters) -> Option<Spare> {
    let capacity = nic.speed.filter(|_| counters.up)?;
    let left = |carried: Rate| {
        let left = capacity.bits_per_s().saturating_sub(carried.bits_per_s());
        Rate::from_bits_per_s(left)
    };
    Some(Spare {
        interface: counters.interface.clone(),
        capacity,
        send: left(counters.send_rate?),
        receive: left(counters.receive_rate?),
    })
}

#[cfg(test)]
mod tests {
    use reweave_common::units::Bytes;

    use super::*;

    fn counters(send_mbps: Option<u64>) -> Counters {
        let rate = |mbps: u64| Rate::from_bits_per_s(mbps * 1_000_000);
        Counters {
            interface: "eth0".to_owned(),
            up: true,
            sent: Bytes::ZERO,
            received: Bytes::ZERO,
            dropped_packets: 0,
            send_rate: send_mbps.map(rate),
            receive_rate: Some(rate(0)),
        }
    }

    fn nic(gbps: Option<f64>) -> NicReport {
        NicReport {
            speed: gbps.and_then(Rate::from_gbps),
            ..NicReport::default()
        }
    }

    #[test]
    fn spare_bandwidth_excludes_carried_traffic() {
        let spare = spare(&nic(Some(1.0)), &counters(Some(300))).expect("all is known");
        assert_eq!([spare.send.mbps(), spare.receive.mbps()], [700.0, 1000.0]);
    }

    #[test]
    fn overfull_link_has_no_spare_bandwidth() {
        let spare = spare(&nic(Some(1.0)), &counters(Some(1004))).expect("all is known");
        assert_eq!(spare.send.bits_per_s(), 0);
    }

    #[test]
    fn spare_bandwidth_needs_speed_and_rate() {
        assert_eq!(spare(&nic(None), &counters(Some(1))), None);
        assert_eq!(spare(&nic(Some(1.0)), &counters(None)), None);
        let down = Counters {
            up: false,
            ..counters(Some(1))
        };
        assert_eq!(spare(&nic(Some(1.0)), &down), None);
    }
}
