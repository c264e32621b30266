//! `[[fault]]` tables: all faults of a scenario. Their effects on the virtual cluster are in
//! `tests/lab/src/faults/conditions.rs`.

use std::time::Duration;

use toml::Spanned;

use super::Reader;
use crate::fabric::Fabric;
use crate::ids::{LinkId, NodeId, Rank};
use crate::input::{InputError, Number, Table};
use crate::units::Rate;

const FAULT_KINDS: &str = "link-down, link-flap, link-loss, link-rate, host-kill, host-stop, \
                     process-kill, process-stop, partition";

/// Minimum flap period, faster than any cable is pulled.
const MIN_FLAP_PERIOD: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    pub at: Duration,
    /// Absent for a permanent fault.
    pub lasts: Option<Duration>,
    pub kind: FaultKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FaultKind {
    LinkDown {
        link: LinkId,
    },
    /// The link goes down and up; `period` is the time from one fall to the next.
    LinkFlap {
        link: LinkId,
        period: Duration,
    },
    /// Each packet is lost with this probability, in both directions.
    LinkLoss {
        link: LinkId,
        probability: f64,
    },
    LinkRate {
        link: LinkId,
        rate: Rate,
    },
    /// Power loss: every process dies and every link goes down.
    HostKill {
        host: NodeId,
    },
    /// Every process of the host is stopped; its kernel continues.
    HostStop {
        host: NodeId,
    },
    ProcessKill {
        job: usize,
        rank: Rank,
    },
    ProcessStop {
        job: usize,
        rank: Rank,
    },
    /// No packets pass between the two sides, or only from `b` to `a` if it is one-way.
    Partition {
        a: Vec<NodeId>,
        b: Vec<NodeId>,
        one_way: bool,
    },
}

impl FaultKind {
    /// Returns the links that are dark during the fault.
    pub fn dark_links(&self, fabric: &Fabric) -> Vec<LinkId> {
        match *self {
            Self::LinkDown { link } | Self::LinkFlap { link, .. } => vec![link],
            Self::HostKill { host } => fabric.links_of(host).to_vec(),
            _ => Vec::new(),
        }
    }
}

impl Reader<'_> {
    pub(super) fn fault(&self, mut table: Table<'_>) -> Result<Fault, InputError> {
        let kind: Spanned<String> = table.require("kind")?;
        let at = self.seconds(&table.require("at_s")?)?;
        let lasts: Option<Spanned<f64>> = table.take("for_s")?;
        let kind = self.fault_kind(&kind, &mut table)?;
        table.nothing_left()?;
        let lasts = lasts.map(|lasts| self.lasts(&lasts, &kind)).transpose()?;
        Ok(Fault { at, lasts, kind })
    }

    fn lasts(&self, lasts: &Spanned<f64>, kind: &FaultKind) -> Result<Duration, InputError> {
        if matches!(kind, FaultKind::ProcessKill { .. }) {
            let problem = "a killed process does not come back";
            return Err(self.document.error(lasts.span(), problem));
        }
        self.seconds(lasts)
    }

    fn fault_kind(
        &self,
        kind: &Spanned<String>,
        table: &mut Table<'_>,
    ) -> Result<FaultKind, InputError> {
        Ok(match kind.get_ref().as_str() {
            "link-down" => FaultKind::LinkDown {
                link: self.cut(table)?,
            },
            "link-flap" => FaultKind::LinkFlap {
                link: self.cut(table)?,
                period: self.period(table)?,
            },
            "link-loss" => {
                let probability = self.percent(&table.require("percent")?)?;
                FaultKind::LinkLoss {
                    link: self.cut(table)?,
                    probability,
                }
            }
            "link-rate" => {
                let rate = self.document.rate(&table.require("gbps")?)?;
                FaultKind::LinkRate {
                    link: self.cut(table)?,
                    rate,
                }
            }
            "host-kill" => FaultKind::HostKill {
                host: self.host(&table.require("host")?)?,
            },
            "host-stop" => FaultKind::HostStop {
                host: self.host(&table.require("host")?)?,
            },
            "process-kill" => {
                let (job, rank) = self.process(table)?;
                FaultKind::ProcessKill { job, rank }
            }
            "process-stop" => {
                let (job, rank) = self.process(table)?;
                FaultKind::ProcessStop { job, rank }
            }
            "partition" => self.partition(table)?,
            other => {
                let problem = format!("{other:?} is not a kind of fault; known are {FAULT_KINDS}");
                return Err(self.document.error(kind.span(), problem));
            }
        })
    }

    /// Returns the link named by `link = ["a", "b"]`; `nth` selects one of several parallel links.
    fn cut(&self, table: &mut Table<'_>) -> Result<LinkId, InputError> {
        let ends = self
            .document
            .pair(table.require::<Spanned<Vec<Spanned<String>>>>("link")?)?;
        let nth: usize = table.take("nth")?.unwrap_or(0);
        let span = ends.span();
        let [a, b] = ends.into_inner();
        let found = self
            .fabric
            .links_between(self.node(&a)?, self.node(&b)?)
            .nth(nth);
        found.ok_or_else(|| {
            let (a, b) = (a.get_ref(), b.get_ref());
            self.document
                .error(span, format!("no link {nth} between {a:?} and {b:?}"))
        })
    }

    fn process(&self, table: &mut Table<'_>) -> Result<(usize, Rank), InputError> {
        let job = self.job_named(&table.require("job")?)?;
        let last_rank = self.jobs[job].hosts.len() as i64 - 1;
        let rank = self
            .document
            .whole(&table.require("rank")?, 0..=last_rank)?;
        Ok((job, Rank::from_index(rank as usize)))
    }

    fn partition(&self, table: &mut Table<'_>) -> Result<FaultKind, InputError> {
        let a = self.side(&table.require("a")?, &[])?;
        let b = self.side(&table.require("b")?, &a)?;
        let one_way = table.take("one_way")?.unwrap_or(false);
        Ok(FaultKind::Partition { a, b, one_way })
    }

    fn side(
        &self,
        names: &Spanned<Vec<Spanned<String>>>,
        other: &[NodeId],
    ) -> Result<Vec<NodeId>, InputError> {
        if names.get_ref().is_empty() {
            let problem = "name at least one host on each side";
            return Err(self.document.error(names.span(), problem));
        }
        let one = |name: &Spanned<String>| {
            let host = self.host(name)?;
            let problem = || format!("{:?} is on both sides", name.get_ref());
            let alone = !other.contains(&host);
            alone
                .then_some(host)
                .ok_or_else(|| self.document.error(name.span(), problem()))
        };
        names.get_ref().iter().map(one).collect()
    }

    fn period(&self, table: &mut Table<'_>) -> Result<Duration, InputError> {
        let period: Spanned<f64> = table.require("period_s")?;
        match self.seconds(&period)? {
            period if period >= MIN_FLAP_PERIOD => Ok(period),
            _ => Err(self
                .document
                .error(period.span(), "a period lasts 0.01 s or more")),
        }
    }

    fn percent(&self, percent: &Spanned<f64>) -> Result<f64, InputError> {
        let sane = (0.0..=100.0).contains(percent.get_ref());
        sane.then(|| percent.get_ref() / 100.0).ok_or_else(|| {
            let problem = format!("{} is not a percentage", Number(*percent.get_ref()));
            self.document.error(percent.span(), problem)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    const CLUSTER_SCENARIO: &str = r#"
name = "n"
[fabric]
kind = "direct"
hosts = 4
link_gbps = 1
strides = [1]
[[job]]
name = "train"
pattern = "all-to-all"
hosts = ["h0", "h1"]
bytes = 1
iterations = 1
[[fault]]
at_s = 1
"#;

    fn fault(text: &str) -> Result<FaultKind, String> {
        let text = format!("{CLUSTER_SCENARIO}{text}");
        let scenario = Scenario::parse("s.toml", &text, |_| Err(String::new()));
        scenario
            .map(|mut read| read.faults.remove(0).kind)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn every_kind_is_read() {
        let link = LinkId::from_index(0);
        let host = NodeId::from_index(2);
        let first = [NodeId::from_index(0)].to_vec();
        let rank = Rank::from_index(1);
        let cases = [
            (
                "kind = 'link-down'\nlink = ['h1', 'h0']",
                FaultKind::LinkDown { link },
            ),
            (
                "kind = 'link-flap'\nlink = ['h0', 'h1']\nperiod_s = 0.5",
                FaultKind::LinkFlap {
                    link,
                    period: Duration::from_millis(500),
                },
            ),
            (
                "kind = 'link-loss'\nlink = ['h0', 'h1']\npercent = 1",
                FaultKind::LinkLoss {
                    link,
                    probability: 0.01,
                },
            ),
            (
                "kind = 'host-kill'\nhost = 'h2'",
                FaultKind::HostKill { host },
            ),
            (
                "kind = 'host-stop'\nhost = 'h2'",
                FaultKind::HostStop { host },
            ),
            (
                "kind = 'process-kill'\njob = 'train'\nrank = 1",
                FaultKind::ProcessKill { job: 0, rank },
            ),
            (
                "kind = 'process-stop'\njob = 'train'\nrank = 1",
                FaultKind::ProcessStop { job: 0, rank },
            ),
            (
                "kind = 'partition'\na = ['h0']\nb = ['h2']\none_way = true",
                FaultKind::Partition {
                    a: first,
                    b: vec![host],
                    one_way: true,
                },
            ),
        ];
        for (text, kind) in cases {
            assert_eq!(fault(text), Ok(kind), "{text}");
        }
    }

    #[test]
    fn invalid_fault_keys_are_refused() {
        let said = |text: &str| fault(text).unwrap_err();
        let loss = "kind = 'link-loss'\nlink = ['h0', 'h1']\npercent = ";
        assert_eq!(
            said(&format!("{loss}101")),
            "s.toml:18: percent: 101 is not a percentage"
        );
        let unknown = said(&format!("{loss}1\nhost = 'h1'"));
        assert_eq!(unknown, "s.toml:19: host: this key is unknown here");
        let apart = said("kind = 'link-down'\nlink = ['h0', 'h2']");
        assert_eq!(
            apart,
            "s.toml:17: link: no link 0 between \"h0\" and \"h2\""
        );
        let both = said("kind = 'partition'\na = ['h0']\nb = ['h1', 'h0']");
        assert_eq!(both, "s.toml:18: b: \"h0\" is on both sides");
        let empty = said("kind = 'partition'\na = ['h0']\nb = []");
        assert_eq!(empty, "s.toml:18: b: name at least one host on each side");
        let surplus = said("kind = 'link-down'\nlink = ['h0', 'h2', 'h1']");
        assert_eq!(
            surplus,
            "s.toml:17: link: a pair has two elements, this has 3"
        );
        let back = said("kind = 'process-kill'\njob = 'train'\nrank = 1\nfor_s = 1");
        assert_eq!(
            back,
            "s.toml:19: for_s: a killed process does not come back"
        );
        let still = said("kind = 'link-flap'\nlink = ['h0', 'h1']\nperiod_s = 0.009");
        assert!(
            still.starts_with("s.toml:18: period_s: a period lasts 0.01"),
            "{still}"
        );
    }
}
