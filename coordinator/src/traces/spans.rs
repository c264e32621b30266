//! The spans of a rollout, made from decisions in their order, and from nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reweave_common::fabric::Fabric;
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::moment::Moment;
use reweave_common::plan::{Generation, Plan};
use reweave_core::{Aim, Author, Change, Command, Decision, Reason, StepIntent, Verdict};

/// The number of plans under way at once. The oldest is dropped beyond that.
const MAX_ROLLOUTS: usize = 64;
/// The number of spans of one rollout, for any number of switches. Further ones are only counted.
const MAX_SPANS: usize = 4096;

/// A period of a rollout.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    pub(super) name: String,
    pub(super) began: Moment,
    pub(super) ended: Moment,
    /// Its place among the spans of the trace; the first has none.
    pub(super) parent: Option<usize>,
    /// Why, where it failed.
    pub(super) failed: Option<String>,
    pub(super) facts: Vec<(&'static str, String)>,
}

/// All spans of one plan. The first span is the whole rollout.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trace {
    pub(super) generation: Generation,
    pub(super) spans: Vec<Span>,
}

/// The receiver of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum InstructionTarget {
    Node(NodeId),
    Optical(OpticalId),
}

/// A plan under way.
#[derive(Debug)]
struct Rollout {
    spans: Vec<Span>,
    /// The stage that lasts: approval, or the way back.
    stage: Option<usize>,
    round: Option<usize>,
    /// How many there were.
    rounds: usize,
    /// Open instructions, by their generation.
    asked: BTreeMap<(Generation, InstructionTarget), usize>,
    /// The targets of the latest round.
    last_asked: (Generation, BTreeSet<InstructionTarget>),
    /// Since when no instruction is open.
    settled: Moment,
    beyond: usize,
}

/// Follows all decisions, whichever coordinator leads, so that the last leader of a rollout can export all of it.
#[derive(Debug)]
pub(super) struct Rollouts {
    fabric: Arc<Fabric>,
    under_way: BTreeMap<Generation, Rollout>,
}

impl Rollouts {
    pub(super) fn new(fabric: Arc<Fabric>) -> Self {
        Self {
            fabric,
            under_way: BTreeMap::new(),
        }
    }

    /// What came to its end by it.
    pub(super) fn handle_command(&mut self, command: &Command) -> Vec<Trace> {
        let parts = command.change.parts().iter();
        parts
            .filter_map(|part| self.handle(command.at, part))
            .collect()
    }

    fn handle(&mut self, at: Moment, change: &Change) -> Option<Trace> {
        match change {
            Change::PlanProposed { plan, by, .. } => self.begin(at, plan, by),
            Change::PlanApproved { generation, by, .. } => {
                self.of(*generation)?.approved(at, by);
            }
            Change::StepIntent(intent) => self.intend(at, intent)?,
            Change::ConfirmIntent { plan } => self.confirm(at, *plan)?,
            Change::CircuitIntent {
                plan,
                generation,
                moves,
            } => {
                let opticals = moves
                    .keys()
                    .map(|it| InstructionTarget::Optical(*it))
                    .collect();
                self.ask(at, *plan, "round", *generation, opticals)?;
            }
            Change::Acked { node, ack } => {
                let failed = ack.outcome.as_ref().err().map(ToString::to_string);
                self.answered(at, (ack.generation, InstructionTarget::Node(*node)), failed);
            }
            Change::CircuitObserved { optical, readback } => {
                let failed = readback.outcome.as_ref().err().map(ToString::to_string);
                self.answered(
                    at,
                    (readback.generation, InstructionTarget::Optical(*optical)),
                    failed,
                );
            }
            Change::TurnedBack {
                generation,
                reasons,
                ..
            }
            | Change::Held {
                generation,
                reasons,
            } => {
                self.turn_back(at, *generation, reasons)?;
            }
            Change::Verified {
                generation,
                verdict,
            } => return self.verified(at, *generation, verdict),
            Change::PlanRefused {
                generation,
                reasons,
            } => {
                let why = format!("refused: {}", self.describe(reasons));
                return self.end(at, *generation, Some(why));
            }
            Change::PlanWithdrawn {
                generation,
                reasons,
            } => {
                let why = format!("withdrawn: {}", self.describe(reasons));
                return self.end(at, *generation, Some(why));
            }
            Change::RolledBack { generation } => {
                return self.end(at, *generation, Some("rolled back".to_owned()));
            }
            _ => {}
        }
        None
    }

    fn of(&mut self, plan: Generation) -> Option<&mut Rollout> {
        self.under_way.get_mut(&plan)
    }

    fn describe(&self, reasons: &[Reason]) -> String {
        let words = reasons.iter().map(|reason| reason.words(&self.fabric));
        words.collect::<Vec<_>>().join("; ")
    }

    fn name(&self, target: InstructionTarget) -> String {
        match target {
            InstructionTarget::Node(node) => self.fabric.name(node).to_owned(),
            InstructionTarget::Optical(optical) => self.fabric.optical(optical).name.clone(),
        }
    }

    fn begin(&mut self, at: Moment, plan: &Plan, by: &Author) {
        if self.under_way.len() >= MAX_ROLLOUTS {
            self.under_way.pop_first();
        }
        self.under_way
            .insert(plan.generation, Rollout::new(at, plan, by));
    }

    fn intend(&mut self, at: Moment, intent: &StepIntent) -> Option<()> {
        let nodes = intent.targets.keys();
        let nodes = nodes.map(|node| InstructionTarget::Node(*node)).collect();
        if let Aim::Undo { reasons } = &intent.aim {
            self.turn_back(at, intent.plan, reasons)?;
        }
        self.ask(at, intent.plan, "round", intent.generation, nodes)
    }

    /// The same nodes once more, under the same generation.
    fn confirm(&mut self, at: Moment, plan: Generation) -> Option<()> {
        let (report, whom) = self.of(plan)?.last_asked.clone();
        self.ask(at, plan, "confirm", report, whom)
    }

    fn ask(
        &mut self,
        at: Moment,
        plan: Generation,
        what: &str,
        generation: Generation,
        whom: BTreeSet<InstructionTarget>,
    ) -> Option<()> {
        let names: Vec<_> = whom.iter().map(|it| (*it, self.name(*it))).collect();
        let rollout = self.of(plan)?;
        let round = rollout.next_round(at, what);
        rollout.last_asked = (generation, whom);
        for (whom, name) in names {
            let step = rollout.open(at, Some(round), format!("step {name}"));
            rollout
                .asked
                .extend(step.map(|step| ((generation, whom), step)));
        }
        Some(())
    }

    /// Plans on their way at once ask different ones, or under generations of their own.
    fn answered(
        &mut self,
        at: Moment,
        by: (Generation, InstructionTarget),
        failed: Option<String>,
    ) {
        for rollout in self.under_way.values_mut() {
            if let Some(step) = rollout.asked.remove(&by) {
                rollout.close(at, step, failed);
                return rollout.settle(at);
            }
        }
    }

    fn turn_back(&mut self, at: Moment, plan: Generation, reasons: &[Reason]) -> Option<()> {
        let why = self.describe(reasons);
        let rollout = self.of(plan)?;
        rollout.close_round(at);
        if !rollout.is_on_the_way_back() {
            rollout.stage = rollout.open(at, Some(0), "roll back".to_owned());
        }
        if let Some(stage) = rollout.stage
            && !why.is_empty()
        {
            rollout.spans[stage].facts.push(("reweave.reasons", why));
        }
        Some(())
    }

    fn verified(&mut self, at: Moment, plan: Generation, verdict: &Verdict) -> Option<Trace> {
        let why = match &verdict.decision {
            Decision::Commit => None,
            Decision::RollBack { reasons } => Some(self.describe(reasons)),
        };
        let is_kept = why.is_none();
        let rollout = self.of(plan)?;
        rollout.close_round(at);
        if let Some(span) = rollout.open(rollout.settled, Some(0), "verify".to_owned()) {
            rollout.close(at, span, why);
        }
        if is_kept {
            self.end(at, plan, None)
        } else {
            None
        }
    }

    fn end(&mut self, at: Moment, generation: Generation, failed: Option<String>) -> Option<Trace> {
        let mut rollout = self.under_way.remove(&generation)?;
        rollout.close_round(at);
        if let Some(stage) = rollout.stage.take() {
            rollout.close(at, stage, None);
        }
        rollout.close(at, 0, failed);
        if rollout.beyond > 0 {
            let beyond = rollout.beyond.to_string();
            rollout.spans[0]
                .facts
                .push(("reweave.spans_left_out", beyond));
        }
        Some(Trace {
            generation,
            spans: rollout.spans,
        })
    }
}

impl Rollout {
    fn new(at: Moment, plan: &Plan, by: &Author) -> Self {
        let span = |name: &str, parent| Span {
            name: name.to_owned(),
            began: at,
            ended: at,
            parent,
            failed: None,
            facts: Vec::new(),
        };
        let mut spans = vec![
            span("rollout", None),
            span("plan", Some(0)),
            span("approval", Some(0)),
        ];
        spans[0].facts = vec![
            ("reweave.generation", plan.generation.to_string()),
            ("reweave.parent", plan.parent.to_string()),
            ("reweave.proposed_by", by.to_string()),
        ];
        spans[1].facts = vec![
            ("reweave.moves", plan.moves.len().to_string()),
            ("reweave.pins", plan.pins.len().to_string()),
            ("reweave.findings", plan.report.findings.len().to_string()),
        ];
        Self {
            spans,
            stage: Some(2),
            round: None,
            rounds: 0,
            asked: BTreeMap::new(),
            last_asked: Default::default(),
            settled: at,
            beyond: 0,
        }
    }

    fn open(&mut self, at: Moment, parent: Option<usize>, name: String) -> Option<usize> {
        if self.spans.len() >= MAX_SPANS {
            self.beyond += 1;
            return None;
        }
        self.spans.push(Span {
            name,
            began: at,
            ended: at,
            parent,
            failed: None,
            facts: Vec::new(),
        });
        Some(self.spans.len() - 1)
    }

    fn close(&mut self, at: Moment, span: usize, failed: Option<String>) {
        let span = &mut self.spans[span];
        (span.ended, span.failed) = (at.max(span.began), failed);
    }

    fn approved(&mut self, at: Moment, by: &Author) {
        if let Some(stage) = self.stage.take() {
            self.spans[stage]
                .facts
                .push(("reweave.approved_by", by.to_string()));
            self.close(at, stage, None);
        }
        self.settled = at;
    }

    fn is_on_the_way_back(&self) -> bool {
        let name = |stage: usize| self.spans[stage].name == "roll back";
        self.stage.is_some_and(name)
    }

    /// Who had not answered the one before is asked again, or not any longer. What is confirmed has the number of its
    /// round.
    fn next_round(&mut self, at: Moment, what: &str) -> usize {
        self.close_round(at);
        self.rounds += usize::from(what == "round");
        let parent = self.stage.unwrap_or(0);
        let round = self.open(at, Some(parent), format!("{what} {}", self.rounds));
        self.round = round;
        round.unwrap_or(parent)
    }

    fn close_round(&mut self, at: Moment) {
        for step in std::mem::take(&mut self.asked).into_values() {
            self.close(at, step, Some("no answer".to_owned()));
        }
        self.settle(at);
    }

    /// The round is over once all have answered.
    fn settle(&mut self, at: Moment) {
        if self.asked.is_empty()
            && let Some(round) = self.round.take()
        {
            let steps = self.spans.iter().filter(|it| it.parent == Some(round));
            let failed = steps.filter(|it| it.failed.is_some()).count();
            let failed = (failed > 0).then(|| format!("{failed} did not follow"));
            self.close(at, round, failed);
            self.settled = at;
        }
    }
}
