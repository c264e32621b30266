//! Cached next hops of nodes: many tries use the same paths.

use std::collections::BTreeMap;
use std::ops::Range;

use reweave_common::fabric::Role;
use reweave_common::ids::NodeId;
use reweave_common::snapshot::Hop;

use crate::paths::{Atlas, HopIndex, neighbours};

/// A link that a node may send over, with all that a try asks of it: to look it up in the fabric takes longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step {
    pub hop: HopIndex,
    pub far: NodeId,
}

/// The place of what is known in `Choices::spans`.
type Known = u32;
const UNKNOWN_COUNT: Known = u32::MAX;

/// Nodes send alike to all endpoints at the same switches, so their choices fit into a table of few rows.
pub(super) struct Choices {
    /// Connected group of each endpoint.
    groups: Vec<u32>,
    count: usize,
    /// Cached choices by node and group.
    of_nodes: Vec<Vec<Known>>,
    /// Choices of hosts with one link, which are equal for all destinations.
    of_only_links: Vec<Known>,
    /// Nodes with a link of their own to each endpoint.
    beside: Vec<Range<usize>>,
    neighbours: Vec<(NodeId, Known)>,
    /// Their ranges in `steps`; equal lists are stored once.
    spans: Vec<Range<usize>>,
    steps: Vec<Step>,
    by_list: BTreeMap<Vec<Step>, Known>,
}

impl Choices {
    pub(super) fn new(atlas: &Atlas<'_>) -> Self {
        let nodes = atlas.fabric.nodes().len();
        let mut choices = Self {
            groups: vec![0; nodes],
            count: 0,
            of_nodes: vec![Vec::new(); nodes],
            of_only_links: vec![UNKNOWN_COUNT; nodes],
            beside: vec![0..0; nodes],
            neighbours: Vec::new(),
            spans: Vec::new(),
            steps: Vec::new(),
            by_list: BTreeMap::new(),
        };
        let mut firsts = BTreeMap::new();
        for to in atlas.fabric.endpoints() {
            let count = firsts.len() as u32;
            choices.groups[to.index()] = *firsts.entry(atlas.goal(to)).or_insert(count);
            choices.meet(atlas, to);
        }
        choices.count = firsts.len();
        choices
    }

    /// Reserves entries for the neighbours of an endpoint.
    fn meet(&mut self, atlas: &Atlas<'_>, endpoint: NodeId) {
        let (fabric, first) = (atlas.fabric, self.neighbours.len());
        let beside = neighbours(fabric, endpoint).into_iter();
        self.neighbours
            .extend(beside.map(|node| (node, UNKNOWN_COUNT)));
        self.beside[endpoint.index()] = first..self.neighbours.len();
        if let ([link], Role::Host) = (fabric.links_of(endpoint), fabric.node(endpoint).role) {
            let hop = Hop {
                from: endpoint,
                link: *link,
            };
            self.of_only_links[endpoint.index()] = self.kept(vec![step(atlas, hop)]);
        }
    }

    /// The links over which `at` may send towards an endpoint.
    pub(super) fn of(&mut self, atlas: &mut Atlas<'_>, at: NodeId, to: NodeId) -> &[Step] {
        let mut known = *self.known(at, to);
        if known == UNKNOWN_COUNT {
            let links = atlas.choices(at, to).into_iter();
            let steps = links.map(|link| step(atlas, Hop { from: at, link }));
            known = self.kept(steps.collect());
            *self.known(at, to) = known;
        }
        &self.steps[self.spans[known as usize].clone()]
    }

    fn known(&mut self, at: NodeId, to: NodeId) -> &mut Known {
        let beside = &mut self.neighbours[self.beside[to.index()].clone()];
        if let Some((_, known)) = beside.iter_mut().find(|(node, _)| *node == at) {
            return known;
        }
        let only = &mut self.of_only_links[at.index()];
        if *only != UNKNOWN_COUNT {
            return only;
        }
        let of_node = &mut self.of_nodes[at.index()];
        if of_node.is_empty() {
            *of_node = vec![UNKNOWN_COUNT; self.count];
        }
        &mut of_node[self.groups[to.index()] as usize]
    }

    fn kept(&mut self, steps: Vec<Step>) -> Known {
        if let Some(&known) = self.by_list.get(&steps) {
            return known;
        }
        let (known, first) = (self.spans.len() as Known, self.steps.len());
        self.steps.extend(&steps);
        self.spans.push(first..self.steps.len());
        self.by_list.insert(steps, known);
        known
    }
}

fn step(atlas: &Atlas<'_>, hop: Hop) -> Step {
    Step {
        hop: atlas.index(hop),
        far: atlas.far(hop),
    }
}
