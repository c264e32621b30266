//! Switches whose routes FRR makes: do packets go by what its daemons have, and is it said where there is no FRR?

mod support;

use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Trial};
use support::{Home, LAB_PROGRAM, Lab, Need, run, trial, wait_until};

const NEEDS: &[Need] = &[
    Need::Lab,
    Need::Root,
    Need::Program("vtysh"),
    Need::Program("ping"),
];
const SCENARIO: &str = "name = \"frr\"\nfrr = [\"leaf0\", \"spine1\"]\n[fabric]\nkind = \"leaf-spine\"\n\
    leaves = 2\nspines = 2\nhosts_per_leaf = 2\nhost_gbps = 0.4\nuplink_gbps = 0.2\n";
/// Protocols by their numbers; ip names none for a route without one.
const KERNEL_PROTOCOL: &str = "2";
const FRR_PROTOCOL: &str = "196";
/// Address of a host at the other leaf.
const H2_ADDRESS: &str = "10.0.0.3";

fn main() -> ExitCode {
    let tests = [
        ("packets_follow_frr_routes", packets as fn()),
        ("missing_frr_is_reported", without),
    ];
    let tests: Vec<Trial> = tests
        .into_iter()
        .map(|(name, test)| trial(name, NEEDS, test))
        .collect();
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

fn folder(lab: &Lab, node: &str) -> Option<String> {
    let nodes = lab.came_up["nodes"].as_array().expect("a lab has nodes");
    let node = nodes.iter().find(|it| it["name"] == node);
    let folder = node.expect("it is there")["frr"].as_str();
    folder.map(str::to_owned)
}

fn vtysh(lab: &Lab, commands: &[&str]) -> String {
    let folder = folder(lab, "leaf0").expect("FRR makes its routes");
    let commands = commands.iter().flat_map(|command| ["-c", command]);
    let words = ["vtysh", "--vty_socket", &folder]
        .into_iter()
        .chain(commands);
    lab.output("leaf0", &words.collect::<Vec<_>>())
}

/// Returns the origins and the number of a node's routes to hosts and other switches.
fn makers(lab: &Lab, node: &str) -> (Vec<String>, usize) {
    let routes = lab.json(node, &["ip", "-N", "-j", "-4", "route", "show"]);
    let routes = routes.as_array().expect("a list");
    let far = routes.iter().filter(|it| it["protocol"] != KERNEL_PROTOCOL);
    let mut makers: Vec<_> = far.map(|it| it["protocol"].to_string()).collect();
    let count = makers.len();
    makers.sort();
    makers.dedup();
    (makers, count)
}

fn packets() {
    let lab = Lab::up_text(SCENARIO);
    let by_frr = (vec![format!("\"{FRR_PROTOCOL}\"")], 7);
    assert_eq!(makers(&lab, "leaf0"), by_frr, "to 4 hosts and 3 switches");
    assert_eq!(makers(&lab, "spine1"), by_frr);
    assert_eq!(makers(&lab, "leaf1"), (vec!["null".to_owned()], 7));
    assert_eq!(folder(&lab, "leaf1"), None);
    let answers = || {
        lab.exec("h0", &["ping", "-c", "1", "-W", "1", H2_ADDRESS])
            .code
            == Some(0)
    };
    assert!(answers());
    let configured = vtysh(&lab, &["show running-config"]);
    let to_h2 = format!("ip route {H2_ADDRESS}/32 ");
    let lines: Vec<_> = configured
        .lines()
        .filter(|line| line.starts_with(&to_h2))
        .collect();
    assert_eq!(lines.len(), 2, "over both spines: {configured}");
    let taken: Vec<_> = lines.iter().map(|line| format!("no {line}")).collect();
    let taken = taken.iter().map(String::as_str);
    vtysh(
        &lab,
        &["configure terminal"]
            .into_iter()
            .chain(taken)
            .collect::<Vec<_>>(),
    );
    wait_until("packets find no way", || !answers());
    vtysh(&lab, &[&["configure terminal"], &lines[..]].concat());
    wait_until("packets find the way again", answers);
    lab.down();
    lab.home.wait_until_empty();
}

/// Replaces the folder of the daemons by an empty one that only this program sees.
fn without() {
    let home = Home::new();
    let file = home.file("lab.toml", SCENARIO);
    let script = "for it in /usr/lib/frr /usr/libexec/frr; do [ ! -d $it ] || mount -t tmpfs none $it || exit 9; \
                  done; exec \"$0\" up --detach \"$1\"";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script, LAB_PROGRAM])
        .arg(file);
    command.env("XDG_RUNTIME_DIR", &home.path);
    let said = run(command).expect_code(1);
    let words = "error: FRR is missing, which this scenario's `frr` asks for: install the package frr (Debian, \
                 Ubuntu: apt install frr)\n";
    assert_eq!(said.stderr, words);
    assert_eq!(home.states(), [""; 0], "nothing was made");
}
