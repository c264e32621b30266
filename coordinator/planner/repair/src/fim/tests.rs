//! The metric in figures, and of random hashing.

use std::net::{Ipv4Addr, SocketAddrV4};

use proptest::prelude::*;
use reweave_common::fabric::Fabric;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::split_mix::SplitMix64;

use super::*;
use crate::paths::Atlas;
use crate::paths::ecmp::Ecmp;
use crate::paths::linux::{HashPolicy, LinuxHash};
use crate::paths::listed::{self, Listed};
use crate::tests::scene::{Scene, seeded};

fn even(flows: &[u64]) -> Vec<Load> {
    flows
        .iter()
        .map(|&flows| Load {
            flows,
            weight: 7 * flows,
        })
        .collect()
}

fn near(value: f64, expected: f64, tolerance: f64) -> bool {
    (value - expected).abs() <= tolerance
}

/// Mean FIM and mean max/mean of `flows` flows hashed onto `links` links.
fn of_hashing(flows: u64, links: usize) -> (f64, f64) {
    let (mut rng, tries) = (SplitMix64::new(flows), 20_000);
    let (mut fim, mut peak) = (0.0, 0.0);
    for _ in 0..tries {
        let mut counts = vec![0; links];
        (0..flows).for_each(|_| counts[rng.below(links)] += 1);
        let found = imbalance(&even(&counts)).unwrap();
        fim += found.fim_percent / f64::from(tries);
        peak += found.max_over_mean / f64::from(tries);
    }
    (fim, peak)
}

#[test]
fn random_hashing_has_expected_imbalance() {
    let on_four = [46.7, 33.8, 24.2, 17.2, 12.2, 8.6];
    let on_eight = [68.7, 50.6, 36.5, 26.1, 18.6, 13.2];
    for (links, expected) in [(4, on_four), (8, on_eight)] {
        for (flows, expected) in [8, 16, 32, 64, 128, 256].into_iter().zip(expected) {
            let (fim, _) = of_hashing(flows, links);
            assert!(
                near(fim, expected, 0.3),
                "{flows} on {links}: {fim}, not {expected}"
            );
        }
    }
    assert!(near(of_hashing(16, 4).1, 1.54, 0.01));
    assert!(near(of_hashing(16, 8).1, 2.09, 0.01));
}

/// Flows of a seed over four next hops, as routers choose that hash all five fields.
fn of_linux(seed: u32, flows: u16) -> f64 {
    let router = LinuxHash {
        policy: HashPolicy::Fields,
        seed,
    };
    let mut counts = [0; 4];
    for nth in 0..flows {
        let [from, to] = [nth % 4, 4 + nth / 4 % 4].map(|it| Ipv4Addr::new(10, 0, 0, it as u8));
        let flow = FlowKey {
            protocol: Protocol::Tcp,
            source: SocketAddrV4::new(from, 49152 + nth),
            destination: SocketAddrV4::new(to, 5001 + nth / 16),
        };
        counts[router.choose(&flow, &[1; 4]).unwrap()] += 1;
    }
    imbalance(&even(&counts)).unwrap().fim_percent
}

/// Real routers showed 33.6, 24.2 and 16.8 for 16, 32 and 64 flows.
#[test]
fn linux_hash_spreads_like_random() {
    for (flows, expected) in [
        (8, 46.7),
        (16, 33.8),
        (32, 24.2),
        (64, 17.2),
        (128, 12.2),
        (256, 8.6),
    ] {
        let seeds = 1..=2000;
        let fim: Vec<_> = seeds.map(|seed| of_linux(seed, flows)).collect();
        let mean = fim.iter().sum::<f64>() / fim.len() as f64;
        let squares: f64 = fim.iter().map(|it| (it - mean) * (it - mean)).sum();
        // Three standard errors, and what the figures are rounded by.
        let error = 3.0 * squares.sqrt() / fim.len() as f64 + 0.05;
        assert!(
            near(mean, expected, error),
            "{flows}: {mean}, not {expected} within {error}"
        );
    }
}

#[test]
fn collision_has_full_imbalance() {
    let found = imbalance(&even(&[2, 0])).unwrap();
    let all_on_one = Imbalance {
        fim_percent: 100.0,
        floor_percent: 0.0,
        weighted_percent: 100.0,
        max_over_mean: 2.0,
    };
    assert_eq!(found, all_on_one);
    assert_eq!(imbalance(&even(&[0, 0])), None);
}

#[test]
fn weighted_imbalance_differs_from_counts() {
    let loads = [
        Load {
            flows: 1,
            weight: 30,
        },
        Load {
            flows: 1,
            weight: 10,
        },
    ];
    let found = imbalance(&loads).unwrap();
    assert_eq!((found.fim_percent, found.weighted_percent), (0.0, 50.0));
    assert_eq!(found.max_over_mean, 1.5);
    let idle = imbalance(&[
        Load {
            flows: 2,
            weight: 0,
        },
        Load::default(),
    ])
    .unwrap();
    assert_eq!((idle.weighted_percent, idle.max_over_mean), (0.0, 1.0));
}

/// Group by group: its switch, its links and its FIM.
fn chosen(scene: &Scene) -> Vec<(String, usize, f64)> {
    let found = crate::spread(&scene.snapshot(), &crate::Policy::default());
    let chosen = found.groups.iter().filter(|it| it.chosen);
    let reports = chosen.map(|it| {
        let Group { at, links } = &it.group;
        let name = scene.fabric.name(*at).to_owned();
        (name, links.len(), it.imbalance.fim_percent)
    });
    reports.collect()
}

#[test]
fn each_choosing_switch_is_group() {
    let mut scene = Scene::leaf_spine(2, 2, 3, 100, 100);
    for (from, to) in [("h0", "h3"), ("h1", "h4")] {
        scene.flow(from, to, &["leaf0", "spine0", "leaf1"]);
    }
    for (from, to, spine) in [("h3", "h0", "spine0"), ("h4", "h1", "spine1")] {
        scene.flow(from, to, &["leaf1", spine, "leaf0"]);
    }
    let of = [("leaf0", 100.0), ("leaf1", 0.0)].map(|(at, fim)| (at.to_owned(), 2, fim));
    assert_eq!(chosen(&scene), of);
    let found = crate::spread(&scene.snapshot(), &crate::Policy::default());
    let headline = found.headline().unwrap();
    assert_eq!(
        (headline.fim_percent, headline.mean_fim_percent),
        (100.0, 50.0)
    );
    assert_eq!(Spread::default().headline(), None);
}

#[test]
fn down_link_belongs_to_no_group() {
    let mut scene = Scene::leaf_spine(2, 3, 2, 100, 100);
    scene.flow("h0", "h2", &["leaf0", "spine0", "leaf1"]);
    scene.flow("h1", "h3", &["leaf0", "spine1", "leaf1"]);
    scene.down("leaf0", "spine2");
    assert_eq!(chosen(&scene), [("leaf0".to_owned(), 2, 0.0)]);
}

proptest! {
    #![proptest_config(seeded(500))]

    #[test]
    fn imbalance_floor_is_reached_and_tight(
        counts in prop::collection::vec(0..20u64, 1..9)
    ) {
        let links = counts.len() as u64;
        let flows: u64 = counts.iter().sum();
        let evenest: Vec<_> = (0..links).map(|i| flows / links + u64::from(i < flows % links)).collect();
        if let Some(found) = imbalance(&even(&counts)) {
            prop_assert!(found.fim_percent >= found.floor_percent - 1e-9);
            prop_assert!(found.fim_percent <= 200.0 && found.max_over_mean >= 1.0 - 1e-9);
            // With equal flows, weights change nothing.
            prop_assert!(near(found.weighted_percent, found.fim_percent, 1e-9));
            let best = imbalance(&even(&evenest)).unwrap();
            prop_assert!(near(best.fim_percent, best.floor_percent, 1e-9));
        }
    }
}

fn listed(fabric: &Fabric, rows: &str) -> Vec<Listed> {
    let text = format!("src,dst,bytes,path,start_us,end_us,job\n{rows}");
    let mut atlas = Atlas::new(fabric);
    let table = listed::parse("flows.csv", &text, &mut atlas, &Ecmp::default()).unwrap();
    assert_eq!(table.doubts, []);
    table.flows
}

fn two_by_two() -> Fabric {
    Scene::leaf_spine(2, 2, 2, 100, 100).fabric
}

#[test]
fn each_layer_has_its_own_figures() {
    let fabric = two_by_two();
    let flows = listed(
        &fabric,
        "h0,h2,30,h0>leaf0>spine0>leaf1>h2,0,,\nh1,h3,10,h1>leaf0>spine0>leaf1>h3,0,,\n\
         h2,h0,10,h2>leaf1>spine1>leaf0>h0,0,,\nh3,h1,10,h3>leaf1>spine0>leaf0>h1,0,,",
    );
    let found = of_listed(&mut Atlas::new(&fabric), &flows);
    let headline = found.headline().unwrap();
    assert_eq!((headline.fim_percent, headline.floor_percent), (100.0, 0.0));
    assert_eq!(
        (headline.max_over_mean, headline.mean_fim_percent),
        (2.0, 50.0)
    );
    let layers: Vec<_> = found
        .layers()
        .iter()
        .map(|it| (it.layer, it.chosen, it.groups))
        .collect();
    let [up, down] = [(1, 2), (2, 1)].map(|(from, to)| Layer { from, to });
    assert_eq!(layers, [(up, true, 2), (down, false, 2)]);
    assert_eq!(found.layers()[1].worst.fim_percent, 100.0);
}

/// A single flow has a large FIM that is its floor; the possible improvement is reported separately.
#[test]
fn excess_imbalance_shows_beside_single_flow() {
    let fabric = Scene::leaf_spine(4, 4, 4, 100, 100).fabric;
    let row = |from: usize, to: usize, spine: usize, leaf: usize| {
        let next = leaf + 1;
        format!("h{from},h{to},100,h{from}>leaf{leaf}>spine{spine}>leaf{next}>h{to},0,,\n")
    };
    let headline = |second: usize| {
        let meeting = [(0, 4, 0), (1, 5, second), (2, 6, 2), (3, 7, 3)];
        let meeting = meeting
            .map(|(from, to, spine)| row(from, to, spine, 0))
            .concat();
        let flows = listed(&fabric, &(meeting + &row(8, 12, 0, 2)));
        let spread = of_listed(&mut Atlas::new(&fabric), &flows);
        (
            spread.headline().unwrap(),
            spread.worst().unwrap().imbalance,
        )
    };
    let [(met, worst), (parted, _)] = [0, 1].map(headline);
    assert_eq!((met.fim_percent, met.floor_percent), (150.0, 150.0));
    assert_eq!((met.above_floor_percent, met.over_least), (50.0, 2.0));
    assert_eq!((worst.fim_percent, worst.floor_percent), (50.0, 0.0));
    assert_eq!(
        (
            parted.fim_percent,
            parted.above_floor_percent,
            parted.over_least
        ),
        (150.0, 0.0, 1.0)
    );
}

/// Three spines lead to one leaf, and two of them to the other.
#[test]
fn partially_usable_links_are_one_group() {
    let mut text = "kind = \"graph\"\nnode = [".to_owned();
    for (role, names) in [("host", "a b c d"), ("switch", "l0 l1 l2 s0 s1 s2")] {
        for name in names.split(' ') {
            text += &format!("{{ name = \"{name}\", role = \"{role}\" }}, ");
        }
    }
    text += "]\nlink = [";
    for link in "a-l0 b-l0 c-l1 d-l2 l0-s0 l0-s1 l0-s2 l1-s0 l1-s1 l1-s2 l2-s0 l2-s1".split(' ') {
        let (a, b) = link.split_once('-').unwrap();
        text += &format!("{{ a = \"{a}\", b = \"{b}\", gbps = 100 }}, ");
    }
    let fabric = Fabric::parse("fabric.toml", &(text + "]")).unwrap();
    let above = |second: &str| {
        let flows = listed(
            &fabric,
            &format!("a,c,100,a>l0>s0>l1>c,0,,\nb,d,100,b>l0>{second}>l2>d,0,,\n"),
        );
        let spread = of_listed(&mut Atlas::new(&fabric), &flows);
        let groups = spread.groups.iter().filter(|it| it.chosen).count();
        (
            groups,
            spread.headline().unwrap().above_floor_percent.round(),
        )
    };
    assert_eq!((above("s0"), above("s1")), ((1, 67.0), (1, 0.0)));
}

#[test]
fn flows_count_only_while_active() {
    let fabric = two_by_two();
    let flows = listed(
        &fabric,
        "h0,h2,9,h0>leaf0>spine0>leaf1>h2,0,300,a\nh1,h3,9,h1>leaf0>spine1>leaf1>h3,0,100,b\n\
         h1,h3,9,h1>leaf0>spine0>leaf1>h3,100,200,b",
    );
    let mut atlas = Atlas::new(&fabric);
    let course = over_time(&mut atlas, &flows);
    // Whose start is not known was there from the beginning.
    let mut unknown = flows.clone();
    unknown[..2]
        .iter_mut()
        .for_each(|flow| flow.during_us[0] = None);
    assert_eq!(over_time(&mut atlas, &unknown), course);
    let fim: Vec<_> = course
        .from_us
        .iter()
        .map(|(at, it)| (*at, it.map(|it| it.fim_percent)))
        .collect();
    assert_eq!(
        fim,
        [
            (0.0, Some(0.0)),
            (100.0, Some(100.0)),
            (200.0, Some(100.0)),
            (300.0, None)
        ]
    );
    assert_eq!(course.worst().unwrap().0, 100.0);
    assert!(near(course.mean_fim_percent().unwrap(), 200.0 / 3.0, 1e-9));
    let jobs = by_job(&mut atlas, &flows);
    let peaks: Vec<_> = jobs
        .iter()
        .map(|(job, it)| (&job[..], it.max_over_mean))
        .collect();
    assert_eq!(peaks, [("a", 2.0), ("b", 1.0)]);
}

/// Hashing of whole flows by the model of switches, on a fabric: the expected imbalance again.
#[test]
fn predicted_paths_match_hashing_imbalance() {
    let fabric = Scene::leaf_spine(2, 4, 32, 100, 100).fabric;
    for (flows, expected) in [(16, 33.8), (32, 24.2), (64, 17.2)] {
        let fims = (0..400u32).map(|round| {
            let row = |nth: u32| {
                let (from, to, port) = (nth % 32, 32 + nth % 32, 1000 + round * 64 + nth);
                format!("h{from},h{to},1,,,,,{port}\n")
            };
            let rows: String = (0..flows).map(row).collect();
            let text = format!("src,dst,bytes,path,start_us,end_us,job,sport\n{rows}");
            let mut atlas = Atlas::new(&fabric);
            let ecmp = Ecmp::Mixed {
                seed: u64::from(round),
            };
            let table = listed::parse("flows.csv", &text, &mut atlas, &ecmp).unwrap();
            of_listed(&mut atlas, &table.flows)
                .headline()
                .unwrap()
                .fim_percent
        });
        let fims: Vec<_> = fims.collect();
        let mean = fims.iter().sum::<f64>() / fims.len() as f64;
        let variance = fims
            .iter()
            .map(|fim| (fim - mean) * (fim - mean))
            .sum::<f64>();
        let error = (variance / (fims.len() * (fims.len() - 1)) as f64).sqrt();
        assert!(
            near(mean, expected, 3.0 * error),
            "{flows}: {mean} +- {error}"
        );
    }
}
