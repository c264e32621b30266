//! Leaves and spines, and what is found to be wrong with them.

use reweave_common::cause::Cause;
use reweave_common::operator::Finding;
use reweave_tests::{Labs, Leadership, Setting, Stage};

use crate::play::must;

pub(crate) fn leaf_spine(leaves: u32, spines: u32, hosts_per_leaf: u32) -> String {
    format!(
        "kind = \"leaf-spine\"\nleaves = {leaves}\nspines = {spines}\n\
         hosts_per_leaf = {hosts_per_leaf}\nhost_gbps = 0.2\nuplink_gbps = 0.1\n"
    )
}

/// A cluster on this fabric with these jobs, on which everything runs and is known.
pub(crate) fn led(fabric: &str, jobs: &str, leadership: &Leadership) -> Stage {
    let scenario = format!(
        "name = \"switched\"\nseed = 1\nmanagement = true\nfabric = \"two-leaves.toml\"\n{jobs}"
    );
    let setting = Setting {
        scenario: &scenario,
        fabric,
    };
    let mut stage = must(Stage::up(setting, Labs::Hidden));
    must(stage.lead(leadership));
    must(stage.start_agents());
    must(stage.wait_until_known());
    stage
}

/// Whatever slows jobs, the surest first.
pub(crate) fn causes(stage: &Stage) -> Vec<Cause> {
    let findings = must(stage.operator().diagnose()).findings.into_iter();
    let cause = |finding| match finding {
        Finding::Cause(cause) => Some(cause),
        _ => None,
    };
    findings.filter_map(cause).collect()
}

/// Some of the packets that a switch forwards over one direction of a link are lost, until this is dropped.
pub(crate) struct Loss<'s> {
    stage: &'s Stage,
    switch: String,
}

impl<'s> Loss<'s> {
    /// One in so many.
    pub(crate) fn on(stage: &'s Stage, [switch, to]: [&str; 2], one_in: u32) -> Self {
        let forwarded = format!(
            "filter hook forward priority 0; oifname {}",
            port(stage, switch, to)
        );
        lose(stage, switch, &["ip", &forwarded], one_in);
        Self {
            stage,
            switch: switch.to_owned(),
        }
    }
}

/// The name of a node's interface towards its neighbour.
pub(crate) fn port(stage: &Stage, node: &str, to: &str) -> String {
    let fabric = stage.fabric();
    let [near, far] = [node, to].map(|name| fabric.find(name).expect("it is there"));
    let link = fabric
        .links_between(near, far)
        .next()
        .expect("they are joined");
    let mut ports = fabric.link(link).ports().into_iter();
    let port = ports.find(|port| port.node == near).expect("it ends there");
    format!("swp{}", port.index)
}

pub(crate) fn address(stage: &Stage, node: &str, interface: &str) -> String {
    let line = format!(
        "ip -4 -o addr show dev {interface} scope global | sed -n 's/.* inet \\([0-9.]*\\).*/\\1/p'"
    );
    let said = must(stage.output(node, &["sh", "-c", &line]));
    let first = said.lines().next();
    first.expect("it has an address").to_owned()
}

/// One in so many of these packets is lost at a node: a family of tables, and which packets, of what hook.
pub(crate) fn lose(stage: &Stage, node: &str, [family, which]: &[&str; 2], one_in: u32) {
    let table = format!(
        "table {family} loss {{ chain some {{ type {which} numgen random mod {one_in} == 0 drop; }}; }}"
    );
    must(stage.output(node, &["nft", &table]));
}

impl Drop for Loss<'_> {
    fn drop(&mut self) {
        let words = ["nft", "delete", "table", "ip", "loss"];
        must(self.stage.output(&self.switch, &words));
    }
}
