//! Families of wirings.

use std::fmt;

use super::cycles;
use super::demand::Demand;
use super::limits::Limits;
use super::strides;
use super::wiring::Wiring;
use crate::dice::Dice;

/// How a wiring came about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Family {
    /// Rings by strides in geometric steps.
    Totient { strides: Vec<usize> },
    /// Rings by the strides that make hops fewest.
    BestStrides { strides: Vec<usize> },
    /// Random rings, shortened.
    Random,
}

impl Family {
    /// One word for scripts.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Totient { .. } => "totient",
            Self::BestStrides { .. } => "strides",
            Self::Random => "random",
        }
    }
}

impl Family {
    /// How hard it is to say what is wired to what.
    pub(super) fn intricacy(&self) -> f64 {
        match self {
            Self::Totient { .. } => 0.0,
            Self::BestStrides { .. } => 1.0,
            Self::Random => 2.0,
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
            Self::Totient { strides } => write!(f, "rings by strides {}", list(strides)),
            Self::BestStrides { strides } => {
                write!(f, "rings by searched strides {}", list(strides))
            }
            Self::Random => f.write_str("random rings"),
        }
    }
}

/// A wiring with what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    pub family: Family,
    pub wiring: Wiring,
    /// Rings through all hosts; no two have a cable in common.
    pub rings: Vec<Vec<u32>>,
}

impl Design {
    /// Whether every cable lies on one of its rings.
    pub fn is_all_rings(&self) -> bool {
        let on_rings: usize = self.rings.iter().map(Vec::len).sum();
        !self.rings.is_empty() && on_rings == self.wiring.cables()
    }
}

/// How many sets of strides may be looked at.
const STRIDE_SETS: usize = 20_000;
/// How many cables may be looked at to shorten random rings.
const WORK_OF_SHORTENING: usize = 24 << 20;

/// One wiring of each family that suits.
pub fn all(demand: &Demand, limits: &Limits, seed: u64) -> Vec<Design> {
    let rings = limits.common_ports() / 2;
    let mut dice = Dice::new(seed);
    let designs = [
        totient(demand.hosts, rings, limits),
        best_strides(demand.hosts, rings, limits),
        random(demand.hosts, rings, limits, &mut dice),
    ];
    designs.into_iter().flatten().collect()
}

pub fn totient(hosts: usize, rings: usize, limits: &Limits) -> Option<Design> {
    let strides = strides::select(hosts, rings);
    let design = by_strides(hosts, &strides);
    limits.hold(&design.wiring).then_some(design)
}

fn by_strides(hosts: usize, strides: &[usize]) -> Design {
    let members: Vec<_> = (0..hosts as u32).collect();
    let wiring = Wiring::of(hosts, strides::pairs(&members, strides));
    let ring = |&stride: &usize| strides::ring(&members, stride);
    Design {
        wiring,
        rings: strides.iter().map(ring).collect(),
        family: Family::Totient {
            strides: strides.to_vec(),
        },
    }
}

fn best_strides(hosts: usize, rings: usize, limits: &Limits) -> Option<Design> {
    let work = STRIDE_SETS.min((1 << 26) / (hosts * rings.max(1)).max(1));
    let strides = strides::best(hosts, rings, work);
    let mut design = by_strides(hosts, &strides);
    design.family = Family::BestStrides { strides };
    limits.hold(&design.wiring).then_some(design)
}

pub(super) fn random(
    hosts: usize,
    rings: usize,
    limits: &Limits,
    dice: &mut Dice,
) -> Option<Design> {
    let members: Vec<_> = (0..hosts as u32).collect();
    let mut wiring = Wiring::new(hosts);
    let mut found = Vec::new();
    for _ in 0..rings {
        let ring = cycles::random(&members, &wiring, limits, dice)?;
        cycles::lay(&mut wiring, &ring);
        found.push(ring);
    }
    cycles::shorten(&mut wiring, &mut found, limits, dice, WORK_OF_SHORTENING);
    Some(Design {
        family: Family::Random,
        wiring,
        rings: found,
    })
}
