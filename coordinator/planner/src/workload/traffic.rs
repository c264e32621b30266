//! Who sends how much to whom in an iteration.

use reweave_common::iteration::{Iteration, Work};
use reweave_common::traffic::TrafficMatrix;
use reweave_common::units::Bytes;

use super::network::{Network, NetworkError};

/// Bytes of payload between hosts; what stays inside a host is left out. Parts of a byte, which a
/// share may have, are rounded up.
pub fn matrix(iteration: &Iteration, network: &Network<'_>) -> Result<TrafficMatrix, NetworkError> {
    let mut matrix = TrafficMatrix::default();
    let mut add = |from, to, bytes: Bytes| {
        let hosts = [from, to].map(|rank| network.host(rank));
        if hosts[0] != hosts[1] {
            matrix.add(hosts[0], hosts[1], bytes);
        }
    };
    for (_, task) in iteration.tasks() {
        match task.work {
            Work::Compute { .. } | Work::Delay { .. } => {}
            Work::Transfer { from, to, bytes } => add(from, to, bytes),
            Work::Collective {
                operation,
                group,
                bytes,
                ..
            } => {
                let group = iteration.group(group);
                for chain in network.chains(operation, group, bytes.count() as f64)? {
                    for piece in &chain.pieces {
                        let bytes = piece.bytes * f64::from(chain.rounds);
                        add(
                            piece.leg.from,
                            piece.leg.to,
                            Bytes::new(bytes.ceil() as u64),
                        );
                    }
                }
            }
        }
    }
    Ok(matrix)
}
