//! `make demo`: a collision of two flows, seen, mended and judged on a live job.

mod screen;
mod uplinks;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{Duration, Instant};

use reweave_common::ids::Rank;
use reweave_common::units::Rate;

use self::screen::Screen;
use self::uplinks::{Loads, Uplink, Uplinks};
use crate::error::LabError;
use crate::job::{self, PlannedFlow, RunningJob, Tally, walk};
use crate::launch::{Inside, Launch};
use crate::report::JobReport;
use crate::tools::Tool;

const SCENARIO: &str = include_str!("../../scenarios/demo.toml");
/// Long enough for a dozen iterations on either side of the change.
const LOOK: Duration = Duration::from_secs(5);
/// Queues that are left from the time before are gone by then.
const SETTLE: Duration = Duration::from_secs(1);
const A_GLANCE: Duration = Duration::from_millis(250);
/// A demo that shows less has failed. Perfect would be a little under 2.
const LEAST_GAIN: f64 = 1.5;

/// Brings up the demo's lab and tells the story: 0 when the change helped and broke nothing.
pub(crate) fn run() -> Result<u8, LabError> {
    let launch = Launch::prepare_text(Path::new("demo.toml"), SCENARIO.to_owned(), None)?;
    let started = Instant::now();
    launch.run(
        || {},
        |inside| Demo::new(inside, &launch)?.tell(started.elapsed()),
    )
}

struct Demo<'d> {
    inside: &'d Inside<'d>,
    job: RunningJob<'d>,
    uplinks: Uplinks<'d>,
    screen: Screen,
    lab: &'d str,
}

/// What was seen over one look.
struct Seen {
    loads: Loads,
    flows: Vec<SeenFlow>,
    iteration: Duration,
}

struct SeenFlow {
    name: String,
    rate: Rate,
    uplink: Option<usize>,
}

impl<'d> Demo<'d> {
    fn new(inside: &'d Inside<'d>, launch: &'d Launch) -> Result<Self, LabError> {
        let (cluster, jobs) = (inside.cluster, &launch.scenario().jobs);
        let plan = job::plan_all(cluster, jobs)?.into_iter().zip(jobs).next();
        let (plan, job) = plan.expect("the demo's scenario has a job");
        let job = RunningJob::launch(cluster, job, plan)?;
        let uplinks = Uplinks::of(cluster, "leaf0");
        Ok(Self {
            inside,
            job,
            uplinks,
            screen: Screen::on_terminal(),
            lab: launch.name(),
        })
    }

    fn tell(mut self, bring_up: Duration) -> Result<u8, LabError> {
        self.screen.opening(self.inside.cluster.fabric(), bring_up);
        self.job.start();
        let before = self.look()?;
        self.show("Before", &before);

        let commands = self.rescue(&before);
        let began = Instant::now();
        self.inside
            .cluster
            .batch(self.uplinks.leaf, Tool::Ip, &commands.join("\n"))?;
        self.screen.change(&commands, began.elapsed());

        let after = self.look()?;
        self.show("After", &after);
        let gain = before.iteration.as_secs_f64() / after.iteration.as_secs_f64();
        self.screen.result(gain);
        self.stay_for_a_person()?;
        self.job.stop();
        let report = self.job.report();
        self.screen.sessions(&report);
        Ok(u8::from(gain < LEAST_GAIN || !sessions_kept(&report)))
    }

    fn look(&mut self) -> Result<Seen, LabError> {
        self.listen(SETTLE);
        let (done, loads) = (self.job.tally().iterations().len(), self.uplinks.read()?);
        self.listen(LOOK);
        let loads = self.uplinks.read()?.since(&loads);
        let new = self.job.tally().iterations().split_off(done);
        let iteration = new.iter().sum::<Duration>() / new.len().max(1) as u32;
        Ok(Seen {
            loads,
            flows: self.flows()?,
            iteration,
        })
    }

    fn flows(&self) -> Result<Vec<SeenFlow>, LabError> {
        let tally = self.job.tally();
        let routed: Vec<_> = tally.flows().iter().map(|flow| flow.routed).collect();
        let paths = walk::paths(self.inside.cluster, &routed)?;
        let flows = tally
            .flows()
            .iter()
            .zip(paths)
            .enumerate()
            .map(|(index, (flow, path))| {
                let passes = |uplink: &Uplink| path.contains(&(self.uplinks.leaf, uplink.link));
                SeenFlow {
                    name: self.name(flow),
                    rate: tally.rate(index, LOOK),
                    uplink: self.uplinks.links.iter().position(passes),
                }
            });
        Ok(flows.collect())
    }

    fn name(&self, flow: &PlannedFlow) -> String {
        let fabric = self.inside.cluster.fabric();
        let host = |rank: Rank| fabric.name(self.job.job.hosts[rank.index()]);
        format!("{} > {}", host(flow.spec.from), host(flow.spec.to))
    }

    /// What a person would type on leaf0 to send the second flow over the idle uplink.
    fn rescue(&self, seen: &Seen) -> [String; 2] {
        let flow = &self.job.tally().flows()[1];
        let idle = seen.loads.least().map(|index| &self.uplinks.links[index]);
        let idle = idle.expect("leaf0 has uplinks");
        let source = flow.spec.source;
        let to = flow.spec.destination.ip();
        let (gateway, interface) = (idle.gateway, &idle.interface);
        [
            format!("route add {to} via {gateway} dev {interface} table 100"),
            format!(
                "rule add from {} to {to} ipproto tcp sport {} lookup 100",
                source.ip(),
                source.port()
            ),
        ]
    }

    fn listen(&mut self, duration: Duration) {
        let end = Instant::now() + duration;
        while Instant::now() < end && !self.inside.interrupt.is_raised() {
            let left = end.saturating_duration_since(Instant::now());
            self.screen.wait(left);
            self.job.hear_until(
                Instant::now() + left.min(A_GLANCE),
                Tally::has_come_to_an_end,
            );
        }
        self.screen.end_wait();
    }

    fn show(&self, when: &str, seen: &Seen) {
        self.screen.heading(when, seen.iteration);
        for (index, uplink) in self.uplinks.links.iter().enumerate() {
            let here = seen.flows.iter().filter(|flow| flow.uplink == Some(index));
            let flows = here.map(|flow| format!("{} {:.0}", flow.name, flow.rate.mbps()));
            let flows = flows.collect::<Vec<_>>().join(", ");
            self.screen.bar(
                &uplink.name,
                seen.loads.rates[index],
                uplink.capacity,
                &flows,
            );
        }
    }

    /// At a terminal the job goes on until the person has seen enough.
    fn stay_for_a_person(&mut self) -> Result<(), LabError> {
        let nobody = std::env::var_os("CI").is_some_and(|ci| ci == "true")
            || !(io::stdin().is_terminal() && io::stdout().is_terminal());
        if nobody {
            return Ok(());
        }
        self.screen.invitation(self.lab);
        while !self.inside.interrupt.is_raised() && !self.job.tally().has_come_to_an_end() {
            let before = self.uplinks.read()?;
            self.job.hear_until(
                Instant::now() + Duration::from_secs(1),
                Tally::has_come_to_an_end,
            );
            let loads = self.uplinks.read()?.since(&before);
            self.screen.live(
                &self.uplinks.links,
                &loads,
                self.job.tally().iterations().last(),
            );
        }
        self.screen.end_wait();
        Ok(())
    }
}

fn sessions_kept(report: &JobReport) -> bool {
    let sound = report
        .flows
        .iter()
        .all(|flow| flow.resets == 0 && flow.connections == 1);
    sound && report.broken.is_empty()
}
