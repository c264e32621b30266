//! `reweave watch`: events of the cluster, line by line, until it is interrupted.

mod news;

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, SystemTime};

use clap::Args;
use humantime::format_rfc3339_seconds;
use reweave_common::operator::{Request, Response};
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::duration::{self, MILLISECOND, MINUTE};
use crate::error::CliError;
use crate::names::Names;
use crate::page::Page;
use crate::report::Report;
use crate::voice::is_read;
use crate::{Output, document, show};
use news::{News, Seen, news};

/// Print events, one per line, until Ctrl-C
///
/// Events of the cluster, one per line, until Ctrl-C: agents, links, findings, changes, alarms
///
/// JSON is one object per line; YAML is one document per event.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Poll interval; a bare number is in milliseconds
    #[arg(long = "every-ms", value_name = "TIME", default_value = "1s", value_parser = interval)]
    every: Duration,
}

fn interval(text: &str) -> Result<Duration, String> {
    let range = [Duration::from_millis(100), MINUTE];
    duration::parse(text, Some(MILLISECOND), range)
}

#[derive(Serialize)]
struct Event<'n> {
    time: &'n str,
    #[serde(flatten)]
    news: &'n News,
}

impl Watch {
    /// Runs until a signal. Waits for a coordinator that is away.
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let mut coordinator = Some(Coordinator::reach(reach)?);
        let mut before = None;
        loop {
            let seen = match &mut coordinator {
                Some(coordinator) => look(coordinator),
                None => Coordinator::reach(reach).and_then(|it| look(coordinator.insert(it))),
            };
            match seen {
                Ok(seen) => {
                    if !reads(output, &news(before.as_ref(), &seen))? {
                        return Ok(ExitCode::SUCCESS);
                    }
                    before = Some(seen);
                }
                Err(error) if error.is_of_the_session() || coordinator.is_none() => {
                    let away = [News::away(&error.error_chain())];
                    if coordinator.take().is_some() && !reads(output, &away)? {
                        return Ok(ExitCode::SUCCESS);
                    }
                }
                Err(error) => return Err(error),
            }
            thread::sleep(self.every);
        }
    }
}

fn look(coordinator: &mut Coordinator) -> Result<Seen, CliError> {
    let status = coordinator.status()?;
    let names = Names::of(&status);
    match coordinator.ask(&Request::Diagnose)? {
        Response::Findings(found) => {
            let findings = found.findings.iter();
            let findings = findings.map(|it| show::in_a_sentence(it, &names)).collect();
            Ok(Seen { status, findings })
        }
        Response::Refused(refused) => Err(CliError::Refused(refused)),
        other => Err(CliError::unexpected(&other)),
    }
}

/// Prints events. Returns whether the output still has a reader.
fn reads(output: Output, news: &[News]) -> Result<bool, CliError> {
    let time = format_rfc3339_seconds(SystemTime::now()).to_string();
    for news in news {
        let event = Event { time: &time, news };
        if !is_read(&document(output, &event)?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Report for Event<'_> {
    fn lay_out(&self, page: &mut Page) {
        let Self { time, news } = self;
        let words = news.ink.map(|ink| page.ink(ink, &news.words));
        let words = words.as_ref().unwrap_or(&news.words);
        page.line(&format!("{time}  {words}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_separate_documents() {
        let news = News::away("it stopped");
        let event = Event {
            time: "2026-11-20T14:00:00Z",
            news: &news,
        };
        let printed = |output| document(output, &event).unwrap();
        let yaml = printed(Output::Yaml);
        let begins = yaml.starts_with("---\napiVersion: reweave/v1\n");
        assert!(begins && yaml.ends_with('\n'), "{yaml}");
        assert!(yaml.contains("\nkind: coordinator\n"), "{yaml}");
        let json = printed(Output::Json);
        assert_eq!(json.matches('\n').count(), 1, "{json}");
        let begins = json.starts_with("{\"apiVersion\":\"reweave/v1\",");
        assert!(begins, "{json}");
        assert!(json.contains("\"kind\":\"coordinator\""), "{json}");
    }
}
