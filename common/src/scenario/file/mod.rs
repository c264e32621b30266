//! Scenario files: parses their tables and resolves all names.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::{Job, STATION_NAME, Scenario};
use crate::fabric::{Fabric, Role};
use crate::ids::NodeId;
use crate::input::{Document, InputError, Table, UNKNOWN_KEY_PROBLEM};
use crate::names::{self, MAX_NAME_BYTES};

#[cfg(test)]
mod broken;
mod expectation;
pub(super) mod fault;
mod job;

/// Maximum duration of a scenario.
const MAX_SCENARIO_TIME: Duration = Duration::from_secs(86_400);
/// Keys at the top of a scenario file.
const TOP_LEVEL_KEYS: &[&str] = &[
    "name",
    "seed",
    "limit_s",
    "management",
    "capture",
    "frr",
    "fabric",
    "job",
    "fault",
    "expect",
];
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

impl Scenario {
    /// Reads a scenario file. `fabric_text` returns the text of the fabric file that the scenario names, or an error
    /// that is shown to the user.
    pub fn parse(
        file: &str,
        text: &str,
        fabric_text: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<Self, InputError> {
        Self::read(file, text, fabric_text).map_err(|error| point_to_top(file, error))
    }

    fn read(
        file: &str,
        text: &str,
        fabric_text: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<Self, InputError> {
        let mut table = Document::new(file, text).table()?;
        table.only(TOP_LEVEL_KEYS)?;
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
            let job = reader.job(job)?;
            reader.jobs.push(job);
        }
        let faults = faults?.into_iter().map(|fault| reader.fault(fault));
        let mut faults = faults.collect::<Result<Vec<_>, _>>()?;
        faults.sort_by_key(|fault| fault.at);
        let expectations = expectations?
            .into_iter()
            .map(|table| reader.expectation(table));
        let expectations = expectations.collect::<Result<_, _>>()?;
        let management = reader.management(&head.management)?;
        let captures = reader.distinct(&head.capture, Reader::node)?;
        let frr = reader.distinct(&head.frr, Reader::switch)?;
        let limit = head
            .limit_s
            .map_or(Ok(DEFAULT_TIMEOUT), |limit| reader.limit(&limit))?;
        let name = reader.plain_name(head.name, "scenario")?;
        let Reader { fabric, jobs, .. } = reader;
        Ok(Self {
            name,
            seed: head.seed,
            fabric,
            management,
            jobs,
            faults,
            expectations,
            frr,
            captures,
            limit,
        })
    }
}

/// Explains an error about a top-level key below a table's header, where it belongs to that table.
fn point_to_top(file: &str, mut error: InputError) -> InputError {
    let known_at_top = error.file == file && TOP_LEVEL_KEYS.contains(&error.key.as_str());
    if known_at_top && error.problem.starts_with(UNKNOWN_KEY_PROBLEM) {
        let hint = " (keys of the scenario itself come before the first [table])";
        error.problem.push_str(hint);
    }
    error
}

fn read_fabric(
    table: &mut Table<'_>,
    fabric_text: impl FnOnce(&str) -> Result<String, String>,
) -> Result<Fabric, InputError> {
    if table.holds_table("fabric") {
        let fabric = table.take_table("fabric")?;
        return fabric.map_or_else(|| Err(table.lacks("fabric")), Fabric::from_table);
    }
    let path: Spanned<String> = table.require("fabric")?;
    let text = fabric_text(path.get_ref())
        .map_err(|problem| table.document().error(path.span(), problem))?;
    Fabric::parse(path.get_ref(), &text)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    name: Spanned<String>,
    limit_s: Option<Spanned<f64>>,
    #[serde(default)]
    seed: u64,
    management: Option<Spanned<bool>>,
    #[serde(default)]
    capture: Vec<Spanned<String>>,
    #[serde(default)]
    frr: Vec<Spanned<String>>,
}

/// Resolves names to ids and refuses unknown names.
struct Reader<'t> {
    document: Document<'t>,
    fabric: Fabric,
    jobs: Vec<Job>,
}

impl Reader<'_> {
    /// Returns a name that can become a file name.
    fn plain_name(&self, name: Spanned<String>, what: &str) -> Result<String, InputError> {
        if !names::is_plain(name.get_ref(), MAX_NAME_BYTES) {
            let problem = names::refusal(name.get_ref(), what);
            return Err(self.document.error(name.span(), problem));
        }
        Ok(name.into_inner())
    }

    fn management(&self, wanted: &Option<Spanned<bool>>) -> Result<bool, InputError> {
        let Some(wanted) = wanted.as_ref().filter(|wanted| *wanted.get_ref()) else {
            return Ok(false);
        };
        if self.fabric.find(STATION_NAME).is_some() {
            let problem =
                format!("it makes a {STATION_NAME}, and the fabric has a node of that name");
            return Err(self.document.error(wanted.span(), problem));
        }
        Ok(true)
    }

    fn job_named(&self, name: &Spanned<String>) -> Result<usize, InputError> {
        let found = self.jobs.iter().position(|job| job.name == *name.get_ref());
        let problem = || format!("no job named {:?}", name.get_ref());
        found.ok_or_else(|| self.document.error(name.span(), problem()))
    }

    fn node(&self, name: &Spanned<String>) -> Result<NodeId, InputError> {
        let problem = || format!("no node named {:?}", name.get_ref());
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

    fn switch(&self, name: &Spanned<String>) -> Result<NodeId, InputError> {
        let node = self.node(name)?;
        if self.fabric.node(node).role != Role::Switch {
            let problem = format!("{:?} is a host, not a switch", name.get_ref());
            return Err(self.document.error(name.span(), problem));
        }
        Ok(node)
    }

    /// Returns the named nodes; a duplicate is an error.
    fn distinct(
        &self,
        names: &[Spanned<String>],
        find: impl Fn(&Self, &Spanned<String>) -> Result<NodeId, InputError>,
    ) -> Result<Vec<NodeId>, InputError> {
        let mut nodes = Vec::new();
        for name in names {
            let node = find(self, name)?;
            if nodes.contains(&node) {
                let problem = format!("{:?} is named twice", name.get_ref());
                return Err(self.document.error(name.span(), problem));
            }
            nodes.push(node);
        }
        Ok(nodes)
    }

    fn limit(&self, value: &Spanned<f64>) -> Result<Duration, InputError> {
        let limit = self.seconds(value)?;
        if limit.is_zero() {
            let problem = "it must be more than 0";
            return Err(self.document.error(value.span(), problem));
        }
        Ok(limit)
    }

    fn seconds(&self, value: &Spanned<f64>) -> Result<Duration, InputError> {
        self.document
            .time(value, Duration::from_secs(1), MAX_SCENARIO_TIME)
    }

    fn millis(&self, value: &Spanned<f64>) -> Result<Duration, InputError> {
        self.document
            .time(value, Duration::from_millis(1), MAX_SCENARIO_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Rank;
    use crate::scenario::{FaultKind, PathChoice};
    use crate::units::Bytes;

    const SCENARIO: &str = r#"
name = "two-leaves"
seed = 7
capture = ["leaf0", "h3"]

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
    fn scenario_parses_completely() {
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
        let captured = scenario.captures.iter().map(|id| scenario.fabric.name(*id));
        assert_eq!(captured.collect::<Vec<_>>(), ["leaf0", "h3"]);
    }

    #[test]
    fn switches_may_use_frr() {
        let by_frr = |switches: &str| {
            let frr = format!("frr = [{switches}]\ncapture = ");
            parse(&SCENARIO.replacen("capture = ", &frr, 1))
        };
        let scenario = by_frr("\"spine1\", \"leaf0\"").unwrap();
        let names = scenario.frr.iter().map(|id| scenario.fabric.name(*id));
        assert_eq!(names.collect::<Vec<_>>(), ["spine1", "leaf0"]);
        assert_eq!(parse(SCENARIO).unwrap().frr, []);
        let said = |switches| by_frr(switches).unwrap_err().to_string();
        let host = "s.toml:4: frr: \"h3\" is a host, not a switch";
        assert_eq!(said("\"spine1\", \"h3\""), host);
        assert!(said("\"spine7\"").contains("spine7"));
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
    fn fabric_may_be_separate_file() {
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
    fn errors_name_their_place() {
        let said = |from, to| error_after(from, to);
        assert_eq!(
            said("\"h2\"", "\"h9\""),
            "s.toml:17: hosts: no node named \"h9\""
        );
        assert_eq!(
            said("\"h2\"", "\"h0\""),
            "s.toml:17: hosts: \"h0\" is named twice"
        );
        assert!(said("\"h2\"", "\"leaf0\"").contains("\"leaf0\" is a switch, not a host"));
        assert!(
            said("iterations", "iteration")
                .starts_with("s.toml:21: iteration: this key is unknown")
        );
        assert!(said("0.2", "-0.2").starts_with("s.toml:12: uplink_gbps: -0.2 Gb/s"));
        assert!(said("8_000_000", "-1").starts_with("s.toml:18: bytes: -1 is not between"));
        assert!(
            said("\"collide\"", "\"best\"")
                .starts_with("s.toml:22: paths: \"best\" is unknown here")
        );
        assert!(said("\"link-down\"", "\"flood\"").contains(":25: kind: \"flood\" is not a"));
        assert!(said("\"spine1\"", "\"h2\"").contains(":28: link: no link 0 between"));
        assert!(said("rank = 3", "rank = 4").starts_with("s.toml:34: rank: 4 is not between 0"));
        assert!(
            said("[[expect]]\njob = \"train\"", "[[expect]]\njob = \"trian\"")
                .starts_with("s.toml:37: job: no job named \"trian\"")
        );
        assert_eq!(
            said("seed = 7", "sede = 7"),
            "s.toml:3: sede: this key is unknown; known are name, seed, limit_s, management, \
             capture, frr, fabric, job, fault, expect"
        );
        let late = said("leaves = 2\n", "leaves = 2\nlimit_s = 3\n");
        assert!(
            late.starts_with("s.toml:9: limit_s: this key is unknown"),
            "{late}"
        );
        assert!(late.ends_with("come before the first [table])"), "{late}");
        let past = parse(&SCENARIO.replace("paths = \"collide\"", "via = \"spine1\"")).unwrap();
        let spine = past.fabric.find("spine1").unwrap();
        assert_eq!(past.jobs[0].paths, PathChoice::Via(spine));
        let both = said("paths = \"collide\"", "paths = \"hash\"\nvia = \"spine1\"");
        assert!(
            both.starts_with("s.toml:23: via: `paths` already sets"),
            "{both}"
        );
        let station = SCENARIO.replace("seed = 7", "management = true");
        assert!(parse(&station).unwrap().management);
        assert!(!parse(SCENARIO).unwrap().management);
        assert!(said("at_s = 2", "at_s = -2").starts_with("s.toml:26: at_s: -2 is not a time"));
        assert!(
            said("\"leaf0\", \"h3\"", "\"leaf9\"").starts_with("s.toml:4: capture: no node named")
        );
        assert!(said("\"leaf0\", \"h3\"", "\"h3\", \"h3\"").contains("\"h3\" is named twice"));
        assert!(said("seed = 7", "limit_s = 0").starts_with("s.toml:3: limit_s: it must be"));
        let never = said(
            "max_resets = 0",
            "min_iteration_ms = 2\nmax_iteration_ms = 1",
        );
        assert_eq!(
            never,
            "s.toml:38: min_iteration_ms: 2 is more than max_iteration_ms"
        );
        assert!(said("at_s = 2\n", "").contains("at_s: this key is missing"));
        assert!(said("compute_ms = 5", "group_size = 2").contains("no effect with this pattern"));
    }

    #[test]
    fn unsafe_file_names_are_refused() {
        let (long, said) = ("x".repeat(300), error_after);
        for bad in ["../x", "", "a/b", "a\\nb", ".", "-x", &long] {
            let quoted = format!("\"{bad}\"");
            let job = said("\"train\"", &quoted);
            let expected = format!(
                "s.toml:15: name: {quoted} is not a valid name for a job: use \
                                    up to 32"
            );
            assert!(job.starts_with(&expected), "{job}");
            let scenario = said("\"two-leaves\"", &quoted);
            let expected = format!("s.toml:2: name: {quoted} is not a valid name for a scenario");
            assert!(scenario.starts_with(&expected), "{scenario}");
        }
    }

    #[test]
    fn patterns_require_their_keys() {
        let with = |pattern: &str| error_after("\"ring-allreduce\"", pattern);
        assert!(with("\"pipeline\"").starts_with("s.toml:16: pattern: it needs `microbatches`"));
        let uneven = with("\"hierarchical-allreduce\"\ngroup_size = 3");
        assert!(
            uneven.contains("4 ranks do not make whole groups of 3"),
            "{uneven}"
        );
        let same = with("\"streams\"\npairs = [[0, 1], [2, 2]]");
        assert!(
            same.starts_with("s.toml:17: pairs: [2, 2] is not a pair"),
            "{same}"
        );
        for (pairs, problem) in [
            ("[]", "name at least one pair"),
            ("[[0, 1], [0, 1]]", "[0, 1] is a duplicate"),
            ("[[0, 1, 2]]", "a pair has two elements, this has 3"),
        ] {
            let said = with(&format!("\"streams\"\npairs = {pairs}"));
            assert_eq!(said, format!("s.toml:17: pairs: {problem}"));
        }
    }

    #[test]
    fn communicating_hosts_need_path() {
        let islands = |pairs: &str| {
            format!(
                "name = 'n'\n[fabric]\nkind = 'direct'\nhosts = 4\nlink_gbps = 1\n\
                 links = [[0, 1], [2, 3]]\n[[job]]\nname = 'j'\npattern = 'streams'\n\
                 hosts = ['h0', 'h1', 'h2',\n 'h3']\npairs = {pairs}\nbytes = 1\niterations = 1\n"
            )
        };
        assert!(parse(&islands("[[0, 1], [3, 2]]")).is_ok());
        assert_eq!(
            parse(&islands("[[1, 0], [0, 3]]")).unwrap_err().to_string(),
            "s.toml:11: hosts: no links lead from \"h0\" to \"h3\""
        );
    }
}
