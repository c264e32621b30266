//! `reweave sim history`: the traffic of a stretch of time that was, as it would have been elsewhere.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::units::Bytes;
use reweave_history::{Burst, Kind, Window, written};
use reweave_planner::workload::history::{Replayed, Routing, Seen, replay};
use serde::Serialize;

use super::costs::Costs;
use super::effort::Effort;
use super::measured::{self, Lossy};
use super::variant::Variant;
use super::{past, progress, show};
use crate::error::CliError;
use crate::page::Page;
use crate::{Output, print};

/// Traffic of the past, on another fabric, with other ways or between other hosts
#[derive(Debug, Args)]
pub(crate) struct History {
    /// From when, and for how long: 2026-11-20T14:00:00Z/10m, or 1h/10m for an hour ago
    #[arg(value_name = "FROM/SPAN")]
    span: String,
    /// What is to be otherwise
    #[arg(long = "with", value_name = "VARIANT.toml")]
    variant: PathBuf,
    /// Where the history is kept: a folder or s3://bucket/prefix
    #[arg(long, env = "REWEAVE_HISTORY", value_name = "URL")]
    history: String,
    #[command(flatten)]
    costs: Costs,
    #[command(flatten)]
    effort: Effort,
}

#[derive(Debug, Serialize)]
struct Answer {
    from: String,
    to: String,
    resolution: String,
    /// How the same fabric does it, with the ways that were seen: what the model gets wrong.
    as_it_was: Outcome,
    /// How far the rates of that are from those that were measured, as parts of these.
    mean_error: f64,
    worst_error: f64,
    variant: Outcome,
    bursts: Vec<Fared>,
    /// Bursts whose receiver is not known, or no host of the fabric.
    left_out: usize,
    /// Bursts whose way is not known from end to end; as it was, they go all shortest ways evenly.
    ways_unknown: usize,
    /// Links of the recorded fabric that lost something, by probes and ports.
    lossy: Vec<Lossy>,
    events: u64,
    wall_ms: f64,
}

#[derive(Debug, Serialize)]
struct Outcome {
    /// When the last burst ended.
    end_ms: f64,
    /// All bursts together, how long they took.
    busy_ms: f64,
    slowest_mbps: f64,
}

#[derive(Debug, Serialize)]
struct Fared {
    from: String,
    to: String,
    flow: String,
    at_ms: f64,
    bytes: u64,
    measured_mbps: f64,
    as_it_was_mbps: f64,
    variant_mbps: f64,
}

impl History {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let variant = Variant::read(&self.variant)?;
        let span = past::span(&self.span)?;
        let [from, to] = span;
        let kinds = [&[Kind::Flows][..], &measured::KINDS].concat();
        let window = past::window(&self.history, span, &kinds)?;
        let lossy = measured::lossy(&window, &variant.recorded);
        let bursts = window.bursts();
        let known = Known::of(&bursts, &variant.recorded, from);
        if known.0.is_empty() {
            return Err(CliError::NothingSent {
                from: written(from),
                to: written(to),
            });
        }
        let began = Instant::now();
        let as_it_was = self.as_it_was(&known, &variant);
        let as_it_was = as_it_was.map_err(|error| error.on(&variant.files[0]))?;
        let otherwise = self.otherwise(&known, &variant);
        let otherwise = otherwise.map_err(|error| error.on(&variant.files[1]))?;
        let answer = Answer::new(span, &window, &known, [&as_it_was, &otherwise]);
        let answer = Answer {
            left_out: bursts.len() - known.0.len(),
            ways_unknown: known.ways_unknown(&variant),
            lossy: measured::listed(&lossy, &variant.recorded),
            wall_ms: progress::millis(began),
            ..answer
        };
        print(output, &answer, |page| lay_out(page, &answer))
    }

    fn as_it_was(&self, known: &Known<'_>, variant: &Variant) -> Result<Replayed, CliError> {
        self.replay(&known.as_it_was(variant), &variant.recorded, Routing::Even)
    }

    fn otherwise(&self, known: &Known<'_>, variant: &Variant) -> Result<Replayed, CliError> {
        let routing = variant.routing.unwrap_or(Routing::Even);
        self.replay(&known.otherwise(variant)?, &variant.fabric, routing)
    }

    fn replay(
        &self,
        seen: &[Seen],
        fabric: &Fabric,
        routing: Routing,
    ) -> Result<Replayed, CliError> {
        let costs = self.costs.known().ok_or(CliError::NoPayload)?;
        replay(seen, fabric, routing, costs, self.effort.limit()).map_err(CliError::Replay)
    }
}

/// A burst between hosts of the recorded fabric.
struct Played<'k> {
    burst: &'k Burst,
    ends: [&'k str; 2],
    at: Duration,
}

struct Known<'k>(Vec<Played<'k>>);

impl<'k> Known<'k> {
    fn of(bursts: &'k [Burst], recorded: &Fabric, from: Moment) -> Self {
        let is_host = |name: &str| {
            let node = recorded.find(name);
            node.is_some_and(|node| recorded.node(node).role.is_endpoint())
        };
        let played = bursts.iter().filter_map(|burst| {
            let ends = [&*burst.node, burst.to_node.as_deref()?];
            ends.into_iter().all(is_host).then(|| Played {
                burst,
                ends,
                at: burst.at.since(from),
            })
        });
        Self(played.collect())
    }

    fn as_it_was(&self, variant: &Variant) -> Vec<Seen> {
        let seen = |it: &Played<'_>| {
            let ends = it.ends.map(|name| variant.recorded.find(name));
            let [from, to] = [ends[0]?, ends[1]?];
            let along = it.way(&variant.recorded, to);
            Some(it.seen([from, to], along))
        };
        self.0.iter().filter_map(seen).collect()
    }

    fn ways_unknown(&self, variant: &Variant) -> usize {
        let seen = self.as_it_was(variant);
        seen.iter().filter(|it| it.along.is_none()).count()
    }

    /// With the hosts, and over the ways, of the variant.
    fn otherwise(&self, variant: &Variant) -> Result<Vec<Seen>, CliError> {
        let fabric = &variant.fabric;
        let host = |name: &str| {
            let name = variant.hosts.get(name).map_or(name, String::as_str);
            let node = fabric.find(name);
            let node = node.filter(|&node| fabric.node(node).role.is_endpoint());
            node.ok_or_else(|| CliError::NotInFabric {
                name: name.to_owned(),
            })
        };
        let seen = |it: &Played<'_>| {
            let [from, to] = [host(it.ends[0])?, host(it.ends[1])?];
            let given = variant.ways.get(&(from, to)).cloned();
            let seen = || it.way(fabric, to).filter(|_| variant.routing.is_none());
            Ok(it.seen([from, to], given.or_else(seen)))
        };
        self.0.iter().map(seen).collect()
    }
}

impl Played<'_> {
    fn seen(&self, [from, to]: [NodeId; 2], along: Option<Vec<NodeId>>) -> Seen {
        Seen {
            at: self.at,
            from,
            to,
            flow: self.burst.flow,
            bytes: Bytes::new(self.burst.bytes),
            along,
        }
    }

    /// The nodes on its way as it was seen, where that is known from end to end.
    fn way(&self, fabric: &Fabric, to: NodeId) -> Option<Vec<NodeId>> {
        let hops = self.burst.hops.as_ref()?.iter();
        let mut nodes: Vec<_> = hops.map(|name| fabric.find(name)).collect::<Option<_>>()?;
        nodes.push(to);
        let linked = |pair: &[NodeId]| fabric.links_between(pair[0], pair[1]).next().is_some();
        (nodes.len() > 1 && nodes.windows(2).all(linked)).then_some(nodes)
    }
}

impl Answer {
    fn new(
        [from, to]: [Moment; 2],
        window: &Window,
        known: &Known<'_>,
        [as_it_was, variant]: [&Replayed; 2],
    ) -> Self {
        let times = as_it_was.times.iter().zip(&variant.times);
        let bursts = known.0.iter().zip(times);
        let bursts: Vec<_> = bursts
            .map(|(it, (same, other))| {
                let mbps = |seconds: f64| it.burst.bytes as f64 * 8.0 / seconds.max(1e-9) / 1e6;
                Fared {
                    from: it.ends[0].to_owned(),
                    to: it.ends[1].to_owned(),
                    flow: it.burst.flow.to_string(),
                    at_ms: it.at.as_secs_f64() * 1e3,
                    bytes: it.burst.bytes,
                    measured_mbps: mbps(it.burst.sending.as_secs_f64()),
                    as_it_was_mbps: mbps(same.seconds()),
                    variant_mbps: mbps(other.seconds()),
                }
            })
            .collect();
        let error = |it: &Fared| (it.as_it_was_mbps / it.measured_mbps - 1.0).abs();
        let bytes: u64 = bursts.iter().map(|it| it.bytes).sum();
        let weighed = bursts.iter().map(|it| error(it) * it.bytes as f64);
        Self {
            from: written(from),
            to: written(to),
            resolution: window.resolution.name().to_owned(),
            as_it_was: Outcome::of(as_it_was, &bursts, |it| it.as_it_was_mbps),
            mean_error: weighed.sum::<f64>() / bytes as f64,
            worst_error: bursts.iter().map(error).fold(0.0, f64::max),
            variant: Outcome::of(variant, &bursts, |it| it.variant_mbps),
            bursts,
            left_out: 0,
            ways_unknown: 0,
            lossy: Vec::new(),
            events: as_it_was.events + variant.events,
            wall_ms: 0.0,
        }
    }
}

impl Outcome {
    fn of(replayed: &Replayed, bursts: &[Fared], mbps: impl Fn(&Fared) -> f64) -> Self {
        Self {
            end_ms: replayed.end.millis(),
            busy_ms: replayed.times.iter().map(|time| time.millis()).sum(),
            slowest_mbps: bursts.iter().map(mbps).fold(f64::INFINITY, f64::min),
        }
    }
}

/// People look at so many rows.
const ROWS: usize = 12;

fn lay_out(page: &mut Page, answer: &Answer) {
    let Answer {
        as_it_was, variant, ..
    } = answer;
    page.line(&format!(
        "From {} to {}: {} bursts, {} of them over unknown ways, and {} that are left out.",
        answer.from,
        answer.to,
        answer.bursts.len(),
        answer.ways_unknown,
        answer.left_out
    ));
    page.line(&format!(
        "As it was, the model is off by {:.1} % on average, {:.1} % at most.",
        answer.mean_error * 100.0,
        answer.worst_error * 100.0
    ));
    let row = |name: &str, it: &Outcome| {
        let figures = [it.end_ms, it.busy_ms, it.slowest_mbps].map(|it| format!("{it:.1}"));
        let [end, busy, slowest] = figures;
        [name.to_owned(), end, busy, slowest]
    };
    page.table(
        ["", "ends after ms", "bursts in all ms", "slowest Mb/s"],
        [row("as it was", as_it_was), row("variant", variant)],
    );
    show::lossy(page, &answer.lossy);
    page.heading("Bursts, the largest first");
    let mut bursts: Vec<_> = answer.bursts.iter().collect();
    bursts.sort_by_key(|it| std::cmp::Reverse(it.bytes));
    page.table(
        ["from", "to", "MB", "measured Mb/s", "as it was", "variant"],
        bursts.iter().take(ROWS).map(|it| {
            let figures = [it.measured_mbps, it.as_it_was_mbps, it.variant_mbps];
            let [measured, same, other] = figures.map(|it| format!("{it:.1}"));
            let megabytes = format!("{:.1}", it.bytes as f64 / 1e6);
            [
                it.from.clone(),
                it.to.clone(),
                megabytes,
                measured,
                same,
                other,
            ]
        }),
    );
}
