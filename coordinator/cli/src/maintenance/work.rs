//! One maintenance, step by step. Every step leaves the switch either drained or in regular traffic.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fmt, io};

use reweave_common::cause::Cause;
use reweave_common::operator::{
    Approval, Finding, MaintenanceStage, MaintenanceStatus, Outcome, Record, Refused, Request,
    Response, Status,
};
use serde::Serialize;

use super::Maintenance;
use super::health::Patient;
use super::line::Line;
use crate::ask::Reach;
use crate::error::CliError;
use crate::parting;
use crate::voice::print_note;

/// Time limit for a drain: by then packets in flight have arrived, and counters were read twice.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Environment variable that gives the command the name of the switch.
const NODE_VARIABLE: &str = "REWEAVE_NODE";

/// Result of the maintenance.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) node: String,
    steps: Vec<Done>,
    pub(super) stopped_because: Option<String>,
    pub(super) what_to_do: Option<String>,
}

impl Report {
    pub(super) fn is_done(&self) -> bool {
        self.stopped_because.is_none()
    }
}

#[derive(Debug, Serialize)]
struct Done {
    step: &'static str,
    took_ms: u64,
}

/// Reason why the maintenance stops.
struct Stop {
    why: String,
    /// Nothing has started: the switch carries its regular traffic.
    is_untouched: bool,
}

impl Stop {
    fn drained(why: impl fmt::Display) -> Self {
        Self {
            why: why.to_string(),
            is_untouched: false,
        }
    }

    fn untouched(why: impl fmt::Display) -> Self {
        Self {
            is_untouched: true,
            ..Self::drained(why)
        }
    }
}

impl From<CliError> for Stop {
    fn from(error: CliError) -> Self {
        Self::drained(error.error_chain())
    }
}

type Step = Result<(), Stop>;

pub(super) struct Work<'w> {
    asked: &'w Maintenance,
    node: &'w str,
    line: Line<'w>,
    steps: Vec<Done>,
    links: Vec<String>,
    /// Reports from before this time are ignored.
    since: Instant,
}

impl<'w> Work<'w> {
    pub(super) fn new(asked: &'w Maintenance, node: &'w str, reach: &'w Reach) -> Self {
        Self {
            asked,
            node,
            line: Line::new(reach),
            steps: Vec::new(),
            links: Vec::new(),
            since: Instant::now(),
        }
    }

    /// Runs all steps. A refusal before the first step is returned as an error; later failures are part of the report.
    pub(super) fn run(mut self) -> Result<Report, CliError> {
        let found = self.mark()?;
        if let Some(version) = &self.asked.expect_version {
            self.expect_an_agent(version)?;
        }
        let stopped = self.all_steps(found).err();
        let what_to_do = stopped.as_ref().map(|stop| self.what_to_do(stop));
        Ok(Report {
            node: self.node.to_owned(),
            steps: self.steps,
            stopped_because: stopped.map(|stop| stop.why),
            what_to_do,
        })
    }

    fn expect_an_agent(&mut self, version: &str) -> Result<(), CliError> {
        let status = self.line.status()?;
        if status.opticals.iter().any(|it| it.optical == self.node) {
            Err(CliError::NoVersion {
                node: self.node.to_owned(),
                version: version.to_owned(),
            })
        } else {
            Ok(())
        }
    }

    fn all_steps(&mut self, found: Option<MaintenanceStatus>) -> Step {
        let is_open = found.is_some_and(|it| it.stage == MaintenanceStage::Working);
        if !self.asked.finish {
            if !is_open {
                self.step("drain", Self::drain)?;
            }
            self.step("prove that it is idle", Self::prove)?;
            self.step("run the command", Self::run_command)?;
        }
        self.step("check its health", Self::look)?;
        self.step("return it to traffic", Self::give_back)?;
        self.step("watch it", Self::watch)?;
        Ok(self.bring(None).map(|_| ())?)
    }

    /// Runs one step. The operator sees it, and on an interruption the command that continues.
    fn step(&mut self, name: &'static str, act: impl FnOnce(&mut Self) -> Step) -> Step {
        print_note(&format!("{}: {name}", self.node));
        let stop = Stop::drained("");
        parting::leave_word(format!("interrupted: {}", self.what_to_do(&stop)));
        let begun = Instant::now();
        act(self)?;
        let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.steps.push(Done {
            step: name,
            took_ms,
        });
        Ok(())
    }

    fn what_to_do(&self, stop: &Stop) -> String {
        let node = self.node;
        if stop.is_untouched {
            format!("{node} carries traffic as before; the command did not run")
        } else {
            format!(
                "{node} stays drained; fix the problem, then repeat this command to continue from \
                 there, or run `reweave maintenance {node} --finish` to return it to traffic \
                 without a command"
            )
        }
    }

    fn mark(&mut self) -> Result<Option<MaintenanceStatus>, CliError> {
        let all = self.line.status()?.maintenance;
        Ok(all.into_iter().find(|it| it.name == self.node))
    }

    /// Requests a stage of maintenance, and applies the plan that it needs, if any.
    fn bring(&mut self, stage: Option<MaintenanceStage>) -> Result<Response, CliError> {
        let name = self.node.to_owned();
        self.line.ask(&Request::Maintain { name, stage })
    }

    fn drain(&mut self) -> Step {
        let answer = self.bring(Some(MaintenanceStage::Draining));
        let answer = answer.map_err(|error| Stop::untouched(error.error_chain()))?;
        let Some(record) = self.drained_by(answer)? else {
            return Ok(());
        };
        if record.outcome == Outcome::Committed {
            return Ok(());
        }
        self.bring(None)?;
        let why = record_line(&record);
        Err(Stop::untouched(format!(
            "it was not drained: {why}; --force drains it even if flows become slower"
        )))
    }

    /// Applies the drain plan in the answer. A refusal changes nothing.
    fn drained_by(&mut self, answer: Response) -> Result<Option<Record>, Stop> {
        let approval = self.approval(self.asked.force);
        let record = self.carried_out(answer, approval);
        if let Err(CliError::Refused(refused)) = record {
            self.bring(None)?;
            return Err(Stop::untouched(refused));
        }
        Ok(record?)
    }

    fn approval(&self, force: bool) -> Approval {
        let now = self.asked.now;
        Approval { force, now }
    }

    fn carried_out(
        &mut self,
        answer: Response,
        approval: Approval,
    ) -> Result<Option<Record>, CliError> {
        match answer {
            Response::Plan {
                plan: Some(plan), ..
            } => self.line.carry_out(plan.generation, approval).map(Some),
            Response::Plan { plan: None, .. } => Ok(None),
            other => Err(CliError::unexpected(&other)),
        }
    }

    /// Requests the proof that the links are idle. The coordinator records that work may start.
    fn prove(&mut self) -> Step {
        let node = self.node;
        let is_empty = |status: &Status| {
            let mark = status.maintenance.iter().find(|it| it.name == node);
            match mark.map(|mark| &mark.not_empty[..]) {
                Some([]) => Ok(()),
                Some(why) => Err(why.join("; ")),
                None => Err("another operator has ended it".to_owned()),
            }
        };
        let seen = self.line.wait(DRAIN_TIMEOUT, is_empty)?;
        seen.map_err(|why| Stop::drained(format!("it may still carry traffic: {why}")))?;
        self.bring(Some(MaintenanceStage::Working))?;
        Ok(())
    }

    fn run_command(&mut self) -> Step {
        self.links = self.mark()?.map(|it| it.links).unwrap_or_default();
        self.line.hang_up();
        let [program, words @ ..] = &self.asked.command[..] else {
            return Ok(());
        };
        let mut command = Command::new(program);
        command.args(words).env(NODE_VARIABLE, self.node);
        command.stdout(Stdio::from(io::stderr()));
        let ended = parting::attend(&mut command);
        let ended =
            ended.map_err(|error| Stop::drained(format!("cannot run {program}: {error}")))?;
        self.since = Instant::now();
        if ended.success() {
            Ok(())
        } else {
            Err(Stop::drained(format!("{program} failed: {ended}")))
        }
    }

    fn look(&mut self) -> Step {
        let Some(mark) = self.mark()? else {
            let refused = Refused::NotUnderMaintenance {
                name: self.node.to_owned(),
            };
            return Err(Stop::untouched(refused));
        };
        self.links = mark.links;
        let since = self.since;
        let patient = patient(self.asked, self.node, &self.links);
        let is_well = |status: &Status| {
            let troubles = patient.troubles(status, since.elapsed());
            if troubles.is_empty() {
                Ok(())
            } else {
                Err(troubles.join("; "))
            }
        };
        let seen = self.line.wait(self.asked.within, is_well)?;
        seen.map_err(|why| Stop::drained(format!("it is not healthy: {why}")))
    }

    /// Returns the switch to traffic. The coordinator rolls this back if jobs become slower.
    fn give_back(&mut self) -> Step {
        let answer = self.bring(Some(MaintenanceStage::Returning))?;
        let record = self.carried_out(answer, self.approval(false))?;
        match record.filter(|record| record.outcome != Outcome::Committed) {
            None => Ok(()),
            Some(record) => {
                self.bring(Some(MaintenanceStage::Draining))?;
                let why = record_line(&record);
                Err(Stop::drained(format!("jobs are slower with it: {why}")))
            }
        }
    }

    /// Watches the switch with probes crossing it again. Earlier findings are ignored.
    fn watch(&mut self) -> Step {
        let before: Vec<_> = self.causes()?;
        let end = Instant::now() + self.asked.watch;
        while Instant::now() < end {
            let is_new = |cause: &Cause| !before.iter().any(|it| is_same(it, cause));
            if let Some(cause) = self.causes()?.into_iter().find(is_new) {
                return Err(self.drain_again(&cause)?);
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        Ok(())
    }

    fn drain_again(&mut self, cause: &Cause) -> Result<Stop, CliError> {
        let answer = self.bring(Some(MaintenanceStage::Draining))?;
        let at_once = Approval {
            force: true,
            now: true,
        };
        let record = self.carried_out(answer, at_once)?;
        let is_drained = record.is_none_or(|record| record.outcome == Outcome::Committed);
        let then = if is_drained {
            "it is drained again"
        } else {
            "and draining it again failed"
        };
        Ok(Stop::drained(format!("{cause}: {then}")))
    }

    fn causes(&mut self) -> Result<Vec<Cause>, CliError> {
        let findings = match self.line.ask(&Request::Diagnose)? {
            Response::Findings(findings) => findings.findings,
            other => return Err(CliError::unexpected(&other)),
        };
        let patient = patient(self.asked, self.node, &self.links);
        let causes = findings.into_iter().filter_map(|finding| match finding {
            Finding::Cause(cause) => Some(cause),
            _ => None,
        });
        Ok(causes.filter(|it| patient.is_concerned(it)).collect())
    }
}

fn patient<'p>(asked: &'p Maintenance, node: &'p str, links: &'p [String]) -> Patient<'p> {
    Patient {
        node,
        links,
        has_agent: !asked.no_agent,
        version: asked.expect_version.as_deref(),
    }
}

fn is_same(one: &Cause, other: &Cause) -> bool {
    (one.class, &one.subject) == (other.class, &other.subject)
}

fn record_line(record: &Record) -> String {
    match &record.outcome {
        Outcome::RolledBack { reasons, .. }
        | Outcome::Abandoned { reasons }
        | Outcome::Held { reasons } => reasons.join("; "),
        Outcome::Offered | Outcome::Running | Outcome::Committed => String::new(),
    }
}
