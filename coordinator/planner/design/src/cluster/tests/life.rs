//! The whole life of a few jobs, as a log that a person can read.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::training::{Reduces, forming, ground};
use crate::cluster::circuits::Touched;
use crate::cluster::{Event, Fleet, Job, Step, Waiting, What};

fn job(name: &str, servers: [usize; 2], iterations: u64) -> Event {
    Event::Arrive(Job {
        name: name.to_owned(),
        training: Rc::new(Reduces::new(50, 2_000_000_000)),
        servers,
        iterations,
    })
}

fn end(name: &str) -> Event {
    Event::End(name.to_owned())
}

/// Two blocks of eight and six hosts, with a second plane behind each port.
fn fleet() -> Fleet {
    let mut ground = ground(&[8, 6]);
    ground.flip_ms = Some(0.1);
    Fleet::new(forming(ground))
}

/// Returns events, second by second.
fn life() -> Vec<(f64, Event)> {
    vec![
        (0.0, job("first", [4, 4], 1_000_000)),
        (10.0, job("elastic", [3, 6], 1_000_000)),
        (20.0, job("third", [4, 4], 1_000)),
        (30.0, job("fourth", [4, 4], 10_000)),
        (40.0, end("third")),
        (50.0, job("fifth", [2, 2], 1_000)),
        (60.0, end("fourth")),
        (70.0, end("fifth")),
        (80.0, job("sixth", [5, 5], 1_000_000)),
        (90.0, job("giant", [9, 9], 1)),
        (100.0, end("first")),
        (110.0, end("sixth")),
        (120.0, job("south", [3, 3], 1_000_000)),
        (130.0, end("elastic")),
        (140.0, job("north", [4, 4], 1_000_000)),
        (150.0, job("wide", [5, 5], 1_000)),
        (160.0, end("wide")),
        (170.0, job("brief", [2, 2], 46)),
        (171.0, end("north")),
        (174.0, job("hasty", [6, 6], 1_000)),
    ]
}

/// No port and no server is given to two; what runs has circuits only on its own hosts.
fn is_sound(fleet: &Fleet) -> bool {
    let servers: Vec<_> = fleet
        .running
        .iter()
        .flat_map(|it| &it.shard.servers)
        .collect();
    let ends = fleet.running.iter().flat_map(|it| &it.shard.circuits);
    let ends: Vec<_> = ends.flat_map(|circuit| circuit.ends).collect();
    let own = fleet.running.iter().all(|it| {
        let hosts = it.shard.hosts();
        it.shard
            .circuits
            .iter()
            .all(|circuit| circuit.hosts().iter().all(|host| hosts.contains(host)))
    });
    let once = |count: usize, distinct: usize| count == distinct;
    own && once(servers.len(), servers.iter().collect::<BTreeSet<_>>().len())
        && once(ends.len(), ends.iter().collect::<BTreeSet<_>>().len())
}

fn line(step: &Step) -> String {
    let (at_s, job, what) = (step.at_ms / 1e3, &step.job, word(step.what));
    match step.servers {
        0 => format!("{at_s:>4} s {job} {what}"),
        servers => format!("{at_s:>4} s {job} {what} on {servers}"),
    }
}

fn word(what: What) -> &'static str {
    match what {
        What::Starts => "starts",
        What::Waits => "waits",
        What::Refused => "refused",
        What::Prepared => "prepared",
        What::Grows => "grows",
        What::Shrinks => "shrinks",
        What::Moves => "moves",
        What::Stays => "stays",
        What::Ends => "ends",
    }
}

const EXPECTED_LOG: &str = "
   0 s first starts on 4
  10 s elastic starts on 6
  20 s elastic shrinks on 4
  20 s third starts on 4
  30 s fourth waits
  30 s fourth prepared on 4
  40 s third ends
  40 s fourth starts on 4
  50 s fifth starts on 2
  60 s fourth ends
  60 s elastic grows on 6
  70 s fifth ends
  80 s elastic shrinks on 3
  80 s sixth starts on 5
  90 s giant refused
 100 s first ends
 110 s sixth ends
 110 s elastic grows on 6
 120 s south starts on 3
 130 s elastic ends
 140 s north starts on 4
 150 s south moves on 3
 150 s wide starts on 5
 160 s wide ends
 170 s brief starts on 2
 171 s north ends
 174 s hasty stays
 174 s hasty waits
 174 s hasty prepared on 6
";

#[test]
fn fleet_replays_expected_log() {
    let mut fleet = fleet();
    let (mut log, mut report) = (String::new(), String::new());
    for (at_s, event) in life() {
        for step in fleet.handle(at_s * 1e3, event) {
            log += &format!("{}\n", line(&step));
            report += &format!("{:>4} s {step}\n", step.at_ms / 1e3);
        }
        assert!(is_sound(&fleet), "{report}");
    }
    assert_eq!(format!("\n{log}"), EXPECTED_LOG, "{report}");
}

/// Checks that the servers for the first waiting job stay reserved. A later, smaller job starts only if it leaves them
/// free.
#[test]
fn servers_stay_reserved_for_earlier_jobs() {
    let mut fleet = Fleet::new(forming(ground(&[8])));
    fleet.handle(0.0, job("runs", [4, 4], 1_000));
    let all = vec![
        job("large", [6, 6], 1_000),
        job("small", [3, 3], 1_000),
        job("tiny", [2, 2], 1_000),
    ];
    fleet.handle_all(1.0, all);
    let names = |of: &[Waiting]| of.iter().map(|it| it.job.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&fleet.waiting), ["large", "small"]);
    assert_eq!(fleet.running[1].job.name, "tiny");
    fleet.handle(2.0, end("runs"));
    assert_eq!(names(&fleet.waiting), ["small"]);
}

/// A job that runs longer than was predicted still runs: no time that has passed is reported.
#[test]
fn overdue_jobs_are_still_waited_for() {
    let mut fleet = Fleet::new(forming(ground(&[8])));
    let both = vec![job("one", [4, 4], 1_000), job("two", [4, 4], 1_000)];
    fleet.handle_all(0.0, both);
    let why = |steps: &[Step]| steps[0].why.clone();
    let soon = why(&fleet.handle(1.0, job("soon", [3, 3], 1_000)));
    assert!(soon.contains("from now, when one has ended"), "{soon}");
    fleet.handle(2.0, end("soon"));
    let late = why(&fleet.handle(1e9, job("late", [6, 6], 1_000)));
    let said = "when one and two have ended, which was to be 277.7 h ago, it gets";
    assert!(late.contains(said), "{late}");
}

#[test]
fn excessive_request_is_explained() {
    let mut fleet = Fleet::new(forming(ground(&[8])));
    fleet.handle(0.0, job("one", [4, 4], 1_000));
    fleet.handle(0.0, job("two", [3, 3], 1_000));
    let mut ask = |least: usize| {
        let job = "one".to_owned();
        let steps = fleet.handle(
            1.0,
            Event::Resize {
                job,
                servers: [least, least],
            },
        );
        steps.iter().map(Step::to_string).collect::<Vec<_>>()
    };
    let asked = ask(6);
    assert!(asked[0].starts_with("one grows: to 5 servers"), "{asked:?}");
    assert_eq!(
        asked[1..],
        ["one stays: on 5 servers: it asks for 6, and 0 more are free"]
    );
    let never =
        "one stays: on 5 servers: it asks for 9, and circuits join no more than 8; request 8";
    assert_eq!(ask(9), [never]);
    assert!(ask(5).is_empty());
}

/// One port of four is reserved for experts: a host with three others is inserted between two hosts, but not between
/// two more, for whose circuits it has no port.
#[test]
fn spliced_host_leaves_gate_ports_free() {
    let mut fleet = Fleet::new(forming(ground(&[9])));
    let gated = |name: &str, servers| {
        Event::Arrive(Job {
            name: name.to_owned(),
            training: Rc::new(Reduces {
                kept: 1,
                ..Reduces::new(50, 2_000_000_000)
            }),
            servers,
            iterations: 1_000_000,
        })
    };
    let both = vec![gated("elastic", [8, 9]), gated("other", [1, 1])];
    fleet.handle_all(0.0, both);
    let steps = fleet.handle(1.0, end("other"));
    assert!(steps[1].why.contains("spliced"), "{}", steps[1]);
    let Touched { torn, set, kept } = steps[1].touched;
    assert_eq!((torn, set, kept), (1, 2, 11));
}

/// A job that got the reply to wait gets another only when something has changed for it, and what
/// was prepared for it stays until it is needed.
#[test]
fn waiting_job_is_reported_once() {
    let mut fleet = fleet();
    fleet.handle(0.0, job("runs", [8, 8], 1_000));
    let report = fleet.handle(1.0, job("waits", [7, 7], 1_000));
    assert_eq!(
        report.iter().map(|step| step.what).collect::<Vec<_>>(),
        [What::Waits, What::Prepared]
    );
    assert!(fleet.handle_all(2.0, Vec::new()).is_empty());
    fleet.handle(3.0, end("runs"));
    let steps = fleet.handle_all(4.0, Vec::new());
    assert!(steps.is_empty() && fleet.waiting.is_empty());
}

#[test]
fn prepared_circuits_are_used() {
    let mut fleet = fleet();
    fleet.handle(0.0, job("runs", [8, 8], 1_000));
    fleet.handle(1.0, job("waits", [7, 7], 1_000));
    fleet.handle_all(2.0, Vec::new());
    let steps = fleet.handle(3.0, end("runs"));
    assert!(
        steps[1].why.contains("that lay ready, in 100 us"),
        "{}",
        steps[1]
    );
}
