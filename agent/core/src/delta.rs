//! A full state first, and then changes: the setup of a node's interfaces and the places of its NICs seldom change, and
//! the coordinator keeps them for the session.
//!
//! Measurements are sent every time, because their age matters. So are the pins, which might have changed without
//! notice.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::pci::NicPlace;
use reweave_common::sample::{HostReading, Interface, Reading, Sample};

/// What was sent over one session.
#[derive(Debug, Default)]
pub struct Delta {
    interfaces: BTreeMap<String, Interface>,
    nic_places: BTreeMap<String, NicPlace>,
}

impl Delta {
    /// The sample without what was sent before.
    pub fn handle_sample(&mut self, mut sample: Sample) -> Sample {
        let gone = self.take_gone(&sample);
        let vanished = vanished(&sample);
        // The coordinator drops the place of a vanished NIC, and one that returned is reported again.
        self.nic_places.retain(|name, _| !vanished.contains(name));
        sample.readings.retain(|reading| match reading {
            Reading::Interface(interface) => self.is_news(interface),
            Reading::Host(HostReading::NicPlace(place)) => {
                !vanished.contains(&place.interface) && self.is_new_place(place)
            }
            _ => true,
        });
        sample
            .readings
            .splice(0..0, gone.into_iter().map(Reading::Interface));
        sample
    }

    /// A sample that lists interfaces lists all with an address. A missing one has lost its addresses, which another
    /// node may claim.
    fn take_gone(&mut self, sample: &Sample) -> Vec<Interface> {
        let listed = sample.readings.iter().filter_map(|reading| match reading {
            Reading::Interface(interface) => Some(interface.name.as_str()),
            _ => None,
        });
        let listed: BTreeSet<_> = listed.collect();
        if listed.is_empty() {
            return Vec::new();
        }
        let is_gone = |name: &String, _: &mut Interface| !listed.contains(name.as_str());
        let gone = self.interfaces.extract_if(.., is_gone);
        gone.map(|(name, _)| Interface {
            name,
            addresses: vec![],
            gateways: vec![],
        })
        .collect()
    }

    fn is_news(&mut self, interface: &Interface) -> bool {
        if self.interfaces.get(&interface.name) == Some(interface) {
            return false;
        }
        let name = interface.name.clone();
        self.interfaces.insert(name, interface.clone());
        true
    }

    fn is_new_place(&mut self, place: &NicPlace) -> bool {
        if self.nic_places.get(&place.interface) == Some(place) {
            return false;
        }
        let name = place.interface.clone();
        self.nic_places.insert(name, place.clone());
        true
    }
}

/// The interfaces that a sample reports as missing.
fn vanished(sample: &Sample) -> BTreeSet<String> {
    let vanished = sample.readings.iter().filter_map(|reading| match reading {
        Reading::Host(HostReading::Vanished { interface, .. }) => Some(interface.clone()),
        _ => None,
    });
    vanished.collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use reweave_common::forwarding_state::ForwardingState;

    use reweave_common::moment::Moment;
    use reweave_common::pci::PciAddress;
    use reweave_common::plan::Generation;

    use super::*;

    fn interface(name: &str, last: u8) -> Reading {
        Reading::Interface(Interface {
            name: name.to_owned(),
            addresses: vec![Ipv4Addr::new(10, 0, 0, last)],
            gateways: vec![],
        })
    }

    fn nic_place(name: &str, bus: u8) -> Reading {
        Reading::Host(HostReading::NicPlace(Box::new(NicPlace {
            interface: name.to_owned(),
            pci: PciAddress::new(0, bus, 0),
            ..NicPlace::default()
        })))
    }

    fn pinned() -> Reading {
        Reading::Holds {
            generation: Generation(1),
            holding: ForwardingState::default(),
        }
    }

    fn said(delta: &mut Delta, readings: &[Reading]) -> Vec<Reading> {
        let sample = Sample {
            taken: Moment::default(),
            readings: readings.to_vec(),
        };
        delta.handle_sample(sample).readings
    }

    #[test]
    fn interfaces_are_reported_on_change() {
        let mut delta = Delta::default();
        let full = [interface("eth0", 1), interface("eth1", 2), pinned()];
        assert_eq!(said(&mut delta, &full), full);
        assert_eq!(said(&mut delta, &full), [pinned()]);
        let moved = [interface("eth0", 1), interface("eth1", 3), pinned()];
        assert_eq!(said(&mut delta, &moved), [interface("eth1", 3), pinned()]);
        assert_eq!(said(&mut delta, &full), [interface("eth1", 2), pinned()]);
    }

    #[test]
    fn emptied_interface_is_reported_once() {
        let mut delta = Delta::default();
        said(&mut delta, &[interface("eth0", 1), interface("eth1", 2)]);
        let emptied = Reading::Interface(Interface {
            name: "eth1".to_owned(),
            addresses: vec![],
            gateways: vec![],
        });
        assert_eq!(said(&mut delta, &[pinned()]), [pinned()], "none is listed");
        assert_eq!(said(&mut delta, &[interface("eth0", 1)]), [emptied]);
        assert_eq!(said(&mut delta, &[interface("eth0", 1)]), []);
        let back = [interface("eth0", 1), interface("eth1", 2)];
        assert_eq!(said(&mut delta, &back), [interface("eth1", 2)]);
    }

    #[test]
    fn nic_places_are_reported_on_change() {
        let mut delta = Delta::default();
        let full = [nic_place("eth0", 0x18), nic_place("eth1", 0x40), pinned()];
        assert_eq!(said(&mut delta, &full), full);
        assert_eq!(said(&mut delta, &full), [pinned()]);
        let moved = [nic_place("eth0", 0x18), nic_place("eth1", 0x4f)];
        assert_eq!(said(&mut delta, &moved), [nic_place("eth1", 0x4f)]);
    }

    /// Places are read seldom, so the last reading outlasts the NIC by some samples.
    #[test]
    fn returned_nic_reports_place_again() {
        let mut delta = Delta::default();
        let there = [nic_place("eth0", 0x18), nic_place("eth1", 0x40)];
        said(&mut delta, &there);
        let gone = Reading::Host(HostReading::Vanished {
            interface: "eth1".to_owned(),
            seen: Moment::default(),
        });
        let missing = [there.as_slice(), std::slice::from_ref(&gone)].concat();
        assert_eq!(said(&mut delta, &missing), [gone]);
        assert_eq!(said(&mut delta, &there), [nic_place("eth1", 0x40)]);
        assert_eq!(said(&mut delta, &there), []);
    }

    #[test]
    fn new_session_gets_full_report() {
        let full = [interface("eth0", 1), nic_place("eth0", 0x18)];
        assert_eq!(said(&mut Delta::default(), &full), full);
        assert_eq!(said(&mut Delta::default(), &full), full);
    }
}
