//! However a lab ends, nothing of it is left.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::LAB_NEEDS;
use crate::commands::signal;
use crate::size;
use crate::support::{Home, Lab, all_processes, finish, run, scenario, trial, wait_until};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("killing_supervisor_leaves_nothing", LAB_NEEDS, || {
            leaves_nothing(Victim::Supervisor);
        }),
        trial("killing_first_process_leaves_nothing", LAB_NEEDS, || {
            leaves_nothing(Victim::First);
        }),
        trial("killing_keeper_leaves_nothing", LAB_NEEDS, || {
            leaves_nothing(Victim::Keeper);
        }),
        trial(
            "kill_at_any_stage_leaves_nothing",
            LAB_NEEDS,
            kill_at_any_stage_leaves_nothing,
        ),
        trial(
            "leftover_state_is_swept",
            LAB_NEEDS,
            leftover_state_is_swept,
        ),
        trial(
            "down_kills_unresponsive_processes",
            LAB_NEEDS,
            down_kills_unresponsive_processes,
        ),
    ]
}

#[derive(Debug, Clone, Copy)]
enum Victim {
    Supervisor,
    First,
    /// The first process's child, which holds the lab.
    Keeper,
}

impl Victim {
    fn kill(self, home: &Home, supervisor: &Child) {
        let first = || {
            home.labs()[0]["pid"]
                .as_i64()
                .expect("a lab has a first process") as i32
        };
        let pid = match self {
            Self::Supervisor => supervisor.id() as i32,
            Self::First => first(),
            Self::Keeper => child_of(first()),
        };
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("the victim is there");
    }
}

fn child_of(pid: i32) -> i32 {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(path).expect("the process is there");
    let first = children.split_whitespace().next().expect("it has a child");
    first.parse().expect("a process id")
}

fn leaves_nothing(victim: Victim) {
    let home = Home::new();
    let before = Traces::of_machine();
    let supervisor = up(&home, "ideal");
    let visitor = visit(&home);
    let net_spaces = net_spaces_of(&home);
    assert!(
        net_spaces.len() >= 2,
        "the lab's own and the visitor's: {net_spaces:?}"
    );

    victim.kill(&home, &supervisor);
    // A killed supervisor does not succeed; neither does the lab.
    assert_ne!(finish(supervisor, "up").code, Some(0));
    assert_ne!(finish(visitor, "exec").code, Some(0));
    home.wait_until_empty();
    let alive = all_processes().filter_map(|pid| fs::read_link(format!("/proc/{pid}/ns/net")).ok());
    let alive: BTreeSet<_> = alive.collect();
    assert!(
        alive.is_disjoint(&net_spaces),
        "a process lives on in {net_spaces:?}"
    );
    assert_eq!(Traces::of_machine(), before);

    let again = up(&home, "ideal");
    signal(&again, Signal::SIGTERM);
    finish(again, "up").expect_code(0);
    assert!(!home.state("ideal").exists());
}

/// Runs `up` in the foreground, and returns when the lab is ready.
fn up(home: &Home, name: &str) -> Child {
    let child = start_up(home, &scenario(name));
    home.wait_until_ready(name);
    child
}

fn start_up(home: &Home, file: &std::path::Path) -> Child {
    let mut command = home.lab(&["up"]);
    command
        .arg(file)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().expect("the program starts")
}

/// A person's program inside the lab.
fn visit(home: &Home) -> Child {
    let mut command = home.lab(&["exec", "h0", "--", "sleep", "1000"]);
    let child = command
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let is_there = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
    };
    wait_until("the visitor is there", || {
        home.processes().iter().any(is_there)
    });
    child
}

/// The network namespaces of the home's processes, without the machine's own.
fn net_spaces_of(home: &Home) -> BTreeSet<PathBuf> {
    let space = |pid: String| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let own = space("self".into());
    let all = home
        .processes()
        .into_iter()
        .filter_map(|pid| space(pid.to_string()));
    all.filter(|found| Some(found) != own.as_ref()).collect()
}

/// Possible leftovers of a lab outside its namespaces.
#[derive(Debug, PartialEq)]
struct Traces {
    mounts: String,
    interfaces: BTreeSet<String>,
    host_name: String,
}

impl Traces {
    fn of_machine() -> Self {
        let read = |path: &str| fs::read_to_string(path).expect("/proc can be read");
        let devices = read("/proc/self/net/dev");
        let names = devices.lines().filter_map(|line| line.split_once(':'));
        Self {
            mounts: read("/proc/self/mountinfo"),
            interfaces: names.map(|(name, _)| name.trim().to_owned()).collect(),
            host_name: read("/proc/sys/kernel/hostname"),
        }
    }
}

/// The moments at which a lab that is coming up is killed.
#[derive(Debug, Clone, Copy)]
enum Stage {
    Started,
    NameTaken,
    FirstProcessRecorded,
    SomeNodesMade,
    AllNodesMade,
    Ready,
}

impl Stage {
    const ALL: [Self; 6] = [
        Self::Started,
        Self::NameTaken,
        Self::FirstProcessRecorded,
        Self::SomeNodesMade,
        Self::AllNodesMade,
        Self::Ready,
    ];

    /// Returns the stage with each of its victims.
    fn with_victims(self) -> impl Iterator<Item = (Self, Victim)> {
        let victims: &[Victim] = match self {
            Self::Started | Self::NameTaken => &[Victim::Supervisor],
            Self::FirstProcessRecorded => &[Victim::Supervisor, Victim::First],
            _ => &[Victim::Supervisor, Victim::First, Victim::Keeper],
        };
        victims.iter().map(move |victim| (self, *victim))
    }

    fn is_reached(self, home: &Home) -> bool {
        let labs = home.labs();
        let lab = labs.first();
        match self {
            Self::Started => true,
            Self::NameTaken => lab.is_some(),
            Self::FirstProcessRecorded => lab.is_some_and(|lab| lab["pid"].is_i64()),
            Self::SomeNodesMade => lab.is_some_and(|lab| nodes_made(lab) > 0),
            Self::AllNodesMade => lab.is_some_and(|lab| nodes_made(lab) == 64),
            Self::Ready => lab.is_some_and(|lab| lab["ready"] == true),
        }
    }
}

/// Looks into the lab's /run from outside.
fn nodes_made(lab: &Value) -> usize {
    let names = format!("/proc/{}/root/run/uts", lab["pid"]);
    fs::read_dir(names).map_or(0, Iterator::count)
}

fn kill_at_any_stage_leaves_nothing() {
    let home = Home::new();
    let fabric = home.file("rings.toml", size::RINGS_OF_DEGREE_4);
    for (stage, victim) in Stage::ALL.into_iter().flat_map(Stage::with_victims) {
        let child = start_up(&home, &fabric);
        wait_until(&format!("{stage:?}"), || stage.is_reached(&home));
        victim.kill(&home, &child);
        assert_ne!(finish(child, "up").code, Some(0), "{victim:?} at {stage:?}");
        home.wait_until_empty();
    }
    // All tests use one name; earlier uses must not matter.
    let child = start_up(&home, &fabric);
    home.wait_until_ready("rings");
    run(home.lab(&["down"])).expect_code(0);
    finish(child, "up").expect_code(0);
}

fn leftover_state_is_swept() {
    let home = Home::new();
    let supervisor = up(&home, "ideal");
    signal(&supervisor, Signal::SIGKILL);
    finish(supervisor, "up");
    home.wait_until_empty();
    assert!(
        home.state("ideal").join("lab.json").exists(),
        "no process was left to remove it"
    );
    let none = run(home.lab(&["exec", "h0", "--", "true"])).expect_code(2);
    assert!(
        none.stderr.contains("no lab of this user is running"),
        "{none:?}"
    );

    let other = up(&home, "direct");
    assert!(!home.state("ideal").exists());
    assert!(home.state("direct").exists());
    signal(&other, Signal::SIGTERM);
    finish(other, "up").expect_code(0);
}

fn down_kills_unresponsive_processes() {
    let lab = Lab::up("ideal");
    let first = lab.home.labs()[0]["pid"]
        .as_i64()
        .expect("a lab has a first process") as i32;
    kill(Pid::from_raw(child_of(first)), Signal::SIGSTOP).expect("the keeper is there");
    lab.down().expect_code(0);
    lab.home.wait_until_empty();
}
