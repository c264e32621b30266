//! Drops of the kernel's own queues.

use std::collections::BTreeMap;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcStats2};

use super::{NetlinkError, RouteSocket};

impl RouteSocket {
    /// The drops by interface index. Only the root queue is read, because it counts the drops of all queues below it.
    pub fn queue_drops(&mut self) -> Result<BTreeMap<u32, u64>, NetlinkError> {
        let request = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
        let listed = self.socket.dump("list its queues", &request)?;
        Ok(listed.iter().filter_map(drops).collect())
    }
}

pub(super) fn drops(message: &RouteNetlinkMessage) -> Option<(u32, u64)> {
    let RouteNetlinkMessage::NewQueueDiscipline(message) = message else {
        return None;
    };
    if message.header.parent != TcHandle::ROOT {
        return None;
    }
    let stats = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            TcAttribute::Stats2(stats) => Some(stats),
            _ => None,
        })?;
    let drops = stats.iter().find_map(|part| match part {
        TcStats2::Queue(queue) => Some(queue.drops.into()),
        _ => None,
    })?;
    Some((u32::try_from(message.header.index).ok()?, drops))
}
