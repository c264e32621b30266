//! Whatever this program reads of what others wrote, for who wants to hand it anything at all. Nothing
//! else needs it.

/// What the kernel tells beside a packet.
pub fn beside_packet(bytes: &[u8]) {
    crate::probing::read_beside(bytes);
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
