//! Computes the changes from the pins in a kernel to the desired ones.

pub mod routes;
mod usable;

use std::collections::BTreeSet;

use reweave_common::sample::PinRule;

pub use usable::usable;

/// One change to the kernel's pins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleOp {
    Add(PinRule),
    Remove(PinRule),
}

/// The fewest changes, to be made in this order. Adding comes first: a kernel holds two rules of
/// one flow and follows the older, so a flow that gets another next hop is never without a rule.
pub fn reconcile(desired: &[PinRule], actual: &[PinRule]) -> Vec<RuleOp> {
    let desired: BTreeSet<_> = desired.iter().collect();
    let actual: BTreeSet<_> = actual.iter().collect();
    let missing = desired.difference(&actual);
    let surplus = actual.difference(&desired);
    let adds = missing.map(|&rule| RuleOp::Add(rule.clone()));
    adds.chain(surplus.map(|&rule| RuleOp::Remove(rule.clone())))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use reweave_common::flow::FlowKey;

    use super::*;
    use crate::examples::rule;

    /// A kernel's list of rules: the first that matches a flow is followed.
    #[derive(Clone)]
    struct Kernel(Vec<PinRule>);

    impl Kernel {
        fn carry_out(&mut self, op: &RuleOp) {
            match op {
                RuleOp::Add(rule) => {
                    assert!(!self.0.contains(rule), "EEXIST for {rule:?}");
                    self.0.push(rule.clone());
                }
                RuleOp::Remove(rule) => {
                    let at = self.0.iter().position(|held| held == rule);
                    self.0.remove(at.expect("ENOENT"));
                }
            }
        }

        fn followed(&self, flow: FlowKey) -> Option<&PinRule> {
            self.0.iter().find(|rule| rule.flow == flow)
        }
    }

    /// Generates at most one rule for each of a few flows, so that the same flow often gets different next hops.
    fn pins() -> impl Strategy<Value = Vec<PinRule>> {
        let choices = proptest::collection::btree_map(1u16..9, 0u8..3, 0..8);
        choices.prop_map(|choice| {
            let rules = choice.into_iter().map(|(port, spine)| rule(port, spine));
            rules.collect()
        })
    }

    proptest! {
        #[test]
        fn kept_flow_always_has_some_rule(
            desired in pins(),
            actual in pins(),
        ) {
            let mut kernel = Kernel(actual.clone());
            let ops = reconcile(&desired, &actual);
            for op in &ops {
                kernel.carry_out(op);
                for old in &actual {
                    let Some(new) = desired.iter().find(|new| new.flow == old.flow) else {
                        continue;
                    };
                    let followed = kernel.followed(old.flow);
                    prop_assert!(followed == Some(old) || followed == Some(new));
                }
            }
            kernel.0.sort();
            prop_assert_eq!(&kernel.0, &desired);
            prop_assert!(reconcile(&desired, &kernel.0).is_empty(), "not idempotent");
        }

        #[test]
        fn unchanged_rules_are_left_alone(desired in pins(), actual in pins()) {
            let both = desired.iter().filter(|rule| actual.contains(rule)).count();
            let ops = reconcile(&desired, &actual);
            prop_assert_eq!(ops.len(), desired.len() + actual.len() - 2 * both);
        }
    }

    #[test]
    fn flow_moves_by_adding_first() {
        let ops = reconcile(&[rule(1, 1)], &[rule(1, 0)]);
        assert_eq!(ops, [RuleOp::Add(rule(1, 1)), RuleOp::Remove(rule(1, 0))]);
    }
}
