//! A share that is usually zero, round by round. Rounds are only counted until the first one that is not zero.

use std::collections::VecDeque;

#[derive(Debug, Clone, Default)]
pub(crate) struct LossHistory {
    /// The number of rounds without loss before these.
    clean: usize,
    since: VecDeque<f64>,
}

impl LossHistory {
    /// Adds a round; at most `most` rounds are kept.
    pub(crate) fn note(&mut self, share: f64, most: usize) {
        self.since.push_back(share);
        if self.clean + self.since.len() > most {
            match self.clean {
                0 => drop(self.since.pop_front()),
                _ => self.clean -= 1,
            }
        }
        while self.since.front() == Some(&0.0) {
            self.since.pop_front();
            self.clean += 1;
        }
        if self.since.is_empty() {
            self.since.shrink_to_fit();
        }
    }

    /// The values, oldest first; empty without any loss.
    pub(crate) fn values(&self) -> Vec<f64> {
        if self.since.is_empty() {
            return Vec::new();
        }
        let clean = std::iter::repeat_n(0.0, self.clean);
        clean.chain(self.since.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_history_equals_full_history() {
        let (mut shares, mut all) = (LossHistory::default(), Vec::new());
        for round in 0..50 {
            let share = if (11..14).contains(&round) { 0.5 } else { 0.0 };
            shares.note(share, 10);
            all.push(share);
            let last = &all[all.len().saturating_sub(10)..];
            let is_clean = last.iter().all(|share| *share == 0.0);
            let kept = if is_clean { &[] } else { last };
            assert_eq!(shares.values(), kept, "{round}");
            assert_eq!(shares.since.capacity() > 0, !is_clean, "{round}");
        }
    }
}
