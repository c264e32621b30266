//! Choices by size, and their changes by measurements.

use reweave_common::fabric::Fabric;
use reweave_common::units::Rate;

use super::measured::Parts;
use super::*;

const NCCL_TESTS_OUTPUT: &str = "\
# nThread 1 nGpus 1 minBytes 1024 maxBytes 1048576
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    30.50    0.03    0.06      0    30.41    0.03    0.06      0
     1048576        262144     float     sum      -1   210.00    4.99    9.36      0   209.10    5.01    9.40      0
# Avg bus bandwidth    : 4.7
";

fn leaf_spine(leaves: u64, spines: u64, hosts: u64, uplink_gbps: u64) -> Fabric {
    let text = format!(
        "kind = \"leaf-spine\"\nleaves = {leaves}\nspines = {spines}\nhosts_per_leaf = {hosts}\n\
         host_gbps = 100\nuplink_gbps = {uplink_gbps}"
    );
    Fabric::parse("fabric.toml", &text).unwrap()
}

fn fabric(hosts: u64) -> Fabric {
    leaf_spine(2, 4, hosts / 2, 100)
}

fn ground(fabric: &Fabric, channel_gbps: u64) -> Ground<'_> {
    Ground {
        fabric,
        operation: Operation::AllReduce,
        channels: DEFAULT_CHANNEL_COUNTS.to_vec(),
        channel: Rate::from_bits_per_s(channel_gbps * 1_000_000_000),
        start_us: 0.4,
        ranks_per_host: 1,
        limit: u64::MAX,
    }
}

fn sizes() -> Vec<f64> {
    (0..11).map(|nth| f64::from(1 << (2 * nth + 10))).collect()
}

fn swept(ground: &Ground<'_>) -> Vec<Choice> {
    let survey = Survey::of(ground).unwrap();
    survey.sweep(&sizes(), &Calibrations::default()).unwrap()
}

#[test]
fn small_messages_want_few_steps() {
    let fabric = fabric(32);
    let choices = swept(&ground(&fabric, 25));
    let (small, large) = (&choices[0], &choices[10]);
    assert_eq!(
        (small.best.algorithm, small.best.protocol),
        (Algorithm::Tree, Protocol::LowLatency)
    );
    assert_eq!(
        (small.best.channels, large.best.protocol),
        (1, Protocol::Simple)
    );
    assert!(large.best.channels >= 4, "{:?}", large.best);
    for choice in &choices {
        let close = |it: &Weighed| it.time_us >= choice.best.time_us * MAX_WORTHWHILE_RATIO;
        assert!(choice.weighed.iter().all(close), "{:?}", choice.best);
        assert_eq!(choice.weighed.len(), 6 * DEFAULT_CHANNEL_COUNTS.len());
    }
}

/// Hosts of 100 Gb/s above whose leaves there are links of 25 Gb/s.
fn narrow(spines: u64) -> Fabric {
    leaf_spine(4, spines, 4, 25)
}

fn rival(rival: Option<why::Rival>) -> (u32, Because) {
    let rival = rival.unwrap();
    (rival.channels, rival.because)
}

/// A single channel is a flow on one of eight paths; a job with one path gains nothing from more channels.
#[test]
fn more_paths_want_more_channels() {
    let [many, one] = [8, 1].map(narrow);
    let [many, one] = [&many, &one].map(|fabric| swept(&ground(fabric, 400)));
    let (many, one) = (&many[10], &one[10]);
    assert!(many.best.channels >= 8, "{:?}", many.best);
    assert_eq!(one.best.channels, 1, "{:?}", one.best);
    let fewer = many.best.channels / 2;
    assert_eq!(rival(many.why.fewer), (fewer, Because::Collisions));
    assert_eq!(rival(one.why.more), (2, Because::NoGain));
    let time = |channels: u32| {
        let best = many.weighed.iter().filter(|it| it.channels == channels);
        best.map(|it| it.time_us).fold(f64::INFINITY, f64::min)
    };
    assert!(
        time(1) > 2.0 * many.best.time_us,
        "{} {:?}",
        time(1),
        many.best
    );
    assert!(many.why.collisions < 2.0 && many.why.latency_percent < 5.0);
}

/// If latency dominates, each channel costs a start; without start costs, that is no argument.
#[test]
fn start_cost_reduces_channel_count() {
    let fabric = narrow(8);
    let usual = ground(&fabric, 400);
    let small = &swept(&usual)[0];
    assert_eq!(small.best.channels, 1);
    assert_eq!(rival(small.why.more), (2, Because::Starts));
    assert!(small.why.more.unwrap().longer_percent > 1.0);
    assert!(small.why.latency_percent > 50.0, "{:?}", small.why);
    assert!(
        small.bytes < small.why.least_bytes_per_channel,
        "{:?}",
        small.why
    );
    let free = Ground {
        start_us: 0.0,
        ..usual
    };
    let free = &swept(&free)[0];
    assert_ne!(free.why.more.map(|it| it.because), Some(Because::Starts));
    assert!(free.best.time_us <= small.best.time_us);
}

/// With any paths, a low copy rate per channel requires more channels.
#[test]
fn slow_channels_need_more_channels() {
    let fabric = fabric(8);
    let choices = [25, 400].map(|gbps| swept(&ground(&fabric, gbps)));
    let [slow, quick] = choices.each_ref().map(|choices| &choices[10]);
    assert!(
        slow.best.channels > quick.best.channels,
        "{:?} {:?}",
        slow.best,
        quick.best
    );
    assert_eq!(rival(slow.why.fewer).1, Because::Copying);
}

/// Each link of a host has channels of its own.
#[test]
fn each_host_link_gets_channel() {
    let switches =
        "\n[[node]]\nname = \"s0\"\nrole = \"switch\"\n[[node]]\nname = \"s1\"\nrole = \"switch\"";
    let host = |nth: u32| {
        let link =
            |switch: u32| format!("\n[[link]]\na = \"h{nth}\"\nb = \"s{switch}\"\ngbps = 100");
        format!(
            "\n[[node]]\nname = \"h{nth}\"\nrole = \"host\"{}{}",
            link(0),
            link(1)
        )
    };
    let hosts: String = (0..4).map(host).collect();
    let fabric =
        Fabric::parse("fabric.toml", &format!("kind = \"graph\"{switches}{hosts}")).unwrap();
    let large = &swept(&ground(&fabric, 400))[10];
    assert_eq!(large.best.channels, 2, "{:?}", large.why);
    assert!((large.why.collisions - 1.0).abs() < 0.01, "{:?}", large.why);
}

/// The parts that are distinguished come to what a simulation of all sends says.
#[test]
fn tree_estimate_matches_simulation() {
    let fabric = fabric(8);
    let only = Ground {
        channels: vec![1],
        channel: Rate::from_bits_per_s(u64::MAX),
        ..ground(&fabric, 400)
    };
    let choices = swept(&only);
    let network = crate::engine::network::Network::of(
        &fabric,
        crate::engine::network::Costs {
            start_up: crate::engine::SimTime::from_micros(14.0).unwrap(),
            ..Default::default()
        },
    );
    for choice in &choices {
        let collective = crate::collectives::Collective {
            fabric: &fabric,
            members: None,
            operation: Operation::AllReduce,
            bytes: choice.bytes,
        };
        for algorithm in ALGORITHMS {
            let found = choice.weighed.iter();
            let found =
                found.filter(|it| (it.algorithm, it.protocol) == (algorithm, Protocol::Simple));
            let found = found.map(|it| it.time_us).next().unwrap();
            let ecmp = reweave_repair::paths::ecmp::Ecmp::default();
            let played = crate::collectives::time(
                &collective,
                algorithm,
                &network,
                &ecmp,
                u64::MAX,
                &mut |_| true,
            );
            let played = played.unwrap().time.micros();
            assert!(
                (0.999..1.15).contains(&(found / played)),
                "{algorithm} {}: {found} {played}",
                choice.bytes
            );
        }
    }
}

#[test]
fn tuner_table_covers_all_sizes() {
    let fabric = fabric(16);
    let rows = table(&swept(&ground(&fabric, 25)));
    assert_eq!(
        (rows[0].from_bytes, rows[rows.len() - 1].to_bytes),
        (0, 1 << 30)
    );
    for pair in rows.windows(2) {
        assert_eq!(pair[0].to_bytes + 1, pair[1].from_bytes);
        assert!(!pair[0].choice.is_like(&pair[1].choice));
    }
    let text = csv(Operation::AllReduce, 16, 128, &rows);
    let (remarks, lines): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with('#'));
    assert_eq!((remarks.len(), lines.len()), (rows.len(), rows.len()));
    assert!(
        lines[0].starts_with("allreduce,0,") && lines[0].ends_with(",16,128,-1,-1"),
        "{}",
        lines[0]
    );
    assert!(lines.iter().all(|line| line.split(',').count() == 10));
    // Readers take longer lines for several.
    assert!(text.lines().all(|line| line.len() < 250), "{text}");
    assert!(
        remarks[0].contains("each step starts more transfers"),
        "{text}"
    );
}

#[test]
fn nccl_tests_output_is_parsed() {
    let read = |text| measured::read("out.txt", text);
    let found = read(NCCL_TESTS_OUTPUT).unwrap();
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
    let whole = said.to_owned() + NCCL_TESTS_OUTPUT;
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

fn sample([latency_us, start_us, wire_us]: [f64; 3], measured_us: f64) -> Sample {
    let parts = Parts {
        latency_us,
        start_us,
        wire_us,
    };
    Sample { parts, measured_us }
}

fn near(value: f64, expected: f64) -> bool {
    (value - expected).abs() < 1e-9
}

#[test]
fn calibration_separates_latency_start_bytes() {
    let all = [
        [10.0, 0.0, 1.0],
        [10.0, 7.0, 50.0],
        [12.0, 3.0, 900.0],
        [12.0, 0.0, 30.0],
    ];
    let slow = all.map(|of| sample(of, 3.0 * of[0] + 2.0 * of[1] + 1.2 * of[2]));
    let fit = Calibration::fit(&slow).unwrap();
    assert!(
        near(fit.latency, 3.0) && near(fit.start, 2.0) && near(fit.wire, 1.2) && fit.off < 1e-9,
        "{fit:?}"
    );
    // With one number of channels, starts cannot be distinguished from latency.
    let one = all.map(|of| sample([of[0], 0.5 * of[0], of[2]], 3.0 * of[0] + 1.2 * of[2]));
    let fit = Calibration::fit(&one).unwrap();
    assert!(
        near(fit.latency, 2.0) && near(fit.start, 2.0) && near(fit.wire, 1.2),
        "{fit:?}"
    );
    let alone = Calibration::fit(&[sample([10.0, 0.0, 10.0], 60.0)]).unwrap();
    assert_eq!((alone.latency, alone.wire), (3.0, 3.0));
    assert_eq!(Calibration::fit(&[]), None);
    // All sizes take as long: of the bytes that says nothing, and the fit is a poor one.
    let same = [1.0, 50.0, 5000.0].map(|wire| sample([10.0, 0.0, wire], 9000.0));
    let fit = Calibration::fit(&same).unwrap();
    assert!(
        fit.latency > 100.0 && near(fit.wire, 1.0) && fit.off > 0.1,
        "{fit:?}"
    );
}

/// A sample of sizes.
const SAMPLE_SIZES_BYTES: [f64; 5] = [1024.0, 16384.0, 262_144.0, 4_194_304.0, 67_108_864.0];

fn combinations(choices: &[Choice]) -> Vec<Combination> {
    choices
        .iter()
        .map(|it| (it.best.algorithm, it.best.protocol))
        .collect()
}

fn run(us: impl Fn(f64) -> f64) -> Run {
    let line = |bytes: f64| Measurement {
        bytes,
        time_us: us(bytes),
    };
    Run {
        lines: SAMPLE_SIZES_BYTES.map(line).to_vec(),
        ..Run::default()
    }
}

/// With a high latency, few steps are better; and so is a combination that was measured to be fast.
#[test]
fn measurements_change_choices() {
    let fabric = fabric(8);
    let survey = Survey::of(&ground(&fabric, 25)).unwrap();
    let choices = survey
        .sweep(&SAMPLE_SIZES_BYTES, &Calibrations::default())
        .unwrap();
    let time = |bytes: f64| {
        choices
            .iter()
            .find(|it| it.bytes == bytes)
            .unwrap()
            .best
            .time_us
    };
    let slow = run(|bytes| time(bytes) + 50.0 * time(SAMPLE_SIZES_BYTES[0]));
    let general = survey.calibrate(&[slow]).unwrap();
    assert!(general.latency > 5.0, "{general:?}");
    let slow = Calibrations {
        general,
        ..Calibrations::default()
    };
    let slowly = survey.sweep(&SAMPLE_SIZES_BYTES, &slow).unwrap();
    assert_ne!(combinations(&slowly), combinations(&choices));

    let quick = (Algorithm::Tree, Protocol::LowLatency128);
    let bound = Run {
        combination: Some(quick),
        ..run(|bytes| 1.0 + bytes / 1e6)
    };
    let own = survey.calibrate(&[bound]).unwrap();
    let bound = Calibrations {
        general: Calibration::default(),
        of: vec![(quick, own)],
    };
    let quickly = survey.sweep(&SAMPLE_SIZES_BYTES, &bound).unwrap();
    assert!(
        combinations(&quickly).contains(&quick),
        "{own:?} {:?}",
        combinations(&quickly)
    );
    assert!(!combinations(&choices).contains(&quick));
}

/// Runs by several numbers of channels say what a channel costs; where that is much, fewer are named.
#[test]
fn measured_channel_cost_reduces_channels() {
    let fabric = narrow(8);
    let survey = Survey::of(&ground(&fabric, 400)).unwrap();
    let plain = survey.sweep(&sizes(), &Calibrations::default()).unwrap();
    let ring = (Algorithm::Ring, Protocol::Simple);
    let by = |channels: u32| Run {
        combination: Some(ring),
        channels: Some(channels),
        ..run(|bytes| {
            let alike = survey
                .all
                .iter()
                .find(|it| (it.combination, it.channels) == (ring, channels));
            let Parts {
                latency_us,
                start_us,
                wire_us,
            } = alike.unwrap().parts(bytes, &Calibration::default());
            latency_us + 40.0 * start_us + wire_us
        })
    };
    let dear = survey.calibrate(&[by(1), by(8)]).unwrap();
    assert!(
        near(dear.latency, 1.0) && (dear.start - 40.0).abs() < 1e-6,
        "{dear:?}"
    );
    let calibrations = Calibrations {
        general: dear,
        of: Vec::new(),
    };
    let dearly = survey.sweep(&sizes(), &calibrations).unwrap();
    let channels = |choices: &[Choice]| choices.iter().map(|it| it.best.channels).sum::<u32>();
    assert!(channels(&dearly) < channels(&plain));
}

/// A ring visits every rank, a tree only as many as it is deep.
#[test]
fn more_ranks_per_host_favour_trees() {
    let fabric = fabric(8);
    let with = |ranks_per_host: usize| {
        let crowded = Ground {
            ranks_per_host,
            ..ground(&fabric, 25)
        };
        let survey = Survey::of(&crowded).unwrap();
        let choices = survey
            .sweep(&SAMPLE_SIZES_BYTES, &Calibrations::default())
            .unwrap();
        let trees = choices
            .iter()
            .filter(|it| it.best.algorithm == Algorithm::Tree)
            .count();
        (
            trees,
            choices.iter().map(|it| it.best.time_us).collect::<Vec<_>>(),
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
