//! What plans need for themselves alone.

use reweave_common::circuit::{Circuit, PortId};
use reweave_common::ids::OpticalId;
use reweave_common::resource_set::ResourceSet;

use super::migrations::Ring;
use super::*;
use crate::claims;

fn of_pins(site: &Site, pins: &[Pin]) -> ResourceSet {
    let (nothing, circuits) = (Tables::new(), Circuits::new());
    let network = site.network([&nothing, &nothing], &circuits);
    claims(&network, &plan(pins))
}

fn names(site: &Site, nodes: &BTreeSet<NodeId>) -> Vec<String> {
    nodes
        .iter()
        .map(|&node| site.fabric.name(node).to_owned())
        .collect()
}

fn links(site: &Site, pairs: &[[&str; 2]]) -> BTreeSet<LinkId> {
    pairs.iter().map(|[a, b]| site.link(a, b)).collect()
}

#[test]
fn pin_claims_switch_flow_and_links() {
    let site = Site::leaf_spine();
    let flow = site.flow("h0", "h2");
    let claims = of_pins(&site, &[site.pin(flow, "leaf0", "spine1")]);
    assert_eq!(names(&site, &claims.nodes), ["leaf0"]);
    assert_eq!(claims.flows, [flow].into());
    assert_eq!(names(&site, &claims.destinations), ["h2"]);
    // Unpinned, it may have gone by any spine.
    let spines = ["spine0", "spine1", "spine2"];
    let passed = spines
        .map(|spine| [["leaf0", spine], [spine, "leaf1"]])
        .concat();
    let mut passed = links(&site, &passed);
    passed.insert(site.link("leaf1", "h2"));
    assert_eq!(claims.links, passed);
}

#[test]
fn unchanged_pin_claims_nothing() {
    let mut site = Site::leaf_spine();
    let pin = site.pin(site.flow("h0", "h2"), "leaf0", "spine1");
    site.pins = vec![pin];
    assert_eq!(of_pins(&site, &[pin]), ResourceSet::default());
    let lifted = of_pins(&site, &[]);
    assert_eq!(
        names(&site, &lifted.nodes),
        ["leaf0"],
        "a pin that goes is a change too"
    );
}

fn of_ring(ring: &Ring, tables: Tables, circuits: Circuits) -> ResourceSet {
    let plan = Plan {
        tables,
        circuits,
        ..plan(&[])
    };
    claims(&ring.network(&Tables::new(), 0.0), &plan)
}

#[test]
fn route_claims_instructed_nodes_and_paths() {
    let ring = Ring::new();
    let mut tables = ring.tables.clone();
    let table = ring.with(0, 2, 3);
    tables.insert(table.at, table);
    let claims = of_ring(&ring, tables, ring.circuits.clone());
    assert_eq!(names(&ring.site, &claims.nodes), ["h0"]);
    assert_eq!(names(&ring.site, &claims.destinations), ["h2"]);
    assert_eq!(
        claims.links.len(),
        4,
        "both ways around: {:?}",
        claims.links
    );
    assert!(claims.opticals.is_empty());
}

/// With an instruction for what it does anyhow, a node sends nothing elsewhere.
#[test]
fn redundant_table_claims_only_node() {
    let mut ring = Ring::new();
    let h0 = ring.site.node("h0");
    let only: Vec<_> = [1, 3].map(|to| ring.site.node(&format!("h{to}"))).to_vec();
    let tables = ring.tables.clone();
    ring.tables.remove(&h0);
    let mut new_tables = tables.clone();
    new_tables
        .get_mut(&h0)
        .unwrap()
        .towards
        .retain(|to, _| only.contains(to));
    let claims = of_ring(&ring, new_tables, ring.circuits.clone());
    assert_eq!(names(&ring.site, &claims.nodes), ["h0"]);
    assert!(
        claims.destinations.is_empty() && claims.links.is_empty(),
        "{claims:?}"
    );
}

#[test]
fn circuit_change_claims_switch_and_users() {
    let ring = Ring::new();
    let kept = [[3, 6], [5, 8], [7, 2]];
    let kept = kept.map(|[a, b]| Circuit::new(PortId(a), PortId(b)));
    let circuits = Circuits::from([(OpticalId::from_index(0), kept.into_iter().collect())]);
    let claims = of_ring(&ring, ring.tables.clone(), circuits);
    assert_eq!(names(&ring.site, &claims.nodes), ["h0", "h1", "h2", "h3"]);
    assert_eq!(claims.opticals, [OpticalId::from_index(0)].into());
    assert_eq!(claims.destinations.len(), 4);
}
