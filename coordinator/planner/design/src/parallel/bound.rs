//! Lower bound for every split of operators.

use reweave_sim::workload::job::operators::timing;

use super::operators::Search;

impl Search<'_> {
    /// Returns a lower bound over all splits: all servers together need this time to compute, and the operators of a
    /// chain wait for one another, forward and backward.
    pub(super) fn bound_ms(&self) -> f64 {
        let count = self.model.operators.len();
        let shared: f64 = (0..count).map(|nth| self.least_work_ms(nth)).sum();
        let mut chains: Vec<f64> = Vec::with_capacity(count);
        for nth in 0..count {
            let inputs = self.model.operators[nth].inputs.iter();
            let before = inputs.map(|&input| chains[input]).fold(0.0, f64::max);
            chains.push(before + self.least_time_ms(nth));
        }
        let longest = chains.into_iter().fold(0.0, f64::max);
        (shared / self.servers as f64).max(longest)
    }

    /// Returns the least work of an operator, summed over all servers that it may use.
    fn least_work_ms(&self, nth: usize) -> f64 {
        let work =
            |(parts, [forward, backward]): (usize, [f64; 2])| parts as f64 * (forward + backward);
        self.ways(nth).map(work).fold(f64::INFINITY, f64::min)
    }

    /// Returns the least time for both passes.
    fn least_time_ms(&self, nth: usize) -> f64 {
        let least = |way: usize| {
            let times = self.ways(nth).map(|(_, times)| times[way]);
            times.fold(f64::INFINITY, f64::min)
        };
        least(0) + least(1)
    }

    /// Into how many parts an operator can be split, and what one takes forward and back.
    fn ways(&self, nth: usize) -> impl Iterator<Item = (usize, [f64; 2])> {
        let kind = &self.model.operators[nth].timing;
        let most = self
            .servers
            .min(usize::try_from(self.model.batch).unwrap_or(usize::MAX));
        (1..=most).filter_map(move |parts| {
            let timing = timing(self.timings, kind, parts as u32)?;
            let times = [timing.forward, timing.backward];
            Some((parts, times.map(|time| time.as_secs_f64() * 1e3)))
        })
    }
}
