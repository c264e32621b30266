//! How a host sends, changed by a person and put back, also after a kill.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use tempfile::TempDir;

use crate::commands::agent;
use crate::executable::write_executable;
use crate::fabric::{Fabric, within};
use crate::tests;

tests! {
    ports_and_marks_are_reverted needs "nft",
    killed_change_is_reverted needs "nft",
    foreign_marking_is_left_alone needs "nft",
}

const READ_BEFORE: &str = "source ports 32768-60999, no packet marked\n";
const READ_AFTER: &str =
    "source ports 50000-50999, DSCP 26 and priority 3 to 10.0.0.0/16 127.0.0.0/8\n";
const DESIRED_OPTIONS: [&str; 10] = [
    "--source-ports",
    "50000-50999",
    "--dscp",
    "26",
    "--priority",
    "3",
    "--to",
    "127.0.0.0/8",
    "--to",
    "10.0.0.0/16",
];

struct Hand(TempDir);

impl Hand {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn state(&self) -> &str {
        self.0.path().to_str().expect("UTF-8")
    }

    fn invoke(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let run = agent("leaf0", &[&["transport"], arguments].concat());
        let [out, err] = [run.stdout, run.stderr].map(|it| String::from_utf8(it).expect("UTF-8"));
        (run.status.code(), out, err)
    }

    fn apply(&self) -> (Option<i32>, String, String) {
        self.invoke(&[&["apply", "--state", self.state()], &DESIRED_OPTIONS[..]].concat())
    }

    fn revert(&self) -> (Option<i32>, String, String) {
        self.invoke(&["revert", "--state", self.state()])
    }
}

fn done(out: &str) -> (Option<i32>, String, String) {
    (Some(0), out.to_owned(), String::new())
}

/// Counts what arrives with a mark.
const COUNTING_RULES: &str =
    "table ip seen { chain inward { type filter hook input priority 0; ip dscp 26 counter; }; }";

fn nft(arguments: &[&str]) -> String {
    within("leaf0", || {
        let output = Command::new("nft").args(arguments).output();
        let output = output.expect("nft starts");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {words}");
        String::from_utf8(output.stdout).expect("UTF-8")
    })
}

/// Whether connections are given the ports that are desired: all of several, since any port may be one of
/// those by chance; and to several addresses, since a kernel gives neighbouring ports to connections to one.
fn desired_ports_are_given() -> bool {
    within("leaf0", || {
        let _listener = TcpListener::bind("0.0.0.0:7000").expect("a port");
        let to = |last| TcpStream::connect((Ipv4Addr::new(127, 0, 0, last), 7000));
        let callers = [1, 2, 3, 4, 5, 6, 7, 8].map(|last| to(last).expect("it is there"));
        let port = |caller: &TcpStream| caller.local_addr().expect("an address").port();
        callers
            .iter()
            .all(|it| (50_000..51_000).contains(&port(it)))
    })
}

fn has_marked() -> bool {
    let counted = nft(&["list", "table", "ip", "seen"]);
    assert!(counted.contains("counter packets"), "{counted}");
    !counted.contains("counter packets 0 ")
}

fn ports_and_marks_are_reverted() {
    let _fabric = Fabric::new();
    let hand = Hand::new();
    nft(&[COUNTING_RULES]);
    let check = [&["check", "--detailed-exitcode"], &DESIRED_OPTIONS[..]].concat();
    assert_eq!(
        hand.invoke(&check),
        (Some(3), READ_AFTER.to_owned(), String::new())
    );
    assert_eq!(
        hand.invoke(&["read"]),
        done(READ_BEFORE),
        "nothing was changed"
    );
    assert!(!desired_ports_are_given() && !has_marked());
    assert_eq!(hand.apply(), done(READ_AFTER));
    assert_eq!(hand.invoke(&["read"]), done(READ_AFTER));
    assert!(desired_ports_are_given() && has_marked());
    assert_eq!(
        hand.invoke(&check),
        done(READ_AFTER),
        "there is nothing to change"
    );
    // Only what is named; and back to before all of it.
    let more = [
        "apply",
        "--source-ports",
        "40000-40999",
        "--state",
        hand.state(),
    ];
    let (code, out, _) = hand.invoke(&more);
    assert!(
        code == Some(0) && out.contains("40000-40999, DSCP 26"),
        "{out}"
    );
    assert_eq!(hand.revert(), done(READ_BEFORE));
    assert_eq!(hand.invoke(&["read"]), done(READ_BEFORE));
    let (code, _, said) = hand.revert();
    assert!(
        code == Some(1) && said.contains("no earlier `apply`"),
        "{said}"
    );
}

/// In place of nft: ends any process that asks it to change anything.
const KILLING_NFT: &str = "#!/bin/sh
case \"$*\" in *-f*) kill -9 $PPID; exit 1 ;; esac
PATH=\"${PATH#*:}\" exec nft \"$@\"
";

fn killed_change_is_reverted() {
    let _fabric = Fabric::new();
    let hand = Hand::new();
    let tools = tempfile::tempdir().expect("a folder");
    let deadly = tools.path().join("nft");
    write_executable(&deadly, KILLING_NFT);
    let killed = within("leaf0", || killed_by(tools.path(), hand.state()));
    assert!(killed.code().is_none(), "{killed}");
    let halfway = "source ports 50000-50999, no packet marked\n";
    assert_eq!(hand.invoke(&["read"]), done(halfway));
    assert_eq!(hand.revert(), done(READ_BEFORE));
    // And one that is begun again is carried through.
    within("leaf0", || killed_by(tools.path(), hand.state()));
    assert_eq!(hand.apply(), done(READ_AFTER));
    assert_eq!(hand.revert(), done(READ_BEFORE));
}

fn killed_by(tools: &Path, state: &str) -> ExitStatus {
    let path = std::env::var("PATH").expect("a path");
    let mut apply = Command::new(env!("CARGO_BIN_EXE_reweave-agent"));
    apply
        .args(
            [
                &["transport", "apply", "--state", state],
                &DESIRED_OPTIONS[..],
            ]
            .concat(),
        )
        .env("PATH", format!("{}:{path}", tools.display()))
        .stdin(Stdio::null());
    apply.status().expect("the program starts")
}

fn foreign_marking_is_left_alone() {
    let _fabric = Fabric::new();
    let hand = Hand::new();
    assert_eq!(hand.apply(), done(READ_AFTER));
    nft(&["add rule ip reweave_transport outward ip dscp 0 counter"]);
    for (code, out, said) in [hand.apply(), hand.revert()] {
        assert_eq!((code, out.as_str()), (Some(1), ""));
        assert!(said.contains("another program has set"), "{said}");
    }
    nft(&["delete table ip reweave_transport"]);
    assert_eq!(hand.revert(), done(READ_BEFORE));
    let (code, _, said) = hand.invoke(&["apply", "--dscp", "64", "--to", "10.0.0.0/8"]);
    assert!(
        code == Some(2) && said.contains("a DSCP is 0 to 63"),
        "{said}"
    );
}
