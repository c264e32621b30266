//! Metrics of plans, and of events sent to other programs.

use super::page::{Kind, Page};
use crate::counters::{Ending, EventCounters, Fate};
use crate::webhooks::DeliveryCounters;

/// Writes every outcome, also with zero, so that the first event of a kind shows as an increase.
pub(super) fn endings(page: &mut Page, endings: &EventCounters<Ending>) {
    let name = "reweave_plans_total";
    let help = "Plans that ended while this coordinator led, by outcome.";
    page.family(Kind::Counter, name, help);
    for ending in Ending::ALL {
        let ended = endings.of(&ending) as f64;
        page.sample(name, &[("outcome", ending.name())], ended);
    }
}

/// Webhooks are labelled by their index, because two of them may have the same host.
pub(super) fn deliveries(page: &mut Page, hooks: &[DeliveryCounters]) {
    let name = "reweave_webhook_deliveries_total";
    let help = "Webhook events, by hook and outcome.";
    page.family(Kind::Counter, name, help);
    for (hook, number) in hooks.iter().zip(1_u32..) {
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
