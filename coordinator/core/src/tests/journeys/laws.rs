//! What must hold after every event.

use std::collections::BTreeSet;

use reweave_common::circuit::{Circuit, Switchover};
use reweave_common::fabric::{Circuits, Fibre};
use reweave_common::holding::{Holding, RouteHop};
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::instruction::Install;

use super::World;
use crate::{Change, Command};

impl World {
    /// S5: what goes out stands in the log.
    pub(super) fn was_intended(&self, node: NodeId, install: &Install) {
        let is_it = |command: &Command| match &command.change {
            Change::StepIntent(intent) => {
                intent.generation == install.generation
                    && intent.targets.get(&node) == Some(&install.holding)
            }
            _ => false,
        };
        assert!(
            self.log.iter().any(is_it),
            "seed {}: not intended: {install:?}",
            self.seed
        );
    }

    pub(super) fn move_was_intended(&self, optical: OpticalId, told: &Switchover) {
        let is_it = |command: &Command| match &command.change {
            Change::CircuitIntent { generation, moves } => {
                *generation == told.generation
                    && moves
                        .get(&optical)
                        .is_some_and(|it| it.desired == told.desired)
            }
            _ => false,
        };
        assert!(
            self.log.iter().any(is_it),
            "seed {}: not intended: {told:?}",
            self.seed
        );
    }

    pub(super) fn circuits(&self) -> Circuits {
        let circuits = self.devices.iter();
        circuits
            .map(|(&optical, device)| (optical, device.circuits.clone()))
            .collect()
    }

    /// S1 and S2, and S11.
    pub(super) fn look(&self) {
        self.all_arrive(&BTreeSet::new());
        for device in self.devices.values() {
            let mut seen = BTreeSet::new();
            let mut ports = device.circuits.iter().flat_map(Circuit::ports);
            assert!(
                ports.all(|port| seen.insert(port)),
                "seed {}: no matching",
                self.seed
            );
        }
    }

    /// S3 and S4: while circuits move, none of them is there, and packets arrive all the same.
    pub(super) fn look_at_move(&self, before: &Circuits) {
        let now = self.circuits();
        let gone = before.iter().flat_map(|(&optical, set)| {
            let gone = set.iter().filter(|&it| !now[&optical].contains(it));
            gone.collect::<Vec<_>>()
                .into_iter()
                .map(move |it| (optical, it))
        });
        let gone: BTreeSet<_> = gone.collect();
        self.all_arrive(&gone);
        for node in self.nodes.keys() {
            let fibres = || self.fabric.fibres().filter(|it| it.node == *node);
            let lit = |it: &&Fibre| {
                let circuits = before[&it.optical]
                    .iter()
                    .map(|circuit| (it.optical, circuit));
                let mut own = circuits.filter(|(_, circuit)| circuit.ports().contains(&it.port));
                own.next()
            };
            let all = fibres().filter_map(|it| lit(&it)).count();
            let left = fibres()
                .filter_map(|it| lit(&it))
                .filter(|it| !gone.contains(it))
                .count();
            assert!(
                4 * left + 3 >= all,
                "seed {}: {left} of {all} are left",
                self.seed
            );
        }
    }

    fn all_arrive(&self, gone: &BTreeSet<(OpticalId, Circuit)>) {
        for &to in self.nodes.keys() {
            for &from in self.nodes.keys() {
                if let Err(way) = self.walk(from, to, gone, &mut vec![from]) {
                    let rollout = self.state().rollout();
                    let last = &self.log[self.log.len().saturating_sub(6)..];
                    panic!(
                        "seed {}: {from} > {to} is lost: {way:?}\n{rollout:#?}\n{last:#?}",
                        self.seed
                    );
                }
            }
        }
    }

    /// By every way there is; the way that ends nowhere, if there is one.
    fn walk(
        &self,
        at: NodeId,
        to: NodeId,
        gone: &BTreeSet<(OpticalId, Circuit)>,
        way: &mut Vec<NodeId>,
    ) -> Result<(), Vec<NodeId>> {
        if at == to {
            return Ok(());
        }
        let next = self.next(at, to, gone);
        if next.is_empty() || way.len() > self.nodes.len() {
            return Err(way.clone());
        }
        for next in next {
            let next = next.ok_or_else(|| way.clone())?;
            way.push(next);
            self.walk(next, to, gone, way)?;
            way.pop();
        }
        Ok(())
    }

    /// Light decides where packets come out, whatever next hop they were meant for.
    fn next(
        &self,
        at: NodeId,
        to: NodeId,
        gone: &BTreeSet<(OpticalId, Circuit)>,
    ) -> Vec<Option<NodeId>> {
        let through = |fibre: &Fibre| {
            let far = self.light_at(fibre)?;
            let circuit = Circuit::new(fibre.port, far.port);
            (!gone.contains(&(fibre.optical, circuit))).then_some(far.node)
        };
        let address = self.fabric.address(to);
        let mut routes = self.nodes[&at].routes.iter();
        if let Some(route) = routes.find(|route| Some(route.destination) == address) {
            let fibre = |hop: &RouteHop| {
                let mut fibres = self.fabric.fibres();
                fibres.find(|it| it.node == at && it.interface == hop.interface)
            };
            return route.hops.iter().map(|hop| through(fibre(hop)?)).collect();
        }
        let hops = self.own.get(&at).and_then(|table| table.towards.get(&to));
        let links = hops
            .into_iter()
            .flatten()
            .map(|hop| self.fabric.fibre_of(at, hop.link));
        links.map(|fibre| through(fibre?)).collect()
    }

    /// S8: every node holds what is in force, and every device too.
    pub(super) fn look_at_rest(&self) {
        let in_force = self.state().in_force();
        for (node, switch) in &self.nodes {
            let told = in_force.holding(*node);
            let holds = Holding {
                rules: switch.rules.clone(),
                routes: switch.routes.clone(),
            };
            assert!(
                holds.is_same_as(&told),
                "seed {}: {node} is astray",
                self.seed
            );
            let table = in_force.tables.get(node);
            let expected = table.map_or(0, |table| table.towards.len());
            assert_eq!(
                holds.routes.len(),
                expected,
                "seed {}: {node} mixes generations",
                self.seed
            );
        }
        assert_eq!(
            self.circuits(),
            in_force.circuits_of(&self.fabric),
            "seed {}",
            self.seed
        );
    }
}
