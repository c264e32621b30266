//! Diagnosis: evidence in, findings with causes out.
//!
//! Each finding has a class, a subject, evidence, a confidence, a remedy, and the affected jobs. A host is suspected
//! before a link. If the evidence cannot distinguish two causes, the finding names both and says so. Missing
//! measurements are no evidence.

mod cables;
mod change;
mod check;
mod configuration;
mod counters;
mod error;
mod evidence;
mod evidence_check;
mod explain;
mod forecast;
mod hosts;
mod jobs;
mod localise;
mod losses;
mod mtu;
mod passages;
mod ports;
mod routes;
#[cfg(test)]
mod tests;
mod together;
mod vanished;
mod votes;

use change::Lossier;
pub use change::{Change, changes};
pub use check::Sifted;
pub use error::EvidenceError;
pub use evidence::{
    Demand, Evidence, FlowFacts, HostFacts, JobFacts, PairFacts, PortFacts, Probed, Series, Trace,
    UnsentFacts, subject_of,
};
pub use explain::{Exchange, ExchangedPair, ExplainedCollective, explain, explain_exchange};
pub use localise::{Culprit, Probe, Suspect, localise};
pub use losses::losses;
pub use passages::EvidencePath;
pub use routes::{BesidePeers, beside_peers};
pub use votes::Ground;

use reweave_common::cause::{Cause, Class, Subject};
use reweave_common::fabric::Fabric;

/// All that is wrong, what is surest first. A cause that explains others' evidence takes it from
/// them.
pub fn diagnose(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    evidence.check(fabric)?;
    found(evidence, fabric)
}

impl Sifted {
    /// The same by what is left.
    pub fn diagnose(&self, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
        found(&self.0, fabric)
    }
}

fn found(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let mut findings = counters::findings(evidence, fabric)?;
    findings.extend(configuration::findings(evidence, fabric)?);
    findings.extend(hosts::findings(evidence, fabric)?);
    findings.extend(routes::findings(evidence, fabric)?);
    let worse = change::worse(evidence, fabric)?;
    merge_errors(&mut findings, worse.broken, fabric);
    let lossy = losses::findings(evidence, fabric)?;
    merge_losses(&mut findings, lossy);
    merge_lossier(&mut findings, worse.lossier, fabric);
    findings.extend(jobs::findings(evidence, fabric)?);
    findings.extend(worse.slower);
    findings.extend(forecast::findings(evidence, fabric)?);
    let mut findings = without_duplicates(findings);
    for finding in &mut findings {
        finding.jobs = evidence.jobs_hurt(&finding.subject, fabric);
    }
    findings.sort_by(|a, b| {
        let surest = b.confidence.total_cmp(&a.confidence);
        surest.then_with(|| (a.class, &a.subject).cmp(&(b.class, &b.subject)))
    });
    Ok(findings)
}

/// Merges findings about the same subject from several ports.
fn without_duplicates(findings: Vec<Cause>) -> Vec<Cause> {
    let mut once: Vec<Cause> = Vec::new();
    for finding in findings {
        let is_same =
            |it: &&mut Cause| (it.class, &it.subject) == (finding.class, &finding.subject);
        match once.iter_mut().find(is_same) {
            Some(known) => known.evidence.extend(finding.evidence),
            None => once.push(finding),
        }
    }
    once
}

/// Since when there are more errors is evidence for optics that are known to be bad.
fn merge_errors(findings: &mut Vec<Cause>, broken: Vec<Cause>, fabric: &Fabric) {
    let broken = broken.into_iter().map(|it| (it, ())).collect();
    for broken in cables::joined(broken, fabric, |(), ()| true) {
        let mut known = findings.iter_mut().filter(|it| it.class == Class::BadOptic);
        match known.find(|it| it.subject.touches(&broken.subject)) {
            Some(known) => known.evidence.extend(broken.evidence),
            None => findings.push(broken),
        }
    }
}

/// Since when more is lost is evidence for all that is known to lose packets, and where something is, all else that is
/// seen to lose more is crossed by what gets lost there.
fn merge_lossier(findings: &mut Vec<Cause>, lossier: Vec<Lossier>, fabric: &Fabric) {
    let loses = |it: &&mut Cause| {
        let by_counters = matches!(it.class, Class::BadOptic | Class::NicFlap);
        by_counters || is_of_probes(it.class)
    };
    let mut is_known = findings.iter().any(|it| is_of_probes(it.class));
    for known in findings.iter_mut().filter(loses) {
        let mut same = lossier.iter().map(|it| &it.cause);
        if let Some(same) = same.find(|it| known.subject.touches(&it.subject)) {
            known.evidence.extend(same.evidence.iter().cloned());
            is_known = true;
        }
    }
    if !is_known {
        findings.extend(change::lossiest(lossier, fabric));
    }
}

/// Whether it is found by the probes that get lost.
fn is_of_probes(class: Class) -> bool {
    let all = [Class::LossyLink, Class::FaultyHost, Class::FaultySwitch];
    all.contains(&class)
}

/// Loss on what is known to lose packets otherwise is evidence for that, and no finding of its own.
fn merge_losses(findings: &mut Vec<Cause>, losses: Vec<Cause>) {
    let known = findings.len();
    for loss in losses {
        let loses = |it: &&mut Cause| matches!(it.class, Class::BadOptic | Class::NicFlap);
        let same = findings[..known].iter_mut().filter(loses);
        let mut same = same.filter(|it| it.subject.touches(&loss.subject));
        match same.next() {
            Some(known) => {
                known.evidence.extend(loss.evidence);
                known.confidence = known.confidence.max(loss.confidence);
            }
            None => findings.push(loss),
        }
    }
}
