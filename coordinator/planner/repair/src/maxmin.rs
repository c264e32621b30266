//! Max-min fair rates: no flow can get more without another getting less that has no more already.
//!
//! Rates are whole bits per second, so that the result is the same on every machine. A hop shared
//! by n flows is filled up to less than n bits per second.

use reweave_common::units::Rate;

/// Demand of one flow.
#[derive(Debug, Clone, Copy)]
pub struct Demand<'a> {
    /// The hops it crosses, as indices into the capacities. One that it crosses twice carries it twice.
    pub hops: &'a [usize],
    /// Maximum rate of the flow.
    pub most: Option<Rate>,
}

/// Rate of one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub rate: Rate,
    /// The full hop on which no flow gets more than this one; none when it gets all it asks for.
    pub held_by: Option<usize>,
}

/// The share of each demand, by progressive filling: all rates rise together, and a flow stops when
/// it has what it asks for or one of its hops is full.
pub fn max_min(capacities: &[Rate], demands: &[Demand<'_>]) -> Vec<Share> {
    let mut filling = Filling::new(capacities, demands);
    while let Some(stop) = filling.next_stop() {
        filling.stop_at(&stop);
    }
    // Only a flow without hops and without limit is left.
    let unbounded = Share {
        rate: Rate::from_bits_per_s(u64::MAX),
        held_by: None,
    };
    filling
        .shares
        .into_iter()
        .map(|share| share.unwrap_or(unbounded))
        .collect()
}

/// Next event that ends the rise of flows.
enum Stop {
    Asked { demand: usize, level: u64 },
    Full { hop: usize, level: u64 },
}

impl Stop {
    fn level(&self) -> u64 {
        match *self {
            Self::Asked { level, .. } | Self::Full { level, .. } => level,
        }
    }
}

struct Filling<'a> {
    demands: &'a [Demand<'a>],
    /// By hop: capacity that stopped flows leave, and number of rising flows.
    hops: Vec<(u64, u64)>,
    shares: Vec<Option<Share>>,
}

impl<'a> Filling<'a> {
    fn new(capacities: &[Rate], demands: &'a [Demand<'a>]) -> Self {
        let mut hops: Vec<_> = capacities
            .iter()
            .map(|rate| (rate.bits_per_s(), 0))
            .collect();
        for &hop in demands.iter().flat_map(|demand| demand.hops) {
            hops[hop].1 += 1;
        }
        Self {
            demands,
            hops,
            shares: vec![None; demands.len()],
        }
    }

    /// Returns the lowest level at which something stops. A demand precedes a hop of the same level.
    fn next_stop(&self) -> Option<Stop> {
        let asked = self.rising().filter_map(|demand| {
            let level = self.demands[demand].most?.bits_per_s();
            Some(Stop::Asked { demand, level })
        });
        let full = self
            .hops
            .iter()
            .enumerate()
            .filter_map(|(hop, &(spare, rising))| {
                let level = spare.checked_div(rising)?;
                Some(Stop::Full { hop, level })
            });
        asked.chain(full).min_by_key(Stop::level)
    }

    fn stop_at(&mut self, stop: &Stop) {
        match *stop {
            Stop::Asked { demand, level } => self.settle(demand, level, None),
            Stop::Full { hop, level } => {
                let on_it: Vec<_> = self
                    .rising()
                    .filter(|&index| self.demands[index].hops.contains(&hop))
                    .collect();
                for demand in on_it {
                    self.settle(demand, level, Some(hop));
                }
            }
        }
    }

    fn settle(&mut self, demand: usize, level: u64, held_by: Option<usize>) {
        self.shares[demand] = Some(Share {
            rate: Rate::from_bits_per_s(level),
            held_by,
        });
        for &hop in self.demands[demand].hops {
            let (spare, rising) = &mut self.hops[hop];
            *spare -= level;
            *rising -= 1;
        }
    }

    fn rising(&self) -> impl Iterator<Item = usize> {
        let shares = self.shares.iter().enumerate();
        shares
            .filter(|(_, share)| share.is_none())
            .map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tests::scene::seeded;

    fn rates(bits: &[u64]) -> Vec<Rate> {
        bits.iter().copied().map(Rate::from_bits_per_s).collect()
    }

    fn shares(
        capacities: &[u64],
        demands: &[(&[usize], Option<u64>)],
    ) -> Vec<(u64, Option<usize>)> {
        let demand = |&(hops, most): &(_, Option<u64>)| Demand {
            hops,
            most: most.map(Rate::from_bits_per_s),
        };
        let demands: Vec<_> = demands.iter().map(demand).collect();
        let shares = max_min(&rates(capacities), &demands);
        shares
            .iter()
            .map(|share| (share.rate.bits_per_s(), share.held_by))
            .collect()
    }

    #[test]
    fn long_flow_shares_with_two_short() {
        let found = shares(&[10, 4], &[(&[0, 1], None), (&[0], None), (&[1], None)]);
        assert_eq!(found, [(2, Some(1)), (8, Some(0)), (2, Some(1))]);
    }

    #[test]
    fn unused_share_goes_to_others() {
        let found = shares(&[90], &[(&[0], Some(10)), (&[0], None), (&[0], Some(90))]);
        assert_eq!(found, [(10, None), (40, Some(0)), (40, Some(0))]);
    }

    #[test]
    fn hop_crossed_twice_counts_twice() {
        let found = shares(&[12], &[(&[0, 0], None), (&[0], None)]);
        assert_eq!(found, [(4, Some(0)), (4, Some(0))]);
    }

    #[test]
    fn unbounded_flow_is_reported() {
        assert_eq!(
            shares(&[], &[(&[], None), (&[], Some(7))]),
            [(u64::MAX, None), (7, None)]
        );
    }

    prop_compose! {
        fn problem()(capacities in prop::collection::vec(0..2000u64, 1..8))
            (demands in prop::collection::vec(
                (prop::sample::subsequence((0..capacities.len()).collect::<Vec<_>>(), 1..=capacities.len()),
                 prop::option::of(0..1000u64)),
                0..12),
             capacities in Just(capacities)) -> (Vec<u64>, Vec<(Vec<usize>, Option<u64>)>) {
            (capacities, demands)
        }
    }

    proptest! {
        #![proptest_config(seeded(2000))]

        /// The certificate of max-min fairness, checked from the rates alone.
        #[test]
        fn rates_satisfy_max_min_certificate(
            (capacities, demands) in problem()
        ) {
            let asked: Vec<_> = demands.iter().map(|(hops, most)| (&hops[..], *most)).collect();
            let found = shares(&capacities, &asked);
            let on = |hop| {
                let crossing = demands.iter().zip(&found).filter(move |((hops, _), _)| hops.contains(&hop));
                crossing.map(|(_, (rate, _))| *rate)
            };
            for (hop, &capacity) in capacities.iter().enumerate() {
                prop_assert!(on(hop).sum::<u64>() <= capacity, "hop {hop} carries too much");
            }
            for ((hops, most), &(rate, held_by)) in demands.iter().zip(&found) {
                prop_assert!(most.is_none_or(|most| rate <= most));
                let holds = |&hop: &usize| {
                    let crumbs = capacities[hop] - on(hop).sum::<u64>();
                    crumbs < on(hop).count() as u64 && on(hop).all(|other| other <= rate)
                };
                match held_by {
                    None => prop_assert_eq!(Some(rate), *most),
                    Some(hop) => prop_assert!(hops.contains(&hop) && holds(&hop)),
                }
            }
        }
    }
}
