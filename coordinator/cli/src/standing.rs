//! `reweave status` without a leader: each reachable coordinator reports its own state, and unreachable ones are named.

use std::net::SocketAddr;
use std::time::Duration;

use reweave_common::error::error_chain;
use reweave_common::operator::{
    CoordinatorStanding, CoordinatorState, CoordinatorStatus, Request, Response,
};
use reweave_link::{DenyListFile, Identity, LinkError};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::ask::{exchange, open_session};
use crate::error::CliError;

/// Time limit for a coordinator to report its own state, for which it asks no other.
pub(crate) const STATUS_TIMEOUT: Duration = Duration::from_millis(900);

/// Result of asking an address: the coordinator's own state, or the reason why it is missing.
pub(crate) type Answer = (SocketAddr, Result<CoordinatorStanding, String>);

/// State of the coordinators, as far as the reachable ones know it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Leaderless {
    /// Problems, the worst first.
    pub(crate) alarms: Vec<String>,
    pub(crate) coordinators: Vec<Stands>,
}

/// State of one coordinator, from its own report or from another's.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Stands {
    /// Whether it answered this command.
    pub(crate) answers: bool,
    /// Reason why it did not answer, if known.
    pub(crate) why: Option<String>,
    /// Index of its last log entry; absent if it did not answer.
    pub(crate) last: Option<u64>,
    pub(crate) committed: Option<u64>,
    #[serde(flatten)]
    pub(crate) status: CoordinatorStatus,
}

/// Asks all coordinators at the same time, including those that only other coordinators know. Some may not answer in
/// time.
pub(crate) async fn asked(
    mut addresses: Vec<SocketAddr>,
    identity: Identity,
    deny_lists: DenyListFile,
) -> Vec<Answer> {
    let deadline = Instant::now() + STATUS_TIMEOUT;
    let (mut asking, mut answers) = (JoinSet::new(), Vec::new());
    for &address in &addresses {
        asking.spawn(ask_one(address, identity.clone(), deny_lists.clone()));
    }
    while let Ok(Some(asked)) = timeout_at(deadline, asking.join_next()).await {
        let Ok((address, answer)) = asked else {
            continue;
        };
        for member in answer.iter().flat_map(|it| &it.coordinators) {
            if !addresses.contains(&member.address) {
                addresses.push(member.address);
                let (identity, deny_lists) = (identity.clone(), deny_lists.clone());
                asking.spawn(ask_one(member.address, identity, deny_lists));
            }
        }
        answers.push((address, answer));
    }
    answers
}

async fn ask_one(address: SocketAddr, identity: Identity, deny_lists: DenyListFile) -> Answer {
    let answer = async {
        let session = open_session(&[address], &identity).await?;
        let answer = exchange(&session, &Request::Standing, &deny_lists).await;
        session.close("that is all").await;
        answer
    };
    let answer: Result<Response, LinkError> = answer.await;
    let standing = match answer {
        Ok(Response::Standing(standing)) => Ok(*standing),
        Ok(Response::Refused(refused)) => Err(refused.to_string()),
        Ok(other) => Err(CliError::unexpected(&other).error_chain()),
        Err(error) => Err(error_chain(&error)),
    };
    (address, standing)
}

impl Leaderless {
    /// Returns nothing if no coordinator has answered.
    pub(crate) fn of(answers: &[Answer]) -> Option<Self> {
        let standings = answers
            .iter()
            .filter_map(|(_, answer)| answer.as_ref().ok());
        // The coordinator with the longest log knows the current members best.
        let latest = standings.max_by_key(|it| (it.committed, it.last))?;
        let members = latest.coordinators.iter();
        let coordinators: Vec<_> = members.map(|it| stands(it, answers)).collect();
        let alarms = alarms(&coordinators);
        Some(Self {
            alarms,
            coordinators,
        })
    }
}

fn stands(member: &CoordinatorStatus, answers: &[Answer]) -> Stands {
    let mut standings = answers
        .iter()
        .filter_map(|(_, answer)| answer.as_ref().ok());
    let own = standings.find(|it| it.number == member.number);
    let itself = own.and_then(|it| it.coordinators.iter().find(|one| one.number == it.number));
    let mut failures = answers.iter().filter(|(at, _)| *at == member.address);
    Stands {
        answers: own.is_some(),
        why: match own {
            Some(_) => None,
            None => failures.find_map(|(_, answer)| answer.as_ref().err().cloned()),
        },
        last: own.map(|it| it.last),
        committed: own.map(|it| it.committed),
        status: itself.unwrap_or(member).clone(),
    }
}

fn alarms(coordinators: &[Stands]) -> Vec<String> {
    let missing: Vec<_> = coordinators.iter().filter(|it| !it.answers).collect();
    let leads = |it: &&Stands| it.status.state == CoordinatorState::Leads;
    let mut alarms = vec![match coordinators.iter().find(leads) {
        Some(leader) => format!("{} is the leader and does not answer", leader.status.name),
        None => leaderless(coordinators),
    }];
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|it| it.status.name.as_str()).collect();
        alarms.push(format!(
            "{} of {} do not answer: {}; check that they run and are reachable from here",
            missing.len(),
            coordinators.len(),
            names.join(", ")
        ));
    }
    alarms
}

fn leaderless(coordinators: &[Stands]) -> String {
    let voters = coordinators.iter().filter(|it| it.status.votes);
    let (all, there) = (
        voters.clone().count(),
        voters.filter(|it| it.answers).count(),
    );
    match (all / 2 + 1).saturating_sub(there) {
        0 => {
            "no leader: enough coordinators run, but they do not reach each other, or an election \
             is in progress"
                .to_owned()
        }
        lacking => {
            format!("no leader and no quorum: {lacking} more of {all} coordinators needed")
        }
    }
}

#[cfg(test)]
mod tests {
    use CoordinatorState::{Follows, Leads, Silent, Unseen};

    use super::*;

    fn one(number: u64, state: CoordinatorState) -> CoordinatorStatus {
        CoordinatorStatus {
            number,
            name: format!("c{number}"),
            address: SocketAddr::from(([10, 0, 0, number as u8], 7332)),
            state,
            votes: true,
            term: Some(7),
            heard_ms: None,
            behind: None,
            build: None,
            protocol: None,
            certificate_left_s: None,
            signer_left_s: None,
            clock_skew_ms: None,
        }
    }

    /// Returns the report of coordinator `number` about all three.
    fn standing(number: u64, states: [CoordinatorState; 3], last: u64) -> CoordinatorStanding {
        CoordinatorStanding {
            number,
            last,
            committed: last,
            coordinators: (1..)
                .zip(states)
                .map(|(nth, state)| one(nth, state))
                .collect(),
        }
    }

    fn seen(standings: &[CoordinatorStanding]) -> Leaderless {
        let answers = standings.iter().cloned();
        let mut answers: Vec<Answer> = answers
            .map(|it| (it.coordinators[it.coordinators.len() - 1].address, Ok(it)))
            .collect();
        answers.push((one(1, Silent).address, Err("it is away".to_owned())));
        Leaderless::of(&answers).unwrap()
    }

    #[test]
    fn silent_coordinators_are_named() {
        let alone = seen(&[standing(2, [Silent, Follows, Silent], 9)]);
        assert_eq!(
            alone.alarms,
            [
                "no leader and no quorum: 1 more of 3 coordinators needed",
                "2 of 3 do not answer: c1, c3; check that they run and are reachable from here",
            ]
        );
        let states = alone
            .coordinators
            .iter()
            .map(|it| (it.answers, it.status.state, it.last));
        let states: Vec<_> = states.collect();
        let silent = (false, Silent, None);
        assert_eq!(states, [silent, (true, Follows, Some(9)), silent]);
        let why: Vec<_> = alone
            .coordinators
            .iter()
            .map(|it| it.why.as_deref())
            .collect();
        assert_eq!(why, [Some("it is away"), None, None]);
    }

    #[test]
    fn leaderless_status_prefers_own_answers() {
        let mut old = standing(1, [Follows, Silent, Silent], 3);
        old.coordinators.truncate(1);
        let two = seen(&[old, standing(2, [Unseen, Follows, Unseen], 9)]);
        assert_eq!(two.coordinators.len(), 3);
        assert_eq!(
            two.coordinators[0].status.state, Follows,
            "it said so itself"
        );
        assert!(
            two.alarms[0].starts_with("no leader: enough coordinators run"),
            "{:?}",
            two.alarms
        );
        let led = seen(&[standing(2, [Leads, Follows, Follows], 9)]);
        assert_eq!(led.alarms[0], "c1 is the leader and does not answer");
        assert_eq!(Leaderless::of(&[]), None);
    }
}
