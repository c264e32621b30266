//! Flows with the same five fields that are there at the same time are one to every switch: moving one of them moves
//! all.

use super::moments::{begins, ends};
use crate::paths::listed::{Listed, Movable};

pub(super) struct Bundles {
    /// One for each bundle, by the name of its first.
    pub(super) flows: Vec<Listed>,
    /// Bundle of each listed flow.
    of: Vec<usize>,
}

impl Bundles {
    /// Returns none if no two flows have the same fields, as in most tables.
    pub(super) fn new(listed: &[Listed]) -> Option<Self> {
        let way = |place: &usize| (listed[*place].fields, &listed[*place].path);
        let mut firsts: Vec<usize> = (0..listed.len()).collect();
        let mut by_way = firsts.clone();
        by_way.sort_unstable_by(|a, b| way(a).cmp(&way(b)));
        let alike = by_way.chunk_by_mut(|a, b| way(a) == way(b));
        let mut alike = alike.filter(|it| it.len() > 1).peekable();
        alike.peek()?;
        for alike in alike {
            alike.sort_by(|&a, &b| begins(&listed[a]).total_cmp(&begins(&listed[b])));
            for together in at_the_same_time(alike, listed) {
                let first = together.iter().copied().min();
                together
                    .iter()
                    .for_each(|&place| firsts[place] = first.unwrap_or(place));
            }
        }
        Some(Self::by_firsts(listed, &firsts))
    }

    fn by_firsts(listed: &[Listed], firsts: &[usize]) -> Self {
        let (mut flows, mut of): (Vec<Listed>, Vec<usize>) = (Vec::new(), Vec::new());
        for (flow, &first) in listed.iter().zip(firsts) {
            match of.get(first).copied() {
                Some(bundle) => {
                    flows[bundle].take(flow);
                    of.push(bundle);
                }
                None => {
                    of.push(flows.len());
                    flows.push(flow.clone());
                }
            }
        }
        Self { flows, of }
    }

    /// Returns each listed flow on the path of its bundle.
    pub(super) fn led(&self, listed: &[Listed], moved: &[Listed]) -> Vec<Listed> {
        let led = listed.iter().zip(&self.of).map(|(flow, &bundle)| Listed {
            path: moved[bundle].path.clone(),
            ..flow.clone()
        });
        led.collect()
    }

    /// Copies values of bundles to all their flows.
    pub(super) fn each_of<T: Copy>(
        &self,
        said: Vec<(usize, T)>,
        listed: &[Listed],
    ) -> Vec<(usize, T)> {
        let of_each = said.into_iter().flat_map(|(id, what)| {
            let flows = listed.iter().zip(&self.of);
            let its = flows.filter(move |&(_, &bundle)| self.flows[bundle].id == id);
            its.map(move |(flow, _)| (flow.id, what))
        });
        of_each.collect()
    }
}

/// Returns runs of overlapping flows; the input is sorted by start.
fn at_the_same_time(alike: &[usize], listed: &[Listed]) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<usize>> = Vec::new();
    let mut until = f64::NEG_INFINITY;
    for &place in alike {
        let flow = &listed[place];
        match runs.last_mut().filter(|_| begins(flow) < until) {
            Some(run) => run.push(place),
            None => runs.push(vec![place]),
        }
        until = until.max(ends(flow));
    }
    runs
}

impl Listed {
    /// Adds a flow to the bundle of which this is the first.
    fn take(&mut self, other: &Self) {
        self.bytes += other.bytes;
        let begin = self.during_us[0].zip(other.during_us[0]);
        let end = self.during_us[1].zip(other.during_us[1]);
        self.during_us = [begin.map(|(a, b)| a.min(b)), end.map(|(a, b)| a.max(b))];
        if self.movable != other.movable {
            self.movable = Movable::Never;
        }
    }
}
