//! Packets as a pcapng file, which names the interface and the direction of each. Pure.

use super::Record;

const SECTION_HEADER_BLOCK: u32 = 0x0a0d_0d0a;
const INTERFACE_BLOCK: u32 = 1;
const ENHANCED_PACKET_BLOCK: u32 = 6;
/// Shows readers the byte order of this machine.
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const LINKTYPE_ETHERNET: u16 = 1;
const NANOSECOND_RESOLUTION: u8 = 9;

mod option {
    pub(super) const COMMENT: u16 = 1;
    pub(super) const NAME: u16 = 2;
    pub(super) const FLAGS: u16 = 2;
    pub(super) const RESOLUTION: u16 = 9;
}

/// A whole file. `name` gives the name of an interface.
pub(super) fn file<'r>(
    records: impl Iterator<Item = &'r Record> + Clone,
    name: impl Fn(u32) -> String,
    snap_bytes: u32,
    comment: &str,
) -> Vec<u8> {
    let mut file = section(comment);
    let mut interfaces: Vec<u32> = records.clone().map(|record| record.interface).collect();
    interfaces.sort_unstable();
    interfaces.dedup();
    for index in &interfaces {
        file.extend(interface(&name(*index), snap_bytes));
    }
    for record in records {
        // All interfaces were added above.
        let place = interfaces.partition_point(|index| *index < record.interface);
        file.extend(packet(record, place as u32));
    }
    file
}

fn section(comment: &str) -> Vec<u8> {
    let mut body = BYTE_ORDER_MAGIC.to_ne_bytes().to_vec();
    body.extend(1_u16.to_ne_bytes());
    body.extend(0_u16.to_ne_bytes());
    // The length of the section is left unspecified.
    body.extend((-1_i64).to_ne_bytes());
    add_option(&mut body, option::COMMENT, comment.as_bytes());
    block(SECTION_HEADER_BLOCK, &body)
}

fn interface(name: &str, snap_bytes: u32) -> Vec<u8> {
    let mut body = LINKTYPE_ETHERNET.to_ne_bytes().to_vec();
    body.extend(0_u16.to_ne_bytes());
    body.extend(snap_bytes.to_ne_bytes());
    add_option(&mut body, option::NAME, name.as_bytes());
    add_option(&mut body, option::RESOLUTION, &[NANOSECOND_RESOLUTION]);
    block(INTERFACE_BLOCK, &body)
}

fn packet(record: &Record, interface: u32) -> Vec<u8> {
    let nanos = record.time.as_nanos() as u64;
    let mut body = interface.to_ne_bytes().to_vec();
    body.extend(((nanos >> 32) as u32).to_ne_bytes());
    body.extend((nanos as u32).to_ne_bytes());
    body.extend((record.kept().len() as u32).to_ne_bytes());
    body.extend(record.length.to_ne_bytes());
    add_padded(&mut body, record.kept());
    let direction: u32 = if record.outgoing { 2 } else { 1 };
    add_option(&mut body, option::FLAGS, &direction.to_ne_bytes());
    block(ENHANCED_PACKET_BLOCK, &body)
}

/// A block has its kind before and its length around it; the options in it end with a zero.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    const BLOCK_FRAMING_BYTES: usize = 16;
    let length = ((body.len() + BLOCK_FRAMING_BYTES) as u32).to_ne_bytes();
    [&kind.to_ne_bytes()[..], &length, body, &[0; 4], &length].concat()
}

fn add_option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    body.extend(code.to_ne_bytes());
    body.extend((value.len() as u16).to_ne_bytes());
    add_padded(body, value);
}

fn add_padded(body: &mut Vec<u8>, bytes: &[u8]) {
    body.extend(bytes);
    body.extend(std::iter::repeat_n(
        0,
        bytes.len().next_multiple_of(4) - bytes.len(),
    ));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::packet::Header;

    fn record(interface: u32, bytes: &[u8]) -> Record {
        Record::new(&Header {
            time: Duration::from_nanos(0x1_0000_0002),
            interface,
            outgoing: interface > 3,
            length: 1500,
            bytes,
        })
    }

    /// The kinds of all blocks, each of which must be framed by its length.
    fn kinds(mut file: &[u8]) -> Vec<u32> {
        let word =
            |at: usize, file: &[u8]| u32::from_ne_bytes(file[at..at + 4].try_into().unwrap());
        let mut kinds = Vec::new();
        while !file.is_empty() {
            let length = word(4, file) as usize;
            assert_eq!(length % 4, 0);
            assert_eq!(word(length - 4, file) as usize, length);
            kinds.push(word(0, file));
            file = &file[length..];
        }
        kinds
    }

    #[test]
    fn each_interface_precedes_its_packets() {
        let records = [record(7, b"a"), record(2, b"abcd"), record(7, b"")];
        let file = file(
            records.iter(),
            |index| format!("swp{index}"),
            128,
            "a comment",
        );
        assert_eq!(
            kinds(&file),
            [
                SECTION_HEADER_BLOCK,
                INTERFACE_BLOCK,
                INTERFACE_BLOCK,
                ENHANCED_PACKET_BLOCK,
                ENHANCED_PACKET_BLOCK,
                ENHANCED_PACKET_BLOCK
            ]
        );
        let contains = |bytes: &[u8]| file.windows(bytes.len()).any(|window| window == bytes);
        assert!(contains(b"swp2") && contains(b"swp7") && contains(b"a comment"));
    }

    #[test]
    fn packet_has_time_lengths_and_direction() {
        let block = packet(&record(7, b"abcde"), 1);
        let word = |at: usize| u32::from_ne_bytes(block[at..at + 4].try_into().unwrap());
        assert_eq!([8, 12, 16, 20, 24].map(word), [1, 1, 2, 5, 1500]);
        assert_eq!(&block[28..36], b"abcde\0\0\0");
        assert_eq!(word(40), 2, "outgoing");
    }

    #[test]
    fn empty_capture_is_valid_file() {
        assert_eq!(
            kinds(&file([].iter(), |_| String::new(), 128, "")),
            [SECTION_HEADER_BLOCK]
        );
    }
}
