//! Impossible requests are refused in one sentence with a remedy, and nothing is created.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use libtest_mimic::Trial;

use crate::LAB_NEEDS;
use crate::support::{Home, LAB_PROGRAM, Lab, Need, Said, find, run, scenario, trial};

pub(crate) fn tests() -> Vec<Trial> {
    let elsewhere = [
        LAB_NEEDS,
        &[Need::Program("unshare"), Need::Program("setpriv")],
    ]
    .concat();
    let unprivileged = [LAB_NEEDS, &[Need::Root, Need::Program("setpriv")]].concat();
    vec![
        trial(
            "bad_scenario_creates_nothing",
            &[],
            bad_scenario_creates_nothing,
        ),
        trial(
            "bad_fabric_creates_nothing",
            &[],
            bad_fabric_creates_nothing,
        ),
        trial("bad_name_creates_nothing", &[], bad_name_creates_nothing),
        trial(
            "impossible_lab_creates_nothing",
            &[],
            impossible_lab_creates_nothing,
        ),
        trial(
            "missing_tool_is_named_with_package",
            &[],
            a_missing_tool_is_named,
        ),
        trial(
            "commands_report_missing_lab",
            &[],
            commands_report_missing_lab,
        ),
        trial("unknown_host_error_lists_hosts", LAB_NEEDS, an_unknown_host),
        trial("name_in_use_is_refused", LAB_NEEDS, name_in_use_is_refused),
        trial(
            "unsafe_lab_name_is_refused",
            &[],
            unsafe_lab_name_is_refused,
        ),
        trial(
            "foreign_state_folder_is_refused",
            &[Need::Root],
            state_in_anothers_hands,
        ),
        trial(
            "forbidden_namespaces_are_explained",
            &elsewhere,
            a_kernel_that_forbids,
        ),
        trial(
            "ordinary_user_needs_no_more_rights",
            &unprivileged,
            an_ordinary_user,
        ),
    ]
}

/// `up` is refused with this code and these words, and leaves no trace.
#[track_caller]
fn assert_refused(home: &Home, said: Said, code: i32, words: &[&str]) {
    let said = said.expect_code(code);
    assert_eq!(
        (said.stdout.as_str(), said.stderr.lines().count()),
        ("", 1),
        "{said:?}"
    );
    for word in words {
        assert!(said.stderr.contains(word), "{word}: {said:?}");
    }
    assert!(home.processes().is_empty());
    assert!(home.states().is_empty());
}

fn up_text(home: &Home, text: &str) -> Said {
    let file = home.file("bad.toml", text);
    let mut command = home.lab(&["up"]);
    command.arg(file);
    run(command)
}

fn bad_scenario_creates_nothing() {
    let home = Home::new();
    let good = fs::read_to_string(scenario("leaf-spine")).expect("it is in the tree");
    for (from, to, words) in [
        (
            "spines = 2",
            "spines = 0",
            "bad.toml:12: spines: 0 is not between",
        ),
        (
            "uplink_gbps = 0.2",
            "uplink_gbps = -0.2",
            "bad.toml:15: uplink_gbps: -0.2 Gb/s is",
        ),
        (
            "seed = 1",
            "sede = 1",
            "bad.toml:7: sede: this key is unknown; known are name",
        ),
        ("[fabric]", "[fabric", "bad.toml:9: "),
    ] {
        assert!(good.contains(from), "{from}");
        assert_refused(&home, up_text(&home, &good.replace(from, to)), 2, &[words]);
    }
    let unknown_host = format!(
        "{good}\n[[job]]\nname = \"j\"\npattern = \"ring-allreduce\"\nhosts = [\"h0\", \"h9\"]\n\
         bytes = 1\niterations = 1\n"
    );
    assert_refused(
        &home,
        up_text(&home, &unknown_host),
        2,
        &["hosts: no node named \"h9\""],
    );
    let missing = run(home.lab(&["up", "nowhere.toml"]));
    assert_refused(&home, missing, 2, &["cannot read nowhere.toml"]);
}

fn bad_fabric_creates_nothing() {
    let home = Home::new();
    let twice = "kind = \"direct\"\nhosts = 4\nlink_gbps = 1\nlinks = [[0, 1],\n[1, 0]]\n";
    assert_refused(
        &home,
        up_text(&home, twice),
        2,
        &["bad.toml:5: links: ", "linked already"],
    );
    home.file(
        "fabric.toml",
        "kind = \"ideal\"\nhosts = -1\nnic_gbps = 1\n",
    );
    let scenario = "name = \"elsewhere\"\nfabric = \"fabric.toml\"\n";
    assert_refused(
        &home,
        up_text(&home, scenario),
        2,
        &["fabric.toml:2: hosts: -1 is not"],
    );
}

/// Checks input that the product supports but the lab does not.
fn impossible_lab_creates_nothing() {
    let home = Home::new();
    let ideal = |hosts: &str, gbps: &str| {
        let text = format!("kind = \"ideal\"\nhosts = {hosts}\nnic_gbps = {gbps}\n");
        up_text(&home, &text)
    };
    let words = ["bad.toml: h0-switch at 100000.0 Gb/s: ", "up to 34359"];
    assert_refused(&home, ideal("2", "1e5"), 2, &words);
    let words = ["bad.toml: 100000 hosts are more than the 65536"];
    assert_refused(&home, ideal("100_000", "1"), 2, &words);
}

/// Names become folders and files.
fn bad_name_creates_nothing() {
    let home = Home::new();
    let good = fs::read_to_string(scenario("collision")).expect("it is in the tree");
    for (from, to, words) in [
        (
            "\"train\"",
            "\"../x\"",
            "bad.toml:15: name: \"../x\" is not a valid name for a job",
        ),
        (
            "\"collision\"",
            "\"a/b\"",
            "bad.toml:3: name: \"a/b\" is not a valid name for a scenario",
        ),
    ] {
        assert_refused(&home, up_text(&home, &good.replace(from, to)), 2, &[words]);
    }
}

fn a_missing_tool_is_named() {
    let home = Home::new();
    let up = |path: &str| {
        let mut command = home.lab(&["up"]);
        command.arg(scenario("ideal")).env("PATH", path);
        run(command)
    };
    assert_refused(&home, up(""), 1, &["ip is missing", "package iproute2"]);
    let partly = home.path.join("bin");
    fs::create_dir(&partly).expect("the home is ours");
    for tool in ["ip", "tc"] {
        symlink("/bin/true", partly.join(tool)).expect("the folder is ours");
    }
    let path = partly.to_str().expect("a plain path");
    assert_refused(&home, up(path), 1, &["nft is missing", "package nftables"]);
}

fn commands_report_missing_lab() {
    let home = Home::new();
    let exec = run(home.lab(&["exec", "h0", "--", "true"])).expect_code(2);
    assert!(
        exec.stderr
            .contains("no lab of this user is running: start"),
        "{exec:?}"
    );
    run(home.lab(&["down"])).expect_code(0);
    run(home.lab(&["down", "nothing"])).expect_code(0);
    assert!(home.labs().is_empty());
    run(home.lab(&["exec", "h0"])).expect_code(2);
}

fn an_unknown_host() {
    let lab = Lab::up("ideal");
    let said = lab.exec("h4", &["true"]).expect_code(2);
    assert_eq!(
        said.stderr,
        "error: lab \"ideal\" has no node \"h4\"; it has switch h0 h1 h2 h3\n"
    );
    let elsewhere = run(lab.home.lab(&["exec", "--lab", "real", "h0", "--", "true"]));
    let elsewhere = elsewhere.expect_code(2);
    assert!(
        elsewhere.stderr.contains("no lab \"real\"; running: ideal"),
        "{elsewhere:?}"
    );
}

fn name_in_use_is_refused() {
    let lab = Lab::up("ideal");
    let mut second = lab.home.lab(&["up"]);
    second.arg(scenario("ideal"));
    let said = run(second).expect_code(2);
    assert!(
        said.stderr.contains("lab \"ideal\" is running already"),
        "{said:?}"
    );
    assert!(said.stderr.contains("--name"), "{said:?}");
    lab.exec("h0", &["true"]).expect_code(0);
}

fn unsafe_lab_name_is_refused() {
    let home = Home::new();
    for name in ["../ideal", "", ".", "a b"] {
        let mut command = home.lab(&["up", "--name", name]);
        command.arg(scenario("ideal"));
        assert_refused(&home, run(command), 2, &["is no name for a lab"]);
    }
}

fn state_in_anothers_hands() {
    let home = Home::new();
    let state = home.path.join("reweave-lab");
    fs::create_dir(&state).expect("the home is ours");
    std::os::unix::fs::chown(&state, Some(65534), None).expect("root may give away");
    let mut command = home.lab(&["up"]);
    command.arg(scenario("ideal"));
    assert_refused(&home, run(command), 1, &["belongs to another user"]);
}

/// The kernel's limit is set for a user namespace of this test alone.
fn a_kernel_that_forbids() {
    let home = Home::new();
    let script = "echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --inh-caps=-all \
                  --ambient-caps=-all -- \"$0\" up \"$1\"";
    let mut command = Command::new("unshare");
    command.args([
        "--user",
        "--map-user=1000",
        "--keep-caps",
        "sh",
        "-c",
        script,
        LAB_PROGRAM,
    ]);
    command
        .arg(scenario("ideal"))
        .env("XDG_RUNTIME_DIR", &home.path);
    let words = [
        "does not let an ordinary user",
        "sudo, or",
        "sysctl -w user.max_user_namespaces=",
    ];
    assert_refused(&home, run(command), 1, &words);
}

/// Run as root, the other tests say nothing about ordinary users.
fn an_ordinary_user() {
    let home = Home::new();
    // A build by root may be unreadable for others.
    let program = home.path.join("reweave-lab-copy");
    fs::copy(LAB_PROGRAM, &program).expect("the program can be read");
    let fabric = home.file(
        "small.toml",
        "kind = \"ideal\"\nhosts = 2\nnic_gbps = 0.1\n",
    );
    fs::set_permissions(&home.path, fs::Permissions::from_mode(0o777)).expect("the home is ours");
    let state = home.path.join("run");
    fs::create_dir(&state).expect("the home is ours");
    std::os::unix::fs::chown(&state, Some(65534), Some(65534)).expect("root may give away");
    let unprivileged = |words: &[&str]| {
        let mut command = Command::new(find("setpriv").expect("it was needed"));
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command
            .arg(&program)
            .args(words)
            .env("XDG_RUNTIME_DIR", &state)
            .current_dir("/");
        run(command)
    };
    let fabric = fabric.to_str().expect("a plain path");
    unprivileged(&["up", "--detach", fabric]).expect_code(0);
    unprivileged(&[
        "exec",
        "h0",
        "--",
        "sh",
        "-c",
        "ip route get 10.0.0.1 && tc qdisc",
    ])
    .expect_code(0);
    unprivileged(&["down"]).expect_code(0);
    assert!(!state.join("reweave-lab/small").exists());
}
