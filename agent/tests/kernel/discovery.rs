//! Checks that the agent reads the neighbours of its links from two real lldpds.

use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::commands::json_of;
use crate::fabric::{Fabric, wait_for, within};
use crate::tests;

tests! {
    neighbours_match_lldp needs "lldpd",
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

const LEAF_SOCKET: &str = "/run/leaf0.socket";
const LEAF_SETTINGS: (&str, &str) = (
    "/run/leaf0.conf",
    "configure system hostname leaf0\nconfigure lldp tx-interval 1\n",
);

fn neighbours_match_lldp() {
    let _fabric = Fabric::new();
    fs::create_dir_all("/run/lldpd").expect("a place for its prison");
    // It reads them before it speaks: later changes would not count, as it keeps to what it has
    // begun with.
    let (settings, text) = LEAF_SETTINGS;
    fs::write(settings, text).expect("a place for settings");
    let _near = Lldpd::start("h0", &["-r"]);
    let _far = Lldpd::start("leaf0", &["-u", LEAF_SOCKET, "-O", settings]);
    let heard = wait_for("the leaf is heard", || {
        let facts = json_of("h0", &["facts"]);
        let named = |it: &&Value| it["system"] == "leaf0";
        facts["neighbours"].as_array()?.iter().find(named).cloned()
    });
    assert_eq!(heard["interface"], "eth0", "{heard}");
    assert_eq!(heard["port"], "swp0", "{heard}");
    assert!(heard["address"].is_string(), "{heard}");
    let off = json_of("h0", &["facts"])["off"].to_string();
    assert!(!off.contains("LLDP"), "{off}");
}
