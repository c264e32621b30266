//! Traced, predicted and learned paths of flows, and implausible ones.

use reweave_common::fabric::Fabric;
use reweave_common::routes::Routes;

use super::ecmp::{Ecmp, Fields};
use super::listed::{Doubt, Table, parse};
use super::*;
use crate::tests::scene::Scene;

const TWO_BY_TWO: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
                          host_gbps = 1\nuplink_gbps = 1";

fn fabric() -> Fabric {
    Fabric::parse("fabric.toml", TWO_BY_TWO).unwrap()
}

fn read(text: &str) -> Result<Table, String> {
    read_on(&fabric(), text)
}

fn read_on(fabric: &Fabric, text: &str) -> Result<Table, String> {
    let table = parse("flows.csv", text, &mut Atlas::new(fabric), &Ecmp::default());
    table.map_err(|error| error.to_string())
}

fn doubts(rows: &str) -> Vec<String> {
    let table = read(&format!("src,dst,bytes,path,sport\n{rows}")).unwrap();
    assert!(table.flows.is_empty(), "{:?}", table.flows);
    table.doubts.iter().map(ToString::to_string).collect()
}

#[test]
fn silent_hop_is_not_guessed() {
    assert_eq!(
        doubts("h0,h2,9,h0>leaf0>*>leaf1>h2,1"),
        ["flow 0 is left out: the hop after leaf0 did not answer"]
    );
}

/// A trace names nodes; the cable is the hash's guess, and nothing is learned from that.
#[test]
fn traced_parallel_link_is_prediction() {
    let text = "kind = \"graph\"\n\
        node = [{ name = \"a\", role = \"host\" }, { name = \"b\", role = \"host\" },\
                { name = \"x\", role = \"switch\" }, { name = \"y\", role = \"switch\" },\
                { name = \"c\", role = \"host\" }]\n\
        link = [{ a = \"a\", b = \"x\", gbps = 1 }, { a = \"b\", b = \"y\", gbps = 1 },\
                { a = \"c\", b = \"x\", gbps = 1 }, { a = \"x\", b = \"y\", gbps = 1, count = 2 }]";
    let fabric = Fabric::parse("fabric.toml", text).unwrap();
    let rows = "src,dst,bytes,path,sport\na,b,9,a>x>y>b,1\na,c,9,a>x>c,1";
    let flows = read_on(&fabric, rows).unwrap().flows;
    let traced: Vec<_> = flows.iter().map(|flow| flow.traced).collect();
    assert_eq!(traced, [false, true]);
    assert_eq!(Learned::of(&flows).way(&flows[0].fields), None);
}

#[test]
fn contradictory_traces_are_both_ignored() {
    let both = "h0,h2,9,h0>leaf0>spine0>leaf1>h2,1\nh0,h2,9,h0>leaf0>spine1>leaf1>h2,1";
    assert_eq!(
        doubts(both),
        [
            "flows 0 and 1 are left out: they have the same fields and were traced over different \
             paths"
        ]
    );
    let same = "h0,h2,9,h0>leaf0>spine0>leaf1>h2,1\nh0,h2,9,h0>leaf0>spine0>leaf1>h2,1";
    let table = read(&format!("src,dst,bytes,path,sport\n{same}")).unwrap();
    assert_eq!((table.flows.len(), table.doubts.len()), (2, 0));
    // A trace that agrees with one of them is believed no more than it is.
    let other = "h0,h2,9,h0>leaf0>spine1>leaf1>h2,1";
    assert_eq!(
        doubts(&format!("{same}\n{other}")),
        [
            "flows 0, 1 and 2 are left out: they have the same fields and were traced over \
             different paths"
        ]
    );
}

#[test]
fn excessive_total_flow_is_refused() {
    let row = |port| format!("h0,h2,9e17,,{port}\n");
    let error = read(&format!("src,dst,bytes,path,sport\n{}{}", row(1), row(2))).unwrap_err();
    assert!(
        error.starts_with("flows.csv:3: bytes: with it the flows have more than"),
        "{error}"
    );
}

#[test]
fn trace_over_missing_link_is_reported() {
    assert_eq!(
        doubts("h0,h2,9,h0>leaf0>leaf1>h2,1"),
        ["flow 0 is left out: it was traced from leaf0 to leaf1, which are not linked"]
    );
}

#[test]
fn looping_or_host_crossing_trace_rejected() {
    let route = |path: &str| doubts(&format!("h0,h2,9,{path},1"))[0].clone();
    for (path, by) in [
        ("h0>leaf0>spine0>leaf0>spine1>leaf1>h2", "leaf0"),
        ("h0>leaf0>h1>leaf0>spine0>leaf1>h2", "h1"),
    ] {
        let report = route(path);
        assert!(
            report.starts_with("flow 0 is left out") && report.contains(by),
            "{report}"
        );
    }
}

#[test]
fn flow_without_path_is_reported() {
    let parts = r#"
        kind = "graph"
        node = [{ name = "a", role = "host" }, { name = "b", role = "host" },
                { name = "x", role = "switch" }]
        link = [{ a = "a", b = "x", gbps = 1 }]
    "#;
    let fabric = Fabric::parse("fabric.toml", parts).unwrap();
    let text = "src,dst,bytes\na,b,5";
    let table = parse(
        "flows.csv",
        text,
        &mut Atlas::new(&fabric),
        &Ecmp::default(),
    )
    .unwrap();
    let [from, to] = ["a", "b"].map(str::to_owned);
    assert_eq!(table.doubts, [Doubt::NoWay { flow: 0, from, to }]);
}

/// Holds for any result of the hash: a contradiction to the trace is a doubt.
#[test]
fn trace_applies_to_equal_header_fields() {
    let two = |spine: u32| {
        let row = format!("h0,h2,9,h0>leaf0>spine{spine}>leaf1>h2,7");
        read(&format!(
            "src,dst,bytes,path,sport\nh0,h2,5,,7\n{row}\nh0,h2,5,,8"
        ))
        .unwrap()
    };
    let tables = [0, 1].map(two);
    for table in &tables {
        assert_eq!(table.flows[0].path, table.flows[1].path);
        assert_eq!(
            [0, 1, 2].map(|it| table.flows[it].traced),
            [true, true, false]
        );
    }
    let doubts: Vec<_> = tables.iter().flat_map(|table| &table.doubts).collect();
    let (traced, otherwise) = (2, 2);
    assert_eq!(doubts, [&Doubt::OtherHash { traced, otherwise }]);
}

#[test]
fn errors_name_line_and_column() {
    for (row, report) in [
        ("h0,h9,9,,1", "flows.csv:2: dst"),
        ("h0,leaf1,9,,1", "switch"),
        ("h0,h2,-1,,1", "bytes"),
        ("h0,h2,9,h0>leaf0>h1,1", "path"),
        ("h0,h0,9,,1", "dst: it is src"),
    ] {
        let error = read(&format!("src,dst,bytes,path,sport\n{row}")).unwrap_err();
        assert!(error.contains(report), "{error}");
    }
    let error = read("src,dst,bytes,move\nh0,h2,9,maybe").unwrap_err();
    assert!(error.contains("pin, port or never"), "{error}");
    let error = read("src,dst,bytes,start_us,end_us\nh0,h2,9,50,40").unwrap_err();
    assert!(
        error.contains("end_us: it ends before it starts"),
        "{error}"
    );
}

/// Predictions use each link of a group equally often, and paths reach their destinations.
#[test]
fn predicted_paths_are_shortest_covering_links() {
    let fabric = fabric();
    let (mut atlas, routes, ecmp) = (
        Atlas::new(&fabric),
        Routes::shortest(&fabric),
        Ecmp::default(),
    );
    let rows: String = (0..64).map(|port| format!("h0,h2,9,,{port}\n")).collect();
    let text = format!("src,dst,bytes,path,sport\n{rows}");
    let table = parse("flows.csv", &text, &mut atlas, &ecmp).unwrap();
    let spines: std::collections::BTreeSet<_> = table.flows.iter().map(|it| it.path[1]).collect();
    assert_eq!(spines.len(), 2);
    for hops in table.flows.iter().map(|flow| &flow.path) {
        for hop in hops {
            assert!(
                routes
                    .next_hops(hop.from, table.flows[0].ends[1])
                    .contains(&hop.link)
            );
            assert_eq!(atlas.hop(atlas.index(*hop)), *hop);
        }
    }
}

/// Checks that hosts which share a switch have the same choices as each has by itself.
#[test]
fn shared_trees_match_full_routes() {
    let dual = r#"
        kind = "graph"
        node = [{ name = "a", role = "host" }, { name = "b", role = "host" },
                { name = "c", role = "host" }, { name = "x", role = "switch" },
                { name = "y", role = "switch" }, { name = "z", role = "switch" }]
        link = [{ a = "a", b = "x", gbps = 1 }, { a = "b", b = "y", gbps = 1 },
                { a = "c", b = "y", gbps = 1 }, { a = "c", b = "z", gbps = 1 },
                { a = "x", b = "y", gbps = 1, count = 2 }, { a = "x", b = "z", gbps = 1 }]
    "#;
    for text in [dual, TWO_BY_TWO] {
        let fabric = Fabric::parse("fabric.toml", text).unwrap();
        let (mut atlas, routes) = (Atlas::new(&fabric), Routes::shortest(&fabric));
        for to in fabric.endpoints() {
            for (at, _) in fabric.nodes() {
                assert_eq!(
                    atlas.choices(at, to),
                    routes.next_hops(at, to),
                    "{at} to {to}"
                );
            }
        }
    }
}

#[test]
fn contradictory_traces_unlearn_ports() {
    let scene = Scene::leaf_spine(2, 2, 2, 100, 100);
    let way = |spine| scene.path("h0", "h2", &["leaf0", spine, "leaf1"]);
    let key = |source_port| Fields {
        source: 0,
        destination: 2,
        source_port,
        destination_port: 4791,
        protocol: 17,
    };
    let mut learned = Learned::default();
    let over = way("spine1");
    let ports = |learned: &Learned| learned.ports_along(&key(1), &over).collect::<Vec<_>>();
    learned.record(key(1), way("spine0"));
    assert!(ports(&learned).is_empty());
    learned.record(key(3), over.clone());
    learned.record(key(2), over.clone());
    let other = Fields {
        destination_port: 80,
        ..key(1)
    };
    learned.record(other, over.clone());
    assert_eq!(ports(&learned), [2, 3]);
    learned.record(key(2), way("spine0"));
    assert_eq!(ports(&learned), [3]);
    assert!(learned.is_contradicted(&key(2)) && learned.way(&key(2)).is_none());
    learned.forget(&key(2));
    assert!(!learned.is_contradicted(&key(2)));
}
