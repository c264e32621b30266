//! The repair plan: the fewest moves that give the slowest affected flow the highest rate.

use std::collections::BTreeSet;

use reweave_common::finding::Finding;
use reweave_common::plan::{Alternative, LostBecause, Pin, Plan, Prediction, Report};
use reweave_common::units::Rate;

use super::atlas;
use super::best::{Answer, Weighed, best};
use super::iterations::predicted;
use super::model::Model;
use super::predict::Oracle;

/// The plan that repairs the findings, from the answer by which they were found; none when nothing would, or not beyond
/// doubt.
pub(super) fn plan(model: &Model<'_>, findings: &[Finding], answer: Answer) -> Option<Plan> {
    let losers = indices_of_losers(model, findings);
    if losers.is_empty() {
        return None;
    }
    let unpinnable = &model.observed.snapshot.unpinnable;
    let answer = if unpinnable.is_empty() {
        answer
    } else {
        // Findings are those of a network that holds pins everywhere: what is best without some is another question.
        best(model, &mut atlas(&model.observed), unpinnable)
    };
    let draft = Draft::new(model, &answer, &losers);
    draft.is_gain_for_any(&losers).then(|| draft.plan(findings))
}

fn indices_of_losers(model: &Model<'_>, findings: &[Finding]) -> BTreeSet<usize> {
    let named = findings.iter().flat_map(|finding| match finding {
        Finding::EcmpCollision(collision) => &collision.losers[..],
        _ => &[],
    });
    named.filter_map(|loser| model.find(loser.flow)).collect()
}

/// The best moves, before they become a plan.
struct Draft<'m> {
    model: &'m Model<'m>,
    answer: &'m Answer,
    oracle: Oracle<'m>,
    concerned: BTreeSet<usize>,
}

impl<'m> Draft<'m> {
    fn new(model: &'m Model<'m>, answer: &'m Answer, losers: &BTreeSet<usize>) -> Self {
        let oracle = Oracle::new(model, &answer.present);
        let concerned = oracle.concerned(losers, &answer.best);
        Self {
            model,
            answer,
            oracle,
            concerned,
        }
    }

    fn is_gain_for_any(&self, losers: &BTreeSet<usize>) -> bool {
        let gains = |&flow: &usize| {
            let predicted = self.oracle.predict(flow, &self.answer.best);
            self.oracle.is_gain(flow, &predicted)
        };
        self.answer.is_a_change() && losers.iter().any(gains)
    }

    fn plan(&self, findings: &[Finding]) -> Plan {
        let parent = self.model.observed.snapshot.generation;
        Plan {
            generation: parent.next(),
            parent,
            takes_back: None,
            orders: Vec::new(),
            pins: self.pins(),
            tables: self.model.observed.snapshot.tables.clone(),
            circuits: self.model.observed.snapshot.circuits.clone(),
            moves: self.answer.best.moves(),
            predictions: self.predictions(&self.answer.best),
            iterations: predicted(self.model, &self.answer.present, &self.answer.best),
            report: self.report(findings),
        }
    }

    fn report(&self, findings: &[Finding]) -> Report {
        let alternative = |(other, lost_because): &(Weighed, LostBecause)| Alternative {
            moves: other.moves(),
            slowest_after: self.slowest(other),
            lost_because: *lost_because,
        };
        Report {
            findings: findings.to_vec(),
            slowest_before: self.slowest(&self.answer.present),
            slowest_after: self.slowest(&self.answer.best),
            alternatives: self.answer.lost.iter().map(alternative).collect(),
        }
    }

    fn predictions(&self, after: &Weighed) -> Vec<Prediction> {
        let concerned = self.oracle.concerned(&self.concerned, after).into_iter();
        concerned
            .map(|flow| self.oracle.predict(flow, after))
            .collect()
    }

    /// The slowest of the flows that the plan concerns and of the flows that `after` would slow instead.
    fn slowest(&self, after: &Weighed) -> Rate {
        let predictions = self.predictions(after).into_iter();
        let rates = predictions.map(|prediction| prediction.after);
        rates.min().unwrap_or(Rate::from_bits_per_s(0))
    }

    /// Returns all pins after the plan: the earlier ones, without those of ended or moved flows, and the new ones.
    fn pins(&self) -> Vec<Pin> {
        let snapshot = self.model.observed.snapshot;
        let is_live = |pin: &&Pin| snapshot.flows.iter().any(|flow| flow.flow == pin.flow);
        let live = snapshot.pins.iter().filter(is_live);
        let kept = live.filter(|pin| self.still_holds(pin));
        let detours = self.answer.best.detours.values();
        let new = detours.flat_map(|detour| &detour.pins);
        let pins: BTreeSet<_> = kept.chain(new).copied().collect();
        pins.into_iter().collect()
    }

    /// Whether the pin's flow stays, or crosses this switch before it takes another path.
    fn still_holds(&self, pin: &Pin) -> bool {
        let flow = self.model.find(pin.flow);
        let detour = flow.and_then(|flow| self.answer.best.detours.get(&flow));
        detour.is_none_or(|detour| detour.shared().any(|hop| hop.from == pin.at))
    }
}
