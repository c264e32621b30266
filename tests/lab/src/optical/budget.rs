//! Loss of light between two ports, and whether it is within the budget.

use std::collections::BTreeMap;

use reweave_common::units::Loss;

/// Losses of the ports, and the budget.
#[derive(Debug, Clone, Default)]
pub(crate) struct Budget {
    /// Between any two ports.
    pub(crate) insertion: Loss,
    /// Moreover at these: of a fibre that is long, or of a port that is dirty.
    pub(crate) at_ports: BTreeMap<u16, Loss>,
    /// Receivers see no light that has lost more.
    pub(crate) most: Option<Loss>,
}

impl Budget {
    pub(super) fn loss(&self, a: u16, b: u16) -> Loss {
        let at_ports = [a, b].map(|port| self.at_ports.get(&port).copied().unwrap_or_default());
        [self.insertion].into_iter().chain(at_ports).sum()
    }

    pub(super) fn suffices(&self, a: u16, b: u16) -> bool {
        self.most.is_none_or(|most| self.loss(a, b) <= most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optical_losses_add_up_to_budget() {
        let loss = |db| Loss::from_db(db).unwrap();
        let mut budget = Budget {
            insertion: loss(1.5),
            at_ports: [(2, loss(0.25)), (3, loss(2.25))].into(),
            most: None,
        };
        let lost = [(1, 4), (1, 2), (3, 2)].map(|(a, b)| budget.loss(a, b).db());
        assert_eq!(lost, [1.5, 1.75, 4.0]);
        assert!(budget.suffices(3, 2), "with any loss");
        budget.most = Some(loss(4.0));
        assert!(budget.suffices(3, 2), "just so");
        budget.at_ports.insert(2, loss(0.251));
        assert!(!budget.suffices(3, 2) && budget.suffices(1, 2));
    }
}
