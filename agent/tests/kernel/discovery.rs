//! Who is at the other ends of the links, as two real lldpds tell each other.

use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::commands::json_of;
use crate::fabric::{Fabric, wait_for, within};
use crate::tests;

tests! {
    neighbours_are_who_they_say_they_are needs "lldpd",
}

/// Until dropped.
struct Lldpd(Child);

impl Lldpd {
    fn start(node: &str, arguments: &[&str]) -> Self {
        let child = within(node, || {
            let mut command = Command::new("lldpd");
            command.arg("-d").args(arguments);
            command.stderr(Stdio::null()).spawn().expect("it starts")
        });
        Self(child)
    }
}

impl Drop for Lldpd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const LEAFS_SOCKET: &str = "/run/leaf0.socket";

fn neighbours_are_who_they_say_they_are() {
    let _fabric = Fabric::new();
    fs::create_dir_all("/run/lldpd").expect("a place for its prison");
    let _near = Lldpd::start("h0", &["-r"]);
    let _far = Lldpd::start("leaf0", &["-u", LEAFS_SOCKET]);
    tell_leaf("configure system hostname leaf0");
    tell_leaf("configure lldp tx-interval 1");
    let heard = wait_for("the leaf is heard", || {
        let facts = json_of("h0", &["facts"]);
        // It may have spoken before it was told its name.
        let named = |it: &&Value| it["system"] == "leaf0";
        facts["neighbours"].as_array()?.iter().find(named).cloned()
    });
    assert_eq!(heard["interface"], "eth0", "{heard}");
    assert_eq!(heard["port"], "swp0", "{heard}");
    assert!(heard["address"].is_string(), "{heard}");
}

/// It takes a moment until lldpd listens.
fn tell_leaf(what: &str) {
    wait_for("lldpd listens", || {
        let mut command = Command::new("lldpcli");
        command.args(["-u", LEAFS_SOCKET]).args(what.split(' '));
        let run = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        run.is_ok_and(|status| status.success()).then_some(())
    });
}
