//! Steps of migration plans that must be refused, and for which reason.

use reweave_common::circuit::{Circuit, PortId};
use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::ids::OpticalId;
use reweave_common::migration_plan::{MigrationStep, Round};

use super::*;

/// Four hosts in a ring of circuits, and a cable across.
pub(super) struct Ring {
    pub(super) site: Site,
    pub(super) circuits: Circuits,
    pub(super) tables: Tables,
}

const OCS_TOML: &str =
    "[[optical]]\nname = \"ocs0\"\nports = 8\ncircuits = [[1, 4], [3, 6], [5, 8], [7, 2]]\n";

impl Ring {
    /// Every host sends around by the next host up, but for the one before it.
    pub(super) fn new() -> Self {
        let mut text = format!("kind = \"graph\"\n{OCS_TOML}");
        for host in 0..4 {
            text += &format!("[[node]]\nname = \"h{host}\"\nrole = \"relay\"\n");
        }
        for port in 1..=8 {
            let (host, side) = ((port - 1) / 2, (port - 1) % 2);
            text += &format!(
                "[[fibre]]\nnode = \"h{host}\"\ninterface = \"fab{side}\"\noptical = \"ocs0\"\n\
                 port = {port}\ngbps = 1\n"
            );
        }
        let site = Site::of(&text);
        let circuits = site.fabric.first_circuits().clone();
        let mut ring = Self {
            site,
            circuits,
            tables: Tables::new(),
        };
        for (at, to) in (0..4)
            .flat_map(|at| (0..4).map(move |to| (at, to)))
            .filter(|(a, b)| a != b)
        {
            let next = if (to + 1) % 4 == at { to } else { (at + 1) % 4 };
            ring.route(at, to, next);
        }
        ring
    }

    fn hop(&self, at: usize, next: usize) -> NextHop {
        let dark = self.site.fabric.dark(&self.circuits);
        let [at, next] = [at, next].map(|host| self.site.node(&format!("h{host}")));
        let mut links = self.site.fabric.links_between(at, next);
        let link = links
            .find(|link| !dark.contains(link))
            .expect("they are neighbours");
        NextHop { link, weight: 1 }
    }

    fn table(&self, at: usize) -> ForwardingTable {
        let at = self.site.node(&format!("h{at}"));
        let own = ForwardingTable {
            at,
            towards: BTreeMap::new(),
            raises: Vec::new(),
        };
        self.tables.get(&at).cloned().unwrap_or(own)
    }

    fn route(&mut self, at: usize, to: usize, next: usize) {
        let table = self.with(at, to, next);
        self.tables.insert(table.at, table);
    }

    pub(super) fn with(&self, at: usize, to: usize, next: usize) -> ForwardingTable {
        let mut table = self.table(at);
        let to = self.site.node(&format!("h{to}"));
        table.towards.insert(to, vec![self.hop(at, next)]);
        table
    }

    pub(super) fn network<'r>(&'r self, unsure: &'r Round, floor: f64) -> Network<'r> {
        Network {
            fabric: &self.site.fabric,
            addresses: &self.site.addresses,
            nics: &self.site.nics,
            down: &self.site.down,
            generation: Generation(4),
            pins: &[],
            tables: &self.tables,
            unsure,
            circuits: &self.circuits,
            floor,
            is_lossless: false,
            flows: &[],
            link_loads: &self.site.link_loads,
        }
    }

    fn judge(&self, step: MigrationStep<'_>, unsure: &Round, floor: f64) -> Vec<String> {
        let faults = check_step(&self.network(unsure, floor), step)
            .err()
            .unwrap_or_default();
        faults.iter().map(ToString::to_string).collect()
    }

    fn round(&self, tables: impl IntoIterator<Item = ForwardingTable>) -> Vec<String> {
        let round = tables.into_iter().map(|table| (table.at, table)).collect();
        self.judge(MigrationStep::Round(&round), &Round::new(), 0.0)
    }

    fn switch(&self, circuits: &[[u16; 2]], floor: f64) -> Vec<String> {
        let set = circuits
            .iter()
            .map(|&[a, b]| Circuit::new(PortId(a), PortId(b)));
        let circuits = Circuits::from([(OpticalId::from_index(0), set.collect())]);
        self.judge(MigrationStep::Switch(&circuits), &Round::new(), floor)
    }
}

#[test]
fn lone_route_reversal_may_loop() {
    let ring = Ring::new();
    // h1 sends to h3 by h2; by h0 it would meet h0, which goes by h3 directly.
    assert_eq!(ring.round([ring.with(1, 3, 0)]), [""; 0]);
    // h0 sends to h2 by h1: h1 would send it back.
    let said = ring.round([ring.with(1, 2, 0)]);
    assert_eq!(said, ["traffic for h2 may circle: h0 > h1 > h0"]);
    // Together they would be sound, and one after the other they are not.
    let both = [ring.with(1, 2, 0), ring.with(0, 2, 3)];
    assert_eq!(
        ring.round(both),
        ["traffic for h2 may circle: h0 > h1 > h0"]
    );
    assert_eq!(ring.round([ring.with(0, 2, 3)]), [""; 0]);
}

#[test]
fn possibly_held_tables_count_in_check() {
    let ring = Ring::new();
    let round = |table: ForwardingTable| Round::from([(table.at, table)]);
    let unsure = round(ring.with(0, 2, 3));
    let said = ring.judge(
        MigrationStep::Round(&round(ring.with(3, 2, 0))),
        &unsure,
        0.0,
    );
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("traffic for h2 may circle: h0 > h3"),
        "{said:?}"
    );
}

#[test]
fn links_that_lead_nowhere_are_named() {
    let mut ring = Ring::new();
    let mut table = ring.with(1, 3, 0);
    let dark = ring.site.fabric.dark(&ring.circuits);
    let link = *dark.first().unwrap();
    let [at, far] = ring.site.fabric.link(link).ports().map(|port| port.node);
    table.at = at;
    table.towards = BTreeMap::from([(far, vec![NextHop { link, weight: 1 }])]);
    let said = ring.round([table]);
    assert!(said[0].contains("does not lead on from there"), "{said:?}");
    let hop = ring.hop(1, 2);
    ring.site.down.insert(hop.link);
    assert!(
        ring.round([ring.with(0, 3, 1)])[0].contains("may be lost at h1"),
        "{:?}",
        ring.round([ring.with(0, 3, 1)])
    );
    let nowhere = ForwardingTable {
        towards: BTreeMap::from([(ring.site.node("h2"), vec![])]),
        ..ring.table(0)
    };
    let said = ring.round([nowhere]);
    assert!(
        said.contains(&"traffic for h2 may be lost at h0: no next hop".to_owned()),
        "{said:?}"
    );
}

#[test]
fn circuits_move_only_when_unused() {
    let mut ring = Ring::new();
    // h0-h1 would go dark.
    let kept = [[3, 6], [5, 8], [7, 2]];
    let said = ring.switch(&kept, 0.0);
    assert!(
        said.contains(&"h0-h1.2 goes dark while h0 sends over it to h1".to_owned()),
        "{said:?}"
    );
    for (at, to) in [(0, 1), (0, 2), (3, 1), (2, 1)] {
        let next = [3, 0, 1, 2][at];
        ring.route(at, to, next);
    }
    for (at, to, next) in [
        (1, 0, 2),
        (1, 3, 2),
        (2, 0, 3),
        (2, 1, 1),
        (3, 1, 2),
        (3, 2, 2),
        (0, 1, 3),
    ] {
        ring.route(at, to, next);
    }
    assert_eq!(ring.switch(&kept, 0.5), [""; 0]);
    let said = ring.switch(&kept, 0.6);
    assert_eq!(
        said[0],
        "h0 keeps 1.0 Gb/s while circuits move, and 1.2 Gb/s is the least"
    );
    let h0 = ring.site.node("h0");
    ring.tables.remove(&h0);
    let said = ring.switch(&kept, 0.5);
    assert!(
        said[0].contains("it holds no route of ours to h1"),
        "{said:?}"
    );
}

/// Each takes half of what there is then, and half must stay of what there is when all is well.
#[test]
fn successive_waves_keep_capacity_floor() {
    let mut ring = Ring::new();
    let narrow = |ring: &Ring, circuits: &[[u16; 2]]| {
        let said = ring.switch(circuits, 0.5);
        let narrow = |it: &String| it.contains("while circuits move");
        said.into_iter().filter(narrow).collect::<Vec<_>>()
    };
    let set = |circuits: &[[u16; 2]]| {
        let circuits = circuits.iter();
        let set = circuits.map(|&[a, b]| Circuit::new(PortId(a), PortId(b)));
        Circuits::from([(OpticalId::from_index(0), set.collect())])
    };
    let (without_h0_h1, with_two) = ([[3, 6], [5, 8], [7, 2]], [[3, 6], [5, 8]]);
    assert_eq!(narrow(&ring, &without_h0_h1), [""; 0]);
    // h1 keeps what it has all along: who is not touched is not complained of.
    ring.circuits = set(&without_h0_h1);
    assert_eq!(
        narrow(&ring, &with_two),
        ["h0 keeps 0 kb/s while circuits move, and 1.0 Gb/s is the least",]
    );
    // Where a link died it is the same.
    ring.circuits = ring.site.fabric.first_circuits().clone();
    let dead = ring.hop(0, 1).link;
    ring.site.down.insert(dead);
    assert_eq!(narrow(&ring, &[[1, 4], [3, 6], [5, 8]]).len(), 1);
}

#[test]
fn impossible_circuits_are_refused() {
    let ring = Ring::new();
    let twice = ring.switch(&[[1, 4], [1, 6]], 0.0);
    assert_eq!(twice[0], "port 1 of ocs0 is in two circuits");
    assert_eq!(
        ring.switch(&[[1, 2]], 0.0),
        ["circuit 1-2 of ocs0 joins no two nodes"]
    );
    assert_eq!(
        ring.switch(&[[1, 9]], 0.0),
        ["circuit 1-9 of ocs0 joins no two nodes"]
    );
    let none = Circuits::from([(OpticalId::from_index(7), Default::default())]);
    let said = ring.judge(MigrationStep::Switch(&none), &Round::new(), 0.0);
    assert_eq!(said, ["the fabric has no optical switch 7"]);
}

#[test]
fn plan_is_checked_by_its_result() {
    let ring = Ring::new();
    let judge = |plan: &Plan| {
        let unsure = Round::new();
        check(&ring.network(&unsure, 0.0), plan)
            .err()
            .unwrap_or_default()
    };
    let with = |table: ForwardingTable| {
        let mut tables = ring.tables.clone();
        tables.insert(table.at, table);
        Plan {
            tables,
            circuits: ring.circuits.clone(),
            ..plan(&[])
        }
    };
    assert_eq!(judge(&with(ring.with(0, 2, 3))), []);
    let said = judge(&with(ring.with(1, 2, 0)));
    assert_eq!(
        said[0].to_string(),
        "traffic for h2 may circle: h0 > h1 > h0"
    );
    let flow = ring.site.flow("h0", "h2");
    let pinned = Pin {
        flow,
        at: ring.site.node("h0"),
        link: ring.hop(0, 1).link,
    };
    let both = Plan {
        pins: vec![pinned],
        ..with(ring.with(0, 2, 3))
    };
    assert_eq!(judge(&both), [], "by its pin h0 sends to h1, as before");
    let mut circling = both.clone();
    let back = ring.with(1, 2, 0);
    circling.tables.insert(back.at, back);
    let said = judge(&circling);
    assert!(matches!(said[..], [Unsound::Loop { .. }]), "{said:?}");
    circling.pins.clear();
    assert_eq!(judge(&circling), [], "h1 sends to h0, and that to h3");
}

#[test]
fn pins_are_judged_by_tables() {
    let mut ring = Ring::new();
    let pinned = Pin {
        flow: ring.site.flow("h0", "h2"),
        at: ring.site.node("h0"),
        link: ring.hop(0, 1).link,
    };
    let unsure = Round::new();
    assert_eq!(check_pins(&ring.network(&unsure, 0.0), &[pinned]), Ok(()));
    ring.route(1, 2, 0);
    let said = check_pins(&ring.network(&unsure, 0.0), &[pinned]);
    let said = said.expect_err("h1 sends it back");
    assert!(matches!(said[..], [Unsound::Loop { .. }]), "{said:?}");
}

/// Or no flow could ever be led around what is down.
#[test]
fn routes_over_dead_links_may_change() {
    let mut ring = Ring::new();
    let dead = ring.hop(1, 2).link;
    ring.site.down.insert(dead);
    // h1 sends to h3 by h2, and its link to h2 is dead.
    assert_eq!(ring.round([ring.with(1, 3, 0)]), [""; 0]);
    // A host that sends to h1 what is for h3 instead is worse off than before, as long as h1 has not followed.
    let said = ring.round([ring.with(0, 3, 1)]);
    assert_eq!(said.len(), 1, "{said:?}");
}

/// A table of leaf 1 in a fabric whose spine 1 has lost its link to leaf 0, and sends back what is for that leaf. It
/// leads to the hosts there over these spines; over none, the switch is left to itself.
fn leaf_table(site: &Site, spines: &[&str]) -> Tables {
    let at = site.node("leaf1");
    let hop = |spine: &&str| NextHop {
        link: site.link("leaf1", spine),
        weight: 1,
    };
    let hops: Vec<_> = spines.iter().map(hop).collect();
    let hosts = ["h0", "h1"].map(|host| site.node(host));
    let entries = hosts.map(|to| (to, hops.clone()));
    let led = entries.into_iter().filter(|(_, hops)| !hops.is_empty());
    let table = ForwardingTable {
        at,
        towards: led.collect(),
        raises: Vec::new(),
    };
    Tables::from([(at, table)])
}

/// The number of faults of the round in which leaf 1 goes from one such table to another, and of the plan.
fn leaf_faults(site: &Site, held: &[&str], next: &[&str]) -> [usize; 2] {
    let [held, next] = [held, next].map(|spines| leaf_table(site, spines));
    let (unsure, circuits) = (Tables::new(), Circuits::new());
    let network = site.network([&held, &unsure], &circuits);
    let round = check_step(&network, MigrationStep::Round(&next)).err();
    let ended = Plan {
        tables: next.clone(),
        ..plan(&[])
    };
    let both = [round, check(&network, &ended).err()];
    both.map(|faults| faults.map_or(0, |faults| faults.len()))
}

/// A drain left the switch no other way than the one that failed: all of its packets circle until the drain ends.
#[test]
fn packets_may_leave_existing_loop() {
    let mut site = Site::leaf_spine();
    site.down = BTreeSet::from([site.link("leaf0", "spine1")]);
    let better: [&[&str]; 3] = [&[], &["spine0"], &["spine0", "spine1"]];
    for next in better {
        assert_eq!(leaf_faults(&site, &["spine1"], next), [0, 0], "{next:?}");
    }
    let all = ["spine0", "spine1", "spine2"];
    assert_eq!(leaf_faults(&site, &all[..2], &all), [0, 0], "a third less");
    // More packets than now would circle.
    let worse: [[&[&str]; 2]; 4] = [
        [&["spine0"], &["spine1"]],
        [&["spine0"], &["spine0", "spine1"]],
        [&["spine0", "spine1"], &["spine1"]],
        [&all, &["spine0", "spine1"]],
    ];
    for [held, next] in worse {
        assert_eq!(
            leaf_faults(&site, held, next),
            [2, 2],
            "{held:?} to {next:?}"
        );
    }
}

/// Spine 0 sends them back, and leaf 1 may not have heard of that.
#[test]
fn lost_packets_may_follow_own_routes() {
    let mut site = Site::leaf_spine();
    let down = [("leaf0", "spine0"), ("leaf1", "spine1")];
    site.down = down.map(|(a, b)| site.link(a, b)).into();
    assert_eq!(leaf_faults(&site, &["spine1"], &[]), [0, 0]);
    // By a table they would circle for certain, and by another way they arrive now.
    assert_eq!(leaf_faults(&site, &["spine1"], &["spine0"]), [2, 2]);
    assert_eq!(leaf_faults(&site, &["spine2"], &[]), [2, 2]);
}

/// All pairs of fibres are links, of which four have a circuit.
#[test]
fn pin_to_dark_fibre_is_refused() {
    let ring = Ring::new();
    let site = &ring.site;
    let (at, flow) = (site.node("h0"), site.flow("h0", "h2"));
    let dark = site.fabric.dark(&ring.circuits);
    let unsure = Round::default();
    let network = ring.network(&unsure, 0.0);
    let is_refused = |&link: &LinkId| {
        let faults = check(&network, &plan(&[Pin { flow, at, link }])).err();
        let is_dark = |fault: &Unsound| fault.to_string().contains("no circuit joins");
        faults.is_some_and(|faults| faults.iter().any(is_dark))
    };
    let links = site.fabric.links_of(at).iter().copied();
    let refused: BTreeSet<_> = links.clone().filter(is_refused).collect();
    let expected: BTreeSet<_> = links.filter(|link| dark.contains(link)).collect();
    assert!(!expected.is_empty());
    assert_eq!(refused, expected);
}

/// Packets of the flow would go on to wherever the fibre leads then.
#[test]
fn circuit_under_pin_stays() {
    let ring = Ring::new();
    let site = &ring.site;
    let flow = site.flow("h0", "h2");
    let dark = site.fabric.dark(&ring.circuits);
    let at = site.node("h0");
    let mut links = site.fabric.links_of(at).iter();
    let link = *links.find(|link| !dark.contains(link)).unwrap();
    let pins = [Pin { flow, at, link }];
    let unsure = Round::default();
    let network = Network {
        pins: &pins,
        ..ring.network(&unsure, 0.0)
    };
    let Crossing { optical, circuit } = site.fabric.crossing(link).unwrap();
    let others = ring.circuits[&optical].iter().filter(|it| *it != circuit);
    let set = others.collect();
    let moves = Plan {
        circuits: BTreeMap::from([(optical, set)]),
        ..plan(&pins)
    };
    let is_refused = |network: &Network<'_>, plan: &Plan| {
        let faults = check(network, plan).err().unwrap_or_default();
        faults
            .iter()
            .any(|it| it.to_string().contains("no circuit joins"))
    };
    assert!(is_refused(&network, &moves));
    assert!(!is_refused(&network, &plan(&pins)));
    // It is there, and dark: any other plan has to go on.
    let moved = Network {
        circuits: &moves.circuits,
        ..network
    };
    assert!(!is_refused(&moved, &plan(&pins)));
}
