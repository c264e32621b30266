//! Drivers of optical switches: heard for what they say they reach, and for no more.

use std::fs;

use reweave_common::circuit::OpticalName;
use reweave_common::moment::Moment;
use reweave_common::operator::Status;
use reweave_common::sample::Sample;
use reweave_link::pki::Validity;
use reweave_link::{Channel, Role, Session};
use reweave_proto::message::{AgentMessage, DriverMessage, DriverOrder};

use super::house::{House, soon};

const FABRIC: &str = r#"
kind = "graph"
node = [{ name = "h0", role = "relay" }, { name = "h1", role = "relay" }]
optical = [{ name = "ocs0", ports = 4, circuits = [[1, 2]] }, { name = "ocs1", ports = 4 }]
fibre = [
  { node = "h0", interface = "fab0", optical = "ocs0", port = 1, gbps = 1 },
  { node = "h1", interface = "fab0", optical = "ocs0", port = 2, gbps = 1 },
]
"#;

/// Each driver may drive one switch.
fn house_of(drivers: &[(&str, &str)]) -> House {
    let mut house = House::over(FABRIC, Validity::day());
    let table = |(name, switch): &(&str, &str)| {
        format!("[[driver]]\nname = \"{name}\"\nswitches = [\"{switch}\"]\n")
    };
    let settings: String = drivers.iter().map(table).collect();
    fs::write(house.path("c.toml"), settings).unwrap();
    house.start_again(&["--config".as_ref(), "c.toml".as_ref()]);
    house
}

fn house() -> House {
    house_of(&[("d0", "ocs0")])
}

async fn driver(house: &House, name: &str, reaches: &[&str]) -> Session {
    let identity = house.member(Role::Driver, name);
    let session = soon(house.connect(&identity)).await.unwrap();
    let names = reaches.iter().map(|name| OpticalName((*name).to_owned()));
    let drives = DriverMessage::Drives(names.collect());
    soon(session.send(Channel::Commands, &drives))
        .await
        .unwrap();
    session
}

fn driven(status: &Status) -> Vec<bool> {
    let opticals = status.opticals.iter();
    opticals.map(|optical| optical.is_driven).collect()
}

#[tokio::test]
async fn driver_serves_its_switches_while_connected() {
    let house = house();
    house
        .status_when("no driver drives", |it| driven(it) == [false, false])
        .await;
    let session = driver(&house, "d0", &["ocs0", "nowhere"]).await;
    house
        .status_when("ocs0 is driven", |it| driven(it) == [true, false])
        .await;
    session.close("enough").await;
    house
        .status_when("no driver drives again", |it| driven(it) == [false, false])
        .await;
}

#[tokio::test]
async fn driver_without_switches_is_disconnected() {
    let house = house();
    let session = driver(&house, "d0", &["nowhere"]).await;
    let heard = async || soon(session.receive::<DriverOrder>(Channel::Commands)).await;
    let mut ended = heard().await;
    // The end may overtake the message that a coordinator leads, and the list of removed coordinators.
    while let Ok(order) = &ended {
        let is_notice = matches!(order, DriverOrder::Here | DriverOrder::Removed(_));
        assert!(is_notice, "{order:?}");
        ended = heard().await;
    }
}

/// Also where the driver of another switch is connected first.
#[tokio::test]
async fn unassigned_switch_has_no_driver() {
    let house = house();
    let _driver = driver(&house, "d0", &["ocs1", "ocs0"]).await;
    // What is named first was judged first.
    let status = house
        .status_when("ocs0 is driven", |it| driven(it)[0])
        .await;
    assert_eq!(driven(&status), [true, false]);
}

/// The first driver to come, with any driver's certificate.
#[tokio::test]
async fn switch_waits_for_its_named_driver() {
    let house = house_of(&[("d0", "ocs0"), ("d1", "ocs1")]);
    let _other = driver(&house, "d1", &["ocs0", "ocs1"]).await;
    let status = house
        .status_when("ocs1 is driven", |it| driven(it)[1])
        .await;
    assert_eq!(driven(&status), [false, true]);
    let _named = driver(&house, "d0", &["ocs0"]).await;
    house
        .status_when("ocs0 is driven", |it| driven(it) == [true, true])
        .await;
}

#[tokio::test]
async fn driver_cannot_speak_as_agent() {
    let house = house();
    let session = driver(&house, "d0", &["ocs0"]).await;
    let sample = AgentMessage::Sample(Sample {
        taken: Moment::from_micros(u64::MAX),
        readings: vec![],
    });
    soon(session.send(Channel::Commands, &sample))
        .await
        .unwrap();
    soon(session.closed()).await;
    house
        .status_when("it is out", |it| driven(it) == [false, false])
        .await;
}
