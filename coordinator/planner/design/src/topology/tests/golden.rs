//! Exact values that are published.

use super::*;

fn circulant(hosts: usize, steps: &[usize]) -> Wiring {
    let members: Vec<_> = (0..hosts as u32).collect();
    Wiring::of(hosts, strides::pairs(&members, steps))
}

fn shape(hosts: usize, steps: &[usize]) -> (u32, f64) {
    let distances = Distances::of(&circulant(hosts, steps));
    (distances.diameter(), distances.mean())
}

#[test]
fn twelve_hosts_match_published_wiring() {
    let design = families::totient(12, 2);
    let strides = vec![1, 5];
    assert_eq!(design.family, families::Family::Totient { strides });
    assert_eq!(design.wiring.pairs().len(), 24);
    assert_eq!(design.wiring.degrees(), [4, 4]);
    let distances = Distances::of(&design.wiring);
    assert_eq!(distances.histogram(), [48, 60, 24]);
    assert!((distances.mean() - 1.818).abs() < 5e-4);
    assert_eq!(distances.diameter(), 3);
    assert!(design.is_all_rings());
}

#[test]
fn equivalent_strides_are_used_once() {
    // 7 and 11 are 5 and 1 in the other direction.
    assert_eq!(strides::totient(12), [1, 5]);
    assert_eq!(strides::select(12, 4), [1, 5]);
    assert_eq!(shape(12, &[1, 5, 7, 11]), shape(12, &[1, 5]));
    assert_eq!(circulant(12, &[1, 5, 7, 11]).degrees(), [4, 4]);
}

#[test]
fn eight_ports_reach_twelve_hosts() {
    let limits = Limits::plain(12, 8);
    let design = families::random(12, 4, &limits, 1).unwrap();
    assert_eq!(design.wiring.degrees(), [8, 8]);
    assert_eq!(Distances::of(&design.wiring).diameter(), 2);
}

/// Hosts, rings, the strides that are selected, the diameter and the mean that are published.
const SELECTED_STRIDES: [(usize, usize, &[usize], u32, f64); 3] = [
    (128, 2, &[1, 13], 10, 5.62),
    (128, 4, &[1, 5, 13, 39], 5, 2.96),
    (432, 4, &[1, 5, 23, 95], 7, 4.09),
];

#[test]
fn selected_strides_match_published_distances() {
    for (hosts, rings, steps, diameter, mean) in SELECTED_STRIDES {
        assert_eq!(strides::select(hosts, rings), steps);
        let (found_diameter, found_mean) = shape(hosts, steps);
        assert_eq!(found_diameter, diameter);
        assert!((found_mean - mean).abs() < 0.005, "{hosts}: {found_mean}");
    }
}

#[test]
fn best_strides_of_128_hosts() {
    assert_eq!(strides::best(128, 2, 10_000), [1, 15]);
    let (diameter, mean) = shape(128, &[1, 15]);
    assert_eq!(diameter, 8);
    assert!((mean - 5.35).abs() < 0.005, "{mean}");
}

/// Hosts, ports, and the mean after Moore.
const MOORE_BOUNDS: [(usize, usize, f64); 3] = [(128, 4, 3.43), (128, 8, 2.43), (432, 8, 2.83)];

#[test]
fn mean_distance_respects_moore_bound() {
    for (hosts, degree, mean) in MOORE_BOUNDS {
        assert!((moore_mean(hosts, degree) - mean).abs() < 0.005);
    }
    assert_eq!(moore_mean(10, 3), (3.0 + 2.0 * 6.0) / 9.0);
}

/// Hosts, ports, and the mean of the best of 20 random regular graphs.
const RANDOM_GRAPHS: [(usize, usize, f64); 2] = [(128, 4, 3.75), (432, 8, 3.17)];

#[test]
fn random_rings_match_random_graphs() {
    for (hosts, degree, best) in RANDOM_GRAPHS {
        let limits = Limits::plain(hosts, degree);
        let design = families::random(hosts, degree / 2, &limits, 7).unwrap();
        let mean = Distances::of(&design.wiring).mean();
        assert!(mean <= best * 1.03, "{hosts}: {mean}");
        assert!(mean >= moore_mean(hosts, degree));
        assert!(design.is_all_rings());
    }
}
