//! The grant of a probe list: its expiry, and its budget of bytes.

use std::time::Duration;

use reweave_common::moment::Moment;
use reweave_common::probing::ProbeList;
use reweave_common::units::Rate;

use crate::packet_trains::ByteBudget;

/// No list is valid for longer, and none asks for anything less often.
pub(crate) const MAX_LIST_TTL: Duration = Duration::from_secs(24 * 3600);

/// When what a list grants has run out.
pub(crate) fn ends(now: Moment, list: &ProbeList) -> Moment {
    now + *list.valid_for.min(MAX_LIST_TTL.into())
}

/// The bytes that the last list permits. Receiving the same list again permits no more.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    granted: Option<(Rate, ByteBudget)>,
}

impl Allowance {
    /// There is nothing in it at first, nor after the rate has changed; `most_bytes` are saved up.
    pub(crate) fn handle_rate(&mut self, now: Moment, rate: Rate, most_bytes: u64) {
        if self.granted.as_ref().is_none_or(|(held, _)| *held != rate) {
            let budget = ByteBudget::empty(now, rate.bits_per_s() / 8, most_bytes);
            self.granted = Some((rate, budget));
        }
    }

    /// None before the first list.
    pub(crate) fn budget(&mut self) -> Option<&mut ByteBudget> {
        self.granted.as_mut().map(|(_, budget)| budget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_rate_leaves_budget_unchanged() {
        let at = Moment::from_micros;
        let [slow, fast] = [8000, 16_000].map(Rate::from_bits_per_s);
        let mut allowance = Allowance::default();
        assert!(allowance.budget().is_none());
        allowance.handle_rate(at(0), slow, 1000);
        allowance.handle_rate(at(500_000), slow, 1000);
        let mut take = |rate, bytes| {
            allowance.handle_rate(at(500_000), rate, 1000);
            allowance.budget().unwrap().take(at(500_000), bytes)
        };
        assert!(take(slow, 500) && !take(slow, 1));
        assert!(!take(fast, 1), "another rate begins with nothing");
    }
}
