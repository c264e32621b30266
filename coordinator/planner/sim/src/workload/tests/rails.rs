//! Ranks of hosts with several NICs, compared with results computed by hand.

use super::*;

/// Two hosts with a NIC of 8 Gb/s on rail 0 and one of 4 Gb/s on rail 1, and a fast one for storage. GPU 0 of each is
/// beside the slow one. Rails meet over 2 Gb/s.
const TWO_RAILS: &str = r#"
kind = "graph"
node = [
  { name = "h0", role = "host" }, { name = "h1", role = "host" }, { name = "a", role = "switch" },
  { name = "b", role = "switch" }, { name = "spine", role = "switch" }, { name = "store", role = "switch" },
]
link = [{ a = "a", b = "spine", gbps = 2 }, { a = "b", b = "spine", gbps = 2 }]
nic = [
  { host = "h0", to = "a", gbps = 8, rail = 0, gpu = 1 }, { host = "h0", to = "b", gbps = 4, rail = 1, gpu = 0 },
  { host = "h1", to = "a", gbps = 8, rail = 0, gpu = 1 }, { host = "h1", to = "b", gbps = 4, rail = 1, gpu = 0 },
  { host = "h0", to = "store", gbps = 64, use = "storage" }, { host = "h1", to = "store", gbps = 64, use = "storage" },
]
"#;

/// Returns the evaluation with this number of ranks on each host.
fn on_rails(text: &str, iteration: &Iteration, ranks: usize) -> Evaluation {
    let fabric = fabric(text);
    let on = hosts(&fabric);
    let placement: Vec<_> = (0..2 * ranks).map(|rank| on[rank / ranks]).collect();
    let carriage = ExplicitPaths::default();
    let network = Network::new(&fabric, &placement, &carriage, bare());
    evaluate(iteration, &network, MAX_SIMULATION_WORK, &mut |_| true).unwrap()
}

/// A million bytes take a millisecond at 8 Gb/s.
fn transfers(pairs: &[[usize; 2]]) -> Iteration {
    let mut sketch = Sketch::of(4);
    for &pair in pairs {
        sketch.transfer(pair, 8_000_000, &[]);
    }
    sketch.done()
}

fn all_reduce(ranks: usize) -> Iteration {
    let mut sketch = Sketch::of(ranks);
    sketch.all(Operation::AllReduce, 8_000_000, &[]);
    sketch.done()
}

fn without_gpus() -> String {
    TWO_RAILS.replace(", gpu = 0", "").replace(", gpu = 1", "")
}

#[test]
fn ranks_use_nic_of_their_gpu() {
    let took = |text: &str, pairs: &[[usize; 2]]| on_rails(text, &transfers(pairs), 2).iteration_ms;
    near(took(TWO_RAILS, &[[0, 2]]), 16.0);
    near(took(TWO_RAILS, &[[1, 3]]), 8.0);
    near(took(TWO_RAILS, &[[0, 2], [1, 3]]), 16.0);
    let turned = without_gpus();
    near(took(&turned, &[[0, 2]]), 8.0);
    near(took(&turned, &[[0, 2], [1, 3]]), 16.0);
    let crossing = on_rails(TWO_RAILS, &transfers(&[[0, 3]]), 2);
    near(crossing.iteration_ms, 32.0);
    let mut lanes: Vec<_> = crossing.lanes.iter().map(|it| &it.lane[..]).collect();
    lanes.sort_unstable();
    assert_eq!(lanes, ["a>h1", "b>spine", "h0>b", "spine>a"]);
}

/// Their ring has as many lanes as NICs. Each hop carries 1.5 times the bytes, half of them over the slow rail.
#[test]
fn ring_uses_all_nics_of_members() {
    near(on_rails(TWO_RAILS, &all_reduce(4), 2).iteration_ms, 12.0);
    // One rank on each host has both rails, unless its GPU is beside one of them.
    near(
        on_rails(&without_gpus(), &all_reduce(2), 1).iteration_ms,
        8.0,
    );
    near(on_rails(TWO_RAILS, &all_reduce(2), 1).iteration_ms, 16.0);
}

#[test]
fn separate_rails_are_changed_inside_hosts() {
    let links =
        "link = [{ a = \"a\", b = \"spine\", gbps = 2 }, { a = \"b\", b = \"spine\", gbps = 2 }]\n";
    let apart = TWO_RAILS.replace(links, "");
    assert_ne!(apart, TWO_RAILS);
    // Half over each rail: 4 MB over 4 Gb/s.
    near(on_rails(&apart, &transfers(&[[0, 3]]), 2).iteration_ms, 8.0);
}

#[test]
fn messages_inside_hosts_pass_no_nic() {
    let (fabric, carriage) = (fabric(TWO_RAILS), ExplicitPaths::default());
    let on = hosts(&fabric);
    let placement = [on[0], on[0], on[1], on[1]];
    let network = Network::new(&fabric, &placement, &carriage, bare());
    let passes = |from, to| !network.passes_no_nic(rank(from), rank(to));
    assert!(passes(0, 2) && passes(1, 2) && !passes(0, 1) && !passes(3, 2));
}
