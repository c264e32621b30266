//! Hosts on the command line, and the flows to them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, ToSocketAddrs, UdpSocket};
use std::str::FromStr;

use reweave_agent::error::AgentError;
use reweave_common::flow::{FlowKey, Protocol};

/// Source ports of the flows to a host, each of which may take another path.
pub(super) struct Ports {
    pub(super) first: u16,
    pub(super) paths: u16,
    pub(super) to: u16,
}

/// One end of a flow, by name or address.
#[derive(Debug, Clone)]
pub(super) struct End {
    host: String,
    port: u16,
}

impl FromStr for End {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        let end = parts.and_then(|(host, port)| {
            Some(Self {
                host: host.to_owned(),
                port: port.parse().ok()?,
            })
        });
        end.ok_or("give HOST:PORT")
    }
}

impl End {
    pub(super) fn find(&self) -> Result<SocketAddrV4, AgentError> {
        Ok(SocketAddrV4::new(resolve(&self.host)?, self.port))
    }
}

pub(super) fn resolve_all(hosts: &[String]) -> Result<Vec<Ipv4Addr>, AgentError> {
    let mut found = vec![];
    for host in hosts {
        let address = resolve(host)?;
        // A duplicate would double the rate.
        if !found.contains(&address) {
            found.push(address);
        }
    }
    Ok(found)
}

pub(super) fn resolve(host: &str) -> Result<Ipv4Addr, AgentError> {
    let unknown = |source| AgentError::UnknownHost {
        host: host.to_owned(),
        source,
    };
    let found = (host, 0).to_socket_addrs().map_err(unknown)?;
    let mut found = found.filter_map(|address| match address {
        SocketAddr::V4(address) => Some(*address.ip()),
        SocketAddr::V6(_) => None,
    });
    found.next().ok_or_else(|| {
        let why = "it has no IPv4 address";
        unknown(io::Error::new(io::ErrorKind::NotFound, why))
    })
}

/// Returns flows from each source port to each host.
pub(super) fn flows(hosts: &[Ipv4Addr], ports: &Ports) -> Result<Vec<FlowKey>, AgentError> {
    let mut flows = vec![];
    for &host in hosts {
        let own = own_address(host)?;
        flows.extend((0..ports.paths).map(|path| FlowKey {
            protocol: Protocol::Udp,
            source: SocketAddrV4::new(own, ports.first.saturating_add(path)),
            destination: SocketAddrV4::new(host, ports.to),
        }));
    }
    Ok(flows)
}

/// Returns the address from which this host sends to the other one.
pub(super) fn own_address(host: Ipv4Addr) -> Result<Ipv4Addr, AgentError> {
    let no_way = |source| AgentError::NoWay { host, source };
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(no_way)?;
    socket.connect((host, 9)).map_err(no_way)?;
    match socket.local_addr().map_err(no_way)? {
        SocketAddr::V4(own) => Ok(*own.ip()),
        SocketAddr::V6(_) => Ok(Ipv4Addr::UNSPECIFIED),
    }
}
