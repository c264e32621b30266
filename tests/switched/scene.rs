//! Leaves and spines.

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
