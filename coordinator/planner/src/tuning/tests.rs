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
    sweep(&Sweep {
        fabric,
        operation: Operation::AllReduce,
        sizes: (0..11).map(|nth| f64::from(1 << (2 * nth + 10))).collect(),
        channel: Rate::from_bits_per_s(channel_gbps * 1_000_000_000),
        calibration,
        limit: u64::MAX,
    })
    .unwrap()
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
        (0, u64::MAX)
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
            .iter()
            .map(|it| (it.bytes, it.time_us))
            .collect::<Vec<_>>(),
        expected
    );
    let error = read("  1024 256 float sum -1 fast 0 0 0")
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("out.txt:1"), "{error}");
}

#[test]
fn measurements_shift_and_stretch() {
    let line: Vec<_> = [10.0, 100.0, 1000.0].map(|x| (x, 5.0 + 1.2 * x)).to_vec();
    let fit = Calibration::fit(&line).unwrap();
    assert!(
        (fit.shift_us - 5.0).abs() < 1e-6 && (fit.stretch - 1.2).abs() < 1e-9,
        "{fit:?}"
    );
    assert_eq!(Calibration::fit(&[(10.0, 20.0)]).unwrap().stretch, 2.0);
    assert_eq!(Calibration::fit(&[]), None);
    let fabric = fabric(8);
    let [plain, fitted] = [Calibration::default(), fit].map(|it| swept(&fabric, 25, it)[3].time_us);
    assert!((fitted - (5.0 + 1.2 * plain)).abs() < 1e-6);
}
