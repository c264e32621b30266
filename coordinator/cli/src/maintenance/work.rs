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
    aftermath: Aftermath,
}

/// The state in which a stop leaves the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aftermath {
    /// Nothing has started: the switch carries its regular traffic.
    Untouched,
    /// It is under the maintenance of this operator.
    Drained,
    /// It is under the maintenance of another operator, or of another shell.
    Held,
    /// It is under no maintenance.
    Ended,
}

impl Stop {
    fn drained(why: impl fmt::Display) -> Self {
        Self {
            why: why.to_string(),
            aftermath: Aftermath::Drained,
        }
    }

    fn untouched(why: impl fmt::Display) -> Self {
        Self {
            aftermath: Aftermath::Untouched,
            ..Self::drained(why)
        }
    }

    fn ended(node: &str) -> Self {
        let name = node.to_owned();
        CliError::Refused(Refused::NotUnderMaintenance { name }).into()
    }

    /// A failure before anything was drained.
    fn before_drain(error: CliError) -> Self {
        match Self::from(error) {
            Self {
                why,
                aftermath: Aftermath::Drained,
            } => Self::untouched(why),
            other => other,
        }
    }
}

impl From<CliError> for Stop {
    fn from(error: CliError) -> Self {
        let aftermath = match error {
            CliError::Refused(Refused::UnderMaintenance { .. }) => Aftermath::Held,
            CliError::Refused(Refused::NotUnderMaintenance { .. }) => Aftermath::Ended,
            _ => Aftermath::Drained,
        };
        Self {
            aftermath,
            ..Self::drained(error.error_chain())
        }
    }
}

type Step = Result<(), Stop>;

pub(super) struct Work<'w> {
    asked: &'w Maintenance,
    node: &'w str,
    line: Line<'w>,
    steps: Vec<Done>,
    links: Vec<String>,
    /// The log has it that the command of this call may run.
    is_working: bool,
    has_run: bool,
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
            is_working: false,
            has_run: false,
            since: Instant::now(),
        }
    }

    /// Runs all steps. A refusal before the first step is returned as an error; later failures are part of the report.
    pub(super) fn run(mut self) -> Result<Report, CliError> {
        let found = self.mark()?;
        if let Some(version) = &self.asked.expect_version {
            self.expect_an_agent(version)?;
        }
        if let Some(found) = found.as_ref().filter(|_| !self.asked.take_over) {
            self.expect_own(found)?;
            if found.stage == MaintenanceStage::Working && !self.asked.finish {
                self.begin()?;
            }
        }
        let stopped = self.all_steps(found.is_some()).err();
        if let Some(Aftermath::Drained) = stopped.as_ref().map(|stop| stop.aftermath) {
            self.let_go();
        }
        let what_to_do = stopped.as_ref().map(|stop| self.what_to_do(stop.aftermath));
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

    /// Refuses maintenance of another operator. The coordinator would refuse its next stage, after a wait.
    fn expect_own(&mut self, found: &MaintenanceStatus) -> Result<(), CliError> {
        if found.by == self.line.operator()? {
            return Ok(());
        }
        Err(CliError::Refused(Refused::UnderMaintenance {
            name: found.name.clone(),
            by: found.by.clone(),
            stage: found.stage,
            age_s: found.age_ms / 1000,
        }))
    }

    fn all_steps(&mut self, is_under_maintenance: bool) -> Step {
        if is_under_maintenance && self.asked.take_over {
            self.step("take it over", Self::take_over)?;
        }
        if !self.asked.finish {
            if !self.is_working {
                self.step("drain", Self::drain)?;
            }
            self.step("prove that it is idle", Self::prove)?;
            self.step("run the command", Self::run_command)?;
        }
        self.step("check its health", Self::look)?;
        self.step("return it to traffic", Self::give_back)?;
        self.step("watch it", Self::watch)?;
        self.end()
    }

    fn take_over(&mut self) -> Step {
        let name = self.node.to_owned();
        self.line.ask(&Request::TakeOver { name })?;
        Ok(())
    }

    fn end(&mut self) -> Step {
        match self.bring(None) {
            // The first of the requests has ended it.
            Err(CliError::Refused(Refused::NotUnderMaintenance { .. }))
                if self.line.is_repeated() =>
            {
                Ok(())
            }
            ended => Ok(ended.map(|_| ())?),
        }
    }

    /// Notes in the log that the command runs no more, so that a repeated call may run one.
    fn let_go(&mut self) {
        if self.is_working && self.bring(Some(MaintenanceStage::Draining)).is_ok() {
            self.is_working = false;
        }
    }

    /// Runs one step. The operator sees it, and on an interruption the command that continues.
    fn step(&mut self, name: &'static str, act: impl FnOnce(&mut Self) -> Step) -> Step {
        print_note(&format!("{}: {name}", self.node));
        let what_to_do = self.what_to_do(Aftermath::Drained);
        parting::leave_word(format!("interrupted: {what_to_do}"));
        let begun = Instant::now();
        act(self)?;
        let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.steps.push(Done {
            step: name,
            took_ms,
        });
        Ok(())
    }

    fn what_to_do(&self, aftermath: Aftermath) -> String {
        let node = self.node;
        let ran = match (self.asked.finish, self.has_run) {
            (true, _) => "no command was given",
            (false, true) => "the command has run",
            (false, false) => "the command did not run",
        };
        let again = if self.is_working {
            " with --take-over"
        } else {
            ""
        };
        match aftermath {
            Aftermath::Untouched => format!("{node} carries traffic as before; {ran}"),
            Aftermath::Held => {
                format!("{ran}; {node} is left as it is: `reweave maintenance` lists who has it")
            }
            Aftermath::Ended => format!(
                "{ran}; {node} is under no maintenance and may carry traffic: `reweave audit` \
                 lists who ended it"
            ),
            Aftermath::Drained => format!(
                "{node} stays drained; fix the problem, then repeat this command{again} to continue \
                 from there, or run `reweave maintenance {node} --finish` to return it to traffic \
                 without a command"
            ),
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
        let answer = answer.map_err(Stop::before_drain)?;
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
                Some(why) => Err(Stop::drained(format!(
                    "it may still carry traffic: {}",
                    why.join("; ")
                ))),
                None => Err(Stop::ended(node)),
            }
        };
        self.line.wait(DRAIN_TIMEOUT, is_empty)??;
        if !self.is_working {
            self.begin()?;
        }
        Ok(())
    }

    /// Notes in the log that a command may run from now on, which only one call can.
    fn begin(&mut self) -> Result<(), CliError> {
        let asked = Instant::now();
        let refused = self.bring(Some(MaintenanceStage::Working)).err();
        if let Some(error) = refused
            && !self.is_echo(&error, asked)?
        {
            return Err(error);
        }
        self.is_working = true;
        Ok(())
    }

    /// Whether a repeated request is refused because an earlier one, whose answer was lost, was carried out.
    fn is_echo(&mut self, error: &CliError, asked: Instant) -> Result<bool, CliError> {
        let CliError::Refused(Refused::UnderMaintenance { by, age_s, .. }) = error else {
            return Ok(false);
        };
        let is_recent = self.line.is_repeated() && *age_s <= asked.elapsed().as_secs();
        Ok(is_recent && *by == self.line.operator()?)
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
        self.has_run = true;
        self.since = Instant::now();
        if ended.success() {
            Ok(())
        } else {
            Err(Stop::drained(format!("{program} failed: {ended}")))
        }
    }

    fn look(&mut self) -> Step {
        let Some(mark) = self.mark()? else {
            return Err(Stop::ended(self.node));
        };
        self.expect_own(&mark)?;
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
        self.is_working = false;
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
