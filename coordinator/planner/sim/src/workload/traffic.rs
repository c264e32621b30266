//! Bytes between hosts in an iteration.

use reweave_common::ids::Rank;
use reweave_common::iteration::{Iteration, Operation, TaskWork};
use reweave_common::traffic::TrafficMatrix;
use reweave_common::units::Bytes;

use super::choice::most_sends;
use super::lowering::SimulationError;
use super::network::Network;
use crate::collectives::Schedule;

/// Bytes of payload between hosts; what stays inside a host is left out. Parts of a byte, which a
/// share may have, are rounded up.
pub fn matrix(
    iteration: &Iteration,
    network: &Network<'_>,
) -> Result<TrafficMatrix, SimulationError> {
    let mut matrix = TrafficMatrix::default();
    let mut add = |from, to, bytes: Bytes| {
        let hosts = [from, to].map(|rank| network.host(rank));
        if hosts[0] != hosts[1] {
            matrix.add(hosts[0], hosts[1], bytes);
        }
    };
    for (_, task) in iteration.tasks() {
        match task.work {
            TaskWork::Compute { .. } | TaskWork::Delay { .. } => {}
            TaskWork::Transfer { from, to, bytes } => add(from, to, bytes),
            TaskWork::Collective {
                operation,
                group,
                bytes,
                ..
            } => {
                let group = iteration.group(group);
                let bytes = bytes.count() as f64;
                let most_sends = most_sends(iteration);
                for (from, to, bytes) in network.sends(operation, group, bytes, most_sends)? {
                    add(from, to, Bytes::new(bytes.ceil() as u64));
                }
            }
        }
    }
    Ok(matrix)
}

impl Network<'_> {
    /// Adds the sends of a group for a collective.
    fn sends(
        &self,
        operation: Operation,
        group: &[Rank],
        bytes: f64,
        most_sends: usize,
    ) -> Result<Vec<(Rank, Rank, f64)>, SimulationError> {
        let decision = self.decision(operation, group, bytes, most_sends)?;
        let Some(parts) = decision.as_ref().and_then(|it| it.parts.as_deref()) else {
            let chains = self.chains(operation, group, bytes)?;
            let of_chain = chains.iter().flat_map(|chain| {
                let pieces = chain.pieces.iter();
                pieces.map(|it| (it.hop.from, it.hop.to, it.bytes * f64::from(chain.rounds)))
            });
            return Ok(of_chain.collect());
        };
        let sends = parts.iter().flat_map(Schedule::sends);
        let named = sends.map(|(send, times)| {
            let bytes = send.bytes * bytes * times as f64;
            (group[send.from], group[send.to], bytes)
        });
        Ok(named.collect())
    }
}
