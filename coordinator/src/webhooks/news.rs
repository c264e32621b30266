//! The events since the previous look. Pure: time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use reweave_common::operator::{Finding, Record, RunningChange};
use reweave_common::plan::Generation;
use serde::Serialize;

use super::Kind;

/// What comes back sooner was not gone.
const MISSING_TIMEOUT: Duration = Duration::from_secs(10);

/// What the status shows at one moment.
#[derive(Debug, Default)]
pub(super) struct Sight {
    pub(super) alarms: Vec<String>,
    pub(super) findings: Vec<Finding>,
    pub(super) changes: Vec<RunningChange>,
    /// Records of changes that were running at the last look and have ended.
    pub(super) records: Vec<Record>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event")]
pub(super) enum News {
    #[serde(rename = "finding.began")]
    FindingBegan { finding: Finding },
    #[serde(rename = "finding.ended")]
    FindingEnded { finding: Finding },
    #[serde(rename = "alarm.began")]
    AlarmBegan { alarm: String },
    #[serde(rename = "alarm.ended")]
    AlarmEnded { alarm: String },
    #[serde(rename = "change.began")]
    ChangeBegan { change: RunningChange },
    #[serde(rename = "change.ended")]
    ChangeEnded { record: Box<Record> },
}

impl News {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::FindingBegan { .. } | Self::FindingEnded { .. } => Kind::Finding,
            Self::AlarmBegan { .. } | Self::AlarmEnded { .. } => Kind::Alarm,
            Self::ChangeBegan { .. } | Self::ChangeEnded { .. } => Kind::Change,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    alarms: Standing<String>,
    findings: Standing<Finding>,
    changes: BTreeSet<Generation>,
}

impl Seen {
    /// The changes that ran, and run no more.
    pub(super) fn ended(&self, now: &[RunningChange]) -> Vec<Generation> {
        let runs = |ran: &Generation| now.iter().any(|change| change.generation == *ran);
        self.changes
            .iter()
            .filter(|ran| !runs(ran))
            .copied()
            .collect()
    }

    pub(super) fn see(&mut self, sight: Sight, now: Instant) -> Vec<News> {
        let mut news = Vec::new();
        let findings = sight.findings.into_iter();
        let findings = findings.map(|finding| (subject(&finding), finding));
        let (began, ended) = self.findings.see(findings.collect(), now);
        news.extend(
            began
                .into_iter()
                .map(|finding| News::FindingBegan { finding }),
        );
        news.extend(
            ended
                .into_iter()
                .map(|finding| News::FindingEnded { finding }),
        );
        let alarms = sight.alarms.into_iter();
        let alarms = alarms.map(|alarm| (alarm.clone(), alarm)).collect();
        let (began, ended) = self.alarms.see(alarms, now);
        news.extend(began.into_iter().map(|alarm| News::AlarmBegan { alarm }));
        news.extend(ended.into_iter().map(|alarm| News::AlarmEnded { alarm }));
        news.extend(self.see_changes(sight.changes, sight.records));
        news
    }

    fn see_changes(&mut self, changes: Vec<RunningChange>, records: Vec<Record>) -> Vec<News> {
        let mut news = Vec::new();
        for record in records {
            self.changes.remove(&record.plan.generation);
            let record = Box::new(record);
            news.push(News::ChangeEnded { record });
        }
        for change in changes {
            if self.changes.insert(change.generation) {
                news.push(News::ChangeBegan { change });
            }
        }
        news
    }
}

/// What makes it the same finding, though its figures change.
fn subject(finding: &Finding) -> String {
    match finding {
        Finding::Cause(cause) => format!("{:?} {:?}", cause.class, cause.subject),
        Finding::EcmpCollision(collision) => format!("collision {:?}", collision.hop),
        Finding::UselessPin(pin) => format!("pin {:?} {:?}", pin.flow, pin.hop),
    }
}

/// What stands, and since when it was not seen.
#[derive(Debug)]
struct Standing<T>(BTreeMap<String, (T, Option<Instant>)>);

impl<T> Default for Standing<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Clone> Standing<T> {
    /// What began and what ended.
    fn see(&mut self, seen: BTreeMap<String, T>, now: Instant) -> (Vec<T>, Vec<T>) {
        for (key, (_, missing)) in &mut self.0 {
            if seen.contains_key(key) {
                *missing = None;
            } else {
                *missing = missing.or(Some(now));
            }
        }
        let ended = self.0.extract_if(.., |_, (_, missing)| {
            missing.is_some_and(|since| now.saturating_duration_since(since) >= MISSING_TIMEOUT)
        });
        let ended = ended.map(|(_, (thing, _))| thing).collect();
        let new = seen
            .into_iter()
            .filter(|(key, _)| !self.0.contains_key(key));
        let new: Vec<_> = new.collect();
        let began = new.iter().map(|(_, thing)| thing.clone()).collect();
        self.0
            .extend(new.into_iter().map(|(key, thing)| (key, (thing, None))));
        (began, ended)
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::cause::{Cause, Class, Subject};
    use reweave_common::operator::Phase;

    use super::*;

    fn bad_optic(confidence: f64) -> Finding {
        Finding::Cause(Cause {
            class: Class::BadOptic,
            subject: Subject::Host("h0".to_owned()),
            evidence: vec![],
            confidence,
            remedy: String::new(),
            jobs: vec![],
        })
    }

    fn found(findings: &[Finding]) -> Sight {
        Sight {
            findings: findings.to_vec(),
            ..Sight::default()
        }
    }

    #[test]
    fn finding_reports_begin_and_end() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        let mut at = |s: u64, sight| seen.see(sight, start + Duration::from_secs(s));
        let finding = bad_optic(0.9);
        let began = News::FindingBegan { finding };
        assert_eq!(at(0, found(&[bad_optic(0.9)])), [began]);
        assert!(
            at(1, found(&[bad_optic(0.8)])).is_empty(),
            "the same, with less confidence"
        );
        assert!(at(2, found(&[])).is_empty());
        assert!(
            at(11, found(&[bad_optic(0.8)])).is_empty(),
            "it comes and goes"
        );
        assert!(at(12, found(&[])).is_empty());
        let finding = bad_optic(0.9);
        assert_eq!(at(22, found(&[])), [News::FindingEnded { finding }]);
        assert!(at(23, found(&[])).is_empty());
    }

    #[test]
    fn alarm_is_reported_once() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        let alarm = "spine0 still holds rules".to_owned();
        let sight = || Sight {
            alarms: vec![alarm.clone()],
            ..Sight::default()
        };
        let began = News::AlarmBegan {
            alarm: alarm.clone(),
        };
        assert_eq!(seen.see(sight(), now), [began]);
        assert!(seen.see(sight(), now).is_empty());
    }

    fn change(generation: u64) -> RunningChange {
        RunningChange {
            generation: Generation(generation),
            parent: Generation(generation - 1),
            phase: Phase::Approved,
            waiting_for: vec![],
            reasons: vec![],
            stopped_by: None,
            age_ms: 0,
        }
    }

    #[test]
    fn ended_change_waits_for_its_record() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        let running = Sight {
            changes: vec![change(3)],
            ..Sight::default()
        };
        let began = News::ChangeBegan { change: change(3) };
        assert_eq!(seen.see(running, now), [began]);
        assert_eq!(seen.ended(&[change(3), change(4)]), []);
        assert_eq!(seen.ended(&[]), [Generation(3)]);
        assert_eq!(seen.ended(&[change(4)]), [Generation(3)]);
        assert!(seen.see(Sight::default(), now).is_empty(), "no record yet");
        assert_eq!(seen.ended(&[]), [Generation(3)]);
    }
}
