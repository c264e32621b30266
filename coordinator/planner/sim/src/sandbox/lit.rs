//! Lit fibres of a fabric: those that a circuit joins.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::circuit::CircuitSet;
use reweave_common::fabric::{Circuits, Fabric};
use reweave_common::ids::{LinkId, OpticalId};
use reweave_common::traffic::Burst;
use serde::Deserialize;

/// New circuits of a command that moves circuits.
#[derive(Deserialize)]
struct Command {
    circuit_intent: Intent,
}

#[derive(Deserialize)]
struct Intent {
    moves: BTreeMap<OpticalId, Move>,
}

#[derive(Deserialize)]
struct Move {
    desired: CircuitSet,
}

/// The fabric as bursts were seen to cross it, and as it was when the last of them ended. Its circuits are those of
/// its file, and what became of them by commands that the history has, as JSON, in their order.
pub fn as_seen(fabric: &Fabric, commands: &[String], bursts: &[Burst]) -> [Fabric; 2] {
    let dark = fabric.dark(&circuits_after(fabric, commands));
    let mut dark_throughout = dark.clone();
    for burst in bursts {
        light(fabric, burst, &mut dark_throughout);
    }
    [dark_throughout, dark].map(|dark| fabric.less(&dark))
}

/// Returns the circuits after these commands. Unreadable commands and unknown switches are ignored.
fn circuits_after(fabric: &Fabric, commands: &[String]) -> Circuits {
    let mut circuits = fabric.first_circuits().clone();
    for command in commands {
        let Ok(Command { circuit_intent }) = serde_json::from_str(command) else {
            continue;
        };
        for (optical, Move { desired }) in circuit_intent.moves {
            if let Some(set) = circuits.get_mut(&optical) {
                *set = desired;
            }
        }
    }
    circuits
}

/// Removes links from `dark` over which a node was observed to send: a circuit existed then.
fn light(fabric: &Fabric, burst: &Burst, dark: &mut BTreeSet<LinkId>) {
    let hops = burst.hops.iter().flatten().chain(&burst.to_node);
    let nodes: Vec<_> = hops.filter_map(|name| fabric.find(name)).collect();
    for pair in nodes.windows(2) {
        let mut links = fabric.links_between(pair[0], pair[1]);
        if links.clone().all(|link| dark.contains(&link))
            && let Some(link) = links.next()
        {
            dark.remove(&link);
        }
    }
}
