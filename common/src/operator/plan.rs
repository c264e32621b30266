//! What shall change and why, by name.

use crate::fabric::Fabric;
use crate::flow::FlowKey;
use crate::plan::{self, Generation, LostBecause};
use crate::snapshot;
use crate::units::Rate;
use serde::{Deserialize, Serialize};

use super::finding::Finding;
use super::place::Hop;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub generation: Generation,
    pub parent: Generation,
    /// All that will be pinned afterwards.
    pub pins: Vec<Pin>,
    pub moves: Vec<Move>,
    pub predictions: Vec<Prediction>,
    pub report: Report,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    pub flow: FlowKey,
    pub hop: Hop,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    pub flow: FlowKey,
    pub from: Hop,
    pub to: Hop,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    pub flow: FlowKey,
    pub before_bits_per_s: Rate,
    pub after_bits_per_s: Rate,
    /// Where a measurement is expected to fall.
    pub low_bits_per_s: Rate,
    pub high_bits_per_s: Rate,
}

/// Why this plan and not another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub findings: Vec<Finding>,
    pub slowest_before_bits_per_s: Rate,
    pub slowest_after_bits_per_s: Rate,
    pub alternatives: Vec<Alternative>,
}

/// A plan that was weighed and lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alternative {
    pub moves: Vec<Move>,
    pub slowest_after_bits_per_s: Rate,
    pub lost_because: LostBecause,
}

impl Plan {
    pub fn named(plan: &plan::Plan, fabric: &Fabric) -> Self {
        Self {
            generation: plan.generation,
            parent: plan.parent,
            pins: plan
                .pins
                .iter()
                .map(|pin| Pin::named(pin, fabric))
                .collect(),
            moves: moves(&plan.moves, fabric),
            predictions: plan.predictions.iter().map(Prediction::from).collect(),
            report: Report::named(&plan.report, fabric),
        }
    }
}

impl Pin {
    pub fn named(pin: &plan::Pin, fabric: &Fabric) -> Self {
        let hop = snapshot::Hop {
            from: pin.at,
            link: pin.link,
        };
        Self {
            flow: pin.flow,
            hop: Hop::named(hop, fabric),
        }
    }
}

fn moves(moves: &[plan::Move], fabric: &Fabric) -> Vec<Move> {
    let named = moves.iter().map(|made| Move {
        flow: made.flow,
        from: Hop::named(made.from, fabric),
        to: Hop::named(made.to, fabric),
    });
    named.collect()
}

impl From<&plan::Prediction> for Prediction {
    fn from(prediction: &plan::Prediction) -> Self {
        Self {
            flow: prediction.flow,
            before_bits_per_s: prediction.before,
            after_bits_per_s: prediction.after,
            low_bits_per_s: prediction.low,
            high_bits_per_s: prediction.high,
        }
    }
}

impl Report {
    fn named(report: &plan::Report, fabric: &Fabric) -> Self {
        let finding = |found| Finding::named(found, fabric);
        let alternative = |lost| Alternative::named(lost, fabric);
        Self {
            findings: report.findings.iter().map(finding).collect(),
            slowest_before_bits_per_s: report.slowest_before,
            slowest_after_bits_per_s: report.slowest_after,
            alternatives: report.alternatives.iter().map(alternative).collect(),
        }
    }
}

impl Alternative {
    fn named(lost: &plan::Alternative, fabric: &Fabric) -> Self {
        Self {
            moves: moves(&lost.moves, fabric),
            slowest_after_bits_per_s: lost.slowest_after,
            lost_because: lost.lost_because,
        }
    }
}
