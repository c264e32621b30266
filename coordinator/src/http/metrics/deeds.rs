//! Metrics of plans, and of events sent to other programs.

use super::page::{Kind, Page};
use crate::counters::{Ending, EventCounters, Fate};
use crate::webhooks::DeliveryCounters;

/// All of them, so that the first of a kind is seen to have come.
pub(super) fn endings(page: &mut Page, endings: &EventCounters<Ending>) {
    let name = "reweave_plans_total";
    let help = "Plans that ended while this coordinator led, by outcome.";
    page.family(Kind::Counter, name, help);
    for ending in Ending::ALL {
        let ended = endings.of(&ending) as f64;
        page.sample(name, &[("outcome", ending.name())], ended);
    }
}

/// By their order, for two of them may lie on one host.
pub(super) fn told(page: &mut Page, told: &[DeliveryCounters]) {
    let name = "reweave_webhook_deliveries_total";
    let help = "Webhook events, by hook and outcome.";
    page.family(Kind::Counter, name, help);
    for (hook, number) in told.iter().zip(1_u32..) {
        let number = number.to_string();
        for fate in Fate::ALL {
            let labels = [
                ("hook", &*number),
                ("host", &hook.host),
                ("outcome", fate.name()),
            ];
            page.sample(name, &labels, hook.fates.of(&fate) as f64);
        }
    }
}
