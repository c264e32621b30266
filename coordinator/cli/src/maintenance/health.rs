//! Health of a switch after maintenance, from reports of agents and drivers since then.

use std::time::Duration;

use reweave_common::cause::{Cause, Subject};
use reweave_common::operator::{AgentState, LinkStatus, Status};

/// The switch and its links that are checked.
#[derive(Debug)]
pub(super) struct Patient<'p> {
    pub(super) node: &'p str,
    pub(super) links: &'p [String],
    pub(super) has_agent: bool,
    pub(super) version: Option<&'p str>,
}

impl Patient<'_> {
    /// Returns the problems of the switch. A report older than `since` counts as missing.
    pub(super) fn troubles(&self, status: &Status, since: Duration) -> Vec<String> {
        let itself = self.itself(status, since);
        let links = self.links.iter();
        let links = links.filter_map(|link| trouble_of(link, &status.links, since));
        itself.into_iter().chain(links).collect()
    }

    fn itself(&self, status: &Status, since: Duration) -> Option<String> {
        let node = self.node;
        if let Some(optical) = status.opticals.iter().find(|it| it.optical == node) {
            return (!optical.is_driven).then(|| format!("the driver of {node} is not connected"));
        }
        if !self.has_agent {
            return None;
        }
        let agent = status.agents.iter().find(|agent| agent.node == node)?;
        let is_heard = agent
            .age_ms
            .is_some_and(|age| Duration::from_millis(age) < since);
        if agent.state != AgentState::Up || !is_heard {
            return Some(format!("the agent of {node} is not connected"));
        }
        let runs = agent.build.as_deref().unwrap_or("of an unknown version");
        let wanted = self.version.filter(|version| *version != runs);
        wanted.map(|wanted| format!("the agent of {node} is {runs} instead of {wanted}"))
    }

    /// Whether a finding names the switch or one of its links.
    pub(super) fn is_concerned(&self, cause: &Cause) -> bool {
        self.is_meant(&cause.subject)
    }

    fn is_meant(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Switch(name) => name == self.node,
            Subject::Hop { link, .. } | Subject::Link { link, .. } => self.links.contains(link),
            Subject::Ambiguous(_) | Subject::All(_) => {
                subject.each().iter().any(|it| self.is_meant(it))
            }
            Subject::Host(_) | Subject::Job(_) | Subject::Pair(_) => false,
        }
    }
}

/// Returns the problem of a link, in either reported direction.
fn trouble_of(link: &String, links: &[LinkStatus], since: Duration) -> Option<String> {
    let is_it = |it: &&LinkStatus| it.hop.link == *link;
    let is_heard = |it: &&LinkStatus| Duration::from_millis(it.age_ms) < since;
    let heard: Vec<_> = links.iter().filter(is_it).filter(is_heard).collect();
    if heard.is_empty() {
        return Some(format!("state of {link} is unknown: no end reports it"));
    }
    let is_up = heard.iter().all(|it| it.up);
    (!is_up).then(|| format!("{link} is down"))
}

#[cfg(test)]
mod tests {
    use reweave_common::cause::Class;

    use super::*;
    use crate::show::tests::status;

    const TEST_WAIT: Duration = Duration::from_secs(1);

    fn links() -> Vec<String> {
        vec!["leaf0-spine0".to_owned(), "leaf0-spine1".to_owned()]
    }

    fn well() -> Status {
        let mut status = status();
        let agent = &mut status.agents[2];
        (agent.state, agent.age_ms) = (AgentState::Up, Some(400));
        agent.build = Some("1.2.3".to_owned());
        status
    }

    fn troubles(bend: impl FnOnce(&mut Status, &mut Patient<'_>)) -> String {
        let (mut status, links) = (well(), links());
        let mut patient = Patient {
            node: "leaf0",
            links: &links,
            has_agent: true,
            version: None,
        };
        bend(&mut status, &mut patient);
        patient.troubles(&status, TEST_WAIT).join("; ")
    }

    #[test]
    fn healthy_switch_has_no_troubles() {
        assert_eq!(troubles(|_, _| ()), "");
        assert_eq!(troubles(|_, it| it.version = Some("1.2.3")), "");
    }

    /// Reports from before the maintenance are ignored.
    #[test]
    fn each_trouble_is_named() {
        let unheard = "the agent of leaf0 is not connected";
        assert_eq!(troubles(|it, _| it.agents[2].age_ms = Some(1500)), unheard);
        assert_eq!(
            troubles(|it, _| it.agents[2].state = AgentState::Silent),
            unheard
        );
        let other = "the agent of leaf0 is 1.2.3 instead of 1.2.4";
        assert_eq!(troubles(|_, it| it.version = Some("1.2.4")), other);
        assert_eq!(
            troubles(|it, _| it.links[1].up = false),
            "leaf0-spine1 is down"
        );
        let silent = "state of leaf0-spine0 is unknown: no end reports it";
        assert_eq!(troubles(|it, _| it.links[0].age_ms = 1500), silent);
        let without = |it: &mut Status, patient: &mut Patient<'_>| {
            it.agents.truncate(2);
            patient.has_agent = false;
        };
        assert_eq!(troubles(without), "");
    }

    #[test]
    fn own_findings_concern_switch() {
        let links = links();
        let patient = Patient {
            node: "spine1",
            links: &links[1..],
            has_agent: true,
            version: None,
        };
        let hop = |link: &str| Subject::Hop {
            from: "leaf0".to_owned(),
            to: "spine1".to_owned(),
            link: link.to_owned(),
        };
        let concerned = |subject: Subject| {
            let cause = Class::LossyLink.cause(subject, 0.9, "it was seen".to_owned());
            patient.is_concerned(&cause)
        };
        assert!(concerned(hop("leaf0-spine1")) && !concerned(hop("leaf0-spine0")));
        assert!(concerned(Subject::Switch("spine1".to_owned())));
        assert!(concerned(Subject::either([
            hop("leaf0-spine0"),
            hop("leaf0-spine1")
        ])));
        assert!(!concerned(Subject::Host("h0".to_owned())));
    }
}
