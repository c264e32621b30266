//! Labs of the size that people want come up.

use libtest_mimic::Trial;

use crate::LAB_NEEDS;
use crate::support::{Lab, trial};

pub(crate) const LEAF_SPINE: &str = "kind = \"leaf-spine\"\nleaves = 8\nspines = 4\n\
    hosts_per_leaf = 4\nhost_gbps = 0.4\nuplink_gbps = 0.2\n";
pub(crate) const RINGS_OF_DEGREE_4: &str =
    "kind = \"direct\"\nhosts = 64\nlink_gbps = 0.1\nstrides = [1, 7]\n";
const RINGS_OF_DEGREE_8: &str =
    "kind = \"direct\"\nhosts = 64\nlink_gbps = 0.1\nstrides = [1, 5, 12, 27]\n";

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("leaves_and_spines_for_32_hosts", LAB_NEEDS, || {
            comes_up(LEAF_SPINE, 44);
        }),
        trial("degree_4_rings_for_64_hosts", LAB_NEEDS, || {
            comes_up(RINGS_OF_DEGREE_4, 64);
        }),
        trial("degree_8_rings_for_64_hosts", LAB_NEEDS, || {
            comes_up(RINGS_OF_DEGREE_8, 64);
        }),
    ]
}

fn comes_up(fabric: &str, nodes: usize) {
    let lab = Lab::up_text(fabric);
    assert_eq!(lab.nodes().len(), nodes);
    let far = lab.output("h0", &["ip", "-j", "route", "get", "10.0.0.31"]);
    assert!(far.contains("\"dev\":\"eth"), "{far}");
    let (ms, links) = (&lab.came_up["elapsed_ms"], &lab.came_up["links"]);
    eprintln!("{nodes} nodes, {links} links up in {ms} ms");
}
