//! Migrations of small random fabrics, checked by a walker that tries every mixture of nodes that have changed in a
//! round and nodes that have not, and every path of a packet through it.

use reweave_check::{Network, Unsound, check_migration};
use reweave_common::forwarding::NextHop;
use reweave_common::ids::OpticalId;
use reweave_common::migration_plan::MigrationStep;
use reweave_common::split_mix::SplitMix64;

use super::examples::{some_circuits, some_fabric, some_tables};
use super::*;
use crate::log::migration_steps::retraced;

mod partial;

/// Hosts that forward for each other, their cables and fibres, and the states before and after.
struct Case {
    fabric: Fabric,
    before: (Tables, Circuits),
    after: (Tables, Circuits),
}

impl Case {
    fn of(seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let fabric = some_fabric(&mut rng);
        let [before, after] = [0, 1].map(|_| {
            let circuits = some_circuits(&fabric, &mut rng);
            let tables = some_tables(&fabric, &circuits, &mut rng);
            (tables, circuits)
        });
        Self {
            fabric,
            before,
            after,
        }
    }

    fn planned(&self, pace: RoundWidth) -> Result<MigrationPlan, NoSafeOrder> {
        let instructed = self.fabric.nodes().map(|(node, _)| node).collect();
        let from = MigrationStart {
            fabric: &self.fabric,
            instructed: &instructed,
            down: &BTreeSet::new(),
            tables: &self.before.0,
            unsure: &Round::new(),
            circuits: &self.before.1,
            floor: 0.25,
            pace,
        };
        plan_migration(from, &self.after.0, &self.after.1)
    }

    fn check(&self, migration_plan: &MigrationPlan) -> Result<(), Vec<Unsound>> {
        let network = Network {
            tables: &self.before.0,
            circuits: &self.before.1,
            floor: 0.25,
            ..Network::untouched(&self.fabric)
        };
        check_migration(&network, migration_plan, &self.after.0, &self.after.1)
    }

    /// Whether every packet arrives at every moment of this migration, and none uses a circuit that moves.
    fn loses_nothing(&self, migration_plan: &MigrationPlan) -> bool {
        let (mut tables, mut circuits) = self.before.clone();
        migration_plan.steps().all(|(_, step)| match step {
            MigrationStep::Round(round) => {
                let arrives = self.arrives_in_any_mixture(&tables, round, &circuits);
                tables.extend(round.clone());
                arrives
            }
            MigrationStep::Switch(moved) => {
                let before = std::mem::take(&mut circuits);
                circuits.clone_from(&before);
                circuits.extend(moved.clone());
                let both = in_both(&before, &circuits);
                self.all_arrive(&tables, &both)
            }
        })
    }

    fn arrives_in_any_mixture(&self, tables: &Tables, round: &Round, circuits: &Circuits) -> bool {
        let nodes: Vec<_> = round.keys().copied().collect();
        (0..1_u32 << nodes.len()).all(|mixture| {
            let mut mixed = tables.clone();
            for (index, node) in nodes.iter().enumerate() {
                if mixture & (1 << index) != 0 {
                    mixed.insert(*node, round[node].clone());
                }
            }
            self.all_arrive(&mixed, circuits)
        })
    }

    fn all_arrive(&self, tables: &Tables, circuits: &Circuits) -> bool {
        let dark = self.fabric.dark(circuits);
        let hosts: Vec<_> = self.fabric.endpoints().collect();
        hosts.iter().all(|&to| {
            hosts
                .iter()
                .all(|&from| self.arrives(tables, &dark, [from, to], hosts.len()))
        })
    }

    /// Whether packets arrive on every path, in at most as many hops as there are hosts.
    fn arrives(
        &self,
        tables: &Tables,
        dark: &BTreeSet<LinkId>,
        [at, to]: [NodeId; 2],
        hops: usize,
    ) -> bool {
        if at == to {
            return true;
        }
        let next = tables.get(&at).and_then(|table| table.towards.get(&to));
        let next = next.map_or(&[][..], Vec::as_slice);
        let leads = |hop: &NextHop| {
            let far = self.fabric.link(hop.link).far(at).node;
            !dark.contains(&hop.link) && self.arrives(tables, dark, [far, to], hops - 1)
        };
        hops > 0 && !next.is_empty() && next.iter().all(leads)
    }
}

fn in_both(one: &Circuits, other: &Circuits) -> Circuits {
    let both = |(&optical, set): (&OpticalId, &CircuitSet)| {
        let kept = set
            .iter()
            .filter(|&circuit| other[&optical].contains(circuit));
        (optical, kept.collect())
    };
    one.iter().map(both).collect()
}

/// A case in which all hosts reach each other before and after.
fn sensible(seed: u64) -> Option<Case> {
    let case = Case::of(seed);
    let whole = |(tables, circuits): &(Tables, Circuits)| case.all_arrive(tables, circuits);
    (whole(&case.before) && whole(&case.after)).then_some(case)
}

/// Returns all changes at once and in any order, as a planner without rounds would make them.
fn unordered(case: &Case) -> MigrationPlan {
    let first = BTreeMap::from_iter(case.after.1.clone());
    let wave = |circuits, drain| Wave {
        drain,
        circuits,
        undrain: Vec::new(),
    };
    MigrationPlan {
        waves: vec![
            wave(first, Vec::new()),
            wave(Circuits::new(), vec![case.after.0.clone()]),
        ],
    }
}

fn judge_cases(seeds: std::ops::Range<u64>, pace: RoundWidth) -> [usize; 3] {
    let (mut sound, mut impossible, mut unordered_lost) = (0, 0, 0);
    for seed in seeds {
        let Some(case) = sensible(seed) else { continue };
        let Ok(migration_plan) = case.planned(pace) else {
            impossible += 1;
            continue;
        };
        assert_eq!(
            case.check(&migration_plan),
            Ok(()),
            "seed {seed}: {migration_plan:#?}"
        );
        assert!(
            case.loses_nothing(&migration_plan),
            "seed {seed}: {migration_plan:#?}"
        );
        sound += 1;
        let unordered = unordered(&case);
        let loses = !case.loses_nothing(&unordered);
        assert!(
            !loses || case.check(&unordered).is_err(),
            "seed {seed}: found sound"
        );
        unordered_lost += usize::from(loses);
    }
    [sound, impossible, unordered_lost]
}

#[test]
fn migrations_are_sound_and_lose_nothing() {
    for pace in [RoundWidth::Wide, RoundWidth::Narrow] {
        let [sound, impossible, unordered_lost] = judge_cases(0..600, pace);
        let counts = format!("{sound} migrations, {impossible} without one, {unordered_lost} lost");
        assert!(sound > 60 && unordered_lost > sound / 4, "{counts}");
    }
}

fn is_narrow(unsound: &Unsound) -> bool {
    matches!(unsound, Unsound::TooNarrow { .. })
}

/// After each of its steps, a migration can be rolled back to its start. A node that has gained capacity meanwhile may
/// lose too much of it at once, and has to wait.
#[test]
fn retraced_migration_loses_nothing() {
    let mut retraced_ones = 0;
    for case in (0..400).filter_map(sensible) {
        let Ok(there) = case.planned(RoundWidth::Wide) else {
            continue;
        };
        for completed in 0..=there.steps().count() {
            let (mut tables, mut circuits) = case.before.clone();
            for (_, step) in there.steps().take(completed) {
                match step {
                    MigrationStep::Round(round) => tables.extend(round.clone()),
                    MigrationStep::Switch(moved) => circuits.extend(moved.clone()),
                }
            }
            let back = retraced(&there, completed, &case.before.0, &case.before.1);
            let case = Case {
                fabric: case.fabric.clone(),
                before: (tables, circuits),
                after: case.before.clone(),
            };
            assert!(case.loses_nothing(&back), "{back:#?}");
            match case.check(&back) {
                Ok(()) => retraced_ones += completed,
                Err(found) => assert!(found.iter().all(is_narrow), "{found:?}"),
            }
        }
    }
    assert!(retraced_ones > 300, "{retraced_ones}");
}

/// The same, a million times.
#[test]
#[ignore = "takes minutes: part of the soak"]
fn million_migrations_lose_nothing() {
    let [sound, _, unordered_lost] = judge_cases(4_000..1_004_000, RoundWidth::Wide);
    assert!(sound > 100_000 && unordered_lost > sound / 4);
}
