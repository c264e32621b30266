//! A NIC driver's values by the ethtool ioctls: counters, name, error correction.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use reweave_agent_core::counters::{Meaning, Origin, meaning};
use reweave_common::hardware::Fec;
use thiserror::Error;

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFECPARAM: u32 = 0x50;
/// The set of strings that names counters.
const ETH_SS_STATS: u32 = 1;
const ETH_GSTRING_LEN: usize = 32;
/// The largest NICs have some ten thousand, most of them by queue.
const MAX_COUNTERS: usize = 100_000;

#[derive(Debug, Error)]
pub enum EthtoolError {
    #[error("cannot open a socket for driver queries")]
    Open { source: io::Error },
    #[error("no permission to query drivers")]
    Ask { source: io::Error },
}

pub(super) struct Ethtool {
    socket: OwnedFd,
    /// Which of a driver's counters have a meaning, and how many it has in all. Names are asked
    /// for when that number changes.
    known: BTreeMap<String, CounterNames>,
}

struct CounterNames {
    count: usize,
    meanings: Vec<(usize, Meaning)>,
}

impl Ethtool {
    pub(super) fn open() -> Result<Self, EthtoolError> {
        let socket = socket(
            AddressFamily::Inet,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            None,
        );
        Ok(Self {
            socket: socket.map_err(|errno| EthtoolError::Open {
                source: errno.into(),
            })?,
            known: BTreeMap::new(),
        })
    }

    /// Asks for the counters of the loopback interface, only to learn whether the kernel may be asked.
    pub(super) fn may_ask(&self) -> Result<(), EthtoolError> {
        let asked = self.ask("lo", &mut set_of_counters());
        let refused = asked
            .err()
            .filter(|it| it.kind() == io::ErrorKind::PermissionDenied);
        refused.map_or(Ok(()), |source| Err(EthtoolError::Ask { source }))
    }

    /// The counters that have a meaning. A driver that counts nothing of its own has none.
    pub(super) fn counts(&mut self, interface: &str) -> Vec<(Meaning, u64)> {
        self.try_counts(interface).unwrap_or_default()
    }

    pub(super) fn driver(&self, interface: &str) -> Option<String> {
        let mut buffer = request(ETHTOOL_GDRVINFO, 196);
        self.ask(interface, &mut buffer).ok()?;
        Some(text(buffer.get(4..4 + ETH_GSTRING_LEN)?))
    }

    pub(super) fn fec(&self, interface: &str) -> Option<Fec> {
        let mut buffer = request(ETHTOOL_GFECPARAM, 16);
        self.ask(interface, &mut buffer).ok()?;
        fec(word(&buffer, 4)?)
    }

    fn try_counts(&mut self, interface: &str) -> Option<Vec<(Meaning, u64)>> {
        let count = self.count(interface).filter(|&count| count > 0)?;
        let known = self.known.get(interface).filter(|it| it.count == count);
        if known.is_none() {
            let meanings = meanings(&self.names(interface, count)?);
            let known = CounterNames { count, meanings };
            self.known.insert(interface.to_owned(), known);
        }
        let meanings = &self.known.get(interface)?.meanings;
        if meanings.is_empty() {
            return None;
        }
        let buffer = self.values(interface, count)?;
        let value = |&(index, meaning): &(usize, Meaning)| Some((meaning, value(&buffer, index)?));
        Some(meanings.iter().filter_map(value).collect())
    }

    /// How many counters the driver has.
    fn count(&self, interface: &str) -> Option<usize> {
        let mut buffer = set_of_counters();
        self.ask(interface, &mut buffer).ok()?;
        let has_set = u64::from(word(&buffer, 8)?) & (1 << ETH_SS_STATS) != 0;
        let count = word(&buffer, 16).filter(|_| has_set)? as usize;
        (count <= MAX_COUNTERS).then_some(count)
    }

    pub(super) fn all(&self, interface: &str) -> Option<Vec<(String, u64)>> {
        let count = self.count(interface)?;
        let (names, values) = (
            self.names(interface, count)?,
            self.values(interface, count)?,
        );
        let counter = |(index, name)| Some((name, value(&values, index)?));
        all_names(&names).enumerate().map(counter).collect()
    }

    fn values(&self, interface: &str, count: usize) -> Option<Vec<u8>> {
        let mut buffer = request(ETHTOOL_GSTATS, 8 + 8 * count);
        set_word(&mut buffer, 4, count as u32);
        self.ask(interface, &mut buffer).ok()?;
        Some(buffer)
    }

    fn names(&self, interface: &str, count: usize) -> Option<Vec<u8>> {
        let mut buffer = request(ETHTOOL_GSTRINGS, 12 + ETH_GSTRING_LEN * count);
        set_word(&mut buffer, 4, ETH_SS_STATS);
        set_word(&mut buffer, 8, count as u32);
        self.ask(interface, &mut buffer).ok()?;
        Some(buffer)
    }

    /// Hands `buffer` to the driver, which answers in it.
    #[allow(
        unsafe_code,
        reason = "the kernel reads and writes the buffer, which outlives the call and is as long as the \
                  counts in it say"
    )]
    fn ask(&self, interface: &str, buffer: &mut [u8]) -> io::Result<()> {
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        let room = request.ifr_name.len() - 1;
        for (place, byte) in request.ifr_name[..room].iter_mut().zip(interface.bytes()) {
            *place = byte as libc::c_char;
        }
        request.ifr_ifru.ifru_data = buffer.as_mut_ptr().cast();
        let asked = unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL as _, &mut request) };
        if asked < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// See `decoders`.
pub(crate) fn read(answer: &[u8]) {
    for (index, _) in meanings(answer) {
        let _ = value(answer, index);
    }
    let _ = (text(answer), word(answer, 4).and_then(fec));
}

/// Asks how many counters there are.
fn set_of_counters() -> Vec<u8> {
    let mut buffer = request(ETHTOOL_GSSET_INFO, 20);
    buffer[8..16].copy_from_slice(&(1_u64 << ETH_SS_STATS).to_ne_bytes());
    buffer
}

fn request(command: u32, bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; bytes];
    set_word(&mut buffer, 0, command);
    buffer
}

fn set_word(buffer: &mut [u8], at: usize, word: u32) {
    buffer[at..at + 4].copy_from_slice(&word.to_ne_bytes());
}

fn word(buffer: &[u8], at: usize) -> Option<u32> {
    let bytes = buffer.get(at..at + 4)?;
    bytes.try_into().ok().map(u32::from_ne_bytes)
}

fn value(stats: &[u8], index: usize) -> Option<u64> {
    let at = 8 + 8 * index;
    let bytes = stats.get(at..at + 8)?;
    bytes.try_into().ok().map(u64::from_ne_bytes)
}

/// Those of the names in a set of strings that have a meaning, and where they stand.
fn meanings(strings: &[u8]) -> Vec<(usize, Meaning)> {
    let meant = all_names(strings)
        .enumerate()
        .filter_map(|(index, name)| Some((index, meaning(Origin::Driver, &name)?)));
    meant.collect()
}

fn all_names(strings: &[u8]) -> impl Iterator<Item = String> {
    let names = strings.get(12..).unwrap_or_default();
    names.chunks_exact(ETH_GSTRING_LEN).map(text)
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

/// Reads the bits of the active FEC modes. Where a link has several, the strongest counts.
fn fec(active: u32) -> Option<Fec> {
    const FEC_BITS: [(u32, Fec); 4] = [
        (1 << 5, Fec::LowLatencyReedSolomon),
        (1 << 3, Fec::ReedSolomon),
        (1 << 4, Fec::BaseR),
        (1 << 2, Fec::Off),
    ];
    let active = FEC_BITS.iter().find(|(bit, _)| active & bit != 0);
    active.map(|&(_, fec)| fec)
}

#[cfg(test)]
mod tests {
    use reweave_common::health::Signal;

    use super::*;

    fn strings(names: &[&str]) -> Vec<u8> {
        let mut buffer = vec![0; 12 + ETH_GSTRING_LEN * names.len()];
        for (name, place) in names
            .iter()
            .zip(buffer[12..].chunks_exact_mut(ETH_GSTRING_LEN))
        {
            place[..name.len()].copy_from_slice(name.as_bytes());
        }
        buffer
    }

    #[test]
    fn only_meaningful_counters_are_read() {
        let names = strings(&[
            "rx_packets",
            "rx_crc_errors_phy",
            "rx0_bytes",
            "rx_prio3_pause",
        ]);
        let expected = [
            (1, Signal::FrameErrors.into()),
            (3, Signal::Pauses(3).into()),
        ];
        assert_eq!(meanings(&names), expected);
    }

    #[test]
    fn counter_name_may_fill_its_field() {
        let name = "tx_pause_storm_warning_events_ab";
        assert_eq!(text(name.as_bytes()), name);
    }

    #[test]
    fn strongest_fec_is_reported() {
        assert_eq!(fec(1 << 3), Some(Fec::ReedSolomon));
        assert_eq!(fec(1 << 2), Some(Fec::Off));
        assert_eq!(fec(0), None);
    }

    #[test]
    fn truncated_ethtool_answers_are_safe() {
        let names = strings(&["rx_crc_errors_phy", "rx_discards_phy"]);
        for length in 0..names.len() {
            meanings(&names[..length]);
            let _ = (word(&names[..length], 4), value(&names[..length], 1));
        }
    }
}
