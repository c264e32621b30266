//! Warnings about the coordinators themselves, the worst first.

use std::collections::BTreeSet;
use std::time::Duration;

use reweave_common::member::{Member, Role};
use reweave_common::operator::{AgentStatus, CoordinatorState, CoordinatorStatus};

use crate::signing::Signs;

/// A certificate with less validity left should have been renewed long ago.
const MIN_VALIDITY_LEFT: Duration = Duration::from_hours(4);
/// A signer is made by hand, and people take their time.
const MIN_SIGNER_VALIDITY_LEFT: Duration = Duration::from_hours(30 * 24);
/// Certificates go by the clock, and so do people who compare logs.
const MAX_SKEW_MS: u64 = 1000;
/// A learner that stays so far behind never comes to vote.
const MAX_LEARNER_LAG_ENTRIES: u64 = 10_000;

pub(crate) fn warnings(
    coordinators: &[CoordinatorStatus],
    revoked: &[Member],
    signs: Signs,
) -> Vec<String> {
    let mut all = absent(coordinators, revoked);
    all.extend(unsigned(coordinators, signs));
    all.extend(coordinators.iter().flat_map(certificates));
    all.extend(coordinators.iter().filter_map(skewed));
    all.extend(coordinators.iter().filter_map(lagging));
    all.extend(mixed(coordinators));
    all
}

fn is_there(one: &CoordinatorStatus) -> bool {
    !matches!(
        one.state,
        CoordinatorState::Silent | CoordinatorState::Unseen
    )
}

/// The number of further failures after which nothing could be decided. A revoked member is silent but still a voter.
fn absent(coordinators: &[CoordinatorStatus], revoked: &[Member]) -> Vec<String> {
    let is_out = |name: &str| revoked.contains(&Member::new(Role::Coordinator, name));
    let voters = coordinators.iter().filter(|one| one.votes);
    let (count, there) = (
        voters.clone().count(),
        voters.filter(|one| is_there(one)).count(),
    );
    let spare = there.saturating_sub(count / 2 + 1);
    let describe = |one: &CoordinatorStatus| {
        let name = &one.name;
        let since = match one.heard_ms {
            Some(ms) => format!("has been unreachable for {} s", ms / 1000),
            None => "has never connected".to_owned(),
        };
        match (one.votes, spare) {
            _ if is_out(name) => format!(
                "coordinator {name} is revoked but still a member: `reweave cluster member remove \
                 {name}`"
            ),
            (false, _) => format!("learner {name} {since}"),
            (true, 0) => format!(
                "coordinator {name} {since}: one more failure loses the quorum; if its data \
                 folder is lost, `reweave cluster member replace {name}`"
            ),
            (true, _) => format!("coordinator {name} {since}"),
        }
    };
    let absent = coordinators.iter().filter(|one| !is_there(one));
    absent.map(describe).collect()
}

/// What members ask is signed by whichever coordinator leads, or by whom that one asks.
fn unsigned(coordinators: &[CoordinatorStatus], signs: Signs) -> Option<String> {
    let leads = |one: &&CoordinatorStatus| one.state == CoordinatorState::Leads;
    let name = &coordinators.iter().find(leads)?.name;
    let remedy = format!(
        "create one with `reweave cluster issue --role coordinator --name {name}` on the machine \
         of the authority"
    );
    match signs {
        Signs::Itself => None,
        Signs::Another => Some(format!(
            "the leader {name} has no signer and uses the signer of another coordinator: {remedy}"
        )),
        Signs::NoCoordinator => Some(format!(
            "cannot renew certificates or admit members: neither the leader {name} nor a \
             reachable coordinator has a signer: {remedy}"
        )),
    }
}

fn certificates(coordinator: &CoordinatorStatus) -> Vec<String> {
    let name = &coordinator.name;
    let certificate = coordinator
        .certificate_left_s
        .filter(|left| *left <= MIN_VALIDITY_LEFT.as_secs())
        .map(|_| format!("the certificate of coordinator {name} is about to expire"));
    let signer = match coordinator.signer_left_s {
        Some(left) if left <= MIN_SIGNER_VALIDITY_LEFT.as_secs() => Some(format!(
            "the signer of coordinator {name} expires in {} days; make a new one with `reweave \
             cluster issue --role coordinator`",
            left / 86_400
        )),
        _ => None,
    };
    certificate.into_iter().chain(signer).collect()
}

fn skewed(coordinator: &CoordinatorStatus) -> Option<String> {
    let skew_ms = coordinator.clock_skew_ms?;
    let name = &coordinator.name;
    let direction = if skew_ms > 0 { "ahead of" } else { "behind" };
    (skew_ms.unsigned_abs() > MAX_SKEW_MS).then(|| {
        let seconds = skew_ms.unsigned_abs() / 1000;
        format!("the clock of coordinator {name} is {seconds} s {direction} the leader's")
    })
}

fn lagging(coordinator: &CoordinatorStatus) -> Option<String> {
    let behind = coordinator
        .behind
        .filter(|behind| *behind > MAX_LEARNER_LAG_ENTRIES)?;
    let name = &coordinator.name;
    Some(format!("coordinator {name} is {behind} entries behind"))
}

fn mixed(coordinators: &[CoordinatorStatus]) -> Option<String> {
    let builds = coordinators.iter().filter_map(|one| one.build.as_deref());
    let builds: BTreeSet<_> = builds.collect();
    (builds.len() > 1).then(|| {
        let each = coordinators.iter().filter_map(|one| {
            let build = one.build.as_deref()?;
            Some(format!("{} {build}", one.name))
        });
        let each: Vec<_> = each.collect();
        format!("coordinators run different builds: {}", each.join(", "))
    })
}

/// Coordinators of one build, and agents of another. Several builds of either have their own warning.
pub(crate) fn apart(coordinators: &[CoordinatorStatus], agents: &[AgentStatus]) -> Option<String> {
    let ours = only(coordinators.iter().map(|one| &one.build))?;
    let theirs = only(agents.iter().map(|one| &one.build))?;
    (ours != theirs).then(|| {
        format!(
            "coordinators and agents run different builds: coordinators {ours}, agents {theirs}"
        )
    })
}

fn only<'b>(builds: impl Iterator<Item = &'b Option<String>>) -> Option<&'b str> {
    let builds: BTreeSet<_> = builds.filter_map(Option::as_deref).collect();
    builds.first().copied().filter(|_| builds.len() == 1)
}

#[cfg(test)]
mod tests {
    use reweave_common::operator::AgentState;

    use super::*;

    fn texts(coordinators: &[CoordinatorStatus], revoked: &[Member]) -> Vec<String> {
        warnings(coordinators, revoked, Signs::Itself)
    }

    fn leader() -> CoordinatorStatus {
        CoordinatorStatus {
            number: 1,
            name: "c1".to_owned(),
            address: "10.0.0.1:7332".parse().unwrap(),
            state: CoordinatorState::Leads,
            votes: true,
            term: Some(3),
            heard_ms: None,
            behind: None,
            build: Some("1".to_owned()),
            protocol: None,
            certificate_left_s: Some(86_400),
            signer_left_s: Some(365 * 86_400),
            clock_skew_ms: None,
        }
    }

    fn follower(number: u64) -> CoordinatorStatus {
        CoordinatorStatus {
            number,
            name: format!("c{number}"),
            state: CoordinatorState::Follows,
            heard_ms: Some(20),
            signer_left_s: None,
            clock_skew_ms: Some(3),
            ..leader()
        }
    }

    #[test]
    fn healthy_members_give_no_warnings() {
        let none: Vec<String> = vec![];
        assert_eq!(texts(&[leader()], &[]), none);
        assert_eq!(texts(&[leader(), follower(2), follower(3)], &[]), none);
    }

    #[test]
    fn expiring_certificates_are_warned_about() {
        let (day, year) = (86_400, 365 * 86_400);
        let said = |certificate, signer_left_s| {
            let certificate_left_s = Some(certificate);
            let one = CoordinatorStatus {
                certificate_left_s,
                signer_left_s,
                ..leader()
            };
            texts(&[one], &[]).join("; ")
        };
        assert_eq!(said(day, Some(year)), "");
        assert!(said(3600, Some(year)).contains("certificate of coordinator c1 is about"));
        assert!(said(day, Some(5 * day)).contains("signer of coordinator c1 expires in 5 days"));
    }

    #[test]
    fn leader_without_signer_is_reported() {
        let said = |signs| warnings(&[leader(), follower(2)], &[], signs).join("; ");
        let remedy = "`reweave cluster issue --role coordinator --name c1`";
        for (signs, words) in [
            (
                Signs::Another,
                "has no signer and uses the signer of another",
            ),
            (Signs::NoCoordinator, "cannot renew certificates"),
        ] {
            let said = said(signs);
            assert!(said.contains(words) && said.contains(remedy), "{said}");
        }
        assert_eq!(said(Signs::Itself), "");
    }

    #[test]
    fn silent_member_warning_comes_first() {
        let silent = |number| CoordinatorStatus {
            state: CoordinatorState::Silent,
            heard_ms: Some(7_000),
            ..follower(number)
        };
        let said = texts(&[leader(), follower(2), silent(3)], &[]);
        assert!(said[0].starts_with(
            "coordinator c3 has been unreachable for 7 s: one more failure \
                                 loses the quorum"
        ));
        let of_five = [leader(), follower(2), follower(3), follower(4), silent(5)];
        assert_eq!(
            texts(&of_five, &[]),
            ["coordinator c5 has been unreachable for 7 s"]
        );
        let out = [Member::new(Role::Coordinator, "c5")];
        let said = texts(&of_five, &out);
        assert!(
            said[0].ends_with("`reweave cluster member remove c5`"),
            "{said:?}"
        );
    }

    fn agent(build: Option<&str>) -> AgentStatus {
        AgentStatus {
            node: "h0".to_owned(),
            addresses: vec![],
            state: AgentState::Up,
            age_ms: Some(100),
            generation: None,
            known_links: 1,
            links: 1,
            discarded_readings: 0,
            strays: None,
            build: build.map(str::to_owned),
            protocol: None,
            certificate_left_s: None,
            clock_skew_ms: None,
        }
    }

    #[test]
    fn agents_of_other_build_are_reported() {
        let said = |coordinators: &[CoordinatorStatus], builds: &[Option<&str>]| {
            let agents: Vec<_> = builds.iter().map(|build| agent(*build)).collect();
            apart(coordinators, &agents)
        };
        let both = [leader(), follower(2)];
        assert_eq!(
            said(&both, &[Some("0"), None, Some("0")]).unwrap(),
            "coordinators and agents run different builds: coordinators 1, agents 0"
        );
        for well in [&[Some("1"), None][..], &[None], &[]] {
            assert_eq!(said(&both, well), None);
        }
        // These are listed one by one.
        assert_eq!(said(&both, &[Some("0"), Some("1")]), None);
        let newer = CoordinatorStatus {
            build: Some("2".to_owned()),
            ..follower(2)
        };
        assert_eq!(said(&[leader(), newer], &[Some("0")]), None);
    }

    #[test]
    fn clocks_builds_and_learners_are_reported() {
        let clock = CoordinatorStatus {
            clock_skew_ms: Some(-3_600_000),
            ..follower(2)
        };
        let build = CoordinatorStatus {
            build: Some("2".to_owned()),
            behind: Some(20_000),
            ..follower(3)
        };
        assert_eq!(
            texts(&[leader(), clock, build], &[]),
            [
                "the clock of coordinator c2 is 3600 s behind the leader's",
                "coordinator c3 is 20000 entries behind",
                "coordinators run different builds: c1 1, c2 1, c3 2",
            ]
        );
    }
}
