//! What suits which sizes, and how measurements change it.

use super::*;
use crate::tests::scene::Scene;

const PRINTED: &str = "\
# nThread 1 nGpus 1 minBytes 1024 maxBytes 1048576
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    30.50    0.03    0.06      0    30.41    0.03    0.06      0
     1048576        262144     float     sum      -1   210.00    4.99    9.36      0   209.10    5.01    9.40      0
# Avg bus bandwidth    : 4.7
";

fn fabric(hosts: u64) -> Fabric {
    Scene::leaf_spine(2, 4, hosts / 2, 100_000, 100_000).fabric
}

fn swept(fabric: &Fabric, channel_gbps: u64, calibration: Calibration) -> Vec<Choice> {
    let calibrations = Calibrations {
        general: calibration,
        ..Calibrations::default()
    };
    sweep(&asked(fabric, channel_gbps, calibrations)).unwrap()
}

fn asked(fabric: &Fabric, channel_gbps: u64, calibrations: Calibrations) -> Sweep<'_> {
    Sweep {
        fabric,
        operation: Operation::AllReduce,
        sizes: (0..11).map(|nth| f64::from(1 << (2 * nth + 10))).collect(),
        channel: Rate::from_bits_per_s(channel_gbps * 1_000_000_000),
        ranks_per_host: 1,
        calibrations,
        limit: u64::MAX,
    }
}

#[test]
fn small_ones_want_few_steps_and_large_ones_bandwidth() {
    let fabric = fabric(32);
    let choices = swept(&fabric, 25, Calibration::default());
    let (small, large) = (&choices[0], &choices[10]);
    assert_eq!(
        (small.algorithm, small.protocol),
        (Algorithm::Tree, Protocol::LowLatency)
    );
    assert_eq!((small.channels, large.protocol), (1, Protocol::Simple));
    assert!(large.channels >= 4, "{large:?}");
    for choice in &choices {
        assert!(
            choice.weighed.iter().all(|it| it.3 >= choice.time_us),
            "{choice:?}"
        );
        assert_eq!(choice.weighed.len(), 6);
    }
}

#[test]
fn the_table_covers_all_sizes_once() {
    let fabric = fabric(16);
    let rows = table(&swept(&fabric, 25, Calibration::default()));
    assert_eq!(
        (rows[0].from_bytes, rows[rows.len() - 1].to_bytes),
        (0, 1 << 30)
    );
    for pair in rows.windows(2) {
        assert_eq!(pair[0].to_bytes + 1, pair[1].from_bytes);
        assert_ne!(
            (pair[0].algorithm, pair[0].protocol, pair[0].channels),
            (pair[1].algorithm, pair[1].protocol, pair[1].channels)
        );
    }
    let text = csv(Operation::AllReduce, 16, 128, &rows);
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with("allreduce,0,") && first.ends_with(",16,128,-1,-1"),
        "{first}"
    );
    assert!(text.lines().all(|line| line.split(',').count() == 10));
}

#[test]
fn what_nccl_tests_print_is_read() {
    let read = |text| measured::read("out.txt", text);
    let found = read(PRINTED).unwrap();
    let expected = [(1024.0, 30.5), (1_048_576.0, 210.0)];
    assert_eq!(
        found
            .lines
            .iter()
            .map(|it| (it.bytes, it.time_us))
            .collect::<Vec<_>>(),
        expected
    );
    assert_eq!((found.operation, found.ranks), (None, None));
    let said = "# Collective test starting: all_gather_perf\n#  Rank  0 Group  0 Pid 7 on a\n";
    let whole = said.to_owned() + PRINTED;
    let found = read(&whole).unwrap();
    assert_eq!(
        (found.operation.as_deref(), found.ranks),
        (Some("all_gather_perf"), Some(1))
    );
    let error = read("  1024 256 float sum -1 fast 0 0 0")
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("out.txt:1"), "{error}");
}

#[test]
fn latency_and_bytes_are_fitted_apart() {
    let sample = |latency_us: f64, wire_us: f64, measured_us: f64| Sample {
        latency_us,
        wire_us,
        measured_us,
    };
    let slow = [(10.0, 1.0), (10.0, 50.0), (12.0, 900.0)];
    let slow = slow.map(|(latency, wire)| sample(latency, wire, 3.0 * latency + 1.2 * wire));
    let fit = Calibration::fit(&slow).unwrap();
    let near = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
    assert!(
        near(fit.latency, 3.0) && near(fit.wire, 1.2) && fit.off < 1e-9,
        "{fit:?}"
    );
    let alone = Calibration::fit(&[sample(10.0, 10.0, 60.0)]).unwrap();
    assert_eq!((alone.latency, alone.wire), (3.0, 3.0));
    assert_eq!(Calibration::fit(&[]), None);
    // All sizes take as long: of the bytes that says nothing, and the fit is a poor one.
    let same = [1.0, 50.0, 5000.0].map(|wire| sample(10.0, wire, 9000.0));
    let fit = Calibration::fit(&same).unwrap();
    assert!(
        fit.latency > 100.0 && near(fit.wire, 1.0) && fit.off > 0.1,
        "{fit:?}"
    );
}

/// Of some sizes only.
fn few(fabric: &Fabric, calibrations: Calibrations) -> Sweep<'_> {
    Sweep {
        sizes: [10, 14, 18, 22, 26]
            .map(|power| f64::from(1 << power))
            .to_vec(),
        ..asked(fabric, 25, calibrations)
    }
}

fn combinations(choices: &[Choice]) -> Vec<Combination> {
    choices
        .iter()
        .map(|it| (it.algorithm, it.protocol))
        .collect()
}

/// Where the first byte takes long, few steps are worth more; and so is what was measured to be
/// quick by itself.
#[test]
fn measurements_change_what_is_chosen() {
    let fabric = fabric(8);
    let plain = few(&fabric, Calibrations::default());
    let choices = sweep(&plain).unwrap();
    let measured: Vec<_> = choices
        .iter()
        .map(|it| {
            let [empty, all] = [0, choices.len() - 1].map(|nth| choices[nth].time_us);
            let time_us = it.time_us + 50.0 * empty.min(all);
            Measurement {
                bytes: it.bytes,
                time_us,
            }
        })
        .collect();
    let general = calibrate(&plain, &measured, None).unwrap().unwrap();
    assert!(general.latency > 5.0, "{general:?}");
    let slow = Calibrations {
        general,
        ..Calibrations::default()
    };
    let slowly = sweep(&few(&fabric, slow)).unwrap();
    assert_ne!(combinations(&slowly), combinations(&choices));

    let quick = (Algorithm::Tree, Protocol::LowLatency128);
    let times = plain.sizes.iter().map(|&bytes| Measurement {
        bytes,
        time_us: 1.0 + bytes / 1e6,
    });
    let own = calibrate(&plain, &times.collect::<Vec<_>>(), Some(quick))
        .unwrap()
        .unwrap();
    let bound = Calibrations {
        general: Calibration::default(),
        of: vec![(quick, own)],
    };
    let quickly = sweep(&few(&fabric, bound)).unwrap();
    assert!(
        combinations(&quickly).contains(&quick),
        "{own:?} {quickly:?}"
    );
    assert!(!combinations(&choices).contains(&quick));
}

/// A ring comes by every rank, a tree only by as many as it is deep.
#[test]
fn more_ranks_on_each_host_favour_trees() {
    let fabric = fabric(8);
    let with = |ranks_per_host: usize| {
        let asked = Sweep {
            ranks_per_host,
            ..few(&fabric, Calibrations::default())
        };
        let choices = sweep(&asked).unwrap();
        let trees = choices
            .iter()
            .filter(|it| it.algorithm == Algorithm::Tree)
            .count();
        (
            trees,
            choices.iter().map(|it| it.time_us).collect::<Vec<_>>(),
        )
    };
    let [(few, alone), (many, crowded)] = [1, 8].map(with);
    assert!(many > few, "{many} {few}");
    assert!(
        alone
            .iter()
            .zip(&crowded)
            .all(|(alone, crowded)| crowded > alone)
    );
}
