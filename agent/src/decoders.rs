//! All decoders of foreign input in this program, for the fuzzers. Nothing else needs this module.

use reweave_agent_core::collectives::CollectiveBook;
use reweave_agent_core::fence::Record;
use reweave_common::moment::Moment;
use reweave_link::durable_files;

/// The control messages that the kernel passes along with a packet, and the error queue's copy of a sent packet.
pub fn beside_packet(bytes: &[u8]) {
    crate::probing::read_beside(bytes);
    crate::probing::read_left(bytes);
}

/// What drivers answer.
pub fn ethtool(answer: &[u8]) {
    crate::counters::read_ethtool(answer);
}

/// What the program in the kernel has counted.
pub fn ebpf_entries(bytes: &[u8]) {
    crate::traffic::read_ebpf(bytes);
}

/// What nft prints.
pub fn nft(text: &str) {
    crate::traffic::read_nft(text);
}

/// What lldpcli prints.
pub fn lldp(text: &str) {
    let _ = crate::lldp::heard(text);
}

/// What the kernel lists.
pub fn netlink(datagram: &[u8]) {
    crate::netlink::read(datagram);
    crate::flows::read(datagram);
}

/// What an agent noted down of the pins in force.
pub fn record(bytes: &[u8]) {
    if let Ok(record) = durable_files::decode::<Record>(bytes) {
        let again = durable_files::encode(&record).expect("it can be written");
        assert_eq!(
            durable_files::decode::<Record>(&again).expect("and read"),
            record
        );
    }
}

/// The reports of jobs about their collectives.
pub fn rank_word(bytes: &[u8]) {
    if let Some(word) = crate::collectives::read(bytes) {
        let mut book = CollectiveBook::default();
        // No machine runs that long.
        let now = word.to.min(Moment::from_micros(1 << 60));
        book.handle_word(now, &word);
        book.poll_readings(now);
        book.poll_growth(now);
    }
}

/// What `rdma` prints of queue pairs.
pub fn queue_pairs(listed: &[u8], counted: &[u8]) {
    crate::rdma::read_pairs(listed, counted);
}
