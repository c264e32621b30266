//! Three coordinators, of which one leads: the page goes on with the next leader.

use reweave_tests::{Labs, STAGE_TIMEOUT, Setting, Stage, wait_for};

use super::browser::Browser;
use super::play::must;
use super::{operators_page, photograph, view};

/// Over TLS, where the page is served to other machines.
pub(crate) fn page_follows_new_leader() {
    let mut stage = must(Stage::up(Setting::DEMO_SETTING, Labs::Hidden));
    must(stage.lead_by_three());
    let first = must(stage.leader());
    let mut browser = operators_page(&stage);
    is_live_at(&mut browser, first);
    view(&mut browser, "matrix");

    // A coordinator that stood still while others chose another says so when it goes on.
    must(stage.one_of_three(first).freeze());
    let second = another_leads(&stage, first);
    must(stage.one_of_three(first).thaw());
    is_live_at(&mut browser, second);
    let matrix = "document.getElementById('tab-matrix').ariaSelected === 'true'";
    browser.when(matrix);

    // A dead one says nothing.
    stage.one_of_three(second).kill();
    browser.when("document.querySelectorAll('#elsewhere a').length === 2");
    let text = browser.text();
    assert!(text.contains("This page is no longer live"), "{text}");
    assert!(text.contains("the coordinator is unreachable"), "{text}");
    photograph(&mut browser, "elsewhere");
    let third = another_leads(&stage, second);
    // Whichever is opened, it is soon the one that leads.
    browser.value("document.querySelector('#elsewhere a').click()");
    is_live_at(&mut browser, third);
    browser.when(matrix);
    browser.when("document.getElementById('elsewhere').childElementCount === 0");
}

fn another_leads(stage: &Stage, than: usize) -> usize {
    must(wait_for("another leads", STAGE_TIMEOUT, || {
        Ok(Some(stage.leader()?).filter(|&leads| leads != than))
    }))
}

/// The generation stands in what is said of a cluster that is heard.
fn is_live_at(browser: &mut Browser, place: usize) {
    let host = Stage::address_of(place);
    browser.when(&format!(
        "location.hostname === '{host}' && document.querySelector('#state .chip')?.innerText.includes('generation')"
    ));
}
