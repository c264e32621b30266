//! The classes of failures that findings name, each with its title and remedy. The lists in the terminal, the
//! dashboard, the metrics and the tests are derived from this table.
//!
//! A new class is added at the end, because the wire has their order. `reweave_repair::causes` finds it, and
//! `docs/runbooks.md` says what operators do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! classes {
    ($($class:ident: $name:literal, $remedy:literal;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        #[serde(rename_all = "kebab-case")]
        pub enum Class {
            $($class,)*
        }

        impl Class {
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$class),*];

            pub fn remedy(self) -> &'static str {
                match self {
                    $(Self::$class => $remedy,)*
                }
            }
        }

        impl fmt::Display for Class {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$class => $name,)*
                })
            }
        }
    };
}

classes! {
    BadOptic: "bad optic",
        "drain the link, reweave plan drain, and replace its optics or cable";
    LossyLink: "lossy link",
        "drain the link, reweave plan drain, and look at both of its ends";
    FaultyHost: "faulty host",
        "take the host out of its jobs and look at its NIC";
    FaultySwitch: "faulty switch",
        "drain the switch and look at its hardware";
    EcmpCollision: "ECMP collision",
        "rebalance: reweave plan";
    PfcStorm: "PFC storm",
        "isolate the NIC that sends the pause frames";
    PfcDeadlock: "PFC deadlock",
        "break the loop: drain one of its links";
    Straggler: "straggler",
        "take the host out of its jobs";
    PcieDowngrade: "PCIe downgrade",
        "reseat the NIC, or take the host out of its jobs";
    NicFlap: "NIC flap",
        "replace the cable or optics; let the jobs' timeouts outlast a flap";
    MtuMismatch: "MTU mismatch",
        "set the same MTU at both ends";
    ConfigurationMismatch: "configuration mismatch",
        "set it as on the other hosts";
    AsymmetricRoute: "asymmetric route",
        "make the routes of both directions the same length";
    Incast: "incast",
        "pace the senders, or schedule them one after another";
    RankOrder: "rank order against racks",
        "reorder the ranks at the next start: reweave plan ranks";
    AllreduceLinear: "all-reduce time linear in world size",
        "use a tree or reduce inside racks first: reweave plan tuner";
    NodeAlwaysFirst: "one node always first",
        "account for it: this node has fewer hops to the aggregation point";
    PipelineAcrossSpine: "pipeline across the spine",
        "place the stages along a rack: reweave plan ranks";
    TensorAcrossHosts: "tensor parallel across hosts",
        "keep tensor-parallel groups inside hosts";
    SlowPair: "slow pair",
        "look at the path between the two: reweave explain";
    Latency: "latency changed",
        "look for what changed then";
    HostBound: "host-bound",
        "look at the hosts' processors, memory and storage, not at the fabric";
    DyingOptic: "dying optic",
        "drain the link, reweave plan drain, and replace its optics before it fails";
    Saturation: "link will saturate",
        "start the job elsewhere, or move flows first: reweave plan balance";
    ClocksApart: "clocks apart",
        "synchronise the clocks; times across these hosts were not compared";
    UnsentProbes: "unsent probes",
        "allow agent traffic in its firewall and check its routes: it sends no probes, so \
         nothing is measured";
}

impl Class {
    /// Whether the class can make a collective slow now.
    pub fn slows(self) -> bool {
        !matches!(
            self,
            Self::ClocksApart
                | Self::NodeAlwaysFirst
                | Self::DyingOptic
                | Self::Saturation
                | Self::UnsentProbes
        )
    }

    /// Returns the confidence from which the policy drains the named link; nothing if a drain does not help. A dying
    /// optic is a forecast with lower confidence, so its threshold is lower.
    pub fn drain_confidence(self) -> Option<f64> {
        match self {
            Self::LossyLink | Self::BadOptic => Some(0.9),
            Self::DyingOptic => Some(0.6),
            _ => None,
        }
    }
}
