//! What NCCL reads of its environment: which NICs, how many queue pairs, which traffic class, algorithm and protocol.
//!
//! An older NCCL passes over what it does not know and says nothing; so that is refused here. Which release was the
//! first to have what is by the tags of its public sources (github.com/NVIDIA/nccl): docs/nccl.md says where it stands.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::nccl_rails::CrossNic;

/// As `ncclGetVersion` and the file name of the library tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(u16, u16);

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NcclError {
    #[error("{text} is not a release of NCCL; write it as 2.28")]
    Release { text: String },
    #[error("NCCL {is} silently ignores {what}: it came with {needs}")]
    TooOld {
        is: Release,
        needs: Release,
        what: String,
    },
    #[error("{text:?} is an unknown {what}: use {known}")]
    Unknown {
        text: String,
        what: &'static str,
        known: String,
    },
    #[error("{algorithm} does not support all-reduce: add another algorithm")]
    NothingForAllReduce { algorithm: &'static str },
    #[error("{name:?} is not a device name: NCCL would parse it as another rule")]
    Device { name: String },
    #[error("{count} queue pairs: NCCL takes 1 to {MAX_QUEUE_PAIRS} of a connection")]
    QueuePairs { count: u32 },
    #[error("a DSCP is 0 to 63, not {dscp}")]
    Dscp { dscp: u8 },
}

const MAX_QUEUE_PAIRS: u32 = 128;
const EXACT_HCA_SINCE: Release = Release(2, 5);
const CROSS_NIC_SINCE: Release = Release(2, 5);
const QPS_PER_CONNECTION_SINCE: Release = Release(2, 10);
const PROFILER_V4_SINCE: Release = Release(2, 27);
/// Until then a list was for all-reduces, and others had what they need; since then it holds for each kind of collective,
/// and one that none in the list can do fails.
const STRICT_LISTS_SINCE: Release = Release(2, 24);
/// Two bits of the traffic class are those of congestion.
const ECN_BITS: u32 = 2;

/// What an algorithm is called, and since when.
const ALGORITHMS: [(&str, Release); 7] = [
    (RING, Release(2, 5)),
    ("tree", Release(2, 5)),
    ("collnetdirect", Release(2, 14)),
    ("collnetchain", Release(2, 14)),
    ("nvls", Release(2, 17)),
    ("nvlstree", Release(2, 18)),
    (PAT, Release(2, 23)),
];
/// It gathers and scatters only.
const PAT: &str = "pat";
/// It alone does every kind of collective: nothing else broadcasts or reduces to one rank.
const RING: &str = "ring";
const PROTOCOLS: [(&str, Release); 3] = [
    ("ll", Release(2, 5)),
    ("ll128", Release(2, 5)),
    ("simple", Release(2, 5)),
];

/// What is to be set; nothing is left to NCCL.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// By name and, behind a colon, their port.
    pub devices: Vec<String>,
    pub cross_nic: Option<CrossNic>,
    pub queue_pairs: Option<u32>,
    pub dscp: Option<u8>,
    pub algorithms: Vec<String>,
    pub protocols: Vec<String>,
    /// Where Reweave's plugin lies.
    pub profiler: Option<String>,
}

impl FromStr for Release {
    type Err = NcclError;

    fn from_str(text: &str) -> Result<Self, NcclError> {
        let mut numbers = text.split('.').map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(2)), Some(Ok(minor))) => Ok(Self(2, minor)),
            _ => Err(NcclError::Release {
                text: text.to_owned(),
            }),
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Release {
    pub(crate) const fn of(major: u16, minor: u16) -> Self {
        Self(major, minor)
    }

    pub(crate) fn has(self, needs: Self, what: impl Into<String>) -> Result<(), NcclError> {
        if self >= needs {
            Ok(())
        } else {
            Err(NcclError::TooOld {
                is: self,
                needs,
                what: what.into(),
            })
        }
    }
}

impl Environment {
    /// A line for each variable, as shells, schedulers and /etc/nccl.conf read them.
    pub fn emit(&self, release: Release) -> Result<String, NcclError> {
        let set = self.variables(release)?.into_iter();
        Ok(set
            .map(|(name, value)| format!("{name}={value}\n"))
            .collect())
    }

    /// Those that are to be set.
    pub fn variables(&self, release: Release) -> Result<Vec<(&'static str, String)>, NcclError> {
        let variables = [
            ("NCCL_IB_HCA", self.devices(release)?),
            ("NCCL_CROSS_NIC", self.cross_nic(release)?),
            ("NCCL_IB_QPS_PER_CONNECTION", self.queue_pairs(release)?),
            ("NCCL_IB_TC", self.traffic_class()?),
            ("NCCL_ALGO", self.algorithms(release)?),
            (
                "NCCL_PROTO",
                named(&self.protocols, "protocol", &PROTOCOLS, release)?,
            ),
            ("NCCL_PROFILER_PLUGIN", self.profiler(release)?),
        ];
        let set = variables.into_iter();
        Ok(set
            .filter_map(|(name, value)| Some((name, value?)))
            .collect())
    }

    /// These and no others whose names begin alike.
    fn devices(&self, release: Release) -> Result<Option<String>, NcclError> {
        let is_name = |name: &&String| {
            let known = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
            name.is_empty() || !name.bytes().all(known)
        };
        match self.devices.iter().find(is_name) {
            Some(name) => Err(NcclError::Device { name: name.clone() }),
            None if self.devices.is_empty() => Ok(None),
            None => {
                release.has(EXACT_HCA_SINCE, "NCCL_IB_HCA with whole names")?;
                Ok(Some(format!("={}", self.devices.join(","))))
            }
        }
    }

    fn cross_nic(&self, release: Release) -> Result<Option<String>, NcclError> {
        let Some(cross_nic) = self.cross_nic else {
            return Ok(None);
        };
        release.has(CROSS_NIC_SINCE, "NCCL_CROSS_NIC")?;
        Ok(Some(cross_nic.value().to_string()))
    }

    fn queue_pairs(&self, release: Release) -> Result<Option<String>, NcclError> {
        let Some(count) = self.queue_pairs else {
            return Ok(None);
        };
        if !(1..=MAX_QUEUE_PAIRS).contains(&count) {
            return Err(NcclError::QueuePairs { count });
        }
        release.has(QPS_PER_CONNECTION_SINCE, "NCCL_IB_QPS_PER_CONNECTION")?;
        Ok(Some(count.to_string()))
    }

    fn traffic_class(&self) -> Result<Option<String>, NcclError> {
        match self.dscp {
            Some(dscp) if dscp > 63 => Err(NcclError::Dscp { dscp }),
            dscp => Ok(dscp.map(|dscp| (u32::from(dscp) << ECN_BITS).to_string())),
        }
    }

    fn algorithms(&self, release: Release) -> Result<Option<String>, NcclError> {
        let Some(list) = named(&self.algorithms, "algorithm", &ALGORITHMS, release)? else {
            return Ok(None);
        };
        if self.algorithms.iter().all(|it| it == PAT) {
            return Err(NcclError::NothingForAllReduce { algorithm: PAT });
        }
        let does_all = self.algorithms.iter().any(|it| it == RING);
        if does_all || release < STRICT_LISTS_SINCE {
            Ok(Some(list))
        } else {
            Ok(Some(format!("allreduce:{list}")))
        }
    }

    fn profiler(&self, release: Release) -> Result<Option<String>, NcclError> {
        if self.profiler.is_some() {
            release.has(
                PROFILER_V4_SINCE,
                "the plugin, which speaks version 4 and 5 of its interface",
            )?;
        }
        Ok(self.profiler.clone())
    }
}

/// A list of names that this release knows.
fn named(
    names: &[String],
    what: &'static str,
    known: &[(&str, Release)],
    release: Release,
) -> Result<Option<String>, NcclError> {
    for name in names {
        let found = known.iter().find(|(other, _)| other == name);
        let (_, needs) = found.ok_or_else(|| NcclError::Unknown {
            text: name.clone(),
            what,
            known: known.iter().map(|it| it.0).collect::<Vec<_>>().join(", "),
        })?;
        release.has(*needs, format!("the {what} {name}"))?;
    }
    Ok((!names.is_empty()).then(|| names.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|&it| it.to_owned()).collect()
    }

    fn release(text: &str) -> Release {
        text.parse().unwrap()
    }

    fn refused(environment: &Environment, at: &str) -> String {
        environment.emit(release(at)).unwrap_err().to_string()
    }

    #[test]
    fn only_chosen_nccl_variables_are_written() {
        let all = Environment {
            devices: texts(&["mlx5_0", "mlx5_1:1"]),
            cross_nic: Some(CrossNic::Never),
            queue_pairs: Some(4),
            dscp: Some(26),
            algorithms: texts(&["ring", "tree"]),
            protocols: texts(&["simple"]),
            profiler: Some("/usr/lib/reweave/p.so".to_owned()),
        };
        let expected = "NCCL_IB_HCA==mlx5_0,mlx5_1:1\nNCCL_CROSS_NIC=0\n\
                        NCCL_IB_QPS_PER_CONNECTION=4\nNCCL_IB_TC=104\n\
                        NCCL_ALGO=ring,tree\nNCCL_PROTO=simple\nNCCL_PROFILER_PLUGIN=/usr/lib/reweave/p.so\n";
        assert_eq!(all.emit(release("2.28.9")).unwrap(), expected);
        assert_eq!(Environment::default().emit(release("2.28")).unwrap(), "");
    }

    #[test]
    fn settings_unsupported_by_nccl_are_refused() {
        let algorithm = |name: &str| Environment {
            algorithms: texts(&["ring", name]),
            ..Environment::default()
        };
        assert_eq!(
            refused(&algorithm("pat"), "2.22"),
            "NCCL 2.22 silently ignores the algorithm pat: it came with 2.23"
        );
        assert!(algorithm("pat").emit(release("2.23")).is_ok());
        assert!(
            refused(&algorithm("rings"), "2.28")
                .starts_with("\"rings\" is an unknown algorithm: use ring, ")
        );
        let plugin = Environment {
            profiler: Some("p.so".to_owned()),
            ..Environment::default()
        };
        assert!(refused(&plugin, "2.26").ends_with("it came with 2.27"));
        let pairs = |count| Environment {
            queue_pairs: Some(count),
            ..Environment::default()
        };
        assert!(refused(&pairs(2), "2.9").contains("NCCL_IB_QPS_PER_CONNECTION"));
        let devices = Environment {
            devices: texts(&["mlx5_0"]),
            ..Environment::default()
        };
        assert!(refused(&devices, "2.4").contains("NCCL_IB_HCA with whole names"));
        let crossing = Environment {
            cross_nic: Some(CrossNic::Allowed),
            ..Environment::default()
        };
        assert!(refused(&crossing, "2.4").contains("NCCL_CROSS_NIC: it came with 2.5"));
        assert!(refused(&pairs(129), "2.28").starts_with("129 queue pairs"));
        assert!("3.0".parse::<Release>().is_err() && "2".parse::<Release>().is_err());
    }

    #[test]
    fn restrictive_algorithm_lists_target_all_reduce() {
        let emitted = |names: &[&str], at| {
            let environment = Environment {
                algorithms: texts(names),
                ..Environment::default()
            };
            environment.emit(release(at)).unwrap()
        };
        assert_eq!(emitted(&["tree"], "2.23"), "NCCL_ALGO=tree\n");
        assert_eq!(emitted(&["tree"], "2.24"), "NCCL_ALGO=allreduce:tree\n");
        assert_eq!(emitted(&["tree", "ring"], "2.24"), "NCCL_ALGO=tree,ring\n");
        assert_eq!(
            emitted(&["tree", "nvls"], "2.28"),
            "NCCL_ALGO=allreduce:tree,nvls\n"
        );
    }

    #[test]
    fn misreadable_nccl_values_are_refused() {
        for name in ["", "^mlx5_0", "=mlx5_0", "mlx5_0,mlx5_1", "a\nB=c"] {
            let devices = Environment {
                devices: texts(&[name]),
                ..Environment::default()
            };
            assert!(refused(&devices, "2.28").contains("is not a device name"));
        }
        let alone = Environment {
            algorithms: texts(&["pat"]),
            ..Environment::default()
        };
        assert!(refused(&alone, "2.28").starts_with("pat does not support all-reduce"));
    }
}
