//! up, exec, list, down: what a person does with a lab.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Stdio};

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::size;
use crate::support::{Home, Lab, finish, run, scenario, trial, wait_until};
use crate::{LAB_NEEDS, PING_NEEDS};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("up_stays_until_ctrl_c", LAB_NEEDS, up_stays_until_ctrl_c),
        trial(
            "down_ends_foreground_lab",
            LAB_NEEDS,
            down_ends_foreground_lab,
        ),
        trial(
            "detached_labs_stay_and_are_listed",
            LAB_NEEDS,
            detached_labs_stay_and_are_listed,
        ),
        trial("exec_passes_codes_on", LAB_NEEDS, exec_passes_codes_on),
        trial("exec_passes_streams_on", LAB_NEEDS, exec_passes_streams_on),
        trial("exec_passes_signals_on", LAB_NEEDS, exec_passes_signals_on),
        trial(
            "exec_stays_in_its_folder",
            LAB_NEEDS,
            exec_stays_in_its_folder,
        ),
        trial(
            "exec_waits_for_starting_lab",
            LAB_NEEDS,
            exec_waits_for_starting_lab,
        ),
        trial("orphans_are_reaped", LAB_NEEDS, orphans_are_reaped),
        trial("two_labs_do_not_meet", PING_NEEDS, two_labs_do_not_meet),
    ]
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).expect("the child is there");
}

/// Starts `up` in front and reads what it says until the lab is there.
fn up_in_front(home: &Home) -> (Child, String) {
    let mut command = home.lab(&["up"]);
    command
        .arg(scenario("ideal"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let lines = BufReader::new(child.stdout.take().expect("it is a pipe")).lines();
    let mut said = String::new();
    for line in lines.map_while(Result::ok) {
        said += &format!("{line}\n");
        if line.contains("end the lab") {
            break;
        }
    }
    (child, said)
}

fn up_stays_until_ctrl_c() {
    let home = Home::new();
    let (child, said) = up_in_front(&home);
    for part in [
        "lab ideal is up in",
        "4 hosts, 1 switches, 4 links",
        "h0 10.0.0.0 ... h3",
        "tbf",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    assert_eq!(home.labs().len(), 1);
    signal(&child, Signal::SIGINT);
    finish(child, "up").expect_code(0);
    assert!(home.labs().is_empty());
    home.wait_until_empty();
}

fn down_ends_foreground_lab() {
    let home = Home::new();
    let (child, _) = up_in_front(&home);
    run(home.lab(&["down"])).expect_code(0);
    assert!(!home.state("ideal").exists());
    finish(child, "up").expect_code(0);
    home.wait_until_empty();
}

fn detached_labs_stay_and_are_listed() {
    let lab = Lab::up("ideal");
    let listed = lab.home.labs();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(
        (&listed[0]["name"], &listed[0]["ready"]),
        (&"ideal".into(), &true.into())
    );
    assert_eq!(lab.came_up["nodes"][3]["address"], "10.0.0.2");
    lab.down().expect_code(0);
    assert!(lab.home.labs().is_empty());
    lab.home.wait_until_empty();
    let again = lab.down().expect_code(0);
    assert!(again.stderr.contains("nothing to end"), "{again:?}");
}

fn exec_passes_codes_on() {
    let lab = Lab::up("ideal");
    let code = |words: &[&str]| lab.exec("h0", words).code;
    assert_eq!(code(&["true"]), Some(0));
    assert_eq!(code(&["sh", "-c", "exit 7"]), Some(7));
    assert_eq!(code(&["sh", "-c", "kill -9 $$"]), Some(137));
    assert_eq!(code(&["/no/such/program"]), Some(127));
    assert_eq!(code(&["/etc/hosts"]), Some(126));
}

fn exec_passes_streams_on() {
    let lab = Lab::up("ideal");
    let mut command = lab.command("h1", &["sh", "-c", "cat; echo oh >&2"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    stdin.write_all(b"one\ntwo").expect("the program reads");
    drop(stdin);
    let said = finish(child, "exec").expect_code(0);
    assert_eq!(
        (said.stdout.as_str(), said.stderr.as_str()),
        ("one\ntwo", "oh\n")
    );
}

fn exec_passes_signals_on() {
    let lab = Lab::up("ideal");
    let sent = |sent, script: &str| {
        let mut command = lab.command("h1", &["sh", "-c", script]);
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let ready = child.stdout.as_mut().expect("it is a pipe");
        ready.read_exact(&mut [0; 6]).expect("it gets ready");
        signal(&child, sent);
        finish(child, script).code
    };
    let heeds = "trap 'exit 9' USR1; echo ready; while :; do sleep 0.01; done";
    assert_eq!(sent(Signal::SIGUSR1, heeds), Some(9));
    let sleeps = "echo ready; exec sleep 1000";
    assert_eq!(sent(Signal::SIGTERM, sleeps), Some(128 + 15));
}

fn exec_stays_in_its_folder() {
    let lab = Lab::up("ideal");
    let mut command = lab.command("h1", &["pwd"]);
    command.current_dir(&lab.home.path);
    let here = run(command).expect_code(0).stdout;
    assert_eq!(here.trim(), lab.home.path.to_str().expect("a plain path"));
}

fn exec_waits_for_starting_lab() {
    let home = Home::new();
    let fabric = home.file("big.toml", size::RINGS_OF_DEGREE_4);
    let mut up = home.lab(&["up"]);
    let up = up
        .arg(fabric)
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    wait_until("its name is taken", || {
        home.state("big").join("lock").exists()
    });
    let said = run(home.lab(&["exec", "h63", "--", "hostname"])).expect_code(0);
    assert_eq!(said.stdout, "h63\n");
    run(home.lab(&["down"])).expect_code(0);
    finish(up, "up").expect_code(0);
}

fn orphans_are_reaped() {
    let lab = Lab::up("ideal");
    // The inner shell's parent ends first, so it falls to the lab's first process.
    let orphan = lab.output(
        "h0",
        &["sh", "-c", "sh -c 'sleep 0.1' >/dev/null & echo $!"],
    );
    let folder = format!("/proc/{}", orphan.trim());
    wait_until("the orphan is reaped", || {
        lab.exec("h0", &["test", "-e", &folder]).code == Some(1)
    });
}

fn two_labs_do_not_meet() {
    let lab = Lab::up("ideal");
    let mut second = lab.home.lab(&["up", "--detach"]);
    second.arg(scenario("direct"));
    let said = run(second).expect_code(0);
    assert!(said.stdout.contains("exec --lab direct h0"), "{said:?}");

    let in_second = |words: &[&str]| {
        run(lab
            .home
            .lab(&[&["exec", "--lab", "direct", "h0", "--"], words].concat()))
    };
    let before = counters(&lab);
    // h1 has the same address in both labs.
    in_second(&["ping", "-q", "-c3", "-i0.01", "-W5", "10.0.0.1"]).expect_code(0);
    assert_eq!(counters(&lab), before);
    assert_eq!(in_second(&["ls", "/run/netns"]).stdout.lines().count(), 6);
    assert_eq!(lab.output("h0", &["ls", "/run/netns"]).lines().count(), 5);

    let which = run(lab.home.lab(&["exec", "h0", "--", "true"])).expect_code(2);
    assert!(which.stderr.contains("--lab (direct, ideal)"), "{which:?}");
    run(lab.home.lab(&["down", "direct"])).expect_code(0);
    lab.exec("h0", &["true"]).expect_code(0);
}

/// Returns the numbers of packets that h0 and h1 have sent and received.
fn counters(lab: &Lab) -> String {
    let of = |node| {
        let folder = "/sys/class/net/eth0/statistics";
        let files = ["tx_packets", "rx_packets"].map(|file| format!("{folder}/{file}"));
        lab.output(node, &["cat", &files[0], &files[1]])
    };
    of("h0") + &of("h1")
}
