//! What a switch holds, looked at and changed by a person.

use std::fs;

use reweave_common::forwarding_state::{ForwardingState, RouteRule};
use serde_json::json;
use tempfile::TempDir;

use crate::commands::agent as program;
use crate::fabric::{Fabric, host, wait_for};
use crate::frr::{FRR_STATE_PATH, Frr};
use crate::frr_routes::speaks_of_lateness;
use crate::routes::{hop, route};
use crate::tests;

tests! {
    manual_kernel_routes_are_reverted,
    manual_frr_routes_are_reverted needs "vtysh",
}

/// A person at leaf 0.
struct Hand<'s> {
    by: &'s [&'s str],
    scratch: TempDir,
}

impl Hand<'_> {
    /// Again while the switch's software takes longer than is waited for it, as on a busy machine.
    fn switch(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        wait_for("the switch's software", || {
            let run = program("leaf0", &[&["switch"], self.by, arguments].concat());
            let [out, err] =
                [run.stdout, run.stderr].map(|it| String::from_utf8(it).expect("UTF-8"));
            (!speaks_of_lateness(&err)).then_some((run.status.code(), out, err))
        })
    }

    /// The same with a folder for what is remembered.
    fn change(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let state = self.path("state");
        self.switch(&[arguments, &["--state", &state]].concat())
    }

    fn file(&self, name: &str, routes: &[RouteRule]) -> String {
        let holding = ForwardingState {
            rules: vec![],
            routes: routes.to_vec(),
        };
        fs::write(self.path(name), json!(holding).to_string()).expect("a file");
        self.path(name)
    }

    fn path(&self, name: &str) -> String {
        let path = self.scratch.path().join(name);
        path.to_str().expect("UTF-8").to_owned()
    }
}

fn manual_kernel_routes_are_reverted() {
    let _fabric = Fabric::new();
    changed_and_back(&["--routes-by", "kernel"], "");
}

fn manual_frr_routes_are_reverted() {
    let _fabric = Fabric::new();
    let _frr = Frr::start();
    let words = "ip route 10.1.0.1/32 172.16.0.1 up0 tag 213213 onlink\n";
    changed_and_back(&["--routes-by", "frr", "--vty", FRR_STATE_PATH], words);
}

/// `words` is what would be sent to the switch's software.
fn changed_and_back(by: &[&str], words: &str) {
    let scratch = tempfile::tempdir().expect("a folder");
    let hand = Hand { by, scratch };
    let nothing = hand.file("nothing", &[]);
    let first = hand.file("first", &[route(host(2), &[hop(0, 1)])]);
    let second = hand.file("second", &[route(host(2), &[hop(1, 1)])]);
    let held = |spine: u8| format!("to 10.1.0.1 by 172.16.{spine}.1 over up{spine} weight 1\n");
    let done = |out: String| (Some(0), out, String::new());
    let would = hand.switch(&["diff", "--desired", &first, "--detailed-exitcode"]);
    let expected = format!("+ {}{words}", held(0));
    assert_eq!(would, (Some(3), expected, String::new()));
    assert_eq!(
        hand.switch(&["read"]),
        done(String::new()),
        "nothing was sent to FRR"
    );
    let apply =
        |desired, expected| hand.change(&["apply", "--desired", desired, "--expected", expected]);
    assert_eq!(apply(&first, &nothing), done(held(0)));
    let (code, out, said) = apply(&second, &nothing);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{said}");
    assert!(said.contains("nothing was changed"), "{said}");
    assert_eq!(hand.switch(&["read"]), done(held(0)));
    assert_eq!(apply(&second, &first), done(held(1)));
    assert_eq!(hand.change(&["revert"]), done(held(0)));
    let other = [
        "apply",
        "--desired",
        &second,
        "--state",
        &hand.path("other"),
    ];
    assert_eq!(hand.switch(&other), done(held(1)));
    let (code, _, said) = hand.change(&["revert"]);
    assert!(
        code == Some(1) && said.contains("nothing was changed"),
        "{said}"
    );
    // As JSON it is what can be asked for.
    let (_, json, _) = hand.switch(&["--output", "json", "read"]);
    fs::write(hand.path("read"), json).expect("a file");
    let (code, out, _) = hand.switch(&[
        "diff",
        "--detailed-exitcode",
        "--desired",
        &hand.path("read"),
    ]);
    assert_eq!((code, out.as_str()), (Some(0), ""));
    assert_eq!(
        hand.change(&["apply", "--desired", &nothing]),
        done(String::new())
    );
    fs::remove_dir_all(hand.path("state")).expect("it is there");
    let (code, _, said) = hand.change(&["revert"]);
    assert!(
        code == Some(1) && said.contains("no earlier `apply` by hand"),
        "{said}"
    );
    let (code, _, said) = hand.switch(&["diff", "--desired", "/nowhere"]);
    assert!(
        code == Some(2) && said.contains("cannot read /nowhere"),
        "{said}"
    );
}
