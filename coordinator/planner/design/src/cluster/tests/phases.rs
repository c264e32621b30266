//! Shifts of jobs that share links, compared with all possible shifts.

use std::collections::BTreeMap;

use proptest::prelude::*;
use reweave_common::fabric::Fabric;

use super::training::Reduces;
use crate::cluster::Training;
use crate::cluster::phases::{PeriodicDemand, Piece, Player, fit, shift, together};

/// One stretch of demand on link 0.
fn beat(period_us: u64, from_us: u64, long_us: u64, gbps: f64) -> PeriodicDemand {
    let piece = Piece {
        from_us,
        to_us: from_us + long_us,
        gbps,
    };
    PeriodicDemand {
        period_us,
        demand: BTreeMap::from([(0, vec![piece])]),
    }
}

/// Returns the demand above the capacity in megabit, computed for each microsecond.
fn excess(beats: &[PeriodicDemand], shifts: &[u64], circle_us: u64, links_gbps: &[f64]) -> f64 {
    let asked = |link: usize, at: u64| -> f64 {
        let of = |(beat, shift): (&PeriodicDemand, &u64)| -> f64 {
            let own = (at + circle_us - shift) % beat.period_us;
            let pieces = beat.demand.get(&link).into_iter().flatten();
            pieces
                .filter(|it| (it.from_us..it.to_us).contains(&own))
                .map(|it| it.gbps)
                .sum()
        };
        beats.iter().zip(shifts).map(of).sum()
    };
    let over = |(link, gbps): (usize, &f64)| -> f64 {
        (0..circle_us)
            .map(|at| (asked(link, at) - gbps).max(0.0))
            .sum()
    };
    links_gbps.iter().enumerate().map(over).sum::<f64>() / 1e3
}

/// The least over all whole shifts of all jobs but the first.
fn least(beats: &[PeriodicDemand], circle_us: u64, links_gbps: &[f64]) -> f64 {
    let mut least = f64::INFINITY;
    let ways: u64 = beats[1..].iter().map(|beat| beat.period_us).product();
    for way in 0..ways {
        let (mut rest, mut shifts) = (way, vec![0]);
        for beat in &beats[1..] {
            shifts.push(rest % beat.period_us);
            rest /= beat.period_us;
        }
        least = least.min(excess(beats, &shifts, circle_us, links_gbps));
    }
    least
}

fn any_beat(period_us: u64) -> impl Strategy<Value = PeriodicDemand> {
    let pieces = prop::collection::vec((0..period_us, 1..=period_us, 1..10u32, 0..2usize), 1..3);
    pieces.prop_map(move |pieces| {
        let mut demand = BTreeMap::<_, Vec<_>>::new();
        for (from_us, long_us, gbps, link) in pieces {
            demand.entry(link).or_default().push(Piece {
                from_us,
                to_us: (from_us + long_us).min(period_us),
                gbps: f64::from(gbps),
            });
        }
        PeriodicDemand { period_us, demand }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn two_jobs_are_shifted_optimally(
        (a, b) in (1..4u64, 1..4u64).prop_flat_map(|(a, b)| (any_beat(a * 6), any_beat(b * 6))),
        links in prop::collection::vec((1..12u32).prop_map(f64::from), 2),
    ) {
        let beats = [a, b];
        let phases = shift(&beats, &links).unwrap();
        let circle = phases.circle_us;
        prop_assert_eq!(&phases.periods_us, &beats.iter().map(|it| it.period_us).collect::<Vec<_>>());
        let found = excess(&beats, &phases.shifts_us, circle, &links);
        prop_assert!((found - phases.excess_after_mbit).abs() < 1e-6, "{phases:?}, by hand {found}");
        prop_assert!((found - least(&beats, circle, &links)).abs() < 1e-6, "{phases:?}");
    }

    #[test]
    fn three_jobs_are_shifted_optimally(
        beats in prop::collection::vec(any_beat(8), 3),
        links in prop::collection::vec((1..16u32).prop_map(f64::from), 2),
    ) {
        let phases = shift(&beats, &links).unwrap();
        let least = least(&beats, phases.circle_us, &links);
        prop_assert!((phases.excess_after_mbit - least).abs() < 1e-6, "{phases:?}, {least} is possible");
    }

    #[test]
    fn shifts_never_worsen_many_jobs(beats in prop::collection::vec(any_beat(12), 4..7)) {
        let phases = shift(&beats, &[8.0, 8.0]).unwrap();
        prop_assert!(phases.excess_after_mbit <= phases.excess_before_mbit);
    }

    #[test]
    fn fitting_periods_have_common_cycle(periods in prop::collection::vec(1..1_000_000u64, 1..5)) {
        if let Some((circle, fitted)) = fit(&periods) {
            for (period, fitted) in periods.iter().zip(fitted) {
                prop_assert!(circle.is_multiple_of(fitted) && fitted >= *period);
                prop_assert!(fitted as f64 <= *period as f64 * 1.05 + 1e-6);
            }
        }
    }
}

/// Two jobs that each send for half of the time take turns.
#[test]
fn half_busy_jobs_alternate() {
    let beats = [beat(100, 0, 50, 10.0), beat(100, 0, 50, 10.0)];
    let phases = shift(&beats, &[10.0]).unwrap();
    assert_eq!(
        (phases.excess_before_mbit, phases.excess_after_mbit),
        (0.5, 0.0)
    );
    assert_eq!(phases.shifts_us, [0, 50]);
}

#[test]
fn half_period_job_fits_into_gaps() {
    let beats = [beat(200, 100, 100, 10.0), beat(100, 0, 40, 5.0)];
    let phases = shift(&beats, &[10.0]).unwrap();
    assert_eq!(phases.circle_us, 200);
    assert!(
        (phases.excess_after_mbit - 0.2).abs() < 1e-9,
        "one of two must meet: {phases:?}"
    );
}

#[test]
fn unfitting_periods_are_reported() {
    assert_eq!(fit(&[1000, 1010]).unwrap().1, [1010, 1010]);
    assert_eq!(fit(&[1000, 2000]).unwrap(), (2000, vec![1000, 2000]));
    // Nine of the one take as long as fourteen of the other, but for a hundredth.
    let (circle, periods) = fit(&[1000, 1571]).unwrap();
    assert_eq!([circle / periods[0], circle / periods[1]], [14, 9]);
    // Thirteen to twelve would be the first near ratio.
    assert_eq!(fit(&[1000, 1080]), None);
    assert_eq!(
        shift(&[beat(1000, 0, 5, 1.0), beat(1080, 0, 5, 1.0)], &[1.0]),
        None
    );
}

/// Two jobs of two servers, each on both leaves: they share the cable between the leaves, and each
/// sends for less than half of its iteration.
#[test]
fn shifted_jobs_match_solo_speed() {
    let text = "kind = \"leaf-spine\"\nleaves = 2\nspines = 1\nhosts_per_leaf = 2\nhost_gbps = 100\n\
                uplink_gbps = 100\n";
    let fabric = Fabric::parse("f", text).unwrap();
    let job = Reduces::new(50, 500_000_000).on(2).unwrap();
    let hosts: Vec<_> = fabric.endpoints().collect();
    let [first, second] = [[hosts[0], hosts[2]], [hosts[1], hosts[3]]];
    let players = [&first, &second].map(|placement| Player {
        iteration: &job.iteration,
        placement,
    });
    let found = together(&fabric, &players, &job.settings, u64::MAX).unwrap();
    let alone = found.alone_ms[0];
    assert!((90.0..91.0).contains(&alone), "{found:?}");
    assert!(
        found.at_once_ms.iter().all(|&ms| ms > alone * 1.4),
        "{found:?}"
    );
    assert!(
        found.shifted_ms.iter().all(|&ms| ms < alone * 1.001),
        "{found:?}"
    );
    assert_eq!(
        found.shared,
        [
            "leaf0>spine0",
            "leaf1>spine0",
            "spine0>leaf0",
            "spine0>leaf1"
        ]
    );
}
