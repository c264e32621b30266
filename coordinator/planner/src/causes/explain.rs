//! Why a job is slow: its slowest collective, the pair of ranks that took longest, their path, the
//! link of it that is worst off, and the cause.

use reweave_common::fabric::Fabric;
use serde::Serialize;

use super::evidence::{
    CollectiveFacts, Evidence, EvidenceError, PairTime, UNKNOWN, hops, subject_of,
};
use super::{Cause, Subject, diagnose};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    pub job: String,
    pub collective: String,
    pub collective_ms: f64,
    /// Ranks and their hosts.
    pub ranks: [usize; 2],
    pub hosts: [String; 2],
    pub pair_ms: f64,
    /// The median of the other pairs.
    pub others_ms: Option<f64>,
    /// Empty when it is not known.
    pub path: Vec<String>,
    pub link: Option<Subject>,
    pub cause: Option<Cause>,
    /// What is not known, and was not guessed.
    pub doubts: Vec<String>,
}

/// Nothing when there is no such job, or it has no collectives.
pub fn explain(
    evidence: &Evidence,
    fabric: &Fabric,
    job: &str,
) -> Result<Option<Explanation>, EvidenceError> {
    let findings = diagnose(evidence, fabric)?;
    let facts = evidence.jobs.iter().find(|it| it.job == job);
    let slowest = facts.and_then(|facts| {
        let collectives = facts.collectives.iter();
        let slowest = collectives.max_by(|a, b| a.ms.total_cmp(&b.ms))?;
        let pair = slowest.pairs.iter().max_by(|a, b| a.ms.total_cmp(&b.ms))?;
        Some((facts, slowest, pair))
    });
    let Some((facts, slowest, pair)) = slowest else {
        return Ok(None);
    };
    let ranks = [pair.from, pair.to];
    let mut explanation = Explanation {
        job: job.to_owned(),
        collective: slowest.name.clone(),
        collective_ms: slowest.ms,
        ranks,
        hosts: ranks.map(|rank| facts.ranks[rank].clone()),
        pair_ms: pair.ms,
        others_ms: others(slowest, pair),
        path: pair.path.clone(),
        link: None,
        cause: None,
        doubts: Vec::new(),
    };
    explanation.blame(fabric, &findings)?;
    Ok(Some(explanation))
}

fn others(collective: &CollectiveFacts, pair: &PairTime) -> Option<f64> {
    let others = collective.pairs.iter();
    let others = others.filter(|it| (it.from, it.to) != (pair.from, pair.to));
    let mut others: Vec<_> = others.map(|it| it.ms).collect();
    (!others.is_empty()).then(|| super::hosts::median(&mut others))
}

impl Explanation {
    /// The surest finding about one of the hosts, a link of the path, or the job itself.
    fn blame(&mut self, fabric: &Fabric, findings: &[Cause]) -> Result<(), EvidenceError> {
        let unknown = self.path.is_empty() || self.path.iter().any(|name| name == UNKNOWN);
        if unknown {
            let [from, to] = &self.hosts;
            self.doubts
                .push(format!("not every hop from {from} to {to} is known"));
        }
        let on_path: Vec<_> = hops(fabric, &self.path)?
            .into_iter()
            .map(|hop| subject_of(fabric, hop))
            .collect();
        let concerns = |finding: &&Cause| match &finding.subject {
            Subject::Job(job) => *job == self.job,
            Subject::Host(host) => self.hosts.contains(host),
            Subject::Pair(pair) => pair.iter().all(|host| self.hosts.contains(host)),
            other => on_path.iter().any(|hop| hop.touches(other)),
        };
        self.cause = findings.iter().find(concerns).cloned();
        let blamed = self.cause.as_ref().map(|cause| &cause.subject);
        let is_blamed = |hop: &&Subject| blamed.is_some_and(|subject| hop.touches(subject));
        self.link = on_path.iter().find(is_blamed).cloned();
        if self.cause.is_none() {
            self.doubts
                .push("nothing that was measured says why".to_owned());
        }
        Ok(())
    }
}
