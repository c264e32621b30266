//! No coordinator is left for ten minutes, after any instruction of a plan: nodes roll back what is not confirmed, no
//! packet is lost, and the plan is over soon after a coordinator leads again.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::forwarding_state::ForwardingState;
use reweave_common::ids::NodeId;
use reweave_core::Change;
use reweave_sim_cluster::circuits::node::Node;
use reweave_sim_cluster::circuits::world::World;
use reweave_sim_cluster::coordinator::Death;

use crate::deaths::{RESUME_TIMEOUT, begun, good};
use crate::seeds::is_over;

const LEADERLESS_TIME: Duration = Duration::from_mins(10);
/// Sessions are given up, and the longest timeout of what is unconfirmed passes.
const SETTLE_TIMEOUT: Duration = Duration::from_mins(1);

#[test]
fn unconfirmed_rounds_revert_without_coordinator() {
    let mut went_back = 0;
    for (seed, undisturbed) in good(2) {
        let log = undisturbed.cluster.coordinator.log();
        let tells = |change: &Change| {
            matches!(
                change,
                Change::StepIntent(_) | Change::Acked { .. } | Change::ConfirmIntent { .. }
            )
        };
        let entries = (0..log.len()).filter(|&at| log[at].change.parts().iter().any(tells));
        for entry in entries {
            went_back += deserted(seed, entry);
        }
    }
    assert!(went_back > 10, "only {went_back} were rolled back");
}

/// How many nodes went back.
fn deserted(seed: u64, entry: usize) -> usize {
    let die = |world: &mut World| {
        world.absence = Some(LEADERLESS_TIME);
        let is_durable = true;
        world
            .cluster
            .coordinator
            .will_die(Death { entry, is_durable });
    };
    let mut world = begun(seed, die).expect("it was good");
    let is_alone = |world: &World| world.cluster.coordinator.died == 1;
    assert!(
        world.run_until(RESUME_TIMEOUT, is_alone),
        "seed {seed}, {entry}"
    );
    world.run_for(SETTLE_TIMEOUT);
    are_known(&world, seed, entry);
    let held = holdings(&world);
    world.run_for(LEADERLESS_TIME - SETTLE_TIMEOUT - Duration::from_secs(1));
    assert_eq!(holdings(&world), held, "seed {seed}, {entry}");
    let went_back = world.cluster.nodes.values().map(|it| it.went_back).sum();
    let is_led = |world: &World| world.cluster.coordinator.is_running();
    assert!(
        world.run_until(RESUME_TIMEOUT, is_led),
        "seed {seed}, {entry}"
    );
    if !world.run_until(RESUME_TIMEOUT, |world| !world.is_busy()) {
        world.fail("not over in time");
    }
    world.rest();
    let outcome = world.outcome();
    assert!(
        is_over(outcome.as_ref()),
        "seed {seed}, {entry}: {outcome:?}"
    );
    went_back
}

fn holdings(world: &World) -> Vec<ForwardingState> {
    let nodes = world.cluster.nodes.values();
    nodes.map(Node::holding).collect()
}

/// By the log: every node holds what it held before the last round, or, where that is to stay, its last instruction.
fn are_known(world: &World, seed: u64, entry: usize) {
    let report = last_instructions(world);
    for (id, node) in &world.cluster.nodes {
        assert!(node.disk.fallback.is_none(), "seed {seed}, {entry}: {id:?}");
        let nothing = LastInstruction::default();
        let LastInstruction {
            before,
            last,
            stays,
        } = report.get(id).unwrap_or(&nothing);
        let held = node.holding();
        let is_known = held.is_same_as(before) || *stays && held.is_same_as(last);
        assert!(
            is_known,
            "seed {seed}, {entry}: {id:?} holds {held:?}, instructed {report:?}"
        );
    }
}

#[derive(Debug, Default)]
struct LastInstruction {
    before: ForwardingState,
    last: ForwardingState,
    stays: bool,
}

fn last_instructions(world: &World) -> BTreeMap<NodeId, LastInstruction> {
    let mut last_instruction: BTreeMap<NodeId, LastInstruction> = BTreeMap::new();
    let log = world.cluster.coordinator.log().iter();
    for change in log.flat_map(|command| command.change.parts()) {
        match change {
            Change::StepIntent(intent) => {
                for (&node, holding) in &intent.targets {
                    let last_instruction = last_instruction.entry(node).or_default();
                    let before = std::mem::replace(&mut last_instruction.last, holding.clone());
                    (last_instruction.before, last_instruction.stays) = (before, false);
                }
            }
            Change::ConfirmIntent { .. } => {
                last_instruction.values_mut().for_each(|it| it.stays = true);
            }
            _ => {}
        }
    }
    last_instruction
}
