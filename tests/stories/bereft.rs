//! Two of three coordinators die under a job whose flows are pinned: nothing can be decided any
//! longer, and for the job nothing changes.

use std::collections::BTreeMap;
use std::time::Duration;

use libtest_mimic::Trial;
use reweave_tests::{
    Labs, Leadership, Program, STAGE_TIMEOUT, Setting, Stage, StageError, term_led, wait_for,
};

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, collide, must, planned, reaches, thrown_away};

/// What no flow has that shares an uplink.
const MIN_UNSHARED_MBPS: f64 = 150.0;
const LEADERLESS_TIME: Duration = Duration::from_secs(20);

/// Name, folder of the certificate, and address.
type Seat = (&'static str, &'static str, &'static str);
/// The first is where agents and operators begin.
const COORDINATOR_SEATS: [Seat; 3] = [
    ("coordinator", "coordinator", "10.255.0.1:7332"),
    ("c1", "coordinators/c1", "10.255.0.1:7342"),
    ("c2", "coordinators/c2", "10.255.0.1:7352"),
];

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "job_survives_two_dead_coordinators",
        STAGE_NEEDS,
        two_of_three_dead,
    )]
}

/// Coordinators beside the stage's own.
struct Others(BTreeMap<&'static str, Program>);

impl Others {
    fn start(&mut self, stage: &Stage, seat: Seat) -> Result<(), StageError> {
        let (name, folder, address) = seat;
        let settings = format!(
            "fabric = \"two-leaves.toml\"\nlisten = \"{address}\"\ndata = \"data-{name}\"\nidentity = \
             \"certificates/{folder}\"\nhttp = \"127.0.0.1:0\"\ndoor = \"127.0.0.1:0\"\n{}",
            members()
        );
        let settings = stage.write(&format!("{name}.toml"), &settings)?;
        let mut run = stage.inside(Stage::STATION_NAME, stage.programs().coordinator());
        run.args(["run", "--config"]).arg(settings);
        self.0.insert(name, stage.start(name, run)?);
        Ok(())
    }
}

fn members() -> String {
    let member = |(place, (name, _, address)): (usize, Seat)| {
        let id = place + 1;
        format!("[[member]]\nid = {id}\nname = \"{name}\"\naddress = \"{address}\"\n")
    };
    COORDINATOR_SEATS
        .into_iter()
        .enumerate()
        .map(member)
        .collect()
}

fn led_by_three() -> (Stage, Others) {
    let mut stage = must(Stage::up(Setting::DEMO_SETTING, Labs::Hidden));
    let mut others = Others(BTreeMap::new());
    for seat in &COORDINATOR_SEATS[1..] {
        must(stage.certificate("coordinator", seat.0));
        must(others.start(&stage, *seat));
    }
    lead(&mut stage);
    let nodes: Vec<_> = stage.nodes().map(str::to_owned).collect();
    let more = COORDINATOR_SEATS[1..]
        .iter()
        .map(|seat| format!(" --coordinator {}", seat.2));
    let run = format!("exec \"$0\" \"$@\"{}", more.collect::<String>());
    for node in &nodes {
        must(stage.start_agent_under(node, &["sh", "-c", &run]));
    }
    must(stage.wait_until_known());
    (stage, others)
}

fn lead(stage: &mut Stage) {
    let leadership = Leadership {
        tables: members(),
        ..Leadership::default()
    };
    must(stage.lead(&leadership));
}

/// The leader, and one more. Which were killed.
fn kill_two(stage: &mut Stage, others: &mut Others) -> Vec<Seat> {
    let term = |seat: &Seat| term_led(&stage.said(seat.0));
    let mut seats = COORDINATOR_SEATS.to_vec();
    seats.sort_by_key(|seat| std::cmp::Reverse(term(seat)));
    assert!(term(&seats[0]).is_some(), "a coordinator leads");
    seats.truncate(2);
    for (name, ..) in &seats {
        match others.0.get_mut(name) {
            Some(other) => other.kill(),
            None => must(stage.coordinator()).kill(),
        }
    }
    seats
}

fn two_of_three_dead() {
    let (mut stage, mut others) = led_by_three();
    let mut job = collide(&stage);
    let plan = planned(&stage);
    let applied = must(stage.operator().apply(&plan));
    assert_eq!(applied.code, Some(0), "{applied:#?}");
    reaches(&mut job, MIN_UNSHARED_MBPS);

    let before = (must(stage.routing()), thrown_away(&stage));
    let rules = before.0["leaf0"].lines();
    let pinned = rules.filter(|it| it.contains("lookup") && it.contains("proto 213"));
    let pinned = pinned.count();
    assert_eq!(pinned, plan.pins.len(), "{}", before.0["leaf0"]);
    let killed = kill_two(&mut stage, &mut others);
    let seen = must(job.watch(LEADERLESS_TIME));
    let [first, last] = [seen.first(), seen.last()].map(|it| it.expect("it tells").iterations);
    assert!(last > first + 10, "{first} iterations, and then {last}");
    assert_eq!((must(stage.routing()), thrown_away(&stage)), before);
    reaches(&mut job, MIN_UNSHARED_MBPS);

    for seat in killed {
        if seat == COORDINATOR_SEATS[0] {
            lead(&mut stage);
        } else {
            must(others.start(&stage, seat));
        }
    }
    must(wait_for("it is known to be kept", STAGE_TIMEOUT, || {
        let status = stage.operator().status()?;
        Ok((status.generation == plan.generation).then_some(()))
    }));
    must(stage.wait_until_known());
    assert_eq!(must(stage.routing()), before.0);
    let report = must(job.stop());
    assert!(report.kept_all_sessions(), "{report:#?}");
}
