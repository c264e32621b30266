//! Capabilities of this machine's kernel for a lab, found by trial.

use std::fmt;
use std::path::Path;
use std::process::Command;

use serde::{Serialize, Serializer};

use crate::error::LabError;
use crate::tool_run::run_script;
use crate::tools::{Tool, Tools};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// Limits the rate of an interface. No lab without it.
    Tbf,
    /// Delays packets in the kernel.
    Netem,
    /// Loses packets at random by a rule at an interface's ingress.
    RandomDrop,
    /// Hands packets from one interface to another by a rule at its ingress.
    Forward,
    /// Drops packets from some addresses by a rule.
    InputDrop,
    /// Makes the choice among equal paths the same in every run.
    HashSeed,
}

impl Feature {
    const ALL: [Self; 6] = [
        Self::Tbf,
        Self::Netem,
        Self::RandomDrop,
        Self::Forward,
        Self::InputDrop,
        Self::HashSeed,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Tbf => "tbf",
            Self::Netem => "netem",
            Self::RandomDrop => "nft-random-drop",
            Self::Forward => "nft-forward",
            Self::InputDrop => "nft-input-drop",
            Self::HashSeed => "hash-seed",
        }
    }

    /// Returns the consequence of a missing feature, and the remedy.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::Tbf => {
                "links would have no rate: load the module sch_tbf, or use a kernel with \
                 CONFIG_NET_SCH_TBF"
            }
            Self::Netem => {
                "a program of the lab delays packets, at the cost of time: for the kernel's own \
                 delay, load the module sch_netem (Ubuntu has it in linux-modules-extra)"
            }
            Self::RandomDrop => {
                "a program of the lab loses packets, at the cost of time: for the kernel's own \
                 loss, load the modules nf_tables and nft_numgen"
            }
            Self::Forward => {
                "a program of the lab carries what crosses links that fail, at the cost of time: \
                 load the modules nf_tables and nft_fwd_netdev"
            }
            Self::InputDrop => {
                "hosts cannot be cut off from one another: load the modules nf_tables and \
                 nf_tables_inet, or use a kernel with CONFIG_NF_TABLES_INET"
            }
            Self::HashSeed => "flows may take other paths in each run: Linux 6.11 or newer has it",
        }
    }

    /// Tries it in the network of the calling process, which must be the lab's.
    fn is_there(self, tools: &Tools) -> bool {
        let accepts = |tool: Tool, script| {
            run_script(Command::new(tools.path(tool)), tool, "the lab", script).is_ok()
        };
        match self {
            Self::Tbf => accepts(
                Tool::Tc,
                "qdisc add dev lo root tbf rate 1mbit burst 10000 limit 10000\n\
                 qdisc del dev lo root\n",
            ),
            Self::Netem => accepts(
                Tool::Tc,
                "qdisc add dev lo root netem delay 1ms\nqdisc del dev lo root\n",
            ),
            Self::RandomDrop => accepts(
                Tool::Nft,
                "table netdev probe {\nchain loss {\n\
                 type filter hook ingress device lo priority 0\n\
                 numgen random mod 1000 < 1 drop\n}\n}\ndelete table netdev probe\n",
            ),
            Self::Forward => accepts(
                Tool::Nft,
                "table netdev probe {\nchain forward {\n\
                 type filter hook ingress device lo priority 0\n\
                 fwd to lo\n}\n}\ndelete table netdev probe\n",
            ),
            Self::InputDrop => accepts(
                Tool::Nft,
                "table inet probe {\nchain input {\n\
                 type filter hook input priority -300\n\
                 ip saddr { 10.0.0.0, 10.0.0.1 } drop\n}\n}\ndelete table inet probe\n",
            ),
            Self::HashSeed => Path::new("/proc/sys/net/ipv4/fib_multipath_hash_seed").exists(),
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Feature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Available features. Those that every lab requires are present.
#[derive(Debug, Clone)]
pub(crate) struct Features {
    found: Vec<Feature>,
}

impl Features {
    /// Tries all of them, in the lab's own network.
    pub(crate) fn probe(tools: &Tools) -> Result<Self, LabError> {
        let all = Feature::ALL.into_iter();
        let found: Vec<_> = all.filter(|feature| feature.is_there(tools)).collect();
        if !found.contains(&Feature::Tbf) {
            return Err(LabError::MissingFeature {
                feature: Feature::Tbf,
            });
        }
        Ok(Self { found })
    }

    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.found.contains(&feature)
    }

    pub(crate) fn found(&self) -> &[Feature] {
        &self.found
    }

    pub(crate) fn missing(&self) -> Vec<Feature> {
        let all = Feature::ALL.into_iter();
        all.filter(|feature| !self.has(*feature)).collect()
    }
}
