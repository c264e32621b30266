//! Metrics of findings, jobs and NICs, which only the leader has.

use std::collections::BTreeMap;

use reweave_common::cause::Class;
use reweave_common::operator::{Finding, Findings, Imbalances, JobStatus, NicStatus};

use super::evenness::imbalances;
use super::page::{Kind, Page, bytes_per_s, count};

/// Maximum number of jobs; of more, those with the highest rate are reported.
const MAX_JOBS: usize = 100;
/// Class of useless pins, in addition to the classes of causes.
const USELESS_PIN_CLASS: &str = "useless-pin";

pub(in crate::http) struct Work {
    pub(in crate::http) imbalances: Option<Imbalances>,
    pub(in crate::http) found: Option<Findings>,
    pub(in crate::http) jobs: Vec<JobStatus>,
    pub(in crate::http) nics: Vec<NicStatus>,
}

impl Work {
    pub(super) fn write(&self, page: &mut Page) {
        if let Some(found) = &self.found {
            findings(page, &found.findings);
        }
        jobs(page, &self.jobs);
        nics(page, &self.nics);
        if let Some(found) = &self.imbalances {
            imbalances(page, found);
        }
    }
}

/// Writes all classes, so that a class without findings is zero and not absent.
fn findings(page: &mut Page, found: &[Finding]) {
    let classes = Class::ALL.into_iter().map(letters);
    let mut by_class: BTreeMap<_, usize> = classes.map(|class| (class, 0)).collect();
    by_class.insert(USELESS_PIN_CLASS.to_owned(), 0);
    for finding in found {
        *by_class.entry(class(finding)).or_default() += 1;
    }
    let name = "reweave_findings";
    page.family(Kind::Gauge, name, "Findings, by class.");
    for (class, number) in by_class {
        page.sample(name, &[("class", &class)], count(number));
    }
}

fn class(finding: &Finding) -> String {
    match finding {
        Finding::EcmpCollision(_) => letters(Class::EcmpCollision),
        Finding::UselessPin(_) => USELESS_PIN_CLASS.to_owned(),
        Finding::Cause(cause) => letters(cause.class),
    }
}

/// Returns the class as it is spelt in JSON.
fn letters(class: Class) -> String {
    let letters = serde_json::to_value(class).unwrap_or_default();
    letters.as_str().unwrap_or_default().to_owned()
}

fn jobs(page: &mut Page, jobs: &[JobStatus]) {
    let help = "Jobs derived from large flows.";
    page.single(Kind::Gauge, "reweave_jobs", help, count(jobs.len()));
    let mut busiest: Vec<_> = jobs.iter().collect();
    busiest.sort_by(|one, other| {
        let most = other.rate_bits_per_s.cmp(&one.rate_bits_per_s);
        most.then_with(|| one.job.cmp(&other.job))
    });
    busiest.truncate(MAX_JOBS);
    let each = |page: &mut Page, name: &str, help: &str, value: fn(&JobStatus) -> Option<f64>| {
        page.family(Kind::Gauge, name, help);
        for job in &busiest {
            if let Some(value) = value(job) {
                page.sample(name, &[("training_job", &job.job)], value);
            }
        }
    };
    let help = "Total rate of the large flows of a job.";
    each(page, "reweave_job_rate_bytes_per_second", help, |job| {
        Some(bytes_per_s(job.rate_bits_per_s))
    });
    let help = "Iteration time of a job, if its traffic is periodic.";
    each(page, "reweave_job_iteration_seconds", help, |job| {
        Some(job.iteration_ms? / 1e3)
    });
    let help = "Share of an iteration in which a job's links are idle.";
    each(page, "reweave_job_rest_ratio", help, |job| job.rest_share);
}

/// A NIC without a known interface is called by its link.
fn nics(page: &mut Page, nics: &[NicStatus]) {
    let each = |page: &mut Page, name: &str, help: &str, value: fn(&NicStatus) -> Option<f64>| {
        page.family(Kind::Gauge, name, help);
        for nic in nics {
            let Some(value) = value(nic) else {
                continue;
            };
            let rail = nic.rail.to_string();
            let labels = [
                ("host", &*nic.host),
                ("nic", nic.interface.as_deref().unwrap_or(&nic.link)),
                ("rail", &rail),
                ("use", nic.purpose.name()),
            ];
            page.sample(name, &labels, value);
        }
    };
    let help = "Whether the NIC is up.";
    each(page, "reweave_nic_up", help, |nic| {
        Some(f64::from(u8::from(nic.up?)))
    });
    let help = "Rate that the NIC sends.";
    each(page, "reweave_nic_sent_bytes_per_second", help, |nic| {
        Some(bytes_per_s(nic.sent_bits_per_s?))
    });
    let help = "Rate that the NIC receives.";
    each(page, "reweave_nic_received_bytes_per_second", help, |nic| {
        Some(bytes_per_s(nic.received_bits_per_s?))
    });
    let help = "Capacity of the NIC.";
    each(page, "reweave_nic_capacity_bytes_per_second", help, |nic| {
        Some(bytes_per_s(nic.capacity_bits_per_s))
    });
}

#[cfg(test)]
mod tests {
    use reweave_common::cause::Subject;
    use reweave_common::fabric::NicUse;
    use reweave_common::units::Rate;

    use super::*;

    fn job(nth: u64, iteration_ms: Option<f64>) -> JobStatus {
        JobStatus {
            job: format!("h{nth}"),
            hosts: vec![],
            flows: 1,
            sending: 1,
            rate_bits_per_s: Rate::from_bits_per_s(1000 * nth),
            slowest_bits_per_s: None,
            iteration_ms,
            rest_share: None,
            seen_for_ms: 0,
            promise: None,
        }
    }

    fn samples(write: impl FnOnce(&mut Page)) -> Vec<String> {
        let mut page = Page::default();
        write(&mut page);
        let lines = page.0.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn findings_metric_counts_classes_including_zero() {
        let optic = |link: &str| {
            let subject = Subject::Host(link.to_owned());
            Finding::Cause(Class::DyingOptic.cause(subject, 1.0, String::new()))
        };
        let report = samples(|page| findings(page, &[optic("h0"), optic("h1")]));
        assert_eq!(report.len(), Class::ALL.len() + 1);
        let has = |line: &str| report.iter().any(|it| it == line);
        assert!(
            has("reweave_findings{class=\"dying-optic\"} 2"),
            "{report:?}"
        );
        assert!(has("reweave_findings{class=\"straggler\"} 0"), "{report:?}");
        assert!(
            has("reweave_findings{class=\"useless-pin\"} 0"),
            "{report:?}"
        );
    }

    #[test]
    fn nic_metrics_have_rail_and_use() {
        let nic = |interface: Option<&str>, purpose, up| NicStatus {
            host: "h0".to_owned(),
            interface: interface.map(str::to_owned),
            rail: 3,
            plane: None,
            purpose,
            link: "h0-leaf3".to_owned(),
            address: None,
            pci: None,
            numa: None,
            gpu: None,
            gpus: vec![],
            up,
            capacity_bits_per_s: Rate::from_bits_per_s(400),
            sent_bits_per_s: up.map(|_| Rate::from_bits_per_s(100)),
            received_bits_per_s: None,
        };
        let all = [
            nic(Some("eth3"), NicUse::Training, Some(false)),
            nic(None, NicUse::Storage, None),
        ];
        let labels = |nic: &str, purpose: &str| {
            format!("host=\"h0\",nic=\"{nic}\",rail=\"3\",use=\"{purpose}\"")
        };
        let training = labels("eth3", "training");
        let storage = labels("h0-leaf3", "storage");
        let expected = [
            format!("reweave_nic_up{{{training}}} 0"),
            format!("reweave_nic_sent_bytes_per_second{{{training}}} 12.5"),
            format!("reweave_nic_capacity_bytes_per_second{{{training}}} 50"),
            format!("reweave_nic_capacity_bytes_per_second{{{storage}}} 50"),
        ];
        assert_eq!(samples(|page| nics(page, &all)), expected);
    }

    /// A rule with a misspelt class would never fire.
    #[test]
    fn prometheus_rules_use_existing_classes() {
        let rules = include_str!("../../../../deploy/prometheus/reweave.rules.yml");
        let known = Class::ALL.map(letters);
        let asked = rules.split("class=~\"").skip(1);
        let asked = asked.filter_map(|rest| rest.split('"').next());
        let asked: Vec<_> = asked.flat_map(|classes| classes.split('|')).collect();
        assert!(asked.len() > 5, "{asked:?}");
        for class in asked {
            assert!(known.iter().any(|it| it == class), "{class}");
        }
    }

    #[test]
    fn job_metrics_keep_busiest_jobs() {
        let few = [job(1, Some(250.0)), job(2, None)];
        let report = samples(|page| jobs(page, &few));
        let beats = report.iter().filter(|line| line.contains("_iteration_"));
        let expected = ["reweave_job_iteration_seconds{training_job=\"h1\"} 0.25"];
        assert_eq!(beats.collect::<Vec<_>>(), expected);
        let many: Vec<_> = (0..150).map(|nth| job(nth, None)).collect();
        let report = samples(|page| jobs(page, &many));
        let rates = report.iter().filter(|line| line.contains("_rate_"));
        assert_eq!(rates.clone().count(), MAX_JOBS);
        assert!(rates.clone().any(|line| line.contains("\"h149\"")));
        assert!(!rates.clone().any(|line| line.contains("\"h49\"")));
        assert!(report.contains(&"reweave_jobs 150".to_owned()));
    }
}
