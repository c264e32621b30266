//! `[[job]]` tables.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::Reader;
use crate::ids::{NicId, NodeId, Rank};
use crate::input::{InputError, Table};
use crate::routes::hops_to;
use crate::scenario::{Job, PathChoice, Transport, training_nics};
use crate::units::Bytes;
use crate::workload::Pattern;

const MAX_FLOWS_PER_PAIR: i64 = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobFile {
    name: Spanned<String>,
    pattern: Spanned<PatternName>,
    hosts: Spanned<Vec<Spanned<String>>>,
    bytes: Spanned<i64>,
    iterations: Spanned<i64>,
    flows_per_pair: Option<Spanned<i64>>,
    rails: Option<Spanned<bool>>,
    rail_shift: Option<Spanned<i64>>,
    compute_ms: Option<Spanned<f64>>,
    start_s: Option<Spanned<f64>>,
    #[serde(default)]
    transport: TransportName,
    paths: Option<PathsName>,
    via: Option<Spanned<String>>,
    group_size: Option<Spanned<i64>>,
    microbatches: Option<Spanned<i64>>,
    pairs: Option<Spanned<Vec<Spanned<Vec<i64>>>>>,
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
    Quic,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PathsName {
    Hash,
    Collide,
    Spread,
}

/// The rails of a job.
#[derive(Debug, Clone, Copy)]
struct JobRails {
    count: u32,
    shift: u32,
}

impl Reader<'_> {
    pub(super) fn job(&self, table: Table<'_>) -> Result<Job, InputError> {
        let file: JobFile = table.finish()?;
        if self.jobs.iter().any(|job| job.name == *file.name.get_ref()) {
            let problem = format!("there are two jobs named {:?}", file.name.get_ref());
            return Err(self.document.error(file.name.span(), problem));
        }
        let hosts = self.distinct_hosts(&file.hosts)?;
        let whole = |value: &Spanned<i64>, most: i64| self.document.whole(value, 1..=most);
        let flows = file
            .flows_per_pair
            .as_ref()
            .map_or(Ok(1), |n| whole(n, MAX_FLOWS_PER_PAIR))?;
        let rails = self.rails(&file, &hosts)?;
        let pattern = self.pattern(&file, hosts.len())?;
        self.all_reach(&pattern, &hosts, file.hosts.get_ref())?;
        let job = Job {
            pattern,
            bytes: Bytes::new(whole(&file.bytes, 1 << 40)?),
            flows_per_pair: rails.map_or(flows as u32, |rails| rails.count),
            rail_shift: rails.map(|rails| rails.shift),
            compute: file
                .compute_ms
                .as_ref()
                .map_or(Ok(Duration::ZERO), |ms| self.millis(ms))?,
            iterations: whole(&file.iterations, i64::from(u32::MAX))? as u32,
            transport: match file.transport {
                TransportName::Tcp => Transport::Tcp,
                TransportName::Udp => Transport::Udp4791,
                TransportName::Quic => Transport::Quic,
            },
            paths: self.paths(file.paths, &file.via)?,
            start: file
                .start_s
                .as_ref()
                .map_or(Ok(Duration::ZERO), |s| self.seconds(s))?,
            name: self.plain_name(file.name, "job")?,
            hosts,
        };
        self.all_rails_lead(&job, file.hosts.get_ref())?;
        Ok(job)
    }

    fn rails(&self, file: &JobFile, hosts: &[NodeId]) -> Result<Option<JobRails>, InputError> {
        let wanted = file.rails.as_ref().filter(|wanted| *wanted.get_ref());
        let Some(wanted) = wanted else {
            return match &file.rail_shift {
                None => Ok(None),
                Some(shift) => {
                    let problem = "`rail_shift` has no effect without `rails = true`";
                    Err(self.document.error(shift.span(), problem))
                }
            };
        };
        if let Some(flows) = &file.flows_per_pair {
            let problem = "`rails` already sets the number of flows: one for each rail";
            return Err(self.document.error(flows.span(), problem));
        }
        let count = self.rail_count(wanted, hosts)?;
        let shift = file.rail_shift.as_ref();
        let shift = shift.map_or(Ok(0), |shift| self.document.whole(shift, 0..=count - 1))?;
        Ok(Some(JobRails {
            count: count as u32,
            shift: shift as u32,
        }))
    }

    /// Returns the number of rails. All hosts of a job must have the same.
    fn rail_count(&self, wanted: &Spanned<bool>, hosts: &[NodeId]) -> Result<i64, InputError> {
        let refusal = |problem: String| Err(self.document.error(wanted.span(), problem));
        let name = |host| self.fabric.name(host);
        for &host in hosts {
            let has = match training_nics(&self.fabric, host).len() {
                0 => "no NIC",
                1 => "one NIC",
                _ => continue,
            };
            let problem = format!("{:?} has {has} for training: rails need two", name(host));
            return refusal(problem);
        }
        if !self.fabric.has_declared_nics() {
            let problem =
                "the fabric declares no NICs: write each as a [[nic]], or use kind = \"rails\"";
            return refusal(problem.to_owned());
        }
        let first = self.rails_of(hosts[0]);
        for &host in hosts {
            let own = self.rails_of(host);
            if own != first {
                let problem = format!(
                    "{:?} has the rails {first:?}, and {:?} has {own:?}",
                    name(hosts[0]),
                    name(host)
                );
                return refusal(problem);
            }
        }
        let count = first.len() as i64;
        if count > MAX_FLOWS_PER_PAIR {
            let problem = format!(
                "the hosts have {count} rails, and a job has up to {MAX_FLOWS_PER_PAIR} flows for each pair"
            );
            return refusal(problem);
        }
        Ok(count)
    }

    fn rails_of(&self, host: NodeId) -> Vec<u16> {
        let nics = training_nics(&self.fabric, host).into_iter();
        nics.map(|nic| self.fabric.nic(nic).rail).collect()
    }

    /// Checks that the NICs of each flow have a path between them; `names` are those of the hosts.
    fn all_rails_lead(&self, job: &Job, names: &[Spanned<String>]) -> Result<(), InputError> {
        if job.rail_shift.is_none() {
            return Ok(());
        }
        let mut hops = BTreeMap::new();
        for pair in job.pattern.peers(job.hosts.len()) {
            let hosts = pair.map(|rank| job.hosts[rank.index()]);
            for nth in 0..job.flows_per_pair {
                let Some(nics) = job.nics(&self.fabric, hosts, nth) else {
                    continue;
                };
                let [from, to] = nics.map(|nic| self.far_end(nic));
                let hops = hops
                    .entry(from)
                    .or_insert_with(|| hops_to(&self.fabric, from));
                if hops[to.index()].is_none() {
                    let names = pair.map(|rank| &names[rank.index()]);
                    return Err(self.rails_apart(nics, names));
                }
            }
        }
        Ok(())
    }

    /// The node at the other end of a NIC's cable.
    fn far_end(&self, nic: NicId) -> NodeId {
        let nic = self.fabric.nic(nic);
        self.fabric.link(nic.link).far(nic.host).node
    }

    fn rails_apart(&self, nics: [NicId; 2], [from, to]: [&Spanned<String>; 2]) -> InputError {
        let [sent, received] = nics.map(|nic| self.fabric.nic(nic).rail);
        let problem = format!(
            "no links lead from rail {sent} of {:?} to rail {received} of {:?}",
            from.get_ref(),
            to.get_ref()
        );
        self.document.error(to.span(), problem)
    }

    fn paths(
        &self,
        named: Option<PathsName>,
        via: &Option<Spanned<String>>,
    ) -> Result<PathChoice, InputError> {
        match (named, via) {
            (Some(_), Some(via)) => {
                let problem = "`paths` already sets the paths of flows";
                Err(self.document.error(via.span(), problem))
            }
            (None, Some(via)) => Ok(PathChoice::Via(self.node(via)?)),
            (Some(PathsName::Collide), None) => Ok(PathChoice::Collide),
            (Some(PathsName::Spread), None) => Ok(PathChoice::Spread),
            (Some(PathsName::Hash) | None, None) => Ok(PathChoice::Hash),
        }
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
                let group_size = self.document.whole(size, 1..=ranks as i64)? as usize;
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
                    microbatches: self.document.whole(count, 1..=1 << 16)? as usize,
                })
            }
            PatternName::Streams => {
                let pairs = file.pairs.as_ref().ok_or_else(|| missing("pairs"))?;
                Ok(Pattern::Streams {
                    pairs: self.rank_pairs(pairs, ranks)?,
                })
            }
        }
    }

    /// Refuses a key that only another pattern uses.
    fn owned_by<T>(
        &self,
        owner: PatternName,
        pattern: PatternName,
        key: &str,
        value: &Option<Spanned<T>>,
    ) -> Result<(), InputError> {
        match value {
            Some(value) if owner != pattern => {
                let problem = format!("`{key}` has no effect with this pattern");
                Err(self.document.error(value.span(), problem))
            }
            _ => Ok(()),
        }
    }

    fn rank_pairs(
        &self,
        pairs: &Spanned<Vec<Spanned<Vec<i64>>>>,
        ranks: usize,
    ) -> Result<Vec<[Rank; 2]>, InputError> {
        let mut known = Vec::new();
        for pair in pairs.get_ref() {
            let ranks = self.rank_pair(pair.clone(), ranks)?;
            if known.contains(&ranks) {
                let problem = format!("[{}, {}] is a duplicate", ranks[0], ranks[1]);
                return Err(self.document.error(pair.span(), problem));
            }
            known.push(ranks);
        }
        if known.is_empty() {
            return Err(self.document.error(pairs.span(), "name at least one pair"));
        }
        Ok(known)
    }

    fn rank_pair(&self, pair: Spanned<Vec<i64>>, ranks: usize) -> Result<[Rank; 2], InputError> {
        let pair = self.document.pair(pair)?;
        let [from, to] = *pair.get_ref();
        let known = |rank: i64| (0..ranks as i64).contains(&rank);
        if !known(from) || !known(to) || from == to {
            let problem = format!("[{from}, {to}] is not a pair of different ranks below {ranks}");
            return Err(self.document.error(pair.span(), problem));
        }
        Ok([from, to].map(|rank| Rank::from_index(rank as usize)))
    }

    /// Checks that each sender has a path to its receivers; `names` are those of `hosts`.
    fn all_reach(
        &self,
        pattern: &Pattern,
        hosts: &[NodeId],
        names: &[Spanned<String>],
    ) -> Result<(), InputError> {
        let mut pairs = pattern.peers(hosts.len());
        pairs.sort();
        for to_all in pairs.chunk_by(|a, b| a[0] == b[0]) {
            let hops = hops_to(&self.fabric, hosts[to_all[0][0].index()]);
            let lost = |pair: &&[Rank; 2]| hops[hosts[pair[1].index()].index()].is_none();
            if let Some(pair) = to_all.iter().find(lost) {
                let [from, to] = pair.map(|rank| &names[rank.index()]);
                let problem = format!(
                    "no links lead from {:?} to {:?}",
                    from.get_ref(),
                    to.get_ref()
                );
                return Err(self.document.error(to.span(), problem));
            }
        }
        Ok(())
    }

    fn distinct_hosts(
        &self,
        names: &Spanned<Vec<Spanned<String>>>,
    ) -> Result<Vec<NodeId>, InputError> {
        let hosts = self.distinct(names.get_ref(), Self::host)?;
        if hosts.len() < 2 {
            return Err(self
                .document
                .error(names.span(), "a job needs at least two hosts"));
        }
        Ok(hosts)
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;

    const RAILS_SCENARIO: &str = r#"
name = "rails"
[fabric]
kind = "rails"
pods = 2
hosts_per_pod = 2
rails = 4
leaves_per_pod = 2
spines = 1
host_gbps = 1
uplink_gbps = 1
[[job]]
name = "train"
pattern = "streams"
hosts = ["h0", "h2", "h3"]
pairs = [[0, 1]]
bytes = 1
iterations = 1
rails = true
"#;

    /// Two hosts without a spine between their leaves. `nics` are those of b.
    fn two_hosts(nics: &str) -> String {
        let [first, second] = [0, 1]
            .map(|rail| format!("{{ host = \"a\", to = \"s{rail}\", gbps = 1, rail = {rail} }}"));
        format!(
            "name = \"two\"\n[fabric]\nkind = \"graph\"\n\
             node = [{{ name = \"a\", role = \"host\" }}, {{ name = \"b\", role = \"host\" }}, \
             {{ name = \"s0\", role = \"switch\" }}, {{ name = \"s1\", role = \"switch\" }}]\n\
             nic = [{first}, {second}, {nics}]\n\
             [[job]]\nname = \"train\"\npattern = \"streams\"\nhosts = [\"a\", \"b\"]\npairs = [[0, 1]]\n\
             bytes = 1\niterations = 1\nrails = true\n"
        )
    }

    fn parse(text: &str) -> Result<Scenario, String> {
        let scenario = Scenario::parse("s.toml", text, |_| Err(String::new()));
        scenario.map_err(|error| error.to_string())
    }

    fn refusal(text: &str) -> String {
        parse(text).unwrap_err()
    }

    /// The rails that the four flows from h0 to h2 bind there.
    fn bound_rails(text: &str) -> Vec<[u16; 2]> {
        let scenario = parse(text).unwrap();
        let (fabric, job) = (&scenario.fabric, &scenario.jobs[0]);
        assert_eq!(job.flows_per_pair, 4);
        let ends = ["h0", "h2"].map(|name| fabric.find(name).unwrap());
        let bound = (0..4).map(|nth| job.nics(fabric, ends, nth).unwrap());
        let rails = bound.map(|nics| {
            assert_eq!(nics.map(|nic| fabric.nic(nic).host), ends);
            nics.map(|nic| fabric.nic(nic).rail)
        });
        rails.collect()
    }

    #[test]
    fn nth_flow_binds_nth_rail() {
        let same_rail = [[0, 0], [1, 1], [2, 2], [3, 3]];
        assert_eq!(bound_rails(RAILS_SCENARIO), same_rail);
        let shifted = format!("{RAILS_SCENARIO}rail_shift = 1\n");
        assert_eq!(bound_rails(&shifted), [[0, 1], [1, 2], [2, 3], [3, 0]]);
    }

    #[test]
    fn jobs_without_rails_bind_no_nics() {
        let text = RAILS_SCENARIO.replace("rails = true", "rails = false\nflows_per_pair = 3");
        let scenario = parse(&text).unwrap();
        let (fabric, job) = (&scenario.fabric, &scenario.jobs[0]);
        let ends = ["h0", "h2"].map(|name| fabric.find(name).unwrap());
        assert_eq!(job.flows_per_pair, 3);
        assert_eq!(job.nics(fabric, ends, 0), None);
    }

    #[test]
    fn rail_errors_name_line_and_key() {
        let with = |rest: &str| refusal(&format!("{RAILS_SCENARIO}{rest}"));
        assert_eq!(
            with("rail_shift = 4"),
            "s.toml:20: rail_shift: 4 is not between 0 and 3"
        );
        assert_eq!(
            with("flows_per_pair = 4"),
            "s.toml:20: flows_per_pair: `rails` already sets the number of flows: one for each rail"
        );
        let alone = RAILS_SCENARIO.replace("rails = true", "rail_shift = 1");
        assert_eq!(
            refusal(&alone),
            "s.toml:19: rail_shift: `rail_shift` has no effect without `rails = true`"
        );
        let one_rail = RAILS_SCENARIO
            .replace("rails = 4", "rails = 1")
            .replace("leaves_per_pod = 2", "leaves_per_pod = 1");
        assert_eq!(
            refusal(&one_rail),
            "s.toml:19: rails: \"h0\" has one NIC for training: rails need two"
        );
        let many = RAILS_SCENARIO.replace("rails = 4", "rails = 66");
        assert_eq!(
            refusal(&many),
            "s.toml:19: rails: the hosts have 66 rails, and a job has up to 64 flows for each pair"
        );
    }

    #[test]
    fn hosts_of_rail_job_must_match() {
        let nic = |to: &str, rail: u16| {
            format!("{{ host = \"b\", to = \"{to}\", gbps = 1, rail = {rail} }}")
        };
        let other = format!("{}, {}", nic("s0", 0), nic("s1", 2));
        assert_eq!(
            refusal(&two_hosts(&other)),
            "s.toml:13: rails: \"a\" has the rails [0, 1], and \"b\" has [0, 2]"
        );
        let same = format!("{}, {}", nic("s0", 0), nic("s1", 1));
        parse(&two_hosts(&same)).unwrap();
        let shifted = format!("{}rail_shift = 1\n", two_hosts(&same));
        assert_eq!(
            refusal(&shifted),
            "s.toml:9: hosts: no links lead from rail 0 of \"a\" to rail 1 of \"b\""
        );
        let implied = "name = \"two\"\n[fabric]\nkind = \"graph\"\n\
             node = [{ name = \"a\", role = \"host\" }, { name = \"b\", role = \"host\" }, { name = \"s\", role = \"switch\" }]\n\
             link = [{ a = \"a\", b = \"s\", gbps = 1, count = 2 }, { a = \"b\", b = \"s\", gbps = 1, count = 2 }]\n\
             [[job]]\nname = \"j\"\npattern = \"all-to-all\"\nhosts = [\"a\", \"b\"]\nbytes = 1\niterations = 1\n\
             rails = true\n";
        assert_eq!(
            refusal(implied),
            "s.toml:12: rails: the fabric declares no NICs: write each as a [[nic]], or use kind = \"rails\""
        );
    }
}
