//! Status output without a leader.

use super::dash;
use super::peers::state;
use crate::page::{Ink, Page, age};
use crate::standing::{Leaderless, Stands};

pub(crate) fn leaderless(page: &mut Page, seen: &Leaderless) {
    for alarm in &seen.alarms {
        let alarm = page.ink(Ink::Red, &format!("alarm: {alarm}"));
        page.line(&alarm);
    }
    page.heading("Coordinators");
    let row = |it: &Stands| {
        let one = &it.status;
        let answers = if it.answers {
            "yes".to_owned()
        } else {
            page.ink(Ink::Red, "no")
        };
        [
            one.name.clone(),
            one.address.to_string(),
            answers,
            state(page, one.state),
            if one.votes { "yes" } else { "no" }.to_owned(),
            one.term.map_or_else(dash, |term| term.to_string()),
            it.last.map_or_else(dash, |last| last.to_string()),
            one.heard_ms.map_or_else(dash, age),
        ]
    };
    let rows: Vec<_> = seen.coordinators.iter().map(row).collect();
    let headings = [
        "name", "address", "answers", "state", "votes", "term", "log to", "heard",
    ];
    page.table(headings, rows);
    for it in &seen.coordinators {
        if let Some(why) = &it.why {
            page.line(&format!("{} does not respond: {why}", it.status.name));
        }
    }
}
