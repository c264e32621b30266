//! The cells of a flow's row: its ends, and the fields that switches hash. The simulator's table of flows and
//! that of [`listed`](super::listed) flows have them in common.

use std::net::Ipv4Addr;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::input::InputError;

use super::ecmp::{Fields, TCP_PROTOCOL};
use crate::columns::CsvRow;

/// Port of RoCE, which most of these flows are.
const DEFAULT_PORT: u16 = 4791;
const UDP_PROTOCOL: u8 = 17;

/// Returns the ends of a row's flow.
pub fn ends(fabric: &Fabric, row: &CsvRow<'_>) -> Result<[NodeId; 2], InputError> {
    Ok([endpoint(fabric, row, "src")?, endpoint(fabric, row, "dst")?])
}

fn endpoint(fabric: &Fabric, row: &CsvRow<'_>, key: &str) -> Result<NodeId, InputError> {
    let node = node(fabric, row, key, row.text(key)?)?;
    if fabric.node(node).role.is_endpoint() {
        Ok(node)
    } else {
        let problem = format!("{} is a switch; flows go from host to host", row.text(key)?);
        Err(row.error(key, problem))
    }
}

/// The node that a cell names.
pub fn node(
    fabric: &Fabric,
    row: &CsvRow<'_>,
    key: &str,
    name: &str,
) -> Result<NodeId, InputError> {
    let node = fabric.find(name);
    node.ok_or_else(|| row.error(key, format!("the fabric has no node named {name:?}")))
}

/// Returns the address, which is hashed instead of the node's index if the table has one.
fn address(row: &CsvRow<'_>, column: &'static str) -> Result<Option<u32>, InputError> {
    let address: Option<Ipv4Addr> = row.parsed(column)?;
    Ok(address.map(u32::from))
}

/// Returns the hashed fields of the `nth` row's flow; without ports in the row, it gets a port of its own.
pub fn fields(row: &CsvRow<'_>, [from, to]: [NodeId; 2], nth: usize) -> Result<Fields, InputError> {
    let own_port = 0xc000 | (nth & 0x3fff) as u16;
    Ok(Fields {
        source: address(row, "src_ip")?.unwrap_or(from.index() as u32),
        destination: address(row, "dst_ip")?.unwrap_or(to.index() as u32),
        source_port: row.parsed("sport")?.unwrap_or(own_port),
        destination_port: row.parsed("dport")?.unwrap_or(DEFAULT_PORT),
        protocol: match row.optional("proto") {
            None | Some("udp") => UDP_PROTOCOL,
            Some("tcp") => TCP_PROTOCOL,
            Some(_) => row.require("proto")?,
        },
    })
}
