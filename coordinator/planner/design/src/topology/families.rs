//! Families of wirings.

use std::collections::BTreeSet;
use std::fmt;

use reweave_common::split_mix::SplitMix64;
use serde::{Deserialize, Serialize};

use super::cycles;
use super::demand::{Demand, Group};
use super::distances::Distances;
use super::error::counted;
use super::fill;
use super::limits::Limits;
use super::matching;
use super::panels::{self, Patch};
use super::products;
use super::strides;
use super::wiring::{Pair, Wiring};
use crate::crew::{self, Alone, Crew, InTime, NO_DEADLINE};

/// Construction of a wiring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Rings by strides in geometric steps.
    Totient {
        strides: Vec<usize>,
    },
    /// Rings by the strides that make hops fewest.
    BestStrides {
        strides: Vec<usize>,
    },
    /// Random rings, shortened.
    Random,
    /// Rings by strides for what groups reduce, and matchings for what pairs send.
    Matched {
        rings: usize,
        matchings: usize,
    },
    /// Rings laid along what pairs send, and random ones.
    Heavy {
        heavy: usize,
        random: usize,
    },
    /// Rings by strides within each group that reduces, and matchings for what pairs send.
    Grouped {
        rings: usize,
        matchings: usize,
    },
    Kautz {
        fan: usize,
    },
    DeBruijn {
        fan: usize,
    },
    /// Product of small wirings.
    Product {
        factors: Vec<String>,
    },
}

impl Family {
    /// One word for scripts.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Totient { .. } => "totient",
            Self::BestStrides { .. } => "strides",
            Self::Random => "random",
            Self::Matched { .. } => "matched",
            Self::Heavy { .. } => "heavy",
            Self::Grouped { .. } => "grouped",
            Self::Kautz { .. } => "kautz",
            Self::DeBruijn { .. } => "de-bruijn",
            Self::Product { .. } => "product",
        }
    }

    /// Returns how complex the description of the wiring is.
    fn intricacy(&self) -> f64 {
        match self {
            Self::Totient { .. } => 0.0,
            Self::BestStrides { .. } => 1.0,
            Self::Product { .. } => 2.0,
            Self::Kautz { .. } | Self::DeBruijn { .. } => 3.0,
            Self::Grouped { .. } | Self::Random => 4.0,
            Self::Matched { .. } | Self::Heavy { .. } => 5.0,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |strides: &[usize]| {
            let strides: Vec<_> = strides.iter().map(ToString::to_string).collect();
            strides.join(", ")
        };
        match self {
            // One port is too few for a ring.
            Self::Totient { strides } if strides.is_empty() => f.write_str("no ring"),
            Self::Totient { strides } => write!(f, "rings by strides {}", list(strides)),
            Self::BestStrides { strides } => {
                write!(f, "rings by searched strides {}", list(strides))
            }
            Self::Random => f.write_str("random rings"),
            Self::Matched { rings, matchings } => write!(
                f,
                "{} by strides and {} of those that send each other most",
                counted(*rings, "ring"),
                counted(*matchings, "matching")
            ),
            Self::Heavy { heavy, random } => write!(
                f,
                "{} along those that send each other most and {}",
                counted(*heavy, "ring"),
                counted(*random, "random ring")
            ),
            Self::Grouped { rings, matchings } => write!(
                f,
                "{} within each group that reduces and {} of those that send each other most",
                counted(*rings, "ring"),
                counted(*matchings, "matching")
            ),
            Self::Kautz { fan } => write!(f, "a generalized Kautz graph of fan {fan}"),
            Self::DeBruijn { fan } => write!(f, "a generalized de Bruijn graph of fan {fan}"),
            Self::Product { factors } => write!(f, "the product of {}", factors.join(" and ")),
        }
    }
}

/// A wiring with what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    pub family: Family,
    /// Number of cables of the family that are missing, and of additional ones: limits remove cables, and free ports
    /// are joined.
    pub altered: Altered,
    pub wiring: Wiring,
    /// Rings through all hosts; no two have a cable in common.
    pub rings: Vec<Vec<u32>>,
    /// Panels and ports of the cables, if there are panels.
    pub patches: Vec<Patch>,
}

/// Difference of a wiring from its family, in cables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Altered {
    pub lacking: usize,
    pub more: usize,
}

impl Altered {
    /// Adds the difference between two wirings of the same hosts.
    pub(crate) fn besides(self, before: &Wiring, after: &Wiring) -> Self {
        let new = after.pairs().into_iter();
        let new = new.filter(|&[a, b]| !before.joins(a, b)).count();
        Self {
            lacking: self.lacking + before.cables() + new - after.cables(),
            more: self.more + new,
        }
    }
}

impl Design {
    /// Whether it has just the cables that its family says.
    pub fn is_as_named(&self) -> bool {
        self.altered == Altered::default()
    }

    /// Returns how complex the description of the wiring is. Among irregular wirings, the one with smaller distances
    /// comes first.
    pub(super) fn intricacy(&self, distances: &Distances) -> f64 {
        if self.is_as_named() {
            self.family.intricacy()
        } else {
            IRREGULAR_COMPLEXITY + distances.mean()
        }
    }

    /// Describes the wiring for reports.
    pub fn words(&self) -> String {
        let Altered { lacking, more } = self.altered;
        let mut words = self.family.to_string();
        if lacking > 0 {
            words += &format!(" without {}", counted(lacking, "link"));
        }
        match more {
            0 => words,
            _ => format!("{words} and {} besides", counted(more, "link")),
        }
    }

    /// The same for some of its hosts, which are renumbered in this order.
    pub(super) fn of_hosts(&self, hosts: &[u32]) -> Self {
        let number = |host: u32| hosts.iter().position(|&it| it == host).map(|it| it as u32);
        let both = |[a, b]: Pair| Some([number(a)?, number(b)?]);
        let ring = |ring: &Vec<u32>| ring.iter().map(|&host| number(host)).collect();
        let pairs = self.wiring.pairs().into_iter();
        Self {
            family: self.family.clone(),
            altered: self.altered,
            wiring: Wiring::of(hosts.len(), pairs.filter_map(both)),
            rings: self.rings.iter().filter_map(ring).collect(),
            patches: Patch::of_hosts(&self.patches, both),
        }
    }

    /// Whether every cable belongs to one of its rings.
    pub fn is_all_rings(&self) -> bool {
        let on_rings: usize = self.rings.iter().map(Vec::len).sum();
        !self.rings.is_empty() && on_rings == self.wiring.cables()
    }
}

/// More than the most intricate family.
const IRREGULAR_COMPLEXITY: f64 = 6.0;
/// Maximum number of sets of strides that are tried.
const MAX_STRIDE_SETS: usize = 20_000;
/// Maximum work to shorten random rings, in words of 64 pairs.
const MAX_SHORTENING_WORK: usize = 6 << 20;

/// Hosts and limits of the candidates.
struct Ground<'g> {
    demand: &'g Demand,
    limits: &'g Limits,
    hosts: usize,
    members: Vec<u32>,
    rng: SplitMix64,
    in_time: InTime<'g>,
}

/// Returns one wiring of each suitable family, with all ports in use if possible.
pub fn all(demand: &Demand, limits: &Limits, seed: u64) -> Vec<Design> {
    all_with(demand, limits, seed, &Alone, NO_DEADLINE)
}

/// Same as `all`, with parallel workers. When the time is up, returns the candidates that are complete or in progress,
/// as they are.
pub fn all_with(
    demand: &Demand,
    limits: &Limits,
    seed: u64,
    crew: &dyn Crew,
    in_time: InTime<'_>,
) -> Vec<Design> {
    let designs = crew::each(crew, layouts(demand, limits), |(nth, layout)| {
        if nth > 0 && !in_time() {
            return None;
        }
        // Each with a generator of its own, so that none depends on the others.
        let seed = SplitMix64::new(seed.wrapping_add(nth)).next_u64();
        let mut ground = Ground {
            demand,
            limits,
            hosts: demand.hosts,
            members: (0..demand.hosts as u32).collect(),
            rng: SplitMix64::new(seed),
            in_time,
        };
        let design = ground.lay_out(layout)?;
        Some(ground.finished(design))
    });
    each_once(designs.into_iter().flatten())
}

/// Few hosts leave little room: what several families come to is named after the first of them.
fn each_once(designs: impl Iterator<Item = Design>) -> Vec<Design> {
    let mut known = BTreeSet::new();
    let mut designs: Vec<_> = designs.collect();
    designs.retain(|design| known.insert(design.wiring.pairs()));
    designs
}

/// A family, before it is laid out.
#[derive(Debug, Clone, Copy)]
enum Layout {
    Totient,
    BestStrides,
    Random,
    Kautz,
    DeBruijn,
    Product,
    Matched,
    Heavy { rings: usize },
    Grouped { rings: usize },
}

fn layouts(demand: &Demand, limits: &Limits) -> Vec<(u64, Layout)> {
    let mut layouts = vec![
        Layout::Totient,
        Layout::BestStrides,
        Layout::Random,
        Layout::Kautz,
        Layout::DeBruijn,
        Layout::Product,
    ];
    let rings = limits.most_ports() / 2;
    if demand
        .groups
        .iter()
        .any(|group| is_part(group, demand.hosts))
    {
        let most = BTreeSet::from([rings.saturating_sub(1).max(1), rings]);
        layouts.extend(most.into_iter().map(|rings| Layout::Grouped { rings }));
    }
    if demand.is_lopsided() {
        let some = BTreeSet::from([1, rings.div_ceil(2), rings]);
        layouts.push(Layout::Matched);
        layouts.extend(some.into_iter().map(|rings| Layout::Heavy { rings }));
    }
    (0..).zip(layouts).collect()
}

/// Whether a group should get rings of its own.
fn is_part(group: &Group, hosts: usize) -> bool {
    (3..hosts).contains(&group.members.len())
}

/// Whether no cable of a ring has gone.
pub(super) fn is_whole(ring: &[u32], wiring: &Wiring) -> bool {
    (0..ring.len()).all(|nth| wiring.joins(ring[nth], ring[(nth + 1) % ring.len()]))
}

/// Rings by strides in geometric steps.
pub fn totient(hosts: usize, rings: usize) -> Design {
    by_strides(hosts, &strides::select(hosts, rings))
}

fn by_strides(hosts: usize, strides: &[usize]) -> Design {
    let members: Vec<_> = (0..hosts as u32).collect();
    let ring = |&stride: &usize| strides::ring(&members, stride);
    let rings = strides.iter().filter(|_| hosts > 2).map(ring);
    Design {
        wiring: Wiring::of(hosts, strides::pairs(&members, strides)),
        rings: rings.collect(),
        altered: Altered::default(),
        patches: Vec::new(),
        family: Family::Totient {
            strides: strides.to_vec(),
        },
    }
}

impl Ground<'_> {
    fn lay_out(&mut self, layout: Layout) -> Option<Design> {
        let rings = self.limits.most_ports() / 2;
        match layout {
            Layout::Totient => Some(totient(self.hosts, rings)),
            Layout::BestStrides => Some(self.best_strides(rings)),
            Layout::Random => self.random(rings),
            Layout::Kautz => self.arithmetic(rings, true),
            Layout::DeBruijn => self.arithmetic(rings, false),
            Layout::Product => self.product(),
            Layout::Matched => Some(self.matched()),
            Layout::Heavy { rings: heavy } => self.heavy(heavy, rings.saturating_sub(heavy)),
            Layout::Grouped { rings } => Some(self.grouped(rings)),
        }
    }

    /// Completes a design within the limits: all ports in use, and connected, if possible.
    fn finished(&mut self, mut design: Design) -> Design {
        let Design {
            wiring,
            rings,
            patches,
            altered,
            ..
        } = &mut design;
        let before = wiring.clone();
        fill::trim(wiring, self.limits);
        fill::fill(wiring, self.limits, &mut self.rng);
        fill::connect(wiring, self.limits, &mut self.rng);
        // Two cables that were crossed over at once may have taken the same last fibre.
        fill::spare_fibres(wiring, self.limits);
        *patches = panels::patch(wiring, rings, self.limits, &mut self.rng);
        rings.retain(|ring| is_whole(ring, wiring));
        *altered = altered.besides(&before, wiring);
        design
    }

    fn best_strides(&self, rings: usize) -> Design {
        let work = MAX_STRIDE_SETS.min((1 << 22) / (self.hosts * rings.max(1)).max(1));
        let strides = strides::best(self.hosts, rings, work);
        let mut design = by_strides(self.hosts, &strides);
        design.family = Family::BestStrides { strides };
        design
    }

    fn random(&mut self, rings: usize) -> Option<Design> {
        let mut laid = Laid::new(self.hosts);
        laid.add_random(rings, self)?;
        laid.shorten(0, self);
        Some(laid.design(Family::Random))
    }

    fn arithmetic(&self, fan: usize, kautz: bool) -> Option<Design> {
        let wiring = if kautz {
            products::kautz(self.hosts, fan)
        } else {
            products::de_bruijn(self.hosts, fan)
        };
        (fan > 1).then_some(Design {
            family: if kautz {
                Family::Kautz { fan }
            } else {
                Family::DeBruijn { fan }
            },
            wiring,
            rings: Vec::new(),
            altered: Altered::default(),
            patches: Vec::new(),
        })
    }

    fn product(&self) -> Option<Design> {
        let factors = products::factors(self.hosts, self.limits.most_ports())?;
        Some(Design {
            wiring: products::product(&factors),
            rings: Vec::new(),
            altered: Altered::default(),
            patches: Vec::new(),
            family: Family::Product {
                factors: factors.into_iter().map(|factor| factor.name).collect(),
            },
        })
    }

    fn matched(&mut self) -> Design {
        let ports = self.limits.most_ports();
        let rings = ports_of_groups(self.demand, ports) / 2;
        let mut design = by_strides(self.hosts, &strides::select(self.hosts, rings));
        fill::trim(&mut design.wiring, self.limits);
        let mut weights = matching::weights(self.demand);
        let matchings = ports - 2 * rings;
        matching::add(&mut design.wiring, &mut weights, matchings, self.limits);
        design.family = Family::Matched { rings, matchings };
        design
    }

    /// Gives each group rings of its own, in proportion to its share of its hosts' reductions. Remaining ports join the
    /// hosts with the most traffic.
    fn grouped(&self, inside: usize) -> Design {
        let demand = self.demand;
        let groups = || demand.groups.iter().filter(|it| is_part(it, demand.hosts));
        let mut of_hosts = vec![0.0; self.hosts];
        for group in groups() {
            let members = group.members.iter();
            members.for_each(|&host| of_hosts[host as usize] += group.bytes);
        }
        let mut wiring = Wiring::new(self.hosts);
        for group in groups() {
            let all = group.members.iter().map(|&host| of_hosts[host as usize]);
            let part = group.bytes / all.fold(group.bytes, f64::max);
            let rings = (inside as f64 * part).ceil() as usize;
            let steps = strides::select(group.members.len(), rings);
            for [a, b] in strides::pairs(&group.members, &steps) {
                wiring.join(a, b);
            }
        }
        fill::trim(&mut wiring, self.limits);
        let matchings = self.limits.most_ports().saturating_sub(2 * inside);
        let mut weights = matching::weights(demand);
        matching::add(&mut wiring, &mut weights, matchings, self.limits);
        Design {
            family: Family::Grouped {
                rings: inside,
                matchings,
            },
            wiring,
            rings: Vec::new(),
            altered: Altered::default(),
            patches: Vec::new(),
        }
    }

    /// The order of rings is free, so that some may as well follow what pairs send.
    fn heavy(&mut self, heavy: usize, random: usize) -> Option<Design> {
        let mut laid = Laid::new(self.hosts);
        let mut weights = matching::weights(self.demand);
        for _ in 0..heavy {
            let ring = matching::heavy_ring(&weights, &laid.wiring, self.limits);
            let ring = cycles::mend(ring, &laid.wiring, self.limits, &mut self.rng)?;
            for (nth, &host) in ring.iter().enumerate() {
                let next = ring[(nth + 1) % ring.len()];
                if let Some(bytes) = weights.get_mut(&super::wiring::pair(host, next)) {
                    *bytes /= 2.0;
                }
            }
            laid.add(ring);
        }
        laid.add_random(random, self)?;
        laid.shorten(heavy, self);
        Some(laid.design(Family::Heavy { heavy, random }))
    }
}

/// Returns the ports of groups, in proportion to the traffic of groups and of pairs; at least one.
pub(super) fn ports_of_groups(demand: &Demand, ports: usize) -> usize {
    let (groups, pairs) = (demand.group_bytes(), demand.pair_bytes());
    let part = (ports as f64 * groups / (groups + pairs)).ceil() as usize;
    part.clamp(1, ports)
}

/// A wiring of rings, ring by ring.
struct Laid {
    wiring: Wiring,
    rings: Vec<Vec<u32>>,
}

impl Laid {
    fn new(hosts: usize) -> Self {
        Self {
            wiring: Wiring::new(hosts),
            rings: Vec::new(),
        }
    }

    fn add(&mut self, ring: Vec<u32>) {
        cycles::lay(&mut self.wiring, &ring);
        self.rings.push(ring);
    }

    fn add_random(&mut self, rings: usize, ground: &mut Ground<'_>) -> Option<()> {
        for _ in 0..rings {
            let Ground {
                members,
                limits,
                rng,
                ..
            } = ground;
            let ring = cycles::random(members, &self.wiring, limits, rng)?;
            self.add(ring);
        }
        Some(())
    }

    /// All rings but the first `fixed`.
    fn shorten(&mut self, fixed: usize, ground: &mut Ground<'_>) {
        let Ground { limits, rng, .. } = ground;
        let free = &mut self.rings[fixed..];
        let work = MAX_SHORTENING_WORK;
        cycles::shorten(&mut self.wiring, free, limits, rng, work, ground.in_time);
    }

    fn design(self, family: Family) -> Design {
        Design {
            family,
            wiring: self.wiring,
            rings: self.rings,
            altered: Altered::default(),
            patches: Vec::new(),
        }
    }
}

/// Returns random rings through all hosts, and random cables on the remaining ports.
pub fn random(hosts: usize, rings: usize, limits: &Limits, seed: u64) -> Option<Design> {
    let demand = Demand {
        hosts,
        ..Demand::default()
    };
    let mut ground = Ground {
        demand: &demand,
        limits,
        hosts,
        members: (0..hosts as u32).collect(),
        rng: SplitMix64::new(seed),
        in_time: NO_DEADLINE,
    };
    let design = ground.random(rings)?;
    Some(ground.finished(design))
}
