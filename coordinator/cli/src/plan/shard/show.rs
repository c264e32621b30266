//! Allocations as JSON and as text.

use std::collections::BTreeSet;

use reweave_design::cluster::phases::Together;
use reweave_design::cluster::{Circuit, Fleet, Running, Server, Step, Unfit, Waiting};
use reweave_design::crew::NO_DEADLINE;
use reweave_design::topology::counted;
use reweave_design::topology::prices::PUBLISHED_PRICES;
use serde::Serialize;

use super::besides::{Beside, Experts, Sharing};
use crate::error::CliError;
use crate::page::Page;
use crate::plan::explained::{Explained, Market, Subject};
use crate::plan::summary::Summary;
use crate::plan::topology::others_as_given;
use crate::report::Report;

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    shards: Vec<Shard>,
    waiting: Vec<Queued>,
    /// Jobs that ran before and are no longer wanted.
    ended: Vec<String>,
    free: Vec<String>,
    /// Actions in order, with reasons.
    steps: Vec<Step>,
    /// Jobs whose traffic changes in every iteration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) experts: Vec<Experts>,
    /// Comparison with fat trees of the same cost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) degrees: Vec<Beside>,
    /// Jobs that share links of a packet fabric.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) together: Vec<Sharing>,
    #[serde(skip)]
    explain: bool,
}

#[derive(Debug, Serialize)]
struct Shard {
    job: String,
    /// Blocks of the job's servers: one, unless no block had room.
    blocks: Vec<String>,
    servers: Vec<String>,
    /// Minimum and maximum number of servers that the job requested.
    asked: [usize; 2],
    /// Number of parallel circuits per link.
    parallel: usize,
    circuits: Vec<Circuit>,
    samples_left: f64,
    ends_s: f64,
    /// Summary with the host names of the cluster.
    #[serde(flatten)]
    summary: Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<Explained>,
}

#[derive(Debug, Serialize)]
struct Queued {
    job: String,
    why: String,
    /// Expected start, with time and place.
    #[serde(skip)]
    words: String,
    servers: Vec<String>,
    /// Jobs that must end first.
    after: Vec<String>,
    in_s: Option<f64>,
    /// Circuits that are already set on the second plane.
    prepared: Vec<Circuit>,
}

impl Answer {
    pub(super) fn new(
        fleet: &Fleet,
        ended: Vec<String>,
        steps: Vec<Step>,
        explain: bool,
    ) -> Result<Self, CliError> {
        let ground = &fleet.forming.ground;
        let free = fleet.free();
        let running = fleet.running.iter();
        let shards = running.map(|it| shard(fleet, it, explain));
        Ok(Self {
            shards: shards.collect::<Result<_, _>>()?,
            waiting: fleet.waiting.iter().map(|it| queued(fleet, it)).collect(),
            ended,
            free: free.into_iter().map(|it| ground.name(it)).collect(),
            steps,
            experts: Vec::new(),
            degrees: Vec::new(),
            together: Vec::new(),
            explain,
        })
    }
}

fn shard(fleet: &Fleet, running: &Running, explain: bool) -> Result<Shard, CliError> {
    let (ground, shard) = (&fleet.forming.ground, &running.shard);
    let estimate = &shard.estimate;
    let blocks = ground.blocks_of(&shard.servers);
    let hosts = shard.hosts();
    let numbers: Vec<_> = (0..hosts.len() as u32).collect();
    let mut summary = Summary::of(&shard.proposal, &hosts, &numbers);
    summary.interval_ms = Some([estimate.low_ms, estimate.high_ms]);
    summary.ideal_switch_ms = shard.ideal_ms;
    // A job on one host has no links, so nothing between hosts can fail.
    let explain = explain && !shard.circuits.is_empty();
    Ok(Shard {
        job: running.job.name.clone(),
        blocks: blocks
            .into_iter()
            .map(|it| ground.blocks[it].name.clone())
            .collect(),
        servers: shard.servers.iter().map(|&it| ground.name(it)).collect(),
        asked: running.job.servers,
        parallel: shard.parallel,
        circuits: shard.circuits.clone(),
        samples_left: running.left_at(fleet.now_ms),
        ends_s: (running.ends_ms() - fleet.now_ms).max(0.0) / 1e3,
        summary,
        explained: explain.then(|| explained(fleet, running)).transpose()?,
    })
}

fn explained(fleet: &Fleet, running: &Running) -> Result<Explained, CliError> {
    let (shard, training) = (&running.shard, &*running.job.training);
    let report = fleet.forming.with_job(training, shard, |job, request| {
        let market = Market {
            others: others_as_given(job, request, &PUBLISHED_PRICES, NO_DEADLINE)?,
            priced: false,
            bill: PUBLISHED_PRICES,
        };
        let losses = |dead: &BTreeSet<u32>| {
            let on_dead = |it: &&Server| dead.contains(&(shard.number(it)));
            let servers = shard.servers.iter().enumerate();
            let gone = servers.filter(|(_, it)| on_dead(it));
            let gone = gone.map(|(server, _)| server as u32).collect();
            training.losses(shard.servers.len(), &gone)
        };
        let subject = Subject {
            proposal: &shard.proposal,
            job,
            request,
            names: &shard.hosts(),
            losses: &losses,
            in_time: &|| true,
        };
        Ok(Explained::of(&subject, market))
    });
    report.map_err(|Unfit(problem)| CliError::Unfit {
        job: running.job.name.clone(),
        problem,
    })?
}

fn queued(fleet: &Fleet, waiting: &Waiting) -> Queued {
    let next = waiting.next.as_ref();
    let ground = &fleet.forming.ground;
    let prepared = next.and_then(|next| next.prepared.as_ref());
    Queued {
        job: waiting.job.name.clone(),
        why: waiting.why.clone(),
        words: fleet.why_it_waits(waiting),
        servers: next.map_or(Vec::new(), |next| {
            next.servers.iter().map(|&it| ground.name(it)).collect()
        }),
        after: next.map_or(Vec::new(), |next| next.after.clone()),
        in_s: next.map(|next| (next.at_ms - fleet.now_ms) / 1e3),
        prepared: prepared.map_or(Vec::new(), |shard| shard.circuits.clone()),
    }
}

impl Report for Answer {
    fn lay_out(&self, page: &mut Page) {
        shards(page, self);
        done(page, self);
        for it in &self.experts {
            page.line(&format!("  {}: {}", it.job, it.why));
        }
        if !self.together.is_empty() {
            shifts(page, &self.together);
        }
        if !self.degrees.is_empty() {
            page.heading("Next to packet switches");
            for it in &self.degrees {
                page.line(&format!("  {}: {}", it.job, it.degree.words()));
            }
        }
        if self.explain {
            self.shards.iter().for_each(|shard| explain(page, shard));
        }
    }
}

const SHARD_COLUMNS: [&str; 8] = [
    "job",
    "block",
    "servers",
    "circuits",
    "iteration ms",
    "between ms",
    "ideal switch ms",
    "ends in s",
];

fn shards(page: &mut Page, answer: &Answer) {
    page.heading("Shards");
    let rows = answer.shards.iter().map(|shard| {
        [
            shard.job.clone(),
            shard.blocks.join(" and "),
            shard.servers.len().to_string(),
            shard.circuits.len().to_string(),
            format!("{:.2}", shard.summary.iteration_ms),
            shard.summary.between(),
            format!("{:.2}", shard.summary.ideal_switch_ms),
            format!("{:.0}", shard.ends_s),
        ]
    });
    page.table(SHARD_COLUMNS, rows);
    let free = answer.free.len();
    let are = if free == 1 { "is" } else { "are" };
    page.line(&format!("  {} {are} free", counted(free, "server")));
}

/// Shows the actions, and the waiting jobs that no action concerns.
fn done(page: &mut Page, answer: &Answer) {
    page.heading("Changes");
    for job in &answer.ended {
        page.line(&format!("  {job} has ended"));
    }
    for step in &answer.steps {
        page.line(&format!("  {step}"));
    }
    let is_listed = |it: &&Queued| answer.steps.iter().any(|step| step.job == it.job);
    for it in answer.waiting.iter().filter(|it| !is_listed(it)) {
        page.line(&format!("  {} still waits: {}", it.job, it.words));
    }
    if answer.ended.is_empty() && answer.steps.is_empty() && answer.waiting.is_empty() {
        page.line("  none");
    }
}

fn shifts(page: &mut Page, groups: &[Sharing]) {
    page.heading("Jobs that share links");
    let rows = groups.iter().flat_map(|sharing| {
        let Together {
            alone_ms,
            at_once_ms,
            shifted_ms,
            phases,
            ..
        } = &sharing.together;
        let row = move |(nth, job): (usize, &String)| {
            let phases = phases.as_ref().filter(|_| sharing.is_worth_it());
            let shift = phases.map_or("-".to_owned(), |phases| {
                format!("{:.2}", phases.shifts_us[nth] as f64 / 1e3)
            });
            let [alone, at_once, shifted] =
                [alone_ms, at_once_ms, shifted_ms].map(|all| format!("{:.2}", all[nth]));
            [job.clone(), shift, alone, at_once, shifted]
        };
        sharing.jobs.iter().enumerate().map(row)
    });
    page.table(
        [
            "job",
            "begins ms later",
            "alone ms",
            "all at once ms",
            "shifted ms",
        ],
        rows,
    );
    for sharing in groups {
        page.line(&format!(
            "  {}: {}",
            sharing.jobs.join(" and "),
            sharing.why()
        ));
    }
}

fn explain(page: &mut Page, shard: &Shard) {
    page.heading(&format!("{}: {}", shard.job, shard.servers.join(" ")));
    let circuits = shard.circuits.chunks(CIRCUITS_PER_LINE);
    for line in circuits {
        let line: Vec<_> = line.iter().map(circuit).collect();
        page.line(&format!("  {}", line.join("  ")));
    }
    shard.summary.show(page);
    shard.summary.show_tables(page);
    if let Some(explained) = &shard.explained {
        shard.summary.show_lengths(page);
        explained.show(page);
    }
}

const CIRCUITS_PER_LINE: usize = 4;

/// Formats a circuit: `s0: h0.p1 - h3.p2`, or `s0: h0.p1 - fibre 5 - h9.p2` between blocks.
fn circuit(circuit: &Circuit) -> String {
    let [a, b] = circuit
        .ends
        .map(|end| format!("h{}.p{}", end.host, end.number));
    let fibre = circuit.fibre.map(|it| format!("fibre {it} - "));
    let fibre = fibre.unwrap_or_default();
    format!("s{}: {a} - {fibre}{b}", circuit.switch)
}
