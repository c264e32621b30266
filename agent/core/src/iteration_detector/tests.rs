//! Random traffic by seed: jobs with a known period, and all other kinds.

use std::net::Ipv4Addr;

use reweave_common::periodicity::ExchangePattern;
use reweave_common::split_mix::SplitMix64;
use reweave_common::time_span::TimeSpan;
use reweave_common::traffic::Volume;

use super::*;

/// Random times and volumes.
struct SeededRandom(SplitMix64);

impl SeededRandom {
    fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    fn fraction(&mut self) -> f64 {
        self.0.fraction()
    }

    fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.fraction()
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.fraction())
    }

    fn pareto(&mut self, least: f64) -> f64 {
        least / libm::pow(1.0 - self.fraction(), 1.0 / 1.2)
    }
}

/// Bytes sent and received in an interval.
#[derive(Clone, Copy)]
struct Burst {
    from_ms: f64,
    to_ms: f64,
    bytes: [f64; 2],
}

/// The number of runs of each kind.
const SEED_COUNT: u64 = 20;

const BYTES_PER_MS: f64 = 25_000.0;

fn burst(from_ms: f64, ms: f64, directions: [f64; 2]) -> Burst {
    Burst {
        from_ms,
        to_ms: from_ms + ms,
        bytes: directions.map(|part| part * ms * BYTES_PER_MS),
    }
}

/// Reads the counters every 10 ms, sometimes late, and returns the detector at the end.
fn heard(
    bursts: &[Burst],
    until_ms: f64,
    random: &mut SeededRandom,
) -> (IterationDetector, Moment) {
    let mut book = IterationDetector::default();
    let (mut last_ms, mut last, mut next) = (0.0, [0_u64; 2], 0);
    let mut whole = [0.0; 2];
    while last_ms < until_ms {
        let late = if random.fraction() < 0.02 {
            random.between(5.0, 40.0)
        } else {
            random.between(0.0, 0.5)
        };
        let now_ms = last_ms + 10.0 + late;
        let mut counts = whole;
        for (index, burst) in bursts.iter().enumerate().skip(next) {
            if burst.from_ms > now_ms {
                break;
            }
            let part = ((now_ms - burst.from_ms) / (burst.to_ms - burst.from_ms)).min(1.0);
            for (count, bytes) in counts.iter_mut().zip(burst.bytes) {
                *count += bytes * part;
            }
            if part >= 1.0 && index == next {
                next += 1;
                for (sum, bytes) in whole.iter_mut().zip(burst.bytes) {
                    *sum += bytes;
                }
            }
        }
        let counts = counts.map(|count| count as u64);
        let [sent, received] = [0, 1].map(|way| Bytes::new(counts[way].saturating_sub(last[way])));
        book.handle_growth(at(last_ms), at(now_ms), sent, received);
        (last_ms, last) = (now_ms, counts);
    }
    (book, at(last_ms))
}

fn at(ms: f64) -> Moment {
    Moment::from_micros((1e7 + ms * 1e3) as u64)
}

/// The bursts of one iteration, by its period.
type Job = fn(f64) -> Vec<Burst>;

fn ring(period_ms: f64) -> Vec<Burst> {
    vec![burst(0.0, period_ms * 0.6, [1.0, 1.0])]
}

/// A step for each peer, with a pause in between.
fn all_to_all(period_ms: f64) -> Vec<Burst> {
    let step = period_ms * 0.1;
    let steps = (0..7).map(|at| burst(f64::from(at) * step, step * 0.8, [1.0, 1.0]));
    steps.collect()
}

/// Micro-batches forward, then backward; the host is idle in between.
fn pipeline(period_ms: f64) -> Vec<Burst> {
    let step = period_ms * 0.1;
    let send = (0..4).map(|at| burst(f64::from(at) * step, step * 0.5, [1.0, 0.02]));
    let receive = (4..8).map(|at| burst(f64::from(at) * step, step * 0.5, [0.02, 1.0]));
    send.chain(receive).collect()
}

/// Iterations whose length varies a little; the start of each, and the end of the last.
fn played(
    job: Job,
    period_ms: f64,
    iterations: usize,
    random: &mut SeededRandom,
) -> (Vec<Burst>, Vec<f64>) {
    let (mut bursts, mut starts) = (vec![], vec![500.0]);
    for _ in 0..iterations {
        let stretch = random.between(0.96, 1.04);
        let start = starts[starts.len() - 1];
        bursts.extend(job(period_ms).into_iter().map(|it| Burst {
            from_ms: start + it.from_ms * stretch,
            to_ms: start + it.to_ms * stretch,
            bytes: it.bytes,
        }));
        starts.push(start + period_ms * stretch);
    }
    (bursts, starts)
}

fn end_of(starts: &[f64]) -> f64 {
    starts[starts.len() - 1]
}

/// The error of the detected period against the mean of as many iterations.
fn off(beat: &IterationPeriod, starts: &[f64]) -> f64 {
    let seen = (beat.iterations as usize).min(starts.len() - 1);
    let mean_ms = (end_of(starts) - starts[starts.len() - 1 - seen]) / seen as f64;
    (beat.period.as_secs_f64() * 1e3 / mean_ms - 1.0).abs()
}

fn found(rhythm: Periodicity) -> Option<IterationPeriod> {
    match rhythm {
        Periodicity::Found(beat) => Some(beat),
        _ => None,
    }
}

const JOBS: [(&str, Job); 3] = [
    ("ring", ring),
    ("all-to-all", all_to_all),
    ("pipeline", pipeline),
];

#[test]
fn period_is_found_within_two_percent() {
    for (name, job) in JOBS {
        for period_ms in [171.3, 512.7, 2310.0] {
            for seed in 0..SEED_COUNT {
                let random = &mut SeededRandom::new(seed);
                let (bursts, starts) = played(job, period_ms, 50, random);
                let (mut book, now) = heard(&bursts, end_of(&starts), random);
                let beat = found(book.poll_rhythm(now));
                let what = format!("{name}, {period_ms} ms, seed {seed}");
                let beat = beat.unwrap_or_else(|| panic!("{what}: no beat"));
                assert!(off(&beat, &starts) < 0.02, "{what}: {beat:?}");
                let volume: f64 = job(period_ms).iter().map(|it| it.bytes[0]).sum();
                let volume_off = (beat.sent.count() as f64 / volume - 1.0).abs();
                assert!(volume_off < 0.1, "{what}, {volume} bytes: {beat:?}");
            }
        }
    }
}

/// Checks any position of the pause relative to spans.
#[test]
fn rest_is_measured_within_3ms() {
    for rest_ms in [24.0, 47.0, 96.0] {
        let off_ms = (0..SEED_COUNT).filter_map(|seed| {
            let random = &mut SeededRandom::new(seed);
            let (mut bursts, mut start_ms) = (vec![], 500.0);
            for _ in 0..60 {
                let busy_ms = random.between(196.0, 204.0);
                bursts.push(burst(start_ms, busy_ms, [1.0, 1.0]));
                start_ms += busy_ms + rest_ms;
            }
            let (mut book, now) = heard(&bursts, start_ms, random);
            let beat = found(book.poll_rhythm(now))?;
            Some(beat.gap.as_secs_f64() * 1e3 - rest_ms)
        });
        let off_ms: Vec<_> = off_ms.collect();
        assert!(
            off_ms.len() > SEED_COUNT as usize / 2,
            "{rest_ms} ms: {off_ms:?}"
        );
        assert!(
            off_ms.iter().all(|off| off.abs() < 3.0),
            "{rest_ms} ms: {off_ms:?}"
        );
    }
}

#[test]
fn half_minute_iterations_are_found() {
    let random = &mut SeededRandom::new(1);
    let (bursts, starts) = played(ring, 31_000.0, 14, random);
    let (mut book, now) = heard(&bursts, end_of(&starts), random);
    let beat = found(book.poll_rhythm(now)).expect("a beat");
    assert!(off(&beat, &starts) < 0.02, "{beat:?}");
}

#[test]
fn next_gap_is_predicted() {
    for (name, job) in JOBS {
        let random = &mut SeededRandom::new(7);
        let (bursts, starts) = played(job, 400.0, 60, random);
        // Sometime in the last but one iteration.
        let (mut book, now) = heard(&bursts, end_of(&starts) - 700.0, random);
        let beat = found(book.poll_rhythm(now)).expect("a beat");
        let gaps = bursts
            .windows(2)
            .filter(|pair| pair[1].from_ms - pair[0].to_ms > 60.0);
        let gaps = gaps.map(|pair| at(pair[0].to_ms).as_micros());
        let off = gaps
            .map(|gap| gap.abs_diff(beat.next_gap.as_micros()))
            .min();
        assert!(off < Some(40_000), "{name}: {off:?} us off");
        assert!(
            beat.next_gap > now && beat.gap > TimeSpan::from_millis(60),
            "{name}: {beat:?}"
        );
    }
}

/// Traffic without a period.
type Noise = fn(&mut SeededRandom) -> Vec<Burst>;

fn poisson(random: &mut SeededRandom) -> Vec<Burst> {
    let (mut bursts, mut start) = (vec![], 0.0);
    while start < 45_000.0 {
        start += random.exponential(150.0);
        let length = random.between(20.0, 80.0);
        bursts.push(burst(start, length, [1.0, 0.5]));
        start += length;
    }
    bursts
}

fn heavy_tails(random: &mut SeededRandom) -> Vec<Burst> {
    let (mut bursts, mut start) = (vec![], 0.0);
    while start < 45_000.0 {
        start += random.pareto(20.0);
        let length = random.pareto(30.0);
        bursts.push(burst(start, length, [random.fraction(), 1.0]));
        start += length;
    }
    bursts
}

/// Never idle, and never the same.
fn busy(random: &mut SeededRandom) -> Vec<Burst> {
    let steps = (0..4_500).map(|step| {
        burst(
            f64::from(step) * 10.0,
            10.0,
            [random.between(0.3, 1.0), 0.1],
        )
    });
    steps.collect()
}

/// File transfers of similar length, with pauses of any length.
fn transfers(random: &mut SeededRandom) -> Vec<Burst> {
    let (mut bursts, mut start) = (vec![], 0.0);
    while start < 45_000.0 {
        start += random.between(50.0, 1500.0);
        bursts.push(burst(start, 400.0, [1.0, 0.02]));
        start += 400.0;
    }
    bursts
}

fn steady(_: &mut SeededRandom) -> Vec<Burst> {
    vec![burst(0.0, 45_000.0, [1.0, 0.1])]
}

#[test]
fn aperiodic_traffic_has_no_period() {
    let noises: [(&str, Noise); 5] = [
        ("poisson", poisson),
        ("heavy tails", heavy_tails),
        ("busy", busy),
        ("transfers", transfers),
        ("steady", steady),
    ];
    for (name, noise) in noises {
        for seed in 0..SEED_COUNT {
            let random = &mut SeededRandom::new(seed);
            let bursts = noise(random);
            for until_ms in [5_000.0, 14_000.0, 44_000.0] {
                let (mut book, now) = heard(&bursts, until_ms, random);
                let rhythm = book.poll_rhythm(now);
                let what = format!("{name}, seed {seed}, {until_ms} ms");
                assert!(found(rhythm).is_none(), "{what}: {rhythm:?}");
            }
        }
    }
}

#[test]
fn small_heartbeat_is_no_training() {
    let beats = (0..100).map(|beat| Burst {
        from_ms: f64::from(beat) * 500.0,
        to_ms: f64::from(beat) * 500.0 + 5.0,
        bytes: [20_000.0, 1_000.0],
    });
    let (mut book, now) = heard(
        &beats.collect::<Vec<_>>(),
        40_000.0,
        &mut SeededRandom::new(1),
    );
    assert!(matches!(book.poll_rhythm(now), Periodicity::None { .. }));
}

#[test]
fn own_measurements_are_no_training() {
    let beats = (0..100).map(|beat| Burst {
        from_ms: f64::from(beat) * 500.0,
        to_ms: f64::from(beat) * 500.0 + 100.0,
        bytes: [200_000.0, 10_000.0],
    });
    let (mut book, now) = heard(
        &beats.collect::<Vec<_>>(),
        40_000.0,
        &mut SeededRandom::new(1),
    );
    book.handle_measuring(Rate::from_bits_per_s(1_000_000));
    assert!(matches!(book.poll_rhythm(now), Periodicity::None { .. }));
    book.handle_measuring(Rate::from_bits_per_s(100_000));
    assert!(found(book.poll_rhythm(now + DETECTION_INTERVAL)).is_some());
}

#[test]
fn period_is_unknown_at_first() {
    let (mut book, now) = heard(&ring(1000.0), 2_000.0, &mut SeededRandom::new(1));
    assert!(matches!(book.poll_rhythm(now), Periodicity::Unknown { .. }));
}

#[test]
fn period_change_and_end_are_noticed() {
    let random = &mut SeededRandom::new(3);
    let (mut bursts, starts) = played(ring, 400.0, 50, random);
    let (faster, later) = played(ring, 250.0, 30, random);
    let [end, later] = [end_of(&starts), end_of(&later)];
    bursts.extend(faster.into_iter().map(|it| Burst {
        from_ms: it.from_ms + end,
        to_ms: it.to_ms + end,
        ..it
    }));
    let (mut book, now) = heard(&bursts, end + later, random);
    let beat = found(book.poll_rhythm(now)).expect("the new beat");
    assert!((245..256).contains(&beat.period.as_millis()), "{beat:?}");
    let (mut book, now) = heard(&bursts, end + later + 10_000.0, random);
    assert!(matches!(book.poll_rhythm(now), Periodicity::None { .. }));
}

#[test]
fn continuing_period_keeps_its_start() {
    let random = &mut SeededRandom::new(3);
    let (bursts, starts) = played(ring, 400.0, 200, random);
    let (mut book, now) = heard(&bursts, 20_000.0, random);
    let first = found(book.poll_rhythm(now)).expect("a beat");
    for step in 0..6_000 {
        let [from, to] = [step, step + 1].map(|step| at(20_100.0 + f64::from(step) * 10.0));
        let phase = (to.as_micros() / 1000 - 10_500) % 400;
        let bytes = if phase < 240 { 250_000 } else { 0 };
        book.handle_growth(from, to, Bytes::new(bytes), Bytes::new(bytes));
    }
    let later = found(book.poll_rhythm(at(end_of(&starts)))).expect("still");
    assert_eq!(later.since, first.since);
}

#[test]
fn period_carries_collective_shape() {
    let random = &mut SeededRandom::new(5);
    let (bursts, starts) = played(ring, 300.0, 40, random);
    let (mut book, now) = heard(&bursts, end_of(&starts), random);
    let exchanged = |total: u64| {
        let volume = |bytes| Volume {
            bytes: Bytes::new(bytes),
            packets: None,
        };
        [(1, total, total / 40), (2, total / 40, total)].map(|(host, sent, received)| PeerTraffic {
            peer: Ipv4Addr::new(10, 0, 0, host),
            sent: volume(sent),
            received: volume(received),
        })
    };
    book.handle_peers(at(0.0), &exchanged(0));
    book.handle_peers(now, &exchanged(1_000_000));
    let beat = found(book.poll_rhythm(now)).expect("a beat");
    assert_eq!(beat.shape, Some(ExchangePattern::Ring));
}

/// Forwarded traffic of others has another period and does not count.
#[test]
fn relay_period_uses_own_traffic() {
    let mut book = IterationDetector::of_segments();
    let volume = |bytes| Volume {
        bytes: Bytes::new(bytes),
        packets: None,
    };
    let describe = |bytes: u64| PeerTraffic {
        peer: Ipv4Addr::new(10, 0, 0, 1),
        sent: volume(3 * bytes),
        received: volume(bytes),
    };
    let (mut total, mut now) = (0, at(0.0));
    for step in 0..3_000_u64 {
        let from = now;
        now = at((step + 1) as f64 * 10.0);
        let segments = if step % 40 < 24 { 100 } else { 0 };
        total += segments * 9_000;
        book.handle_segments(from, now, [segments, segments / 10]);
        if step % 100 == 0 {
            book.handle_peers(now, &[describe(total)]);
        }
    }
    let beat = found(book.poll_rhythm(now)).expect("a beat");
    assert!((398..=402).contains(&beat.period.as_millis()), "{beat:?}");
    let expected = 24.0 * 100.0 * 9_000.0;
    let off = |bytes: Bytes, times: f64| bytes.count() as f64 / (times * expected) - 1.0;
    assert!(off(beat.received, 1.0).abs() < 0.05, "{beat:?}");
    assert!(off(beat.sent, 3.0).abs() < 0.05, "{beat:?}");
}
