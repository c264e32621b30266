//! A full state first, and then changes: the setup of a node's interfaces seldom changes, and the coordinator keeps it
//! for the session.
//!
//! Measurements are sent every time, because their age matters. So are the pins, which might have changed without
//! notice.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::sample::{Interface, Reading, Sample};

/// What was sent over one session.
#[derive(Debug, Default)]
pub struct Delta {
    interfaces: BTreeMap<String, Interface>,
}

impl Delta {
    /// The sample without what was sent before.
    pub fn handle_sample(&mut self, mut sample: Sample) -> Sample {
        let gone = self.take_gone(&sample);
        sample.readings.retain(|reading| match reading {
            Reading::Interface(interface) => self.is_news(interface),
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
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use reweave_common::forwarding_state::ForwardingState;

    use reweave_common::moment::Moment;
    use reweave_common::plan::Generation;

    use super::*;

    fn interface(name: &str, last: u8) -> Reading {
        Reading::Interface(Interface {
            name: name.to_owned(),
            addresses: vec![Ipv4Addr::new(10, 0, 0, last)],
            gateways: vec![],
        })
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
    fn new_session_gets_full_report() {
        let full = [interface("eth0", 1)];
        assert_eq!(said(&mut Delta::default(), &full), full);
        assert_eq!(said(&mut Delta::default(), &full), full);
    }
}
