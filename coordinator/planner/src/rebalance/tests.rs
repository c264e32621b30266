//! What is moved, how, and what is left alone.

use proptest::prelude::*;
use reweave_common::fabric::Fabric;

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
fn a_collision_is_parted_by_one_pin() {
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

#[test]
fn a_connection_that_can_move_is_given_a_port_that_is_hashed_there() {
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
fn a_hash_that_does_not_fit_the_trace_chooses_no_ports() {
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
fn ports_that_probes_taught_lead_where_the_hash_is_unknown() {
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
fn lossy_links_carry_less_and_drained_ones_nothing() {
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
        weights[0].1.iter().map(|it| it.1).collect::<Vec<_>>(),
        [0, 16]
    );
    assert_eq!(plan(&fabric, &flows, &Options::default()).weights, []);
}

#[test]
fn mice_and_flows_that_must_stay_are_left_alone() {
    let fabric = fabric(2);
    let rows = over(0, 0, 100, "never") + &over(0, 1, 100, "never") + &over(0, 2, 5, "");
    let found = plan(&fabric, &listed(&fabric, &rows), &Options::default());
    assert_eq!((found.moves.len(), found.elephants), (0, 0));
}

#[test]
fn a_gain_within_the_uncertainty_is_none() {
    let fabric = fabric(2);
    let rows = over(0, 0, 12, "") + &over(0, 1, 9, "") + &over(0, 3, 3, "") + &over(1, 2, 12, "");
    let flows = listed(&fabric, &rows);
    let with = |uncertainty| Options {
        uncertainty,
        least_gain: 0.05,
        ..Options::default()
    };
    assert!(plan(&fabric, &flows, &with(0.0)).worthwhile);
    let unsure = plan(&fabric, &flows, &with(0.2));
    assert!(!unsure.worthwhile && unsure.moves.is_empty());
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
        let sorted = Sorted::new(&mut atlas, &flows, &options);
        let first = plan(&fabric, &flows, &options);
        if first.worthwhile {
            for (place, path) in sorted.moved(&atlas, &flows, &first.solution.ways) {
                flows[place].path = path;
            }
        }
        for (flow, percent) in flows.iter_mut().zip(wander) {
            flow.bytes = flow.bytes * percent / 100;
        }
        let second = plan(&fabric, &flows, &options);
        prop_assert!(second.moves.is_empty(), "{:?} then {:?}", first.moves, second.moves);
    }
}
