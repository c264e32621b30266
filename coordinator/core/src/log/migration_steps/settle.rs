//! A node that may hold either of two tables gets no third one until it has acknowledged one of them: the checker
//! covers every mixture of two tables per node.

use reweave_common::fabric::Circuits;
use reweave_common::forwarding::ForwardingTable;
use reweave_common::migration_plan::{
    MigrationPlan, MigrationStage, MigrationStep, Round, StepPosition, Tables, Wave,
};

use super::held_state::Held;

/// The migration with an extra round before each round that would give nodes a third table. In it, these nodes get the
/// table that they certainly held.
pub(crate) fn settled(
    migration_plan: &MigrationPlan,
    tables: &Tables,
    unsure: &Round,
) -> MigrationPlan {
    let mut held = Held::first(tables, &Circuits::new());
    // A node is certain once it has acknowledged any round.
    let mut unsure = unsure.clone();
    let mut waves = Vec::new();
    for (place, step) in migration_plan.steps() {
        if let MigrationStep::Round(round) = step {
            let first = first_for(round, &held, &unsure);
            if !first.is_empty() {
                follow(&mut waves, place, MigrationStep::Round(&first));
            }
            unsure.retain(|node, _| !round.contains_key(node));
        }
        follow(&mut waves, place, step);
        held.pass(step);
    }
    MigrationPlan { waves }
}

/// Appends the step in the same part of the same wave.
fn follow(
    waves: &mut Vec<Wave>,
    StepPosition { wave, stage }: StepPosition,
    step: MigrationStep<'_>,
) {
    if waves.len() <= wave {
        waves.resize_with(wave + 1, Wave::default);
    }
    let wave = &mut waves[wave];
    match (step, stage) {
        (MigrationStep::Round(round), MigrationStage::Draining { .. }) => {
            wave.drain.push(round.clone());
        }
        (MigrationStep::Round(round), _) => wave.undrain.push(round.clone()),
        (MigrationStep::Switch(circuits), _) => wave.circuits.clone_from(circuits),
    }
}

fn first_for(round: &Round, held: &Held, unsure: &Round) -> Round {
    let third = round.iter().filter(|(node, next)| {
        let certain = held.tables().get(node);
        unsure.get(node).is_some_and(|other| {
            !leads_alike(certain, Some(next)) && !leads_alike(Some(other), Some(next))
        })
    });
    held.tables_of(third.map(|(&node, _)| node))
}

/// Whether both tables lead a node's packets the same ways, in the same classes. A missing table leads nowhere.
pub(crate) fn leads_alike(one: Option<&ForwardingTable>, other: Option<&ForwardingTable>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.towards == other.towards && one.raises == other.raises,
        (one, other) => one
            .or(other)
            .is_none_or(|table| table.towards.is_empty() && table.raises.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use reweave_common::forwarding::NextHop;
    use reweave_common::ids::{LinkId, NodeId};

    use super::super::own_table;
    use super::*;

    fn node() -> NodeId {
        NodeId::from_index(0)
    }

    /// A table over this link.
    fn round(link: usize) -> Round {
        let hop = NextHop {
            link: LinkId::from_index(link),
            weight: 1,
        };
        let towards = BTreeMap::from([(NodeId::from_index(9), vec![hop])]);
        let table = ForwardingTable {
            towards,
            ..own_table(node())
        };
        Round::from([(node(), table)])
    }

    fn migration_plan(rounds: &[Round]) -> MigrationPlan {
        let wave = Wave {
            undrain: rounds.to_vec(),
            ..Wave::default()
        };
        MigrationPlan { waves: vec![wave] }
    }

    #[test]
    fn third_table_waits_for_first() {
        let (held, unsure) = (round(0), round(1));
        let laid = settled(&migration_plan(&[round(2)]), &held, &unsure);
        assert_eq!(laid, migration_plan(&[held, round(2)]));
    }

    #[test]
    fn node_without_table_settles() {
        let laid = settled(&migration_plan(&[round(2)]), &Tables::new(), &round(1));
        let nowhere = Round::from([(node(), own_table(node()))]);
        assert_eq!(laid, migration_plan(&[nowhere, round(2)]));
    }

    /// A node that gets one of its two tables first is certain of it.
    #[test]
    fn confirmed_round_settles_unsure_tables() {
        for first in [0, 1] {
            let rounds = [round(first), round(2)];
            let laid = settled(&migration_plan(&rounds), &round(0), &round(1));
            assert_eq!(laid, migration_plan(&rounds));
        }
        let laid = settled(&migration_plan(&[round(2)]), &round(0), &Round::new());
        assert_eq!(laid, migration_plan(&[round(2)]));
    }

    #[test]
    fn tables_of_other_classes_differ() {
        let mut raised = round(0);
        raised.entry(node()).and_modify(|table| {
            table.raises = vec![[LinkId::from_index(3), LinkId::from_index(0)]];
        });
        let laid = settled(
            &migration_plan(std::slice::from_ref(&raised)),
            &round(0),
            &round(1),
        );
        assert_eq!(laid, migration_plan(&[round(0), raised]));
    }
}
