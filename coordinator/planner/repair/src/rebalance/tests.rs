//! Which flows are moved, how, and which are left unchanged.

mod by_force;

use proptest::prelude::*;
use reweave_common::fabric::Fabric;
use reweave_common::split_mix::SplitMix64;

use super::problem::Sorted;
use super::*;
use crate::paths::listed::parse;
use crate::tests::scene::{Scene, seeded};

fn fabric(spines: u64) -> Fabric {
    Scene::leaf_spine(2, spines, 8, 100, 100).fabric
}

fn listed(fabric: &Fabric, rows: &str) -> Vec<Listed> {
    let text = format!("src,dst,bytes,path,sport,move\n{rows}");
    let table = parse(
        "flows.csv",
        &text,
        &mut Atlas::new(fabric),
        &Ecmp::default(),
    );
    table.unwrap().flows
}

fn over(spine: usize, nth: usize, bytes: u64, movable: &str) -> String {
    let to = 8 + nth;
    format!("h{nth},h{to},{bytes},h{nth}>leaf0>spine{spine}>leaf1>h{to},,{movable}\n")
}

fn plan(fabric: &Fabric, flows: &[Listed], options: &Options) -> Rebalanced {
    rebalance(&mut Atlas::new(fabric), flows, &Ecmp::default(), options)
}

#[test]
fn one_pin_resolves_collision() {
    let fabric = fabric(2);
    let flows = listed(&fabric, &(over(0, 0, 9, "") + &over(0, 1, 9, "")));
    let found = plan(&fabric, &flows, &Options::default());
    let [only] = &found.moves[..] else {
        panic!("one move")
    };
    assert_eq!(fabric.link_name(only.to.link), "leaf0-spine1");
    assert_eq!(only.by, By::Pins(vec![only.to]));
    let [before, after] = [&found.before, &found.after].map(|it| it.headline().unwrap());
    assert_eq!((before.fim_percent, before.max_over_mean), (100.0, 2.0));
    assert_eq!((after.fim_percent, after.max_over_mean), (0.0, 1.0));
    assert!(found.solution.proven);
}

/// Returns the number of moves for flows with spine, bytes, start and end.
fn timed(fabric: &Fabric, flows: &[(usize, u64, u64, u64)]) -> Vec<usize> {
    let mut text = "src,dst,bytes,start_us,end_us,path\n".to_owned();
    for (nth, (spine, bytes, from, until)) in flows.iter().enumerate() {
        let to = 8 + nth;
        text +=
            &format!("h{nth},h{to},{bytes},{from},{until},h{nth}>leaf0>spine{spine}>leaf1>h{to}\n");
    }
    let mut atlas = Atlas::new(fabric);
    let flows = parse("flows.csv", &text, &mut atlas, &Ecmp::default()).unwrap();
    let found = plan(fabric, &flows.flows, &Options::default());
    found.moves.iter().map(|it| it.flow).collect()
}

#[test]
fn flows_never_concurrent_stay_together() {
    let fabric = fabric(2);
    assert_eq!(
        timed(&fabric, &[(0, 9, 0, 10), (0, 9, 100, 110)]),
        [0_usize; 0]
    );
    assert_eq!(
        timed(&fabric, &[(0, 9, 0, 10), (0, 9, 10, 20)]),
        [0_usize; 0]
    );
    assert_eq!(timed(&fabric, &[(0, 9, 0, 10), (0, 9, 9, 20)]).len(), 1);
    // Two of three meet.
    let moved = timed(&fabric, &[(0, 9, 0, 10), (0, 9, 100, 110), (0, 9, 5, 8)]);
    assert!(moved == [0] || moved == [2], "{moved:?}");
    // All in all both links carry as much, but never at the same time.
    let moved = timed(
        &fabric,
        &[
            (0, 9, 0, 10),
            (0, 9, 5, 8),
            (1, 9, 100, 110),
            (1, 9, 100, 110),
        ],
    );
    assert_eq!(moved.len(), 2);
    // A flow that starts later and stays is considered as well: one flow moves where no other will be.
    let wide = self::fabric(3);
    let endless = 1_000_000;
    let moved = timed(
        &wide,
        &[(0, 9, 0, endless), (0, 9, 0, endless), (1, 9, 100, endless)],
    );
    assert_eq!(moved.len(), 1);
    // Other flows use the alternative path at that time.
    assert_eq!(
        timed(&fabric, &[(0, 9, 0, 10), (0, 9, 50, 60), (1, 8, 0, 60)]),
        [0_usize; 0]
    );
}

#[test]
fn movable_connection_gets_matching_port() {
    let fabric = fabric(4);
    let rows: String = (0..8)
        .map(|nth| format!("h{nth},h{},9,,{},port\n", 8 + nth, 50_000 + nth))
        .collect();
    let flows = listed(&fabric, &rows);
    let found = plan(&fabric, &flows, &Options::default());
    assert!(!found.moves.is_empty());
    let (mut atlas, ecmp) = (Atlas::new(&fabric), Ecmp::default());
    for made in &found.moves {
        let By::SourcePort(source_port) = made.by else {
            panic!("{made:?}")
        };
        let flow = &flows[made.flow];
        let fields = Fields {
            source_port,
            ..flow.fields
        };
        let way = atlas.hashed(flow.ends, &ecmp, ecmp.label(fields)).unwrap();
        assert!(way.contains(&made.to) && !way.contains(&made.from));
    }
}

#[test]
fn mismatching_hash_chooses_no_ports() {
    let fabric = fabric(2);
    // Traced on the spine that the hash does not name.
    let flows = listed(&fabric, &(over(0, 0, 9, "port") + &over(0, 1, 9, "port")));
    let mut atlas = Atlas::new(&fabric);
    let ecmp = Ecmp::default();
    let fits = |flow: &Listed, atlas: &mut Atlas<'_>| {
        atlas
            .hashed(flow.ends, &ecmp, ecmp.label(flow.fields))
            .unwrap()
            == flow.path
    };
    let found = plan(&fabric, &flows, &Options::default());
    let by_port = matches!(found.moves[0].by, By::SourcePort(_));
    assert_eq!(by_port, fits(&flows[found.moves[0].flow], &mut atlas));
}

/// Switches of an unknown hash: what probes of other ports met is all that is known.
#[test]
fn probed_ports_work_without_hash() {
    let fabric = fabric(2);
    let rows = over(0, 0, 9, "port") + &over(0, 1, 9, "port");
    let flows = listed(&fabric, &rows);
    let probe = |flow: &Listed, spine: usize, port: u16| Listed {
        path: listed(&fabric, &over(spine, flow.id, 1, ""))[0]
            .path
            .clone(),
        fields: Fields {
            source_port: port,
            ..flow.fields
        },
        ..flow.clone()
    };
    let probes = flows
        .iter()
        .flat_map(|it| [probe(it, 0, 500), probe(it, 1, 700), probe(it, 1, 600)]);
    let probes: Vec<_> = probes.collect();
    let learned = Options {
        learned: Learned::of(&probes),
        ..Options::default()
    };
    let found = plan(&fabric, &flows, &learned);
    let by: Vec<_> = found.moves.iter().map(|it| it.by.clone()).collect();
    assert_eq!(by, [By::SourcePort(600)]);
    let untraced = probes.into_iter().map(|it| Listed {
        traced: false,
        ..it
    });
    assert_eq!(
        Learned::of(&untraced.collect::<Vec<_>>()).way(&flows[0].fields),
        None
    );
}

#[test]
fn lossy_links_weigh_less_drained_zero() {
    let fabric = fabric(2);
    let rows: String = (0..6).map(|nth| over(nth % 2, nth, 9, "")).collect();
    let flows = listed(&fabric, &rows);
    let link = flows[0].path[1].link;
    let on_link = |options: &Options| {
        let moves = plan(&fabric, &flows, options).moves;
        let left = moves.iter().filter(|it| it.from.link == link).count();
        3 - left
    };
    let lossy = |share| Options {
        lossy: [(link, share)].into(),
        ..Options::default()
    };
    assert_eq!(on_link(&Options::default()), 3);
    assert_eq!(on_link(&lossy(0.01)), 2);
    assert_eq!(on_link(&lossy(0.2)), 0);
    let drained = Options {
        drained: [link].into(),
        ..Options::default()
    };
    assert_eq!(on_link(&drained), 0);
    let weights = plan(&fabric, &flows, &drained).weights;
    assert_eq!(
        weights[0].links.iter().map(|it| it.1).collect::<Vec<_>>(),
        [0, 16]
    );
    assert_eq!(plan(&fabric, &flows, &Options::default()).weights, []);
}

/// Only for destinations behind a drained link, the earlier link has no worth.
#[test]
fn weights_cover_whole_paths() {
    let fabric = Scene::leaf_spine(3, 2, 1, 100, 100).fabric;
    let rows = "h0,h1,9,h0>leaf0>spine1>leaf1>h1,1,\nh0,h2,9,h0>leaf0>spine1>leaf2>h2,1,\n";
    let flows = listed(&fabric, rows);
    let drain = |names: &[&str]| {
        let drained = names.iter().map(|name| fabric.find_link(name).unwrap());
        let options = Options {
            drained: drained.collect(),
            ..Options::default()
        };
        let weights = plan(&fabric, &flows, &options).weights.into_iter();
        let reports = weights.map(|it| {
            let towards = it.towards.iter().map(|&node| fabric.name(node).to_owned());
            let parts = it.links.iter().map(|(_, weight)| *weight);
            (towards.collect::<Vec<_>>(), parts.collect::<Vec<_>>())
        });
        reports.collect::<Vec<_>>()
    };
    assert_eq!(
        drain(&["leaf1-spine0"]),
        [(vec!["leaf1".to_owned()], vec![0, 16])]
    );
    assert_eq!(drain(&["leaf0-spine0"]), [(vec![], vec![0, 16])]);
    // Without a path no flow is moved.
    let none = drain(&["leaf0-spine0", "leaf1-spine1", "leaf2-spine1"]);
    assert_eq!(none, []);
}

/// Two elephants meet, a mouse is on a link that is drained, and a third link is free.
#[test]
fn drained_flows_leave_others_rebalance() {
    let fabric = fabric(3);
    let drained = |rows: &str| {
        let flows = listed(&fabric, rows);
        let [up, down] = [1, 2].map(|hop| flows[2].path[hop].link);
        let options = Options {
            drained: [up, down].into(),
            ..Options::default()
        };
        plan(&fabric, &flows, &options)
    };
    let elephants = over(0, 0, 100, "") + &over(0, 1, 100, "");
    let found = drained(&(elephants.clone() + &over(2, 2, 1, "")));
    let to: Vec<_> = found
        .moves
        .iter()
        .map(|it| fabric.link_name(it.to.link))
        .collect();
    assert_eq!(
        (
            to.len(),
            to.iter().filter(|it| it.contains("spine1")).count()
        ),
        (2, 2),
        "{to:?}"
    );
    assert_eq!(found.stuck, []);
    // Two of a hundred over two links, and the mouse with one of them.
    assert!((found.after.headline().unwrap().max_over_mean - 1.005).abs() < 0.01);
    // Immovable flows are named, and the elephants are separated in any case.
    let found = drained(&(elephants + &over(2, 2, 1, "never")));
    assert_eq!(
        (found.moves.len(), found.stuck.len(), found.stuck[0].0),
        (1, 1, 2)
    );
    assert!(
        found.solution.proven && found.solution.bound.over_mean < 1.1,
        "{:?}",
        found.solution
    );
}

#[test]
fn flow_stuck_on_drained_link_named() {
    let fabric = fabric(2);
    let flows = listed(&fabric, &(over(0, 0, 9, "") + &over(1, 1, 9, "")));
    let stuck = |drained: Vec<LinkId>| {
        let options = Options {
            drained: drained.into_iter().collect(),
            ..Options::default()
        };
        let found = plan(&fabric, &flows, &options);
        assert!(found.moves.is_empty());
        found.stuck
    };
    let [first, second] = [0, 1].map(|flow| flows[flow].path[1].link);
    assert_eq!(stuck(vec![first, second]), [(0, first), (1, second)]);
    let access = flows[0].path[0].link;
    assert_eq!(stuck(vec![access]), [(0, access)]);
}

/// Rows with the same ports are one flow to every switch, as long as they overlap in time.
#[test]
fn flows_with_same_ports_move_together() {
    let fabric = fabric(2);
    let moved = |rows: &[(u64, u16, [u64; 2])], drained: bool| {
        let row = |(bytes, port, [start, end]): &(u64, u16, [u64; 2])| {
            format!("h0,h8,{bytes},{start},{end},h0>leaf0>spine0>leaf1>h8,{port}\n")
        };
        let rows: String = rows.iter().map(row).collect();
        let text = format!("src,dst,bytes,start_us,end_us,path,sport\n{rows}");
        let mut atlas = Atlas::new(&fabric);
        let table = parse("flows.csv", &text, &mut atlas, &Ecmp::default()).unwrap();
        let options = Options {
            drained: drained
                .then(|| table.flows[0].path[1].link)
                .into_iter()
                .collect(),
            ..Options::default()
        };
        let found = plan(&fabric, &table.flows, &options);
        let moves = found.moves.iter().map(|it| it.flow).collect::<Vec<_>>();
        (moves, found.after.headline().map(|it| it.max_over_mean))
    };
    let (always, early, late) = ([0, 10], [0, 4], [6, 10]);
    let twins = [(9, 7, always), (9, 7, always)];
    assert_eq!(moved(&twins, false), (vec![], Some(2.0)));
    assert_eq!(moved(&twins, true), (vec![0], Some(1.0)), "over one link");
    let (moves, after) = moved(&[(5, 7, always), (5, 7, always), (10, 8, always)], false);
    assert_eq!((moves.len(), after), (1, Some(1.0)));
    // The pin of one is removed before the next one starts.
    let others = [(9, 7, early), (9, 7, late), (9, 8, early), (9, 9, late)];
    let (moves, after) = moved(&others, false);
    assert_eq!((moves.len(), after), (2, Some(1.0)));
}

/// The load of a lossy link is proportional to its worth.
#[test]
fn max_over_mean_uses_link_weights() {
    let fabric = fabric(2);
    let rows: String = (0..6).map(|nth| over(nth % 2, nth, 9, "")).collect();
    let flows = listed(&fabric, &rows);
    let lossy = Options {
        lossy: flows[0].path[1..3]
            .iter()
            .map(|hop| (hop.link, 0.01))
            .collect(),
        ..Options::default()
    };
    let found = plan(&fabric, &flows, &lossy);
    let [before, after] = [&found.before, &found.after].map(|it| it.headline().unwrap());
    assert!((before.max_over_mean - 1.5).abs() < 1e-9 && (after.max_over_mean - 1.0).abs() < 1e-9);
}

#[test]
fn mice_and_fixed_flows_stay() {
    let fabric = fabric(2);
    let rows = over(0, 0, 100, "never") + &over(0, 1, 100, "never") + &over(0, 2, 5, "");
    let found = plan(&fabric, &listed(&fabric, &rows), &Options::default());
    assert_eq!((found.moves.len(), found.elephants), (0, 0));
}

/// The flow shares no link with two others between other leaves. Unless these are negligible, they are separated.
#[test]
fn distant_giant_hides_no_elephants() {
    let fabric = Scene::leaf_spine(4, 2, 2, 100, 100).fabric;
    let giant = "h0,h2,11000,h0>leaf0>spine0>leaf1>h2,,\n";
    let pair = |bytes: u32| {
        let row = |from: u32| {
            format!(
                "h{from},h{},{bytes},h{from}>leaf2>spine0>leaf3>h{},,\n",
                from + 2,
                from + 2
            )
        };
        giant.to_owned() + &row(4) + &row(5)
    };
    let moves = |rows: &str| {
        let found = plan(&fabric, &listed(&fabric, rows), &Options::default());
        (found.moves.len(), found.elephants)
    };
    assert_eq!(moves(&pair(1000)), (1, 3));
    assert_eq!(moves(&pair(10)), (0, 1));
}

#[test]
fn gain_within_uncertainty_is_none() {
    let fabric = fabric(2);
    let rows = over(0, 0, 12, "") + &over(0, 1, 9, "") + &over(0, 3, 3, "") + &over(1, 2, 12, "");
    let flows = listed(&fabric, &rows);
    let with = |uncertainty| Options {
        uncertainty,
        least_gain: 0.05,
        ..Options::default()
    };
    assert!(!plan(&fabric, &flows, &with(0.0)).moves.is_empty());
    let unsure = plan(&fabric, &flows, &with(0.2));
    assert!(unsure.moves.is_empty());
    assert_eq!(unsure.before, unsure.after);
}

proptest! {
    #![proptest_config(seeded(40))]

    /// Sizes that wander within the uncertainty make no plan take back the one before.
    #[test]
    fn plans_do_not_oscillate(
        sizes in prop::collection::vec((0..4usize, 50..100u64), 4..8),
        wander in prop::collection::vec(95..106u64, 8),
    ) {
        let fabric = fabric(4);
        let options = Options { uncertainty: 0.12, ..Options::default() };
        let row = |(nth, &(spine, bytes)): (usize, &(usize, u64))| over(spine, nth, bytes, "");
        let rows: String = sizes.iter().enumerate().map(row).collect();
        let mut flows = listed(&fabric, &rows);
        let mut atlas = Atlas::new(&fabric);
        let all = [(0..flows.len()).collect()];
        let sorted = Sorted::new(&mut atlas, &flows, &all, &|_| true, &options);
        let first = plan(&fabric, &flows, &options);
        for (place, path) in sorted.moved(&atlas, &flows, &first.solution.ways) {
            flows[place].path = path;
        }
        for (flow, percent) in flows.iter_mut().zip(wander) {
            flow.bytes = flow.bytes * percent / 100;
        }
        let second = plan(&fabric, &flows, &options);
        prop_assert!(second.moves.is_empty(), "{:?} then {:?}", first.moves, second.moves);
    }
}

/// Several leaves, with sizes that vary repeatedly within the uncertainty: moved flows stay, and fewer flows move each
/// time.
#[test]
fn repeated_plans_converge() {
    const RANDOM_TABLES: usize = 300;
    let (mut rng, mut sent_back, mut moving) = (SplitMix64::new(7), 0, [0; 6]);
    for _ in 0..RANDOM_TABLES {
        let mut wandering = Wandering::new(&mut rng);
        for moving in &mut moving {
            *moving += usize::from(wandering.plan_once(&mut rng));
        }
        sent_back += usize::from(wandering.sent_back);
    }
    assert!(moving[0] > RANDOM_TABLES * 9 / 10, "{moving:?}");
    assert!(
        moving[1] < RANDOM_TABLES / 20 && moving[5] < RANDOM_TABLES / 50,
        "{moving:?}"
    );
    assert!(sent_back < RANDOM_TABLES / 20, "{sent_back}");
}

struct Wandering {
    fabric: Fabric,
    flows: Vec<Listed>,
    sizes: Vec<u64>,
    /// Paths from which each flow was moved.
    left: Vec<Vec<Vec<Hop>>>,
    /// Whether any flow went back to one of these.
    sent_back: bool,
}

impl Wandering {
    fn new(rng: &mut SplitMix64) -> Self {
        let fabric = Scene::leaf_spine(4, 3, 4, 100, 100).fabric;
        let mut row = |nth: usize| {
            let (leaf, spine, bytes) = (rng.below(4), rng.below(3), 50 + rng.below(50));
            let (next, host) = ((leaf + 1 + nth % 3) % 4, nth % 4);
            let (from, to) = (4 * leaf + host, 4 * next + host);
            format!(
                "h{from},h{to},{bytes},h{from}>leaf{leaf}>spine{spine}>leaf{next}>h{to},{nth},\n"
            )
        };
        let rows: String = (0..10).map(&mut row).collect();
        let flows = listed(&fabric, &rows);
        Self {
            sizes: flows.iter().map(|flow| flow.bytes).collect(),
            left: vec![Vec::new(); flows.len()],
            sent_back: false,
            fabric,
            flows,
        }
    }

    /// Whether any flow was moved; then all change a little.
    fn plan_once(&mut self, rng: &mut SplitMix64) -> bool {
        let options = Options {
            uncertainty: 0.12,
            ..Options::default()
        };
        let plan = plan(&self.fabric, &self.flows, &options);
        for made in &plan.moves {
            self.sent_back |= self.left[made.flow].contains(&made.path);
            let flow = &mut self.flows[made.flow];
            let old = std::mem::replace(&mut flow.path, made.path.clone());
            self.left[made.flow].push(old);
        }
        for (flow, size) in self.flows.iter_mut().zip(&self.sizes) {
            flow.bytes = size * (95 + rng.below(11) as u64) / 100;
        }
        !plan.moves.is_empty()
    }
}
