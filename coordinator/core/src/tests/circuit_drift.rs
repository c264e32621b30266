//! Circuits that change on the device, without a plan.

use reweave_common::cause::Class;
use reweave_common::circuit::{CircuitSet, OpticalName, Readback};
use reweave_common::fabric::Crossing;
use reweave_common::ids::{LinkId, OpticalId};
use reweave_common::operator::{Request, Response};
use reweave_common::plan::Generation;

use super::cluster::Cluster;
use super::diagnosis::causes;
use super::fibre_macs;
use super::scene::{SETTLE_TIME, status};
use crate::{Input, Outcome};

/// The circuits of the fabric's file.
const ORDERED: &str = "1-8,2-3,4-5,6-7";

fn optical() -> OpticalId {
    OpticalId::from_index(0)
}

/// The driver reports these circuits without an instruction.
fn report(cluster: &mut Cluster, circuits: &str) {
    let readback = Readback::unordered(CircuitSet::from_text(circuits).unwrap());
    let optical = optical();
    cluster.handle(Input::Readback { optical, readback });
}

fn held(cluster: &mut Cluster) -> String {
    status(cluster).opticals[0].circuits.to_string()
}

/// The link over this circuit.
fn link(cluster: &Cluster, circuit: &str) -> LinkId {
    let set = CircuitSet::from_text(circuit).unwrap();
    let crossing = Crossing {
        optical: optical(),
        circuit: set.iter().next().unwrap(),
    };
    let fabric = &cluster.network.fabric;
    let mut links = fabric.links().map(|(link, _)| link);
    let found = links.find(|link| fabric.crossing(*link) == Some(crossing));
    found.unwrap()
}

#[test]
fn lost_circuit_is_alarm_and_finding() {
    let mut cluster = fibre_macs::cluster();
    let entries = cluster.log.len();
    report(&mut cluster, ORDERED);
    assert_eq!(cluster.log.len(), entries, "nothing has changed");
    report(&mut cluster, "1-8,2-3,6-7");
    assert_eq!(held(&mut cluster), "1-8 2-3 6-7");
    let lost = "ocs0 has lost circuit 4-5, which is in the fabric's file";
    let remedy = format!("`reweave plan circuits ocs0={ORDERED}` sets what was ordered");
    assert_eq!(
        status(&mut cluster).alarms,
        [format!("{lost}; {remedy}")],
        "and no more"
    );
    let found = causes(&mut cluster);
    let [one] = &found[..] else {
        panic!("one cause: {found:#?}")
    };
    assert_eq!(one.class, Class::ConfigurationMismatch);
    assert_eq!((one.evidence[0].as_str(), &one.remedy), (lost, &remedy));
    cluster.run_for(SETTLE_TIME);
    report(&mut cluster, ORDERED);
    assert!(status(&mut cluster).alarms.is_empty());
    assert_eq!(causes(&mut cluster), []);
}

#[test]
fn unordered_circuit_is_alarm() {
    let mut cluster = fibre_macs::cluster();
    report(&mut cluster, "1-8,2-5,6-7");
    let alarms = status(&mut cluster).alarms;
    let differs = "ocs0 has lost circuits 2-3, 4-5 and has circuit 2-5, which no plan set; ";
    assert!(
        alarms.len() == 1 && alarms[0].starts_with(differs),
        "{alarms:?}"
    );
}

#[test]
fn lost_circuit_can_be_set_again() {
    let mut cluster = fibre_macs::cluster();
    let circuits = CircuitSet::from_text(ORDERED).unwrap();
    let circuits = [(OpticalName("ocs0".to_owned()), circuits)].into();
    report(&mut cluster, "1-8,2-3,6-7");
    planned(&mut cluster, Request::Rewire { circuits });
    cluster.run_for(SETTLE_TIME);
    // The plan was made for circuits that are in force no longer.
    report(&mut cluster, "1-8,2-3");
    assert!(matches!(cluster.last_outcome(), Outcome::Withdrawn { .. }));
}

#[test]
fn impossible_circuits_are_ignored() {
    let mut cluster = fibre_macs::cluster();
    for bad in ["1-9", "1-2,2-3", "4-4"] {
        report(&mut cluster, bad);
        assert_eq!(held(&mut cluster), "1-8 2-3 4-5 6-7", "{bad}");
    }
}

/// A device whose circuits come and go does not fill the log.
#[test]
fn circuit_reports_are_rate_limited() {
    let mut cluster = fibre_macs::cluster();
    let entries = cluster.log.len();
    for _ in 0..10 {
        report(&mut cluster, "1-8,2-3,6-7");
        report(&mut cluster, ORDERED);
    }
    assert_eq!(cluster.log.len(), entries + 1);
}

fn planned(cluster: &mut Cluster, request: Request) -> Generation {
    match cluster.ask(request) {
        Response::Plan {
            plan: Some(plan), ..
        } => plan.generation,
        other => panic!("no plan: {other:?}"),
    }
}

#[test]
fn routes_leave_lost_circuit() {
    let mut cluster = fibre_macs::cluster();
    let drained = link(&cluster, "2-3");
    let links = vec![cluster.network.fabric.link_name(drained)];
    let plan = planned(&mut cluster, Request::Drain { links });
    cluster.apply(plan);
    cluster.run_until_ended(1);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
    report(&mut cluster, "1-8,2-3,6-7");
    let gone = link(&cluster, "4-5");
    let name = cluster.network.fabric.link_name(gone);
    let severed = format!(
        "routes in force lead over a circuit that is gone: {name}; replace them with the plan of \
         `reweave plan`"
    );
    let alarms = status(&mut cluster).alarms;
    assert!(alarms.contains(&severed), "{alarms:?}");
    let plan = cluster.plan();
    cluster.apply(plan);
    cluster.run_until_ended(2);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
    let tables = cluster.core.state().in_force().tables.values();
    let mut hops = tables.flat_map(|it| it.towards.values()).flatten();
    assert!(hops.all(|hop| hop.link != gone));
    let alarms = status(&mut cluster).alarms;
    assert!(!alarms.contains(&severed), "{alarms:?}");
}
