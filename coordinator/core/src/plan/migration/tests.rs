//! Migrations of small random fabrics, against a walker that tries every mixture of nodes that have followed a round
//! and nodes that have not, and every path that a packet may take through it.

use reweave_check::{Network, Unsound, check_migration};
use reweave_common::forwarding::NextHop;
use reweave_common::ids::OpticalId;
use reweave_common::migration_plan::MigrationStep;
use reweave_common::split_mix::SplitMix64;

use super::examples::{some_circuits, some_fabric, some_tables};
use super::*;
use crate::log::migration_steps::retraced;

mod partial;

/// Hosts that forward for each other, their cables and fibres, and what is to become what.
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

    fn course(&self, pace: RoundWidth) -> Result<MigrationPlan, NoSafeOrder> {
        let told = self.fabric.nodes().map(|(node, _)| node).collect();
        let from = MigrationStart {
            fabric: &self.fabric,
            told: &told,
            down: &BTreeSet::new(),
            tables: &self.before.0,
            unsure: &Round::new(),
            circuits: &self.before.1,
            floor: 0.25,
            pace,
        };
        course(from, &self.after.0, &self.after.1)
    }

    fn check(&self, course: &MigrationPlan) -> Result<(), Vec<Unsound>> {
        let network = Network {
            tables: &self.before.0,
            circuits: &self.before.1,
            floor: 0.25,
            ..Network::untouched(&self.fabric)
        };
        check_migration(&network, course, (&self.after.0, &self.after.1))
    }

    /// Whether at every moment of this migration every packet arrives, and none passes what moves.
    fn loses_nothing(&self, course: &MigrationPlan) -> bool {
        let (mut tables, mut circuits) = self.before.clone();
        course.legs().all(|(_, leg)| match leg {
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

    /// By every way there is, in no more hops than there are hosts.
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

/// Those in which every host reaches every other, before and after.
fn sensible(seed: u64) -> Option<Case> {
    let case = Case::of(seed);
    let whole = |(tables, circuits): &(Tables, Circuits)| case.all_arrive(tables, circuits);
    (whole(&case.before) && whole(&case.after)).then_some(case)
}

/// All at once and in any order, as a planner without rounds would do.
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
        let Ok(course) = case.course(pace) else {
            impossible += 1;
            continue;
        };
        assert_eq!(case.check(&course), Ok(()), "seed {seed}: {course:#?}");
        assert!(case.loses_nothing(&course), "seed {seed}: {course:#?}");
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
        let counts = format!("{sound} courses, {impossible} without one, {unordered_lost} lost");
        assert!(sound > 60 && unordered_lost > sound / 4, "{counts}");
    }
}

fn is_narrow(unsound: &Unsound) -> bool {
    matches!(unsound, Unsound::TooNarrow { .. })
}

/// From behind each of its steps, a migration leads back to where it began. A node that has gained capacity on the way
/// may lose too much of it at once, and waits then.
#[test]
fn retraced_migration_loses_nothing() {
    let mut retraced_ones = 0;
    for case in (0..400).filter_map(sensible) {
        let Ok(there) = case.course(RoundWidth::Wide) else {
            continue;
        };
        for legs in 0..=there.legs().count() {
            let (mut tables, mut circuits) = case.before.clone();
            for (_, leg) in there.legs().take(legs) {
                match leg {
                    MigrationStep::Round(round) => tables.extend(round.clone()),
                    MigrationStep::Switch(moved) => circuits.extend(moved.clone()),
                }
            }
            let back = retraced(&there, legs, (&case.before.0, &case.before.1));
            let case = Case {
                fabric: case.fabric.clone(),
                before: (tables, circuits),
                after: case.before.clone(),
            };
            assert!(case.loses_nothing(&back), "{back:#?}");
            match case.check(&back) {
                Ok(()) => retraced_ones += legs,
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
