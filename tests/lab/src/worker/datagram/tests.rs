//! Streams over a network in virtual time.

use std::time::Duration;

use reweave_common::split_mix::SplitMix64;

use super::inbox::WINDOW_BYTES;
use super::simulation::{Conditions, Network, ms};
use crate::worker::flow::Statistics;

/// More than any test sends.
const ENDLESS_BYTES: u64 = u64::MAX / 2;

fn mbps(rate: u64) -> Conditions {
    Conditions {
        bits_per_s: rate * 1_000_000,
        ..Conditions::default()
    }
}

/// Returns streams that begin one after another, once all of them know the path.
fn streams(conditions: Conditions, count: u64, apart: Duration) -> Network {
    let mut network = Network::new(count, conditions);
    for nth in 0..count {
        network.run_until(ms(100 * nth), |_| false);
        network.add_stream(ms(1000) + apart * nth as u32, ENDLESS_BYTES);
    }
    network
}

fn statistics(network: &Network, stream: usize) -> Statistics {
    network.streams[stream].ends[0].statistics()
}

fn lost(network: &Network, stream: usize) -> u64 {
    statistics(network, stream).lost.unwrap()
}

/// Returns each stream's share of the bottleneck between two times, in percent.
fn shares(network: &mut Network, from: Duration, to: Duration) -> Vec<f64> {
    network.run_until(from, |_| false);
    let before: Vec<_> = network.streams.iter().map(|stream| stream.read).collect();
    network.longest_queue = Duration::ZERO;
    network.run_until(to, |_| false);
    let most = network.conditions.bits_per_s as f64 / 8.0 * (to - from).as_secs_f64();
    let after = network.streams.iter().map(|stream| stream.read);
    after
        .zip(before)
        .map(|(after, before)| 100.0 * (after - before) as f64 / most)
        .collect()
}

/// Returns the largest deviation from an even share, in percent of it.
fn unfairness(shares: &[f64]) -> f64 {
    let even = shares.iter().sum::<f64>() / shares.len() as f64;
    let far = shares
        .iter()
        .map(|share| 100.0 * (share - even).abs() / even);
    far.fold(0.0, f64::max)
}

#[test]
fn all_data_arrives_and_losses_count() {
    for seed in 0..80 {
        let mut rng = SplitMix64::new(seed);
        let dark = ms(rng.below_u64(300));
        let conditions = Conditions {
            bits_per_s: 1_000_000 * (10 + rng.below_u64(200)),
            queue: ms(2 + rng.below_u64(50)),
            queue_packets: rng.below_u64(13) as u32,
            delay: Duration::from_micros(rng.below_u64(5000)),
            jitter: Duration::from_micros([0, 100, 20_000][rng.below(3)]),
            lost_per_mille: [0, 10, 200][rng.below(3)],
            doubled_per_mille: [0, 100][rng.below(2)],
            black_out: dark..dark + ms(rng.below_u64(1000)),
            ..Conditions::default()
        };
        let mut network = Network::new(seed, conditions.clone());
        network.add_stream(ms(0), 1 + rng.below_u64(1_000_000));
        network.add_stream(ms(rng.below_u64(300)), 1 + rng.below_u64(1_000_000));
        network.run_until(ms(30_000), Network::all_read);
        assert!(network.all_read(), "seed {seed}: {conditions:?}");

        // The last word of the receivers reaches the senders.
        network.conditions.lost_per_mille = 0;
        network.conditions.black_out = ms(0)..ms(0);
        network.run_until(network.now + ms(3000), |_| false);
        for (nth, stream) in network.streams.iter().enumerate() {
            let reordered = stream.ends[1].statistics().reordered.unwrap();
            let place = format!("seed {seed}, stream {nth}: {conditions:?}");
            assert!(stream.ends[0].all_arrived(), "{place}");
            assert_eq!(stream.corrupted, 0, "{place}");
            assert_eq!(lost(&network, nth), stream.fate.lost(), "{place}");
            assert_eq!(reordered, stream.fate.reordered, "{place}");
        }
    }
}

#[test]
fn slightly_late_packets_are_not_resent() {
    for jitter in [ms(0), Duration::from_micros(1500)] {
        let jittery = Conditions {
            jitter,
            ..mbps(100)
        };
        let mut network = Network::new(3, jittery);
        network.add_stream(ms(0), 10_000_000);
        network.run_until(ms(5000), Network::all_read);
        network.run_until(network.now + ms(100), |_| false);
        assert!(network.all_read());
        assert_eq!((lost(&network, 0), network.overflowed), (0, 0));
        assert_eq!(statistics(&network, 0).retransmits, Some(0));
        let reordered = network.streams[0].ends[1].statistics().reordered;
        assert_eq!(reordered > Some(0), jitter > ms(0));
    }
}

#[test]
fn single_flow_fills_link_not_queue() {
    // Rate in Mb/s, delay in us per direction, queue in ms.
    let links = [
        (20, 100, 16),
        (100, 100, 5),
        (500, 100, 2),
        (100, 10_000, 10),
        (500, 5000, 5),
    ];
    for (rate, delay_us, queue_ms) in links {
        let delay = Duration::from_micros(delay_us);
        let mut network = streams(
            Conditions {
                delay,
                ..mbps(rate)
            },
            1,
            ms(0),
        );
        let share = shares(&mut network, ms(2000), ms(3000))[0];
        let queue = network.longest_queue;
        assert!(share >= 90.0, "{share:.1} % of {rate} Mb/s, {delay_us} us");
        assert!(
            queue <= ms(queue_ms),
            "{queue:?} at {rate} Mb/s, {delay_us} us"
        );
        assert_eq!(lost(&network, 0), 0);
    }
}

#[test]
fn flows_share_evenly_in_any_order() {
    for (count, apart) in [(2, ms(0)), (2, ms(300)), (8, ms(50))] {
        let mut network = streams(mbps(100), count, apart);
        // From one second after the last start, including a pause.
        let began = ms(1000) + apart * count as u32;
        let shares = shares(&mut network, began + ms(1000), began + ms(6000));
        let unfairness = unfairness(&shares);
        assert!(
            unfairness <= 5.0,
            "{count} flows, {apart:?} apart: {shares:.1?}"
        );
        assert!(shares.iter().sum::<f64>() >= 95.0, "{shares:.1?}");
        assert!(
            network.longest_queue <= ms(20),
            "{:?}",
            network.longest_queue
        );
        assert_eq!(network.overflowed, 0);
    }
}

#[test]
fn flows_progress_despite_tiny_queue() {
    let mut network = streams(mbps(10), 8, ms(10));
    let shares = shares(&mut network, ms(3000), ms(8000));
    assert!(shares.iter().sum::<f64>() >= 90.0, "{shares:.1?}");
    assert!(shares.iter().all(|&share| share > 3.0), "{shares:.1?}");
}

#[test]
fn longer_path_is_learnt_without_loss() {
    let mut network = streams(mbps(100), 1, ms(0));
    network.run_until(ms(2000), |_| false);
    network.conditions.delay = ms(15);
    let share = shares(&mut network, ms(16_000), ms(17_000))[0];
    assert!(share >= 90.0, "{share:.1} %");
}

#[test]
fn lossy_link_slows_flow_moderately() {
    let lossy = Conditions {
        lost_per_mille: 10,
        ..mbps(100)
    };
    let share = shares(&mut streams(lossy, 1, ms(0)), ms(1000), ms(6000))[0];
    assert!(share >= 60.0, "{share:.1} %");
}

#[test]
fn lost_answer_does_not_inflate_rtt() {
    let lossy = Conditions {
        lost_per_mille: 300,
        ..mbps(100)
    };
    let mut network = streams(lossy, 1, ms(0));
    network.run_until(ms(20_000), |_| false);
    assert!(statistics(&network, 0).rtt_us < Some(20_000));
}

#[test]
fn shallow_queue_is_not_overrun_long() {
    let shallow = Conditions {
        queue: ms(3),
        queue_packets: 0,
        ..mbps(100)
    };
    let mut network = streams(shallow, 2, ms(0));
    let shares = shares(&mut network, ms(1000), ms(6000));
    let sent = network
        .streams
        .iter()
        .map(|stream| stream.read)
        .sum::<u64>()
        / 8944;
    let dropped = network.overflowed as f64 / sent as f64;
    assert!(shares.iter().sum::<f64>() >= 80.0, "{shares:.1?}");
    assert!(dropped < 0.1, "{dropped}");
}

#[test]
fn flows_recover_soon_after_outage() {
    let mut network = streams(mbps(100), 2, ms(0));
    network.run_until(ms(2000), |_| false);
    network.conditions.black_out = ms(2000)..ms(4000);
    let dark = shares(&mut network, ms(2010), ms(4000));
    assert_eq!(dark, [0.0, 0.0]);
    let soon = shares(&mut network, ms(4250), ms(5250));
    assert!(soon.iter().sum::<f64>() >= 85.0, "{soon:.1?}");
    assert!(network.streams.iter().all(|stream| stream.corrupted == 0));
}

#[test]
fn only_waiting_end_gives_up_eventually() {
    let mut network = Network::new(1, mbps(100));
    network.add_stream(ms(0), ENDLESS_BYTES);
    network.add_stream(ms(0), 10_000);
    network.run_until(ms(5000), |_| false);
    network.conditions.black_out = ms(5000)..Duration::MAX;
    let forsaken = |network: &Network, stream: usize| {
        [0, 1].map(|end: usize| network.streams[stream].ends[end].is_forsaken(network.now))
    };
    network.run_until(ms(34_900), |_| false);
    assert_eq!(forsaken(&network, 0), [false, false]);
    network.run_until(ms(35_100), |_| false);
    assert_eq!(forsaken(&network, 0), [true, false]);
    network.run_until(ms(100_000), |_| false);
    assert_eq!(
        forsaken(&network, 1),
        [false, false],
        "nothing was outstanding"
    );
}

#[test]
fn non_reading_peer_is_not_flooded() {
    let mut network = Network::new(1, mbps(200));
    network.add_stream(ms(0), 12_000_000);
    network.streams[0].away = ms(0)..ms(50_000);
    network.run_until(ms(2000), |_| false);
    let before = network.carried;
    network.run_until(ms(49_000), |_| false);
    assert!(!network.streams[0].ends[0].is_forsaken(network.now));
    assert!(
        network.carried - before < 47 * 15,
        "{}",
        network.carried - before
    );
    let before = network.streams[0].read;
    network.run_until(ms(50_010), |_| false);
    assert!(network.streams[0].read > before + WINDOW_BYTES);
    network.run_until(ms(52_000), Network::all_read);
    assert!(network.all_read());
    assert_eq!(network.streams[0].corrupted, 0);
    assert_eq!(statistics(&network, 0).retransmits, Some(0));
}

#[test]
fn small_socket_is_never_overrun() {
    let most_bytes = 40_000;
    let long = Conditions {
        most_bytes,
        delay: ms(20),
        ..mbps(100)
    };
    let share = shares(&mut streams(long, 1, ms(0)), ms(2000), ms(3000))[0];
    let most = 100.0 * most_bytes as f64 / (0.04 * 12.5e6);
    assert!(
        (most - 2.0..=most + 2.0).contains(&share),
        "{share:.1} %, {most:.1} %"
    );
}

#[test]
fn receipts_travel_back() {
    let mut network = Network::new(
        1,
        Conditions {
            lost_per_mille: 300,
            ..mbps(100)
        },
    );
    network.add_stream(ms(0), 100);
    network.run_until(ms(5000), Network::all_read);
    assert_eq!(network.streams[0].ends[1].write(b"!"), 1);
    network.run_until(network.now + ms(5000), |_| false);
    let mut receipt = [0; 2];
    assert_eq!(network.streams[0].ends[0].read(&mut receipt), 1);
    assert_eq!(receipt[0], b'!');
    assert!(network.streams[0].ends[1].all_arrived());
}

#[test]
fn smaller_datagram_size_applies_at_once() {
    let mut network = Network::new(1, mbps(100));
    network.add_stream(ms(0), 2_000_000);
    network.run_until(ms(50), |_| false);
    network.conditions.largest_bytes = 1472;
    network.run_until(ms(60), |_| false);
    network.streams[0].ends[0].set_datagram_bytes(1472);
    network.run_until(ms(5000), Network::all_read);
    assert!(network.all_read());
    assert_eq!(network.streams[0].corrupted, 0);
}

#[test]
fn only_reordered_packets_are_counted() {
    let reordered = |jitter_us| {
        let conditions = Conditions {
            jitter: Duration::from_micros(jitter_us),
            ..mbps(100)
        };
        let mut network = Network::new(7, conditions);
        network.add_stream(ms(0), 1_000_000);
        network.run_until(ms(30_000), Network::all_read);
        network.streams[0].ends[1].statistics().reordered
    };
    assert_eq!(reordered(0), Some(0));
    assert!(reordered(20_000) > Some(0));
}
