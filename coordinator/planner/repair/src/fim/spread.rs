//! Imbalance of flows with given paths: by switch, by layer, by job and over time.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::finding::Imbalance;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::snapshot::Hop;

use super::{Group, Load, imbalance};
use crate::paths::listed::Listed;
use crate::paths::{Atlas, Destination};

/// One flow with its weights.
#[derive(Debug, Clone, Copy)]
pub struct Counted<'a> {
    pub to: Destination,
    pub path: &'a [Hop],
    pub weight: u64,
}

/// Links between switches so far from the hosts, and in this direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Layer {
    pub from: u32,
    pub to: u32,
}

/// The flows on equivalent links.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSpread {
    pub group: Group,
    pub layer: Layer,
    /// Whether the switch chose among the links. Otherwise they lead to the switch, and another one chose.
    pub chosen: bool,
    /// Imbalance whose max/mean is that of load divided by the worth of each link.
    pub imbalance: Imbalance,
    /// Ratio of the fullest link to the least that flows of these sizes allow.
    pub over_least: f64,
}

impl GroupSpread {
    fn above_floor_percent(&self) -> f64 {
        self.imbalance.fim_percent - self.imbalance.floor_percent
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerSpread {
    pub layer: Layer,
    pub chosen: bool,
    pub groups: usize,
    pub mean_fim_percent: f64,
    /// Imbalance of the group with the largest FIM.
    pub worst: Imbalance,
    pub max_over_mean: f64,
}

/// All groups that carry flows, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spread {
    pub groups: Vec<GroupSpread>,
}

/// The headline: FIM and its floor of the group where FIM is largest, and the largest max/mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Headline {
    pub fim_percent: f64,
    pub floor_percent: f64,
    pub weighted_percent: f64,
    pub max_over_mean: f64,
    pub mean_fim_percent: f64,
    /// Largest excess over the floor. A single flow has a large FIM, which is its floor.
    pub above_floor_percent: f64,
    pub over_least: f64,
}

/// Returns the worth of a link in bits per second; none for a link that should carry nothing.
pub type Worth<'w> = &'w dyn Fn(LinkId) -> Option<f64>;

/// Returns how unevenly these flows are spread over links that are worth their rates.
pub fn spread<'a>(atlas: &mut Atlas<'_>, flows: impl Iterator<Item = Counted<'a>>) -> Spread {
    let fabric = atlas.fabric;
    spread_on(atlas, flows, &|link| Some(rate(fabric, link)))
}

fn rate(fabric: &Fabric, link: LinkId) -> f64 {
    fabric.link(link).rate.bits_per_s() as f64
}

fn spread_on<'a>(
    atlas: &mut Atlas<'_>,
    flows: impl Iterator<Item = Counted<'a>>,
    worth: Worth<'_>,
) -> Spread {
    let mut counting = Counting {
        tiers: atlas.tiers(),
        atlas,
        by_choice: BTreeMap::new(),
        places: BTreeMap::new(),
        groups: Vec::new(),
    };
    flows.for_each(|flow| counting.count(flow));
    counting.spread(worth)
}

struct Counting<'a, 'f> {
    atlas: &'a mut Atlas<'f>,
    tiers: Vec<u32>,
    /// By switch and door.
    by_choice: BTreeMap<(NodeId, NodeId), Option<usize>>,
    places: BTreeMap<(Group, bool), usize>,
    groups: Vec<Tallied>,
}

struct Tallied {
    group: Group,
    layer: Layer,
    chosen: bool,
    loads: Vec<Load>,
    /// Weights of the least and the largest flow.
    sizes: [u64; 2],
}

impl Counting<'_, '_> {
    fn count(&mut self, flow: Counted<'_>) {
        let door = self.atlas.door(flow.to);
        for &hop in flow.path {
            let known = self.by_choice.get(&(hop.from, door)).copied();
            let group = known.unwrap_or_else(|| {
                let group = self.group(hop, flow.to);
                self.by_choice.insert((hop.from, door), group);
                group
            });
            if let Some(group) = group {
                self.groups[group].add(hop, flow.weight);
            }
        }
    }

    fn group(&mut self, hop: Hop, to: Destination) -> Option<usize> {
        let far = self.atlas.far(hop);
        let [from, next] = [hop.from, far].map(|node| self.tiers[node.index()]);
        let links = self.atlas.choices(hop.from, to);
        let chosen = links.len() > 1;
        let (at, links) = if chosen {
            (hop.from, links)
        } else {
            (far, self.leading_to(far, from))
        };
        let between_switches = from > 0 && next > 0 && links.len() > 1;
        let layer = Layer { from, to: next };
        between_switches.then(|| self.place(Group { at, links }, layer, chosen))
    }

    /// The links to a node from the nodes of a tier.
    fn leading_to(&self, node: NodeId, tier: u32) -> Vec<LinkId> {
        let fabric = self.atlas.fabric;
        let links = fabric.links_of(node).iter().copied();
        let from_there = |link: &_| self.tiers[fabric.link(*link).far(node).node.index()] == tier;
        links.filter(from_there).collect()
    }

    fn place(&mut self, group: Group, layer: Layer, chosen: bool) -> usize {
        let groups = &mut self.groups;
        let place = self.places.entry((group.clone(), chosen));
        *place.or_insert_with(|| {
            groups.push(Tallied {
                loads: vec![Load::default(); group.links.len()],
                sizes: [u64::MAX, 0],
                group,
                layer,
                chosen,
            });
            groups.len() - 1
        })
    }

    fn spread(self, worth: Worth<'_>) -> Spread {
        let fabric = self.atlas.fabric;
        let tallied = joined(self.groups).into_iter();
        let rated = tallied.filter_map(|it| it.rated(fabric, worth));
        let mut groups: Vec<_> = rated.collect();
        groups.sort_by(|a, b| (!a.chosen, &a.group).cmp(&(!b.chosen, &b.group)));
        Spread { groups }
    }
}

/// A switch's links of which some flows may take a few and some others are one group: what the ones
/// leave free is free for the others.
fn joined(groups: Vec<Tallied>) -> Vec<Tallied> {
    let mut joined: Vec<Tallied> = Vec::new();
    let mut of_switch: BTreeMap<(NodeId, bool), Vec<Tallied>> = BTreeMap::new();
    for it in groups {
        of_switch
            .entry((it.group.at, it.chosen))
            .or_default()
            .push(it);
    }
    for groups in of_switch.into_values() {
        let mut apart: Vec<Tallied> = Vec::new();
        for mut group in groups {
            let (sharing, others) = apart
                .into_iter()
                .partition(|other| group.shares_links(other));
            apart = others;
            Vec::into_iter(sharing).for_each(|other| group.join(&other));
            apart.push(group);
        }
        joined.extend(apart);
    }
    joined
}

impl Tallied {
    fn add(&mut self, hop: Hop, weight: u64) {
        let place = self.group.links.iter().position(|&link| link == hop.link);
        if let Some(place) = place {
            let load = &mut self.loads[place];
            load.flows += 1;
            load.weight = load.weight.saturating_add(weight);
            let [least, largest] = self.sizes;
            self.sizes = [least.min(weight), largest.max(weight)];
        }
    }

    fn shares_links(&self, other: &Self) -> bool {
        let links = &other.group.links;
        self.group.links.iter().any(|link| links.contains(link))
    }

    fn join(&mut self, other: &Self) {
        let mut loads: BTreeMap<LinkId, Load> = BTreeMap::new();
        for it in [&*self, other] {
            for (&link, load) in it.group.links.iter().zip(&it.loads) {
                let sum = loads.entry(link).or_default();
                sum.flows += load.flows;
                sum.weight = sum.weight.saturating_add(load.weight);
            }
        }
        let [least, largest] = self.sizes;
        self.sizes = [least.min(other.sizes[0]), largest.max(other.sizes[1])];
        (self.group.links, self.loads) = loads.into_iter().unzip();
    }

    /// Returns none if no flow crosses the group. Links that should carry nothing are left out, even if they carry
    /// something.
    fn rated(mut self, fabric: &Fabric, worth: Worth<'_>) -> Option<GroupSpread> {
        let both = self.group.links.iter().zip(&self.loads);
        let counted = both.filter(|(link, load)| worth(**link).is_some() || load.flows > 0);
        (self.group.links, self.loads) = counted.map(|(&link, &load)| (link, load)).unzip();
        let worths = self.group.links.iter();
        let worths: Vec<_> = worths
            .map(|&link| worth(link).unwrap_or_else(|| rate(fabric, link)))
            .collect();
        let mut imbalance = imbalance(&self.loads)?;
        let mean = self
            .loads
            .iter()
            .map(|load| load.weight as f64)
            .sum::<f64>()
            / worths.iter().sum::<f64>();
        let fullness = self.loads.iter().zip(&worths);
        let fullest = fullness.map(|(load, worth)| load.weight as f64 / worth);
        let fullest = fullest.fold(0.0, f64::max);
        let over_least = if mean > 0.0 {
            imbalance.max_over_mean = fullest / mean;
            fullest / self.least_fullness(&worths).max(mean)
        } else {
            1.0
        };
        Some(GroupSpread {
            imbalance,
            over_least,
            group: self.group,
            layer: self.layer,
            chosen: self.chosen,
        })
    }

    /// The largest is somewhere, and of more flows than links some meet.
    fn least_fullness(&self, worths: &[f64]) -> f64 {
        let widest = worths.iter().copied().fold(0.0, f64::max);
        let flows: u64 = self.loads.iter().map(|load| load.flows).sum();
        let [least, largest] = self.sizes;
        let meeting = least * flows.div_ceil(worths.len() as u64);
        largest.max(meeting) as f64 / widest
    }
}

impl Spread {
    /// Returns the group with the largest FIM among those in which a switch chose.
    pub fn largest(&self) -> Option<&GroupSpread> {
        let fim = |it: &GroupSpread| it.imbalance.fim_percent;
        let chosen = self.groups.iter().filter(|it| it.chosen);
        chosen.max_by(|a, b| fim(a).total_cmp(&fim(b)))
    }

    /// Returns none if no switch had a choice.
    pub fn headline(&self) -> Option<Headline> {
        let chosen: Vec<_> = self.groups.iter().filter(|it| it.chosen).collect();
        let worst = self.largest()?.imbalance;
        Some(Headline {
            fim_percent: worst.fim_percent,
            floor_percent: worst.floor_percent,
            weighted_percent: worst.weighted_percent,
            max_over_mean: peak(&chosen),
            mean_fim_percent: mean_fim(&chosen),
            above_floor_percent: most(&chosen, GroupSpread::above_floor_percent),
            over_least: most(&chosen, |group| group.over_least).max(1.0),
        })
    }

    /// Returns the chosen group that is furthest above its floor; of those the one with the largest FIM, then the
    /// first.
    pub fn worst(&self) -> Option<&GroupSpread> {
        let chosen = self.groups.iter().filter(|it| it.chosen);
        let rank = |it: &GroupSpread| (it.above_floor_percent(), it.imbalance.fim_percent);
        let worse = |it: &&GroupSpread, than: &&GroupSpread| rank(it) > rank(than);
        chosen.reduce(|worst, next| if worse(&next, &worst) { next } else { worst })
    }

    pub fn layers(&self) -> Vec<LayerSpread> {
        let mut layers: BTreeMap<(Layer, bool), Vec<&GroupSpread>> = BTreeMap::new();
        for group in &self.groups {
            let layer = layers.entry((group.layer, !group.chosen)).or_default();
            layer.push(group);
        }
        layers
            .into_iter()
            .filter_map(|((layer, led_to), groups)| {
                Some(LayerSpread {
                    layer,
                    chosen: !led_to,
                    groups: groups.len(),
                    mean_fim_percent: mean_fim(&groups),
                    worst: *worst(&groups)?,
                    max_over_mean: peak(&groups),
                })
            })
            .collect()
    }
}

fn worst<'g>(groups: &[&'g GroupSpread]) -> Option<&'g Imbalance> {
    let fim = |it: &&Imbalance| it.fim_percent;
    let imbalances = groups.iter().map(|group| &group.imbalance);
    imbalances.max_by(|a, b| fim(a).total_cmp(&fim(b)))
}

fn peak(groups: &[&GroupSpread]) -> f64 {
    most(groups, |group| group.imbalance.max_over_mean).max(1.0)
}

fn most(groups: &[&GroupSpread], of: impl Fn(&GroupSpread) -> f64) -> f64 {
    groups.iter().map(|group| of(group)).fold(0.0, f64::max)
}

fn mean_fim(groups: &[&GroupSpread]) -> f64 {
    let fims = groups.iter().map(|group| group.imbalance.fim_percent);
    fims.sum::<f64>() / groups.len().max(1) as f64
}

/// Same as `spread`, for listed flows.
pub fn of_listed<'a>(atlas: &mut Atlas<'_>, flows: impl IntoIterator<Item = &'a Listed>) -> Spread {
    spread(atlas, flows.into_iter().map(counted))
}

/// The same on links of other worth.
pub fn of_listed_on(atlas: &mut Atlas<'_>, flows: &[Listed], worth: Worth<'_>) -> Spread {
    spread_on(atlas, flows.iter().map(counted), worth)
}

fn counted(flow: &Listed) -> Counted<'_> {
    Counted {
        to: flow.destination(),
        path: &flow.path,
        weight: flow.bytes,
    }
}

/// The headline of each job's flows alone, by the name of the job.
pub fn by_job(atlas: &mut Atlas<'_>, flows: &[Listed]) -> Vec<(String, Headline)> {
    let mut jobs: BTreeMap<&str, Vec<&Listed>> = BTreeMap::new();
    for flow in flows {
        if let Some(job) = &flow.job {
            jobs.entry(job).or_default().push(flow);
        }
    }
    let rated = jobs.into_iter().filter_map(|(job, flows)| {
        let headline = of_listed(atlas, flows).headline()?;
        Some((job.to_owned(), headline))
    });
    rated.collect()
}

/// The headline from moments when flows began or ended on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImbalanceSeries {
    pub from_us: Vec<(f64, Option<Headline>)>,
}

/// Maximum number of moments in a series.
const MAX_SAMPLES: usize = 256;

/// Returns the imbalance over time as flows come and go; of very many changes, a sample is used.
pub fn over_time(atlas: &mut Atlas<'_>, flows: &[Listed]) -> ImbalanceSeries {
    let begins = |flow: &Listed| flow.during_us[0].unwrap_or(0.0);
    let ends = flows.iter().filter_map(|flow| flow.during_us[1]);
    let mut moments: Vec<_> = flows.iter().map(begins).chain(ends).collect();
    moments.sort_by(f64::total_cmp);
    moments.dedup();
    let every = moments.len().div_ceil(MAX_SAMPLES).max(1);
    let at = |&now: &f64| {
        let is_there = |flow: &&Listed| {
            let end = flow.during_us[1];
            begins(flow) <= now && end.is_none_or(|end| now < end)
        };
        let there = flows.iter().filter(is_there);
        (now, of_listed(atlas, there).headline())
    };
    ImbalanceSeries {
        from_us: moments.iter().step_by(every).map(at).collect(),
    }
}

impl ImbalanceSeries {
    /// The largest FIM, and since when.
    pub fn worst(&self) -> Option<(f64, Headline)> {
        let known = self.from_us.iter();
        let known = known.filter_map(|&(since_us, headline)| Some((since_us, headline?)));
        known.reduce(|worst, next| {
            let worse = next.1.fim_percent > worst.1.fim_percent;
            if worse { next } else { worst }
        })
    }

    /// FIM averaged over the time that there were flows with a choice, up to the last change.
    pub fn mean_fim_percent(&self) -> Option<f64> {
        let (mut sum, mut time) = (0.0, 0.0);
        for pair in self.from_us.windows(2) {
            let lasted = pair[1].0 - pair[0].0;
            if let Some(headline) = pair[0].1 {
                sum += headline.fim_percent * lasted;
                time += lasted;
            }
        }
        (time > 0.0).then(|| sum / time)
    }
}
