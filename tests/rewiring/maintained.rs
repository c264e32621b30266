//! Work on an optical switch beside another: hosts that forward keep to the other one meanwhile.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use reweave_common::fabric::Fabric;
use reweave_common::operator::{MaintenanceStage, Refused, Request, Response};
use reweave_core::Outcome;
use reweave_sim_cluster::circuits::faults::Fault;
use reweave_sim_cluster::circuits::world::World;

/// Three hosts in a ring through each of this many optical switches.
pub(crate) fn rings(opticals: usize) -> Fabric {
    let mut text = "kind = \"graph\"\n".to_owned();
    for host in 0..3 {
        let _ = write!(
            text,
            "[[node]]\nname = \"h{host}\"\nrole = \"relay\"\naddress = \"10.0.0.{}\"\n",
            host + 1
        );
    }
    for optical in 0..opticals {
        let _ = write!(
            text,
            "[[optical]]\nname = \"ocs{optical}\"\nports = 8\ncircuits = [[2, 3], [4, 5], [6, 1]]\n"
        );
        for (host, end) in (0..3).flat_map(|host| [(host, 0), (host, 1)]) {
            let (fibre, port) = (2 * optical + end, 2 * host + end + 1);
            let _ = write!(
                text,
                "[[fibre]]\nnode = \"h{host}\"\ninterface = \"fab{fibre}\"\noptical = \"ocs{optical}\"\n\
                 port = {port}\ngbps = 0.1\n"
            );
        }
    }
    Fabric::parse("rings.toml", &text).expect("it is a fabric")
}

fn bring(world: &mut World, name: &str, stage: Option<MaintenanceStage>) -> Response {
    let name = name.to_owned();
    let answer = world.ask(Request::Maintain { name, stage });
    answer.expect("it is answered at once")
}

pub(crate) fn carry_out(world: &mut World, offered: Response) {
    let Response::Plan {
        plan: Some(plan), ..
    } = offered
    else {
        panic!("no plan: {offered:?}")
    };
    let generation = plan.generation;
    world.ask(Request::Apply { generation });
    assert!(world.run_until(Duration::from_mins(1), |world| !world.is_busy()));
    assert_eq!(world.outcome(), Some(Outcome::Committed));
}

/// The optical switches that routes in force lead through.
fn used(world: &World) -> BTreeSet<String> {
    let fabric = &world.cluster.cabling.fabric;
    let tables = &world.state().expect("it runs").in_force().tables;
    let hops = tables.values().flat_map(|table| table.towards.values());
    let crossings = hops.flatten().filter_map(|hop| fabric.crossing(hop.link));
    crossings
        .map(|it| fabric.optical(it.optical).name.clone())
        .collect()
}

#[test]
fn optical_maintenance_proves_switch_idle() {
    use MaintenanceStage::{Draining, Returning, Working};
    let mut world = World::new(rings(2), 1);
    let drain = bring(&mut world, "ocs1", Some(Draining));
    carry_out(&mut world, drain);
    assert_eq!(used(&world), BTreeSet::from(["ocs0".to_owned()]));
    let early = bring(&mut world, "ocs1", Some(Working));
    assert!(
        matches!(early, Response::Refused(Refused::NotEmpty { .. })),
        "{early:?}"
    );
    world.run_for(Duration::from_secs(3));
    let begun = bring(&mut world, "ocs1", Some(Working));
    assert!(
        matches!(begun, Response::Plan { plan: None, .. }),
        "{begun:?}"
    );
    let back = bring(&mut world, "ocs1", Some(Returning));
    carry_out(&mut world, back);
    assert_eq!(used(&world).len(), 2);
    bring(&mut world, "ocs1", None);
    assert!(world.state().is_some_and(|it| it.maintenance().is_empty()));
}

/// However long nothing has passed it, that is no leave for what comes then.
#[test]
fn late_traffic_blocks_maintenance() {
    let mut world = World::new(rings(2), 1);
    let drain = bring(&mut world, "ocs1", Some(MaintenanceStage::Draining));
    carry_out(&mut world, drain);
    // Over so long a time, what passes in a second is next to nothing.
    world.run_for(Duration::from_mins(10));
    let port = world.cluster.lit_ports().last().expect("light in ocs1");
    world.strike(Fault::IsStubborn(Some(port)));
    world.run_for(Duration::from_secs(1));
    let late = bring(&mut world, "ocs1", Some(MaintenanceStage::Working));
    assert!(
        matches!(late, Response::Refused(Refused::NotEmpty { .. })),
        "{late:?}"
    );
}

/// The same without any maintenance.
#[test]
fn optical_switch_drains_unless_only_one() {
    let links = vec!["ocs1".to_owned()];
    let mut world = World::new(rings(2), 1);
    let drain = world.ask(Request::Drain {
        links: links.clone(),
    });
    carry_out(&mut world, drain.expect("an answer"));
    assert_eq!(used(&world), BTreeSet::from(["ocs0".to_owned()]));
    let none = world.ask(Request::Drain { links: vec![] });
    carry_out(&mut world, none.expect("an answer"));
    assert_eq!(used(&world).len(), 2);
    let mut only = World::new(rings(1), 1);
    let links = vec!["ocs0".to_owned()];
    let refused = only.ask(Request::Drain { links });
    assert!(
        matches!(refused, Some(Response::Refused(Refused::CutOff { .. }))),
        "{refused:?}"
    );
}
