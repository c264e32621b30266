//! `reweave trace`: paths of flows and of their return traffic, node by node.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use reweave_common::flow::Protocol;
use reweave_common::operator::{Between, FlowEnd, Request, Response, TracedFlow, TracedWay};
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::names::Names;
use crate::page::{Ink, Page, age};
use crate::report::Report;
use crate::voice::print_note;
use crate::{Output, print_report, show};

const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time limit for a trace: a second if routers answer, and a few seconds if one is silent.
const TRACE_TIMEOUT: Duration = Duration::from_secs(6);

/// Trace the paths of flows in both directions
///
/// Paths of flows and of the traffic back from their receivers: the last trace, or a new one
///
/// Unknown nodes and links are shown as `?`. Large flows are traced all the time; other flows, and flows that do not
/// exist yet, only with --refresh.
#[derive(Debug, Args)]
pub(crate) struct Trace {
    /// Flow as other commands show it, such as 'h0:40000 > h4:5001', or the sending host, or its address
    #[arg(value_name = "FLOW|HOST")]
    from: String,
    /// Receiving host, or its address
    #[arg(value_name = "HOST")]
    to: Option<String>,
    /// Destination port; with --source-port, also traces a flow that does not exist yet
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Source port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    source_port: Option<u16>,
    /// Protocol
    #[arg(long, value_enum, value_name = "NAME")]
    protocol: Option<By>,
    /// Trace now, and wait for the results of the agents
    #[arg(long)]
    refresh: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum By {
    Tcp,
    Udp,
}

#[derive(Serialize)]
struct Answer {
    flows: Vec<TracedFlow>,
    #[serde(skip)]
    names: Names,
}

impl Trace {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let between = self.between()?;
        let mut coordinator = Coordinator::reach(reach)?;
        let names = Names::of(&coordinator.status()?);
        let flows = if self.refresh {
            fresh_traces(&mut coordinator, &between)?
        } else {
            traced(&mut coordinator, &between, false)?
        };
        if flows.is_empty() {
            return Err(CliError::NothingFlows {
                from: between.from.host,
                to: between.to.host,
            });
        }
        print_report(output, &Answer { flows, names })
    }

    fn between(&self) -> Result<Between, CliError> {
        let mut between = match (&self.to, self.from.split_once('>')) {
            (None, Some((from, to))) => flow(from, to).ok_or_else(|| self.no_flow())?,
            (Some(to), None) => Between {
                protocol: None,
                from: end(&self.from).ok_or_else(|| self.no_flow())?,
                to: end(to).ok_or_else(|| self.no_flow())?,
            },
            _ => return Err(self.no_flow()),
        };
        let by = self.protocol.map(|by| match by {
            By::Tcp => Protocol::Tcp,
            By::Udp => Protocol::Udp,
        });
        between.protocol = by.or(between.protocol);
        between.from.port = self.source_port.or(between.from.port);
        between.to.port = self.port.or(between.to.port);
        Ok(between)
    }

    fn no_flow(&self) -> CliError {
        let all = [Some(&self.from), self.to.as_ref()];
        let all: Vec<_> = all.into_iter().flatten().map(String::as_str).collect();
        CliError::NoFlow {
            text: all.join(" "),
        }
    }
}

/// Parses a flow as other commands print it: `h0 > h4`, `h0:40000 > h4:5001`, `tcp 10.0.0.1:40000 > 10.0.1.1:5001`.
fn flow(from: &str, to: &str) -> Option<Between> {
    let from = from.trim();
    let (protocol, from) = match from.split_once(' ') {
        Some(("tcp", from)) => (Some(Protocol::Tcp), from),
        Some(("udp", from)) => (Some(Protocol::Udp), from),
        _ => (None, from),
    };
    Some(Between {
        protocol,
        from: end(from)?,
        to: end(to)?,
    })
}

fn end(text: &str) -> Option<FlowEnd> {
    let (host, port) = match text.trim().rsplit_once(':') {
        Some((host, port)) => {
            let port = port.parse().ok().filter(|port: &u16| *port != 0);
            (host, Some(port?))
        }
        None => (text.trim(), None),
    };
    let is_name = !host.is_empty() && !host.contains(char::is_whitespace);
    is_name.then(|| FlowEnd {
        host: host.to_owned(),
        port,
    })
}

fn traced(
    coordinator: &mut Coordinator,
    between: &Between,
    refresh: bool,
) -> Result<Vec<TracedFlow>, CliError> {
    let between = between.clone();
    match coordinator.ask(&Request::Trace { between, refresh })? {
        Response::Traced(flows) => Ok(flows),
        Response::Refused(refused) => Err(CliError::Refused(refused)),
        other => Err(CliError::unexpected(&other)),
    }
}

/// Waits until all paths are traced after the request, or until the time limit.
fn fresh_traces(
    coordinator: &mut Coordinator,
    between: &Between,
) -> Result<Vec<TracedFlow>, CliError> {
    let asked = Instant::now();
    let mut flows = traced(coordinator, between, true)?;
    loop {
        let waited = asked.elapsed();
        let is_new = |way: &Option<TracedWay>| {
            let way = way.as_ref();
            way.is_some_and(|way| u128::from(way.age_ms) < waited.as_millis())
        };
        let is_done = |flow: &TracedFlow| is_new(&flow.there) && is_new(&flow.back);
        if flows.is_empty() || flows.iter().all(is_done) {
            return Ok(flows);
        }
        if waited > TRACE_TIMEOUT {
            print_note("some flows were not traced now: check the age of each path");
            return Ok(flows);
        }
        coordinator.wait(POLL_INTERVAL);
        flows = traced(coordinator, between, false)?;
    }
}

impl Report for Answer {
    fn lay_out(&self, page: &mut Page) {
        let known = self.names.flows(self.flows.iter().map(|flow| flow.flow));
        for flow in &self.flows {
            let protocol = flow.flow.protocol;
            page.heading(&format!("{} ({protocol})", known.name(&flow.flow)));
            page.line(&way("there", &flow.from, flow.there.as_ref()));
            page.line(&way("back", &flow.to, flow.back.as_ref()));
            match flow.is_symmetric {
                Some(true) => page.line("  the return path is the same"),
                Some(false) => {
                    let words = page.ink(Ink::Yellow, "  the return path differs");
                    page.line(&words);
                }
                None => page.line("  the return path is unknown"),
            }
        }
    }
}

fn way(which: &str, from: &str, way: Option<&TracedWay>) -> String {
    let Some(way) = way else {
        return format!("  {which:<5}  not traced lately; --refresh traces it");
    };
    let steps = show::trace::steps(from, &way.steps);
    let seen = if way.is_confirmed {
        ", seen at its end"
    } else {
        ""
    };
    format!("  {which:<5}  {steps}  ({} ago{seen})", age(way.age_ms))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        trace: Trace,
    }

    fn between(words: &[&str]) -> Result<Between, String> {
        let words = ["trace"].iter().chain(words);
        let line = Line::try_parse_from(words).unwrap();
        line.trace.between().map_err(|error| {
            assert_eq!(error.exit_code(), 2);
            error.error_chain()
        })
    }

    fn at(host: &str, port: Option<u16>) -> FlowEnd {
        let host = host.to_owned();
        FlowEnd { host, port }
    }

    #[test]
    fn flow_argument_parses_as_displayed() {
        let named = Between {
            protocol: None,
            from: at("h0", Some(40_000)),
            to: at("h4", Some(5001)),
        };
        let ports = ["h0", "h4", "--source-port", "40000", "--port", "5001"];
        for words in [
            &["h0:40000 > h4:5001"][..],
            &["h0:40000", "h4:5001"],
            &ports,
        ] {
            assert_eq!(between(words).unwrap(), named, "{words:?}");
        }
        let full = between(&["tcp 10.0.0.1:40000 > 10.0.1.1:5001"]).unwrap();
        assert_eq!(full.protocol, Some(Protocol::Tcp));
        assert_eq!(full.to, at("10.0.1.1", Some(5001)));
        assert_eq!(between(&["h0>h4"]).unwrap().from, at("h0", None));
    }

    #[test]
    fn invalid_flow_is_refused() {
        for words in [
            &["h0"][..],
            &["h0 > "],
            &["h0:x", "h4"],
            &["h0:70000", "h4"],
            &["h0:40000 > h4:0"],
            &["h0 > h4", "h5"],
            &["sctp h0 > h4"],
            &["", ""],
        ] {
            let said = between(words).unwrap_err();
            assert!(said.contains("not a flow"), "{words:?}: {said}");
        }
    }
}
