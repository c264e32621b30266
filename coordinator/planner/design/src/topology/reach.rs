//! Reachability of all hosts within a number of hops: one bit per pair.
//!
//! With one more hop, each host reaches what its neighbours reached: a few operations per 64 pairs.

use super::wiring::Wiring;

pub(super) struct Reach {
    hosts: usize,
    /// Number of words per host.
    words: usize,
    reached: Vec<u64>,
    next: Vec<u64>,
}

impl Reach {
    pub(super) fn new(hosts: usize) -> Self {
        let words = hosts.div_ceil(64);
        let mut reach = Self {
            hosts,
            words,
            reached: vec![0; hosts * words],
            next: vec![0; hosts * words],
        };
        reach.begin();
        reach
    }

    /// Every host reaches itself.
    fn begin(&mut self) {
        self.reached.fill(0);
        for host in 0..self.hosts {
            self.reached[host * self.words + host / 64] |= 1 << (host % 64);
        }
    }

    fn pairs(&self) -> u64 {
        let counts = self.reached.iter().map(|word| u64::from(word.count_ones()));
        counts.sum()
    }

    /// Adds the hosts that are one hop further.
    fn look(&mut self, wiring: &Wiring) {
        let Self {
            words,
            reached,
            next,
            ..
        } = self;
        let of = |host: u32| &reached[host as usize * *words..][..*words];
        for (host, further) in (0..).zip(next.chunks_exact_mut((*words).max(1))) {
            further.copy_from_slice(of(host));
            for &neighbour in wiring.neighbours(host) {
                let near = further.iter_mut().zip(of(neighbour));
                near.for_each(|(further, near)| *further |= near);
            }
        }
    }

    fn go(&mut self) {
        std::mem::swap(&mut self.reached, &mut self.next);
    }

    /// Returns the sum of hops between all hosts; none if some are unconnected, or the sum exceeds `most`.
    pub(super) fn all_hops(&mut self, wiring: &Wiring, most: u64) -> Option<u64> {
        let all = (self.hosts * self.hosts) as u64;
        self.begin();
        let (mut reached, mut hops) = (self.hosts as u64, 0);
        while reached < all {
            // Each pair that is not reached yet takes one hop more.
            hops += all - reached;
            if hops > most {
                return None;
            }
            self.look(wiring);
            self.go();
            let before = std::mem::replace(&mut reached, self.pairs());
            if reached == before {
                return None;
            }
        }
        Some(hops)
    }

    /// Calls back for each pair that has a path, the nearest first, with from, to and hops.
    pub(super) fn each_pair(&mut self, wiring: &Wiring, mut tell: impl FnMut(usize, usize, u16)) {
        self.begin();
        for hops in 1..=u16::MAX {
            self.look(wiring);
            let mut any = false;
            let words = self.reached.iter().zip(&self.next).enumerate();
            for (nth, (reached, next)) in words {
                let mut new = next & !reached;
                any |= new != 0;
                while new != 0 {
                    let bit = new.trailing_zeros() as usize;
                    tell(nth / self.words, nth % self.words * 64 + bit, hops);
                    new &= new - 1;
                }
            }
            if !any {
                return;
            }
            self.go();
        }
    }
}
