//! Events derived from two consecutive states of the cluster.

use std::collections::BTreeMap;

use reweave_common::operator::{AgentState, Phase, RunningChange, Status};
use serde::Serialize;

use crate::page::Ink;
use crate::show;

pub(crate) struct Seen {
    pub(crate) status: Status,
    /// One sentence per finding.
    pub(crate) findings: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct News {
    pub(crate) kind: Kind,
    /// Subject of the event: a node, a link, a generation, or the sentence itself.
    pub(crate) subject: String,
    pub(crate) words: String,
    #[serde(skip)]
    pub(crate) ink: Option<Ink>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Coordinator,
    Agent,
    Link,
    Generation,
    Change,
    Alarm,
    Warning,
    Finding,
}

impl News {
    fn new(kind: Kind, ink: Option<Ink>, subject: &str, words: String) -> Self {
        let subject = subject.to_owned();
        Self {
            kind,
            subject,
            words,
            ink,
        }
    }

    pub(crate) fn away(why: &str) -> Self {
        let words = format!("connection to the coordinator lost: {why}");
        Self::new(Kind::Coordinator, Some(Ink::Red), "coordinator", words)
    }
}

/// Returns the events between two states. The first state reports only problems and changes in progress.
pub(crate) fn news(before: Option<&Seen>, after: &Seen) -> Vec<News> {
    let was = before.map(|seen| &seen.status);
    let mut news = generation(was, &after.status);
    news.extend(agents(was, &after.status));
    news.extend(links(was, &after.status));
    news.extend(changes(was, &after.status));
    let none: &[String] = &[];
    let [alarms, warnings] = [
        was.map_or(none, |it| &it.alarms),
        was.map_or(none, |it| &it.warnings),
    ];
    let findings = before.map_or(none, |seen| &seen.findings);
    news.extend(sentences(
        Kind::Alarm,
        Ink::Red,
        alarms,
        &after.status.alarms,
    ));
    news.extend(sentences(
        Kind::Warning,
        Ink::Yellow,
        warnings,
        &after.status.warnings,
    ));
    news.extend(sentences(
        Kind::Finding,
        Ink::Yellow,
        findings,
        &after.findings,
    ));
    news
}

fn generation(before: Option<&Status>, after: &Status) -> Vec<News> {
    let now = after.generation;
    let changed = before.is_none_or(|it| it.generation != now);
    let words = format!("routes: generation {now} is in force");
    let news = News::new(Kind::Generation, Some(Ink::Bold), &now.to_string(), words);
    changed.then_some(news).into_iter().collect()
}

fn agents(before: Option<&Status>, after: &Status) -> Vec<News> {
    let was: BTreeMap<_, _> = before
        .iter()
        .flat_map(|it| &it.agents)
        .map(|agent| (&agent.node, agent.state))
        .collect();
    let changed = after.agents.iter().filter(|agent| {
        let usual = AgentState::Up;
        *was.get(&agent.node).unwrap_or(&usual) != agent.state
    });
    changed
        .map(|agent| {
            let (words, ink) = match agent.state {
                AgentState::Up => ("reports", Ink::Green),
                AgentState::Silent => ("is silent", Ink::Yellow),
                AgentState::Down => ("is gone", Ink::Red),
                AgentState::Unseen => ("has not been seen", Ink::Grey),
            };
            let words = format!("{} {words}", agent.node);
            News::new(Kind::Agent, Some(ink), &agent.node, words)
        })
        .collect()
}

fn links(before: Option<&Status>, after: &Status) -> Vec<News> {
    let was: BTreeMap<_, _> = before
        .iter()
        .flat_map(|it| &it.links)
        .map(|link| (&link.hop, link.up))
        .collect();
    let changed = after.links.iter();
    let changed = changed.filter(|link| *was.get(&link.hop).unwrap_or(&true) != link.up);
    changed
        .map(|link| {
            let (words, ink) = if link.up {
                ("is up", Ink::Green)
            } else {
                ("is down", Ink::Red)
            };
            let subject = show::hop(&link.hop);
            let words = format!("{subject} {words}");
            News::new(Kind::Link, Some(ink), &subject, words)
        })
        .collect()
}

fn changes(before: Option<&Status>, after: &Status) -> Vec<News> {
    let was = before.map(|it| it.changes.as_slice()).unwrap_or_default();
    let find = |all: &[RunningChange], one: &RunningChange| {
        let found = all.iter().find(|it| it.generation == one.generation);
        found.cloned()
    };
    let without_age = |change: &RunningChange| RunningChange {
        age_ms: 0,
        ..change.clone()
    };
    let is_news =
        |now: &&RunningChange| find(was, now).as_ref().map(without_age) != Some(without_age(now));
    let now = after.changes.iter().filter(is_news);
    let now = now.map(|now| (now, Some(Ink::Yellow), show::phase(now)));
    let over = was.iter().filter(|was| find(&after.changes, was).is_none());
    let over = over.map(|was| {
        let is_kept = was.phase != Phase::Proposed || after.generation == was.generation;
        let what = if is_kept {
            "has ended"
        } else {
            "was withdrawn"
        };
        let generation = was.generation;
        let words = format!("plan {generation} {what}; see `reweave history`");
        (was, None, words)
    });
    let news = now.chain(over).map(|(change, ink, words)| {
        let subject = change.generation.to_string();
        News::new(Kind::Change, ink, &subject, words)
    });
    news.collect()
}

/// Returns the sentences that are new or gone. Sentences that differ only in figures count as the same.
fn sentences(kind: Kind, ink: Ink, before: &[String], after: &[String]) -> Vec<News> {
    let is_in = |all: &[String], one: &str| all.iter().any(|it| gist(it) == gist(one));
    let begun = after.iter().filter(|it| !is_in(before, it));
    let over = before.iter().filter(|it| !is_in(after, it));
    let begun = begun.map(|it| News::new(kind, Some(ink), it, it.clone()));
    let over = over.map(|it| News::new(kind, Some(Ink::Green), it, format!("over: {it}")));
    begun.chain(over).collect()
}

fn gist(sentence: &str) -> Vec<&str> {
    let words = sentence.split_whitespace();
    words
        .filter(|word| !word.starts_with(|c: char| c.is_ascii_digit()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::tests::status;

    fn seen(bend: impl FnOnce(&mut Seen)) -> Seen {
        let mut seen = Seen {
            status: status(),
            findings: vec!["leaf0 > spine0 is 99 % full".to_owned()],
        };
        bend(&mut seen);
        seen
    }

    fn sentences_of(before: &Seen, after: &Seen) -> Vec<String> {
        let news = news(Some(before), after);
        news.into_iter().map(|it| it.words).collect()
    }

    #[test]
    fn unchanged_status_has_no_news() {
        let other_figures = seen(|it| it.findings[0] = "leaf0 > spine0 is 97 % full".to_owned());
        assert_eq!(sentences_of(&seen(|_| {}), &other_figures), [""; 0]);
    }

    #[test]
    fn each_kind_of_news_is_reported() {
        let after = seen(|it| {
            it.status.agents[0].state = AgentState::Silent;
            it.status.links[0].up = !it.status.links[0].up;
            it.status.alarms = vec!["all is lost".to_owned()];
            it.status.generation = it.status.generation.next();
            it.findings.clear();
        });
        let report = news(Some(&seen(|it| it.status.alarms.clear())), &after);
        let kinds: Vec<_> = report.iter().map(|news| news.kind).collect();
        assert_eq!(
            kinds,
            [
                Kind::Generation,
                Kind::Agent,
                Kind::Link,
                Kind::Alarm,
                Kind::Finding
            ]
        );
        assert_eq!(report[4].words, "over: leaf0 > spine0 is 99 % full");
    }

    #[test]
    fn first_look_reports_only_problems() {
        let all = news(None, &seen(|_| {}));
        let is_wrong =
            |news: &News| !news.words.ends_with("reports") && !news.words.ends_with("is up");
        assert!(all.iter().all(is_wrong), "{all:?}");
        assert!(all.iter().any(|news| news.kind == Kind::Finding));
    }

    #[test]
    fn change_reported_at_start_and_end() {
        let running = seen(|it| assert!(!it.status.changes.is_empty(), "the sample has one"));
        let over = seen(|it| it.status.changes.clear());
        assert_eq!(sentences_of(&running, &over).len(), 1);
        assert_eq!(sentences_of(&over, &running).len(), 1);
    }
}
