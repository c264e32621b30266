//! Why full links stay as they are, for an operator who asks for a plan where none gains anything.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::cause::{Cause, Subject};
use reweave_common::ids::LinkId;
use reweave_common::operator;
use reweave_common::snapshot::{Hop, LinkState};
use reweave_repair::paths::{Atlas, drained};

use crate::ingest::admission::Admissions;
use crate::log::state::State;
use crate::model::world::World;
use crate::plan::proposals;

/// More links are counted but not named.
const MAX_NAMED_LINKS: usize = 5;

/// One reason for each full link that several large flows share: what is wrong with the other links that its switch
/// could choose for them.
pub(crate) fn reasons(world: &World<'_>, state: &State, arrivals: &Admissions) -> Vec<String> {
    let shared = shared(world);
    if shared.is_empty() {
        return Vec::new();
    }
    let fabric = world.fabric();
    let others = OtherLinks {
        world,
        full: world.full_hops(),
        down: world.down(),
        drained: drained(fabric, &state.in_force().tables),
        states: world.links(),
        causes: proposals::causes(world, arrivals),
    };
    let named = shared.iter().take(MAX_NAMED_LINKS);
    let reasons = named.map(|(hop, links)| {
        let whys = links
            .iter()
            .map(|&link| others.why_not(Hop { link, ..*hop }));
        let whys: Vec<_> = whys.collect();
        format!("{} stays as it is: {}", others.load(*hop), whys.join("; "))
    });
    let more = shared.len().saturating_sub(MAX_NAMED_LINKS);
    let more = (more > 0).then(|| format!("{more} more full links stay as they are"));
    reasons.chain(more).collect()
}

/// The full links that several large flows share, each with the other links that its switch could choose for them.
fn shared(world: &World<'_>) -> BTreeMap<Hop, BTreeSet<LinkId>> {
    let (full, mut atlas) = (world.full_hops(), Atlas::new(world.fabric()));
    let least = world.known.least_throttled();
    let mut flows = world.flows();
    flows.retain(|flow| flow.rate >= least);
    let mut shared: BTreeMap<Hop, (usize, BTreeSet<LinkId>)> = BTreeMap::new();
    for flow in &flows {
        let path = flow.path.iter().flatten();
        for hop in path.filter(|hop| full.contains(hop)) {
            let choices = atlas.choices(hop.from, flow).into_iter();
            let (count, links) = shared.entry(*hop).or_default();
            *count += 1;
            links.extend(choices.filter(|link| *link != hop.link));
        }
    }
    let shared = shared.into_iter();
    let shared = shared.filter(|(_, (count, links))| *count > 1 && !links.is_empty());
    shared.map(|(hop, (_, links))| (hop, links)).collect()
}

/// What is known of the links that flows could use instead.
struct OtherLinks<'w, 'a> {
    world: &'w World<'a>,
    full: BTreeSet<Hop>,
    down: BTreeSet<LinkId>,
    drained: BTreeSet<LinkId>,
    states: BTreeMap<Hop, LinkState>,
    causes: Vec<Cause>,
}

impl OtherLinks<'_, '_> {
    fn load(&self, hop: Hop) -> String {
        let fabric = self.world.fabric();
        let operator::Hop { from, to, .. } = operator::Hop::named(hop, fabric);
        let capacity = fabric.link(hop.link).rate.bits_per_s() as f64;
        let load = self.states.get(&hop).map_or(0, |it| it.rate.bits_per_s());
        let percent = (100.0 * load as f64 / capacity).min(100.0);
        format!("{from} > {to} is {percent:.0} % full and")
    }

    fn why_not(&self, hop: Hop) -> String {
        let name = self.world.fabric().link_name(hop.link);
        let why = if self.drained.contains(&hop.link) {
            "is drained"
        } else if self.down.contains(&hop.link) {
            "is down"
        } else if !self.states.contains_key(&hop) {
            "is not measured"
        } else if self.full.contains(&hop) {
            "is full, too"
        } else {
            "would surely make no flow faster"
        };
        let of_it = self.causes.iter().filter(|it| names(&it.subject, &name));
        let classes: BTreeSet<_> = of_it.map(|it| it.class.to_string()).collect();
        let classes: Vec<_> = classes.into_iter().collect();
        match classes.as_slice() {
            [] => format!("{name} {why}"),
            classes => format!("{name} {why} ({})", classes.join(", ")),
        }
    }
}

/// Whether the subject is this link, or one of its directions.
fn names(subject: &Subject, name: &str) -> bool {
    let parts = subject.each().into_iter();
    let mut links = parts.filter_map(|part| match part {
        Subject::Hop { link, .. } | Subject::Link { link, .. } => Some(link),
        _ => None,
    });
    links.any(|link| link == name)
}
