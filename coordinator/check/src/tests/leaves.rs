//! Tables with entries for leaves, which are for all NICs that hang there.

use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::migration_plan::{MigrationStep, Round};
use reweave_common::resource_set::ResourceSet;

use super::nics::{flow_to, give_nic};
use super::*;
use crate::claims;

/// Two hosts with a NIC at each of two leaves, and one whose NIC hangs on the third leaf.
fn rails() -> Site {
    let hosts = [("h0", ["leaf0", "leaf1"]), ("h1", ["leaf2", "leaf3"])];
    let mut nics: Vec<_> = hosts
        .into_iter()
        .flat_map(|(host, leaves)| leaves.map(|leaf| (host, leaf)))
        .collect();
    nics.push(("h2", "leaf2"));
    let mut text = "kind = \"graph\"\n".to_owned();
    let node = |name: &str, role: &str| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    for name in ["h0", "h1", "h2"] {
        text += &node(name, "host");
    }
    let leaves = ["leaf0", "leaf1", "leaf2", "leaf3"];
    for name in leaves.into_iter().chain(["spine0", "spine1"]) {
        text += &node(name, "switch");
    }
    for (host, leaf) in nics {
        text += &format!("[[nic]]\nhost = \"{host}\"\nto = \"{leaf}\"\ngbps = 1\n");
    }
    for leaf in leaves {
        for spine in ["spine0", "spine1"] {
            text += &format!("[[link]]\na = \"{leaf}\"\nb = \"{spine}\"\ngbps = 1\n");
        }
    }
    Site::of(&text)
}

/// A table with one next hop for each destination.
fn table(site: &Site, at: &str, entries: &[(&str, &str)]) -> Tables {
    let entry = |&(to, next): &(&str, &str)| {
        let link = site.link(at, next);
        (site.node(to), vec![NextHop { link, weight: 1 }])
    };
    let at = site.node(at);
    let table = ForwardingTable {
        at,
        towards: entries.iter().map(entry).collect(),
        raises: Vec::new(),
    };
    Tables::from([(at, table)])
}

/// A flow to the NIC of the second host at the third leaf.
fn flow_to_third_leaf(site: &mut Site) -> FlowKey {
    let flow = flow_to(site, "h1", [10, 2, 0, 1]);
    give_nic(site, flow, "leaf2");
    flow
}

/// The fault of pinning this flow to the second spine, while these tables are in force.
fn fault_of_pin(site: &Site, flow: FlowKey, tables: &Tables) -> Option<String> {
    let pinned = Plan {
        tables: tables.clone(),
        ..plan(&[site.pin(flow, "leaf0", "spine1")])
    };
    let (nothing, circuits) = (Tables::new(), Circuits::new());
    let found = check(&site.network([tables, &nothing], &circuits), &pinned);
    Some(found.err()?.first()?.to_string())
}

/// The fault of a plan with these tables alone.
fn fault_of_tables(site: &Site, tables: Tables) -> Option<String> {
    let planned = Plan {
        tables,
        ..plan(&[])
    };
    Some(site.check_plan(&planned).err()?.first()?.to_string())
}

#[test]
fn leaf_entry_covers_its_nics() {
    let mut site = rails();
    let there = table(&site, "leaf0", &[("leaf2", "spine1")]);
    assert_eq!(fault_of_tables(&site, there), None);
    let back = table(&site, "spine1", &[("leaf2", "leaf0")]);
    let fault = fault_of_tables(&site, back.clone()).unwrap();
    assert!(fault.contains("leaf2"), "{fault}");
    let to_one_of_two = flow_to_third_leaf(&mut site);
    let to_the_only = site.flow("h0", "h2");
    for flow in [to_one_of_two, to_the_only] {
        assert_eq!(fault_of_pin(&site, flow, &Tables::new()), None);
        let fault = fault_of_pin(&site, flow, &back).unwrap();
        assert!(
            fault.ends_with("may circle: leaf0 > spine1 > leaf0"),
            "{fault}"
        );
    }
    // The NIC at the fourth leaf is reached as before.
    let to_other = flow_to(&mut site, "h1", [10, 3, 0, 1]);
    give_nic(&mut site, to_other, "leaf3");
    assert_eq!(fault_of_pin(&site, to_other, &back), None);
}

#[test]
fn own_entry_beats_leaf() {
    let mut site = rails();
    let entries = [("leaf2", "leaf0"), ("h2", "leaf2")];
    let tables = table(&site, "spine1", &entries);
    assert_eq!(fault_of_pin(&site, site.flow("h0", "h2"), &tables), None);
    let flow = flow_to_third_leaf(&mut site);
    assert!(fault_of_pin(&site, flow, &tables).is_some());
}

#[test]
fn leaf_keeps_its_own_nics() {
    let site = rails();
    let fault = fault_of_tables(&site, table(&site, "leaf2", &[("leaf2", "spine0")]));
    assert!(fault.is_some(), "packets for its NICs would go up again");
}

/// Packets without a pin reach the leaf by the round, and those of the flow do not.
#[test]
fn round_is_judged_with_pins() {
    let mut site = rails();
    let flow = flow_to_third_leaf(&mut site);
    site.pins = vec![site.pin(flow, "leaf0", "spine1")];
    let held = table(&site, "leaf0", &[("leaf2", "spine0")]);
    let round: Round = table(&site, "spine1", &[("leaf2", "leaf0")]);
    let is_sound = |site: &Site| {
        let (nothing, circuits) = (Tables::new(), Circuits::new());
        let network = site.network([&held, &nothing], &circuits);
        check_step(&network, MigrationStep::Round(&round)).is_ok()
    };
    assert!(!is_sound(&site));
    site.pins.clear();
    assert!(is_sound(&site));
}

fn claims_of(site: &Site, plan: &Plan) -> ResourceSet {
    let (nothing, circuits) = (Tables::new(), Circuits::new());
    claims(&site.network([&nothing, &nothing], &circuits), plan)
}

#[test]
fn pin_and_leaf_table_collide() {
    let mut site = rails();
    let flow = flow_to_third_leaf(&mut site);
    let of_tables = |site: &Site, to| {
        let planned = Plan {
            tables: table(site, "leaf1", &[(to, "spine1")]),
            ..plan(&[])
        };
        claims_of(site, &planned)
    };
    let of_pin = claims_of(&site, &plan(&[site.pin(flow, "leaf0", "spine1")]));
    let of_leaf = of_tables(&site, "leaf2");
    let of_host = of_tables(&site, "h2");
    let of_other = of_tables(&site, "leaf3");
    let leaf = BTreeSet::from([site.node("leaf2")]);
    for claims in [&of_pin, &of_leaf, &of_host] {
        assert_eq!(claims.destinations, leaf);
    }
    assert!(of_pin.shared_with(&of_leaf).is_some());
    assert_eq!(of_other.destinations, [site.node("leaf3")].into());
}
