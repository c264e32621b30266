//! The fabric that these coordinators lead, and how they do it: small and in haste, so that a short
//! life sees a plan through.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use reweave_common::fabric::Fabric;
use reweave_common::operator::Mode;
use reweave_common::scenario::Scenario;
use reweave_core::Policy;

/// Uplinks that a single host can fill.
const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
                      host_gbps = 0.4\nuplink_gbps = 0.2\n";

/// Two flows that never end, and share one uplink while the other is idle.
const SCENARIO: &str = "name = \"collision\"\nseed = 1\nfabric = \"f.toml\"\n\
                        [[job]]\nname = \"train\"\npattern = \"streams\"\n\
                        hosts = [\"h0\", \"h1\", \"h2\", \"h3\"]\npairs = [[0, 2], [1, 3]]\n\
                        bytes = 1_000_000_000_000\ncompute_ms = 0\niterations = 1\npaths = \"collide\"\n";

pub const JOB: &str = "train";

pub fn scenario() -> Scenario {
    static SCENARIO_PARSED: LazyLock<Scenario> = LazyLock::new(|| {
        let fabric = |_: &str| Ok(FABRIC.to_owned());
        Scenario::parse("collision.toml", SCENARIO, fabric).expect("the scenario is sound")
    });
    SCENARIO_PARSED.clone()
}

pub fn fabric() -> Arc<Fabric> {
    static SHARED_FABRIC: LazyLock<Arc<Fabric>> = LazyLock::new(|| Arc::new(scenario().fabric));
    Arc::clone(&SHARED_FABRIC)
}

/// Returns a policy with short intervals and timeouts.
pub fn policy(mode: Mode) -> Policy {
    Policy {
        mode,
        readings: 2,
        settle: Duration::from_millis(50),
        verify_within: Duration::from_secs(2),
        answer_within: Duration::from_millis(300),
        offer_for: Duration::from_secs(1),
        begin_within: Duration::from_secs(1),
        retry_held_after: Duration::from_millis(500),
        cool_down: Duration::from_millis(500),
        look_every: Duration::from_millis(200),
        trace_every: Duration::from_secs(1),
        ..Policy::default()
    }
}
