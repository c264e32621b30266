//! A real Prometheus, with the configuration and the rules of deploy/prometheus: it scrapes a coordinator, its rules have
//! values, and an alarm comes up when the coordinator is gone.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use libtest_mimic::Trial;
use reweave_tests::{STAGE_TIMEOUT, wait_for};
use serde_json::Value;
use tempfile::TempDir;

use super::alone::{Alone, asking, body};
use super::needs::{Need, trial};
use super::{deployed, text, written};

const PROMETHEUS_PORT: u16 = 9090;

pub(crate) fn tests() -> Vec<Trial> {
    let needs = [
        Need::Namespaces,
        Need::Program("ip"),
        Need::Program("strace"),
        Need::Program("prometheus"),
    ];
    vec![trial(
        "prometheus_scrapes_and_raises_alarms",
        &needs,
        scraped,
    )]
}

fn scraped() {
    let alone = Alone::start();
    alone.await_state("READY=1", 2);
    let prometheus = Prometheus::start(&alone);
    prometheus.await_value("up", "1");
    prometheus.await_value("reweave_leads", "1");
    prometheus.await_value("reweave:agents_reporting:ratio", "1");
    let rules = prometheus.await_rules();
    let written = text(deployed("prometheus/reweave.rules.yml"));
    let of = |kind: &str| written.matches(&format!("- {kind}: ")).count();
    assert_eq!(rules, of("alert") + of("record"));
    // What was not yet there when it looked first may have raised one for a second.
    await_that("no alarm", || prometheus.alarms().is_empty().then_some(()));
    drop(alone);
    prometheus.await_alarm("ReweaveCoordinatorDown");
}

struct Prometheus {
    process: Child,
    _folder: TempDir,
}

impl Prometheus {
    /// As deployed, but that it looks once a second.
    fn start(alone: &Alone) -> Self {
        let folder = tempfile::tempdir().expect("a folder of our own");
        let rules = "reweave.rules.yml";
        let copied = fs::copy(
            deployed("prometheus").join(rules),
            folder.path().join(rules),
        );
        copied.expect("rules are there");
        let config = folder.path().join("prometheus.yml");
        written(&config, &quick());
        Self {
            process: begun(alone, &config, folder.path()),
            _folder: folder,
        }
    }

    /// Nothing while it is not up.
    fn ask(&self, path: &str) -> Option<Value> {
        let answer = asking(self.process.id(), PROMETHEUS_PORT, path)
            .output()
            .ok()?;
        let answer = String::from_utf8(answer.stdout).ok()?;
        serde_json::from_str(body(&answer)?).ok()
    }

    fn await_value(&self, series: &str, value: &str) {
        let path = format!("/api/v1/query?query={series}");
        await_that(series, || {
            let answer = self.ask(&path)?;
            (answer["data"]["result"][0]["value"][1] == value).then_some(())
        });
    }

    /// How many there are, once all are evaluated without an error.
    fn await_rules(&self) -> usize {
        await_that("rules in good health", || {
            let answer = self.ask("/api/v1/rules")?;
            let groups = answer["data"]["groups"].as_array()?;
            let rules = groups.iter().filter_map(|group| group["rules"].as_array());
            let rules: Vec<_> = rules.flatten().collect();
            let is_well = rules.iter().all(|rule| rule["health"] == "ok");
            (is_well && !rules.is_empty()).then_some(rules.len())
        })
    }

    /// Those that are pending or raised.
    fn alarms(&self) -> Vec<String> {
        let answer = self.ask("/api/v1/alerts").unwrap_or_default();
        let alarms = answer["data"]["alerts"].as_array().into_iter().flatten();
        let names = alarms.filter_map(|alarm| alarm["labels"]["alertname"].as_str());
        names.map(str::to_owned).collect()
    }

    fn await_alarm(&self, name: &str) {
        await_that(name, || {
            let alarms = self.alarms();
            alarms.iter().any(|alarm| alarm == name).then_some(())
        });
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn quick() -> String {
    let config = text(deployed("prometheus/prometheus.yml"));
    let quick = config.replace("scrape_interval: 15s", "scrape_interval: 1s");
    assert_ne!(config, quick, "it has another interval now");
    format!("global:\n  evaluation_interval: 1s\n{quick}")
}

fn begun(alone: &Alone, config: &Path, folder: &Path) -> Child {
    let mut command = alone.inside();
    command.arg("prometheus");
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!(
        "--storage.tsdb.path={}",
        folder.join("data").display()
    ));
    command.arg(format!("--web.listen-address=127.0.0.1:{PROMETHEUS_PORT}"));
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("it starts")
}

fn await_that<T>(what: &str, mut seen: impl FnMut() -> Option<T>) -> T {
    let found = wait_for(what, STAGE_TIMEOUT, || Ok(seen()));
    found.unwrap_or_else(|error| panic!("{error}"))
}
