//! Leaves and spines, and what is found to be wrong with them.

use reweave_tests::{Labs, Leadership, Setting, Stage};

use crate::play::must;

pub(crate) fn leaf_spine(leaves: u32, spines: u32, hosts_per_leaf: u32) -> String {
    format!(
        "kind = \"leaf-spine\"\nleaves = {leaves}\nspines = {spines}\n\
         hosts_per_leaf = {hosts_per_leaf}\nhost_gbps = 0.2\nuplink_gbps = 0.1\n"
    )
}

/// A cluster on this fabric with these jobs, on which nothing runs yet.
pub(crate) fn up(fabric: &str, jobs: &str) -> Stage {
    let scenario = format!(
        "name = \"switched\"\nseed = 1\nmanagement = true\nfabric = \"two-leaves.toml\"\n{jobs}"
    );
    let setting = Setting {
        scenario: &scenario,
        fabric,
    };
    must(Stage::up(setting, Labs::Hidden))
}

/// The same, on which everything runs and is known.
pub(crate) fn led(fabric: &str, jobs: &str, leadership: &Leadership) -> Stage {
    let mut stage = up(fabric, jobs);
    must(stage.lead(leadership));
    must(stage.start_agents());
    must(stage.wait_until_known());
    stage
}

pub(crate) fn address(stage: &Stage, node: &str, interface: &str) -> String {
    let line = format!(
        "ip -4 -o addr show dev {interface} scope global | sed -n 's/.* inet \\([0-9.]*\\).*/\\1/p'"
    );
    let said = must(stage.output(node, &["sh", "-c", &line]));
    let first = said.lines().next();
    first.expect("it has an address").to_owned()
}

/// What these two send each other goes at so much of the rate that their link has.
pub(crate) fn narrow_down(stage: &Stage, ends: [&str; 2], share: f64) {
    let fabric = stage.fabric();
    let [a, b] = ends.map(|name| fabric.find(name).expect("it is there"));
    let link = fabric.links_between(a, b).next();
    let rate = fabric.link(link.expect("they are joined")).rate;
    let rate = (rate.bits_per_s() as f64 * share) as u64;
    for [node, to] in [ends, [ends[1], ends[0]]] {
        let port = stage.port(node, to);
        let line =
            format!("tc qdisc change dev {port} root tbf rate {rate}bit burst 16kb limit 1mb");
        must(stage.output(node, &["sh", "-c", &line]));
    }
}
