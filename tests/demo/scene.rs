//! What all stories play on: the cluster with Reweave on it, its jobs, and looks at how they do.

use std::time::{Duration, Instant};

use reweave_common::flow::FlowKey;
use reweave_common::operator::{AgentState, Collision, Finding, Plan, Record};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Rate;
use reweave_tests::{
    FlowProgress, Job, JobReport, Labs, Progress, STAGE_TIMEOUT, Setting, Stage, StageError,
    wait_for,
};

use crate::bridge::Bridge;
use crate::interrupt::Interrupt;
use crate::screen::Screen;
use crate::uplinks::{self, LeafUplink, Loads};

/// Long enough for several iterations on either side of a change.
const WATCH_TIME: Duration = Duration::from_secs(4);
/// Of two flows that share an uplink in the first cluster.
pub(crate) const SHARED_PACE: Pace = Pace {
    mbps: 100.0,
    after: 2,
};
/// Who has far less than its share of a link has only begun.
const MIN_RATE_SHARE: f64 = 0.6;
const POLL_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct Scene<'s> {
    pub(crate) stage: Stage,
    pub(crate) screen: &'s Screen,
    pub(crate) jobs: Vec<Job>,
    pub(crate) uplinks: Vec<LeafUplink>,
    /// From the first agent's start until all were known.
    pub(crate) gathering: Duration,
}

/// What flows have when they have found it out, which takes this many iterations.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) mbps: f64,
    pub(crate) after: usize,
}

/// What was seen over one look.
pub(crate) struct Seen {
    pub(crate) loads: Loads,
    pub(crate) flows: Vec<SeenFlow>,
    /// Of the first job.
    pub(crate) iteration: Duration,
}

impl Seen {
    /// How many times as fast iterations are at a later look.
    pub(crate) fn gain(&self, later: &Self) -> f64 {
        self.iteration.as_secs_f64() / later.iteration.as_secs_f64()
    }
}

pub(crate) struct SeenFlow {
    pub(crate) name: String,
    pub(crate) rate: Rate,
    pub(crate) uplink: Option<usize>,
}

impl<'s> Scene<'s> {
    /// A cluster on which one of three coordinators leads and all agents are known.
    pub(crate) fn set(screen: &'s Screen, setting: Setting<'_>) -> Result<Self, StageError> {
        screen.say("a cluster comes up ...");
        let mut stage = Stage::up(setting, Labs::Users)?;
        let began = Instant::now();
        screen.say("three coordinators agree on a leader ...");
        stage.lead_by_three()?;
        screen.say("agents start on all nodes, and measure all links ...");
        stage.start_agents()?;
        stage.wait_until_known()?;
        let gathering = began.elapsed();
        screen.clear();
        Ok(Self {
            uplinks: uplinks::uplinks(stage.fabric(), "leaf0"),
            stage,
            screen,
            jobs: Vec::new(),
            gathering,
        })
    }

    pub(crate) fn agents_up(&self) -> Result<usize, StageError> {
        let agents = self.stage.operator().status()?.agents;
        let up = agents.iter().filter(|agent| agent.state == AgentState::Up);
        Ok(up.count())
    }

    /// Starts a job, and waits until its flows have about the rate that links leave them.
    pub(crate) fn begin(&mut self, job: &str, pace: Pace) -> Result<(), StageError> {
        self.screen.say("a job begins ...");
        let job = self.stage.job(job)?;
        job.wait_until("it sends", |progress| {
            progress.iterations >= pace.after
                && progress.slowest_mbps() > MIN_RATE_SHARE * pace.mbps
        })?;
        self.screen.clear();
        self.jobs.push(job);
        Ok(())
    }

    pub(crate) fn look(&mut self) -> Result<Seen, StageError> {
        self.screen
            .say(&format!("watching for {} s ...", WATCH_TIME.as_secs()));
        let before = uplinks::read(&self.stage, &self.uplinks)?;
        let mut jobs = self.jobs.iter_mut();
        let first = jobs.next().map(|job| job.watch(WATCH_TIME)).transpose()?;
        let first = first.unwrap_or_default();
        let loads = uplinks::read(&self.stage, &self.uplinks)?.since(&before);
        let mut flows: Vec<_> = (0..first.last().map_or(0, |last| last.flows.len()))
            .map(|flow| self.seen(first.iter().map(|progress| &progress.flows[flow])))
            .collect();
        for job in self.jobs.iter().skip(1) {
            let latest = job.latest().map(|latest| latest.flows).unwrap_or_default();
            flows.extend(latest.iter().map(|flow| self.seen([flow])));
        }
        self.screen.clear();
        Ok(Seen {
            loads,
            flows,
            iteration: mean_iteration(&first),
        })
    }

    /// One flow, over several moments.
    fn seen<'f>(&self, moments: impl IntoIterator<Item = &'f FlowProgress>) -> SeenFlow {
        let moments: Vec<_> = moments.into_iter().collect();
        let sum: f64 = moments.iter().map(|flow| flow.rate_mbps).sum();
        let bits_per_s = sum / moments.len().max(1) as f64 * 1e6;
        let last = moments.last();
        let passes = |uplink: &LeafUplink| {
            last.is_some_and(|flow| {
                flow.path
                    .windows(2)
                    .any(|hop| *hop == [uplink.leaf.as_str(), &uplink.spine])
            })
        };
        SeenFlow {
            name: last.map_or_else(String::new, |flow| name(flow)),
            rate: Rate::from_bits_per_s(bits_per_s as u64),
            uplink: self.uplinks.iter().position(passes),
        }
    }

    pub(crate) fn show(&self, when: &str, seen: &Seen) {
        self.screen.heading(when, seen.iteration);
        for (index, uplink) in self.uplinks.iter().enumerate() {
            let here = seen.flows.iter().filter(|flow| flow.uplink == Some(index));
            let flows: Vec<_> = here
                .map(|flow| format!("{} {:.0}", flow.name, flow.rate.mbps()))
                .collect();
            self.screen.bar(
                &uplink.name(),
                seen.loads.rates[index],
                uplink.capacity,
                &flows,
            );
        }
    }

    /// Ends the jobs; whether every session was kept.
    pub(crate) fn end(&mut self) -> Result<bool, StageError> {
        let reports: Vec<_> = self.jobs.drain(..).map(Job::stop).collect();
        let reports = reports.into_iter().collect::<Result<Vec<_>, _>>()?;
        self.screen.sessions(&reports);
        Ok(reports.iter().all(JobReport::kept_all_sessions))
    }

    /// Asks until the agents have seen enough of the job to find what slows it.
    pub(crate) fn collisions(&self) -> Result<Vec<Collision>, StageError> {
        let operator = self.stage.operator();
        wait_for("the collision is found", STAGE_TIMEOUT, || {
            let found = operator.diagnose()?.findings.into_iter();
            let collisions = found.filter_map(|finding| match finding {
                Finding::EcmpCollision(collision) => Some(collision),
                _ => None,
            });
            let collisions: Vec<_> = collisions.collect();
            Ok((!collisions.is_empty()).then_some(collisions))
        })
    }

    /// The same for a plan.
    pub(crate) fn plan(&self) -> Result<Plan, StageError> {
        let operator = self.stage.operator();
        wait_for("there is a plan", STAGE_TIMEOUT, || operator.plan())
    }

    /// Carries it out, and returns what came of it and how long that took.
    pub(crate) fn apply(&self, plan: &Plan) -> Result<(Record, Duration), StageError> {
        self.screen.say("carrying it out, and measuring ...");
        let began = Instant::now();
        let applied = self.stage.operator().apply(plan)?;
        self.screen.clear();
        let refused = || StageError::Failed {
            command: format!("reweave apply {}", plan.generation),
            code: applied.code,
            said: applied.words.trim().to_owned(),
        };
        Ok((applied.record.ok_or_else(refused)?, began.elapsed()))
    }

    /// `h0 > h4`
    pub(crate) fn name(&self, flow: &FlowKey) -> String {
        let latest = self.jobs.iter().filter_map(Job::latest);
        let mut flows = latest.flat_map(|progress| progress.flows);
        let known = flows
            .find(|known| (known.source, known.destination) == (flow.source, flow.destination));
        known.map_or_else(|| flow.to_string(), |known| name(&known))
    }

    /// At a terminal the jobs go on until the person has seen enough.
    pub(crate) fn stay(&mut self, interrupt: &Interrupt) -> Result<(), StageError> {
        let bridge = Bridge::open(&self.stage)?;
        let dashboard = self.stage.operator().dashboard(bridge.at)?;
        self.screen.invitation(&self.stage, &dashboard)?;
        while !interrupt.is_raised() {
            let before = uplinks::read(&self.stage, &self.uplinks)?;
            if interrupt.wait_for(POLL_INTERVAL) {
                break;
            }
            let loads = uplinks::read(&self.stage, &self.uplinks)?.since(&before);
            let latest = self.jobs.first().and_then(Job::latest);
            let iteration = latest.and_then(|latest| latest.iteration_ms);
            self.screen
                .live(&self.uplinks, &loads, iteration.unwrap_or(0.0));
        }
        self.screen.clear();
        Ok(())
    }
}

/// Of those that ended meanwhile; where none did, it takes at least as long as was looked.
fn mean_iteration(seen: &[Progress]) -> Duration {
    let ended = seen
        .windows(2)
        .filter(|pair| pair[0].iterations < pair[1].iterations);
    let took: Vec<_> = ended.filter_map(|pair| pair[1].iteration_ms).collect();
    if took.is_empty() {
        return WATCH_TIME;
    }
    let mean_ms = took.iter().sum::<f64>() / took.len() as f64;
    TimeSpan::from_secs_f64(mean_ms / 1e3).get()
}

fn name(flow: &FlowProgress) -> String {
    format!("{} > {}", flow.from, flow.to)
}
