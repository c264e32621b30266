//! Scenario files.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::{Expectation, Fault, FaultKind, Job, PathChoice, Scenario, Transport};
use crate::fabric::Fabric;
use crate::ids::{LinkId, NodeId, Rank};
use crate::input::{Document, InputError, Table};
use crate::units::{Bytes, Rate};
use crate::workload::Pattern;

/// No scenario runs for longer than a day.
const LONGEST_S: f64 = 86_400.0;
const MOST_FLOWS_PER_PAIR: i64 = 64;

impl Scenario {
    /// Reads a scenario file. `fabric_text` brings the text of the fabric file that the scenario
    /// may name instead of holding the fabric itself; its error is shown to the reader.
    pub fn parse(
        file: &str,
        text: &str,
        fabric_text: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<Self, InputError> {
        let mut table = Document::new(file, text).table()?;
        let fabric = read_fabric(&mut table, fabric_text)?;
        let [jobs, faults, expectations] =
            ["job", "fault", "expect"].map(|key| table.take_tables(key));
        let head: Head = table.finish()?;

        let mut reader = Reader {
            document: Document::new(file, text),
            fabric,
            jobs: Vec::new(),
        };
        for job in jobs? {
            let job = reader.job(job.finish()?)?;
            reader.jobs.push(job);
        }
        let faults = faults?.into_iter().map(|fault| reader.fault(fault));
        let mut faults = faults.collect::<Result<Vec<_>, _>>()?;
        faults.sort_by_key(|fault| fault.at);
        let expectations = expectations?
            .into_iter()
            .map(|table| reader.expectation(table));
        let expectations = expectations.collect::<Result<_, _>>()?;
        let Reader { fabric, jobs, .. } = reader;
        Ok(Self {
            name: head.name,
            seed: head.seed,
            fabric,
            jobs,
            faults,
            expectations,
        })
    }
}

fn read_fabric(
    table: &mut Table<'_>,
    fabric_text: impl FnOnce(&str) -> Result<String, String>,
) -> Result<Fabric, InputError> {
    if table.holds_table("fabric") {
        let fabric = table.take_table("fabric")?;
        return fabric.map_or_else(
            || Err(table.error("missing field `fabric`")),
            Fabric::from_table,
        );
    }
    let path: Spanned<String> = table.require("fabric")?;
    let text = fabric_text(path.get_ref())
        .map_err(|problem| table.document().error(path.span(), problem))?;
    Fabric::parse(path.get_ref(), &text)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    name: String,
    #[serde(default)]
    seed: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobFile {
    name: Spanned<String>,
    pattern: Spanned<PatternName>,
    hosts: Spanned<Vec<Spanned<String>>>,
    bytes: Spanned<i64>,
    iterations: Spanned<i64>,
    flows_per_pair: Option<Spanned<i64>>,
    compute_ms: Option<Spanned<f64>>,
    start_s: Option<Spanned<f64>>,
    #[serde(default)]
    transport: TransportName,
    #[serde(default)]
    paths: PathsName,
    group_size: Option<Spanned<i64>>,
    microbatches: Option<Spanned<i64>>,
    pairs: Option<Spanned<Vec<Spanned<[i64; 2]>>>>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PatternName {
    RingAllreduce,
    HierarchicalAllreduce,
    AllToAll,
    Pipeline,
    Streams,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TransportName {
    #[default]
    Tcp,
    Udp,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PathsName {
    #[default]
    Hash,
    Collide,
    Spread,
}

/// What turns names into ids and refuses those that mean nothing.
struct Reader<'t> {
    document: Document<'t>,
    fabric: Fabric,
    jobs: Vec<Job>,
}

impl Reader<'_> {
    fn job(&self, file: JobFile) -> Result<Job, InputError> {
        if self.jobs.iter().any(|job| job.name == *file.name.get_ref()) {
            let problem = format!("there are two jobs named {:?}", file.name.get_ref());
            return Err(self.document.error(file.name.span(), problem));
        }
        let hosts = self.distinct_hosts(&file.hosts)?;
        let whole = |value: &Spanned<i64>, most: i64| self.whole(value, 1..=most);
        let flows = file
            .flows_per_pair
            .as_ref()
            .map_or(Ok(1), |n| whole(n, MOST_FLOWS_PER_PAIR))?;
        let millis = |value: &Spanned<f64>| self.time(value, 1e-3);
        Ok(Job {
            pattern: self.pattern(&file, hosts.len())?,
            bytes: Bytes::new(whole(&file.bytes, 1 << 40)?),
            flows_per_pair: flows as u32,
            compute: file
                .compute_ms
                .as_ref()
                .map_or(Ok(Duration::ZERO), millis)?,
            iterations: whole(&file.iterations, i64::from(u32::MAX))? as u32,
            transport: match file.transport {
                TransportName::Tcp => Transport::Tcp,
                TransportName::Udp => Transport::Udp4791,
            },
            paths: match file.paths {
                PathsName::Hash => PathChoice::Hash,
                PathsName::Collide => PathChoice::Collide,
                PathsName::Spread => PathChoice::Spread,
            },
            start: file
                .start_s
                .as_ref()
                .map_or(Ok(Duration::ZERO), |s| self.time(s, 1.0))?,
            name: file.name.into_inner(),
            hosts,
        })
    }

    fn pattern(&self, file: &JobFile, ranks: usize) -> Result<Pattern, InputError> {
        let name = *file.pattern.get_ref();
        self.owned_by(
            PatternName::HierarchicalAllreduce,
            name,
            "group_size",
            &file.group_size,
        )?;
        self.owned_by(
            PatternName::Pipeline,
            name,
            "microbatches",
            &file.microbatches,
        )?;
        self.owned_by(PatternName::Streams, name, "pairs", &file.pairs)?;
        let missing = |key| {
            self.document
                .error(file.pattern.span(), format!("it needs `{key}`"))
        };
        match name {
            PatternName::RingAllreduce => Ok(Pattern::RingAllReduce),
            PatternName::AllToAll => Ok(Pattern::AllToAll),
            PatternName::HierarchicalAllreduce => {
                let size = file
                    .group_size
                    .as_ref()
                    .ok_or_else(|| missing("group_size"))?;
                let group_size = self.whole(size, 1..=ranks as i64)? as usize;
                if !ranks.is_multiple_of(group_size) {
                    let problem = format!("{ranks} ranks do not make whole groups of {group_size}");
                    return Err(self.document.error(size.span(), problem));
                }
                Ok(Pattern::HierarchicalAllReduce { group_size })
            }
            PatternName::Pipeline => {
                let count = file
                    .microbatches
                    .as_ref()
                    .ok_or_else(|| missing("microbatches"))?;
                Ok(Pattern::Pipeline {
                    microbatches: self.whole(count, 1..=1 << 16)? as usize,
                })
            }
            PatternName::Streams => {
                let pairs = file
                    .pairs
                    .as_ref()
                    .ok_or_else(|| missing("pairs"))?
                    .get_ref();
                let pairs = pairs.iter().map(|pair| self.rank_pair(pair, ranks));
                Ok(Pattern::Streams {
                    pairs: pairs.collect::<Result<_, _>>()?,
                })
            }
        }
    }

    /// A key that only one pattern understands must not stand beside another.
    fn owned_by<T>(
        &self,
        owner: PatternName,
        pattern: PatternName,
        key: &str,
        value: &Option<Spanned<T>>,
    ) -> Result<(), InputError> {
        match value {
            Some(value) if owner != pattern => {
                let problem = format!("`{key}` means nothing to this pattern");
                Err(self.document.error(value.span(), problem))
            }
            _ => Ok(()),
        }
    }

    fn rank_pair(&self, pair: &Spanned<[i64; 2]>, ranks: usize) -> Result<[Rank; 2], InputError> {
        let [from, to] = *pair.get_ref();
        let known = |rank: i64| (0..ranks as i64).contains(&rank);
        if !known(from) || !known(to) || from == to {
            let problem = format!("[{from}, {to}] is no pair of different ranks below {ranks}");
            return Err(self.document.error(pair.span(), problem));
        }
        Ok([from, to].map(|rank| Rank::from_index(rank as usize)))
    }

    fn distinct_hosts(
        &self,
        names: &Spanned<Vec<Spanned<String>>>,
    ) -> Result<Vec<NodeId>, InputError> {
        let mut hosts = Vec::new();
        for name in names.get_ref() {
            let host = self.host(name)?;
            if hosts.contains(&host) {
                let problem = format!("{:?} is named twice", name.get_ref());
                return Err(self.document.error(name.span(), problem));
            }
            hosts.push(host);
        }
        if hosts.len() < 2 {
            return Err(self
                .document
                .error(names.span(), "a job needs at least two hosts"));
        }
        Ok(hosts)
    }

    fn fault(&self, mut table: Table<'_>) -> Result<Fault, InputError> {
        let kind: Spanned<String> = table.require("kind")?;
        let at = self.time(&table.require("at_s")?, 1.0)?;
        let lasts: Option<Spanned<f64>> = table.take("for_s")?;
        let lasts = lasts.map(|lasts| self.time(&lasts, 1.0)).transpose()?;
        Ok(Fault {
            at,
            lasts,
            kind: self.fault_kind(&kind, table)?,
        })
    }

    fn fault_kind(
        &self,
        kind: &Spanned<String>,
        table: Table<'_>,
    ) -> Result<FaultKind, InputError> {
        Ok(match kind.get_ref().as_str() {
            "link-down" => {
                let LinkOnly { link, nth } = table.finish()?;
                FaultKind::LinkDown {
                    link: self.link(&link, nth)?,
                }
            }
            "link-flap" => {
                let Flap {
                    link,
                    nth,
                    period_s,
                } = table.finish()?;
                let period = self.time(&period_s, 1.0)?;
                FaultKind::LinkFlap {
                    link: self.link(&link, nth)?,
                    period,
                }
            }
            "link-loss" => {
                let Loss { link, nth, percent } = table.finish()?;
                let probability = self.percent(&percent)?;
                FaultKind::LinkLoss {
                    link: self.link(&link, nth)?,
                    probability,
                }
            }
            "link-rate" => {
                let LinkRate { link, nth, gbps } = table.finish()?;
                FaultKind::LinkRate {
                    link: self.link(&link, nth)?,
                    rate: self.rate(&gbps)?,
                }
            }
            "host-kill" => FaultKind::HostKill {
                host: self.host(&table.finish::<OneHost>()?.host)?,
            },
            "host-stop" => FaultKind::HostStop {
                host: self.host(&table.finish::<OneHost>()?.host)?,
            },
            "process-kill" => {
                let (job, rank) = self.process(&table.finish()?)?;
                FaultKind::ProcessKill { job, rank }
            }
            "process-stop" => {
                let (job, rank) = self.process(&table.finish()?)?;
                FaultKind::ProcessStop { job, rank }
            }
            "partition" => self.partition(&table.finish()?)?,
            other => {
                let known = "link-down, link-flap, link-loss, link-rate, host-kill, host-stop, \
                             process-kill, process-stop, partition";
                let problem = format!("{other:?} is no kind of fault; known are {known}");
                return Err(self.document.error(kind.span(), problem));
            }
        })
    }

    fn partition(&self, file: &Sides) -> Result<FaultKind, InputError> {
        let side = |names: &[Spanned<String>]| -> Result<Vec<NodeId>, InputError> {
            names.iter().map(|name| self.host(name)).collect()
        };
        let [a, b] = [side(&file.a)?, side(&file.b)?];
        if let Some(both) = file.b.iter().find(|name| file.a.iter().any(|a| a == *name)) {
            let problem = format!("{:?} is on both sides", both.get_ref());
            return Err(self.document.error(both.span(), problem));
        }
        Ok(FaultKind::Partition {
            a,
            b,
            one_way: file.one_way,
        })
    }

    fn process(&self, file: &Process) -> Result<(usize, Rank), InputError> {
        let job = self.job_named(&file.job)?;
        let ranks = self.jobs[job].hosts.len();
        let rank = self.whole(&file.rank, 0..=ranks as i64 - 1)?;
        Ok((job, Rank::from_index(rank as usize)))
    }

    fn expectation(&self, table: Table<'_>) -> Result<Expectation, InputError> {
        let file: ExpectationFile = table.finish()?;
        let millis = |value: &Option<Spanned<f64>>| {
            value
                .as_ref()
                .map(|value| self.time(value, 1e-3))
                .transpose()
        };
        Ok(Expectation {
            job: self.job_named(&file.job)?,
            completes: file.completes,
            max_resets: file.max_resets,
            max_retransmits: file.max_retransmits,
            max_lost: file.max_lost,
            max_reordered: file.max_reordered,
            max_stall: millis(&file.max_stall_ms)?,
            max_iteration: millis(&file.max_iteration_ms)?,
            min_iteration: millis(&file.min_iteration_ms)?,
            min_flow_rate: file
                .min_flow_gbps
                .map(|rate| self.rate(&rate))
                .transpose()?,
        })
    }

    fn job_named(&self, name: &Spanned<String>) -> Result<usize, InputError> {
        let found = self.jobs.iter().position(|job| job.name == *name.get_ref());
        let problem = || format!("there is no job named {:?}", name.get_ref());
        found.ok_or_else(|| self.document.error(name.span(), problem()))
    }

    fn node(&self, name: &Spanned<String>) -> Result<NodeId, InputError> {
        let problem = || format!("there is no node named {:?}", name.get_ref());
        let found = self.fabric.find(name.get_ref());
        found.ok_or_else(|| self.document.error(name.span(), problem()))
    }

    fn host(&self, name: &Spanned<String>) -> Result<NodeId, InputError> {
        let node = self.node(name)?;
        if !self.fabric.node(node).role.is_endpoint() {
            let problem = format!("{:?} is a switch, not a host", name.get_ref());
            return Err(self.document.error(name.span(), problem));
        }
        Ok(node)
    }

    fn link(&self, ends: &[Spanned<String>; 2], nth: usize) -> Result<LinkId, InputError> {
        let [a, b] = [self.node(&ends[0])?, self.node(&ends[1])?];
        let problem = || {
            format!(
                "there is no link {nth} between {:?} and {:?}",
                ends[0].get_ref(),
                ends[1].get_ref()
            )
        };
        let found = self.fabric.links_between(a, b).nth(nth);
        found.ok_or_else(|| self.document.error(ends[0].span(), problem()))
    }

    fn whole(
        &self,
        value: &Spanned<i64>,
        range: std::ops::RangeInclusive<i64>,
    ) -> Result<u64, InputError> {
        let problem = || {
            format!(
                "{} is not between {} and {}",
                value.get_ref(),
                range.start(),
                range.end()
            )
        };
        let fits = range
            .contains(value.get_ref())
            .then_some(*value.get_ref() as u64);
        fits.ok_or_else(|| self.document.error(value.span(), problem()))
    }

    fn time(&self, value: &Spanned<f64>, unit_s: f64) -> Result<Duration, InputError> {
        let seconds = value.get_ref() * unit_s;
        let problem = || format!("{} is not a time between 0 and a day", value.get_ref());
        let sane = (0.0..=LONGEST_S).contains(&seconds);
        let time = sane.then(|| Duration::from_secs_f64(seconds));
        time.ok_or_else(|| self.document.error(value.span(), problem()))
    }

    fn rate(&self, gbps: &Spanned<f64>) -> Result<Rate, InputError> {
        let problem = || format!("{} Gb/s is not a rate a link can have", gbps.get_ref());
        Rate::from_gbps(*gbps.get_ref()).ok_or_else(|| self.document.error(gbps.span(), problem()))
    }

    fn percent(&self, percent: &Spanned<f64>) -> Result<f64, InputError> {
        let problem = || format!("{} is not a percentage", percent.get_ref());
        let sane = (0.0..=100.0).contains(percent.get_ref());
        let probability = sane.then(|| percent.get_ref() / 100.0);
        probability.ok_or_else(|| self.document.error(percent.span(), problem()))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkOnly {
    link: [Spanned<String>; 2],
    #[serde(default)]
    nth: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Flap {
    link: [Spanned<String>; 2],
    #[serde(default)]
    nth: usize,
    period_s: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Loss {
    link: [Spanned<String>; 2],
    #[serde(default)]
    nth: usize,
    percent: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkRate {
    link: [Spanned<String>; 2],
    #[serde(default)]
    nth: usize,
    gbps: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneHost {
    host: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Process {
    job: Spanned<String>,
    rank: Spanned<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sides {
    a: Vec<Spanned<String>>,
    b: Vec<Spanned<String>>,
    #[serde(default)]
    one_way: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectationFile {
    job: Spanned<String>,
    #[serde(default = "yes")]
    completes: bool,
    max_resets: Option<u64>,
    max_retransmits: Option<u64>,
    max_lost: Option<u64>,
    max_reordered: Option<u64>,
    max_stall_ms: Option<Spanned<f64>>,
    max_iteration_ms: Option<Spanned<f64>>,
    min_iteration_ms: Option<Spanned<f64>>,
    min_flow_gbps: Option<Spanned<f64>>,
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = r#"
name = "two leaves"
seed = 7

[fabric]
kind = "leaf-spine"
leaves = 2
spines = 2
hosts_per_leaf = 2
host_gbps = 0.4
uplink_gbps = 0.2

[[job]]
name = "train"
pattern = "ring-allreduce"
hosts = ["h0", "h2", "h1", "h3"]
bytes = 8_000_000
flows_per_pair = 2
compute_ms = 5
iterations = 10
paths = "collide"

[[fault]]
kind = "link-down"
at_s = 2
for_s = 0.5
link = ["spine1", "leaf0"]

[[fault]]
kind = "process-kill"
at_s = 1
job = "train"
rank = 3

[[expect]]
job = "train"
max_resets = 0
max_stall_ms = 250
"#;

    fn parse(text: &str) -> Result<Scenario, InputError> {
        Scenario::parse("s.toml", text, |path| {
            Err(format!("cannot read {path}: no such file"))
        })
    }

    fn error_after(from: &str, to: &str) -> String {
        assert!(SCENARIO.contains(from), "the scenario has no {from:?}");
        parse(&SCENARIO.replace(from, to)).unwrap_err().to_string()
    }

    #[test]
    fn a_scenario_is_read_whole() {
        let scenario = parse(SCENARIO).unwrap();
        let job = &scenario.jobs[0];
        assert_eq!(scenario.fabric.name(job.hosts[1]), "h2");
        assert_eq!((job.flows_per_pair, job.paths), (2, PathChoice::Collide));
        assert_eq!(job.programs()[0].len(), 1 + 2 * 3);
        assert_eq!(
            scenario.expectations[0].max_stall,
            Some(Duration::from_millis(250))
        );
        let total = job.traffic().total();
        assert_eq!(total, Bytes::new(4 * 8_000_000 * 2 * 3 / 4));
    }

    #[test]
    fn faults_stand_in_order_of_time() {
        let scenario = parse(SCENARIO).unwrap();
        let kinds: Vec<_> = scenario.faults.iter().map(|fault| &fault.kind).collect();
        let killed = FaultKind::ProcessKill {
            job: 0,
            rank: Rank::from_index(3),
        };
        assert_eq!(*kinds[0], killed);
        let FaultKind::LinkDown { link } = kinds[1] else {
            panic!("{kinds:?}")
        };
        assert_eq!(scenario.fabric.link_name(*link), "leaf0-spine1");
    }

    #[test]
    fn a_fabric_may_stand_in_a_file_of_its_own() {
        let text = "fabric = \"two.toml\"\nname = \"n\"\n";
        let read = |path: &str| {
            assert_eq!(path, "two.toml");
            Ok("kind = \"ideal\"\nhosts = 2\nnic_gbps = 1\n".to_owned())
        };
        assert_eq!(
            Scenario::parse("s.toml", text, read)
                .unwrap()
                .fabric
                .nodes()
                .len(),
            3
        );
        assert_eq!(
            parse(text).unwrap_err().to_string(),
            "s.toml:1: fabric: cannot read two.toml: no such file"
        );
        let bad = Scenario::parse("s.toml", text, |_| Ok("kind = \"ideal\"\nhost = 2".into()));
        assert!(bad.unwrap_err().to_string().starts_with("two.toml:"));
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let said = |from, to| error_after(from, to);
        assert_eq!(
            said("\"h2\"", "\"h9\""),
            "s.toml:16: hosts: there is no node named \"h9\""
        );
        assert_eq!(
            said("\"h2\"", "\"h0\""),
            "s.toml:16: hosts: \"h0\" is named twice"
        );
        assert!(said("\"h2\"", "\"leaf0\"").contains("\"leaf0\" is a switch, not a host"));
        assert!(said("iterations", "iteration").starts_with("s.toml:20: iteration: unknown field"));
        assert!(said("0.2", "-0.2").starts_with("s.toml:11: uplink_gbps: -0.2 Gb/s"));
        assert!(said("8_000_000", "-1").starts_with("s.toml:17: bytes: -1 is not between"));
        assert!(said("\"collide\"", "\"best\"").starts_with("s.toml:21: paths: unknown variant"));
        assert!(said("\"link-down\"", "\"flood\"").starts_with("s.toml:24: kind: \"flood\" is no"));
        assert!(said("\"spine1\"", "\"h2\"").contains(":27: link: there is no link 0 between"));
        assert!(said("rank = 3", "rank = 4").starts_with("s.toml:33: rank: 4 is not between 0"));
        assert!(
            said("[[expect]]\njob = \"train\"", "[[expect]]\njob = \"trian\"")
                .starts_with("s.toml:36: job: there is no job named \"trian\"")
        );
        assert!(said("seed = 7", "sede = 7").starts_with("s.toml:3: sede: unknown field"));
        assert!(said("at_s = 2", "at_s = -2").starts_with("s.toml:25: at_s: -2 is not a time"));
        assert!(said("at_s = 2\n", "").contains("at_s: missing field"));
        assert!(said("compute_ms = 5", "group_size = 2").contains("means nothing to this pattern"));
    }

    #[test]
    fn patterns_ask_for_what_they_need() {
        let with = |pattern: &str| error_after("\"ring-allreduce\"", pattern);
        assert!(with("\"pipeline\"").starts_with("s.toml:15: pattern: it needs `microbatches`"));
        let uneven = with("\"hierarchical-allreduce\"\ngroup_size = 3");
        assert!(
            uneven.contains("4 ranks do not make whole groups of 3"),
            "{uneven}"
        );
        let same = with("\"streams\"\npairs = [[0, 1], [2, 2]]");
        assert!(
            same.starts_with("s.toml:16: pairs: [2, 2] is no pair"),
            "{same}"
        );
    }
}
