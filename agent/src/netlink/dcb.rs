//! How an interface treats priorities: which ones pause separately (PFC), and the priority of a DSCP.
//!
//! The driver is asked through the kernel, as `dcb` does; no privilege is needed. A value without an answer is left
//! out.

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable,
    NlasIterator,
};

use super::{NetlinkError, RouteSocket};

const RTM_GETDCB: u16 = 78;
/// Family, command, and two bytes of nothing.
const HEADER_BYTES: usize = 4;
/// The commands of IEEE 802.1Qaz.
const DCB_CMD_IEEE_GET: u8 = 21;
const IEEE_8021QAZ_APP_SEL_DSCP: u8 = 5;

mod attribute {
    pub(super) const INTERFACE: u16 = 1;
    pub(super) const IEEE: u16 = 13;
    pub(super) const PFC: u16 = 2;
    pub(super) const APPLICATIONS: u16 = 3;
    pub(super) const APPLICATION: u16 = 1;
}

/// A driver's report about priorities.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Priorities {
    /// Whether each priority is paused. None where the driver does not support it.
    pub(crate) paused: Option<[bool; 8]>,
    /// The priorities of packets by DSCP, in the order of the DSCPs.
    pub(crate) of_dscps: Vec<(u16, u8)>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Question {
    interface: String,
}

impl RouteSocket {
    /// Reads the priorities of the interface with this name.
    pub(crate) fn priorities(&mut self, interface: &str) -> Result<Priorities, NetlinkError> {
        let interface = interface.to_owned();
        let report = self
            .socket
            .ask("list PFC priorities", &Question { interface })?;
        Ok(report.into_iter().next().unwrap_or_default())
    }
}

impl NetlinkSerializable for Question {
    fn message_type(&self) -> u16 {
        RTM_GETDCB
    }

    fn buffer_len(&self) -> usize {
        HEADER_BYTES + self.attributes().as_slice().buffer_len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let (header, rest) = buffer.split_at_mut(HEADER_BYTES);
        header.copy_from_slice(&[0, DCB_CMD_IEEE_GET, 0, 0]);
        self.attributes().as_slice().emit(rest);
    }
}

impl Question {
    fn attributes(&self) -> [DefaultNla; 1] {
        let name = [self.interface.as_bytes(), &[0]].concat();
        [DefaultNla::new(attribute::INTERFACE, name)]
    }
}

impl NetlinkDeserializable for Priorities {
    type Error = DecodeError;

    fn deserialize(_: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        let mut read = Self::default();
        for outer in NlasIterator::new(payload.get(HEADER_BYTES..).unwrap_or_default()) {
            let outer = outer?;
            if outer.kind() != attribute::IEEE {
                continue;
            }
            for inner in NlasIterator::new(outer.value()) {
                let inner = inner?;
                match inner.kind() {
                    attribute::PFC => read.paused = paused(inner.value()),
                    attribute::APPLICATIONS => read.of_dscps = of_dscps(inner.value())?,
                    _ => {}
                }
            }
        }
        Ok(read)
    }
}

/// How many priorities may be paused, and a bit for each that is.
fn paused(value: &[u8]) -> Option<[bool; 8]> {
    let bits = value.get(1)?;
    Some(std::array::from_fn(|priority| bits >> priority & 1 == 1))
}

fn of_dscps(value: &[u8]) -> Result<Vec<(u16, u8)>, DecodeError> {
    let mut found = Vec::new();
    for entry in NlasIterator::new(value) {
        let entry = entry?;
        if let (attribute::APPLICATION, &[IEEE_8021QAZ_APP_SEL_DSCP, priority, a, b]) =
            (entry.kind(), entry.value())
        {
            found.push((u16::from_ne_bytes([a, b]), priority));
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let attributes = [DefaultNla::new(kind, value.to_vec())];
        let mut bytes = vec![0; attributes.as_slice().buffer_len()];
        attributes.as_slice().emit(&mut bytes);
        bytes
    }

    /// A driver's report in the kernel's layout: the name, the negotiated settings, and the negotiating side.
    fn answer(inner: &[Vec<u8>]) -> Vec<u8> {
        let header = [0, DCB_CMD_IEEE_GET, 0, 0].to_vec();
        let name = attribute(attribute::INTERFACE, b"eth0\0");
        let ieee = attribute(attribute::IEEE, &inner.concat());
        let dcbx = attribute(14, &[0x09]);
        [header, name, ieee, dcbx].concat()
    }

    /// The ETS settings: each table has one byte for each of eight classes.
    fn ets() -> Vec<u8> {
        attribute(1, &[8; 59])
    }

    /// `struct ieee_pfc`: 8 may be paused, those with a bit are, and what was counted.
    fn pfc(bits: u8) -> Vec<u8> {
        let mut value = vec![0; 136];
        (value[0], value[1]) = (8, bits);
        attribute(attribute::PFC, &value)
    }

    fn application(selector: u8, priority: u8, protocol: u16) -> Vec<u8> {
        let [a, b] = protocol.to_ne_bytes();
        attribute(attribute::APPLICATION, &[selector, priority, a, b])
    }

    fn read(answer: &[u8]) -> Result<Priorities, DecodeError> {
        Priorities::deserialize(&NetlinkHeader::default(), answer)
    }

    #[test]
    fn dcb_priorities_are_parsed() {
        let of_ethertype = application(1, 3, 0x8915);
        let table = [application(5, 6, 48), of_ethertype, application(5, 3, 26)].concat();
        let table = attribute(attribute::APPLICATIONS, &table);
        let result = read(&answer(&[ets(), pfc(0b0000_1000), table])).unwrap();
        let paused = [false, false, false, true, false, false, false, false];
        assert_eq!(result.paused, Some(paused));
        assert_eq!(result.of_dscps, [(26, 3), (48, 6)]);
        assert_eq!(read(&answer(&[])).unwrap(), Priorities::default());
    }

    #[test]
    fn dcb_request_matches_kernel_layout() {
        let question = Question {
            interface: "eth0".to_owned(),
        };
        let mut bytes = vec![0xff; question.buffer_len()];
        question.serialize(&mut bytes);
        let expected = [&[0, 21, 0, 0][..], &attribute(1, b"eth0\0")].concat();
        assert_eq!((question.message_type(), bytes), (78, expected));
    }

    #[test]
    fn truncated_dcb_answers_are_safe() {
        let table = attribute(attribute::APPLICATIONS, &application(5, 3, 26));
        let whole = answer(&[pfc(1), table]);
        for length in 0..whole.len() {
            let _ = read(&whole[..length]);
        }
        assert_eq!(paused(&whole[..1]), None);
    }

    /// Loopback has no driver that tells, and a kernel may have been built without all this; but none
    /// of them finds fault with the question.
    #[test]
    fn kernel_accepts_dcb_request() {
        use nix::errno::Errno;
        let mut socket = RouteSocket::open().unwrap();
        let mut refused = |interface: &str| socket.priorities(interface).unwrap_err().errno();
        assert_eq!(refused("lo"), Some(Errno::EOPNOTSUPP));
        let unknown = refused("no-such-one");
        assert!(
            matches!(unknown, Some(Errno::ENODEV | Errno::EOPNOTSUPP)),
            "{unknown:?}"
        );
    }
}
