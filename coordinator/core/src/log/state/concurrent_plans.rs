//! Concurrent plans. Each plan claims resources, and approved plans share none, so they may end in any order.

use reweave_common::ids::NodeId;
use reweave_common::migration_plan::Tables;
use reweave_common::moment::Moment;
use reweave_common::plan::{Generation, Pin, Plan};
use reweave_common::resource_set::{Resource, ResourceSet};

use super::{InForce, Outcome, Phase, Rollout, State};
use crate::log::reason::Reason;

impl State {
    /// A running plan that claims any of these resources, and which ones.
    pub(crate) fn taken(
        &self,
        plan: Generation,
        claims: &ResourceSet,
    ) -> Option<(Generation, Resource)> {
        let mut under_way = self.beside(plan);
        under_way.find_map(|it| Some((it.plan.generation, it.claims.shared_with(claims)?)))
    }

    /// The approved plans.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = &Rollout> {
        self.rollouts().filter(|it| it.phase != Phase::Proposed)
    }

    /// The approved plans other than this one.
    pub(crate) fn beside(&self, plan: Generation) -> impl Iterator<Item = &Rollout> {
        self.under_way()
            .filter(move |it| it.plan.generation != plan)
    }

    /// The proposed plans.
    pub(crate) fn offers(&self) -> impl Iterator<Item = &Rollout> {
        self.rollouts().filter(|it| it.phase == Phase::Proposed)
    }

    /// The generation that a plan must name as its parent. For a waiting or running plan that is the one it was made
    /// for; concurrent plans do not change it.
    pub(crate) fn base_of(&self, plan: &Plan) -> Generation {
        let known = self.rollout(plan.generation);
        known.map_or(self.in_force.generation, |it| it.plan.parent)
    }

    pub(super) fn drop_offers_sharing(&mut self, at: Moment, claims: &ResourceSet, why: &Outcome) {
        let sharing = self
            .offers()
            .filter(|it| it.claims.shared_with(claims).is_some());
        let sharing: Vec<_> = sharing.map(|it| it.plan.generation).collect();
        for generation in sharing {
            self.end(at, generation, why.clone());
        }
    }

    /// Ends proposals that were made for what this plan has changed. The other proposals are rebased on what is in
    /// force now.
    pub(super) fn make_room(&mut self, at: Moment, claims: &ResourceSet, by: Generation) {
        let reasons = vec![Reason::Superseded { by }];
        self.drop_offers_sharing(at, claims, &Outcome::Withdrawn { reasons });
        self.rebase();
    }

    /// Rebases all plans on what is in force now.
    pub(super) fn rebase(&mut self) {
        let in_force = &self.in_force;
        for rollout in &mut self.rollouts {
            rollout.plan = in_force.with(&rollout.plan, &rollout.claims);
        }
    }

    /// Rebases a running plan after another plan has ended.
    pub(super) fn carry_over(&mut self, generation: Generation) {
        let parent = self.in_force.generation;
        if let Some(rollout) = self.rollout_mut(generation) {
            rollout.plan.parent = parent;
        }
    }

    /// The generation of the rollback: the last one given out, unless another plan or proposal may have it.
    pub(super) fn own_number(&mut self) -> Generation {
        let is_alone = self.rollouts.len() == 1;
        if !is_alone || self.newest == self.in_force.generation {
            self.newest = self.next_generation();
        }
        self.newest
    }
}

impl InForce {
    /// Whether a plan that was made for this state changes only what it claims.
    pub(super) fn is_all_that_changes(&self, plan: &Plan, claims: &ResourceSet) -> bool {
        let is_in_both = |pin: &&Pin| self.pins.contains(pin) && plan.pins.contains(pin);
        let mut pins = self
            .pins
            .iter()
            .chain(&plan.pins)
            .filter(|pin| !is_in_both(pin));
        let all_pins = pins.all(|pin| claims.nodes.contains(&pin.at));
        let towards = |tables: &Tables, node: &NodeId| {
            let table = tables.get(node);
            table.map(|table| table.towards.clone()).unwrap_or_default()
        };
        let mut nodes = self.tables.keys().chain(plan.tables.keys());
        let own = |node: &NodeId| {
            let differs = towards(&self.tables, node) != towards(&plan.tables, node);
            !differs || claims.nodes.contains(node)
        };
        all_pins && nodes.all(own)
    }

    /// Whether everything that a plan claims keeps its tables and circuits.
    pub(super) fn differs_only_in_pins(&self, plan: &Plan, claims: &ResourceSet) -> bool {
        let is_kept = |node: &NodeId| self.tables.get(node) == plan.tables.get(node);
        claims.opticals.is_empty() && claims.nodes.iter().all(is_kept)
    }

    /// This state with the claimed part of the plan applied.
    fn with(&self, plan: &Plan, claims: &ResourceSet) -> Plan {
        let is_own = |node: &NodeId| claims.nodes.contains(node);
        let kept = plan.pins.iter();
        let kept = kept.filter(|pin| is_own(&pin.at) || self.pins.contains(pin));
        let mut pins: Vec<_> = kept.copied().collect();
        let of_others = self.pins.iter();
        let of_others = of_others.filter(|pin| !is_own(&pin.at) && !plan.pins.contains(pin));
        pins.extend(of_others);
        let mut tables = self.tables.clone();
        tables.retain(|node, _| !is_own(node));
        let own = plan.tables.iter().filter(|(node, _)| is_own(node));
        tables.extend(own.map(|(&node, table)| (node, table.clone())));
        let mut circuits = plan.circuits.clone();
        let others = self.circuits.iter();
        let others = others.filter(|(optical, _)| !claims.opticals.contains(optical));
        circuits.extend(others.map(|(&optical, set)| (optical, set.clone())));
        Plan {
            pins,
            tables,
            circuits,
            ..plan.clone()
        }
    }
}
