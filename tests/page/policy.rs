//! The policy on the page: an operator compares a change with what is in force, and then makes exactly that change.

use reweave_tests::{Leadership, Stage};
use serde_json::{Value, json};

use super::browser::Browser;
use super::play::{led, must};
use super::{is_sound, operators_page, photograph, view};

pub(crate) fn policy_is_changed_after_comparison() {
    let stage = led(&Leadership::default());
    let mut browser = operators_page(&stage);
    view(&mut browser, "changes");
    compare(&mut browser, "least_gain", "0.25");
    is_sound(&mut browser);
    photograph(&mut browser, "policy");
    // Another operator is quicker.
    must(stage.operator().shown(&["policy", "set", "tolerance=0.06"]));
    browser.press("Change least_gain");
    browser.when("document.querySelector('[aria-label=\"Policy\"] [role=\"alert\"] p.bad')");
    browser.when(&is_listed("tolerance", "set by operator"));
    assert_ne!(source(&stage, "least_gain"), "set");
    compare(&mut browser, "least_gain", "0.25");
    browser.press("Change least_gain");
    browser.when(&is_listed("least_gain", "set by operator"));
    assert_eq!(source(&stage, "least_gain"), "set");
    browser.press("Compare with the file's value");
    browser.press("Change least_gain");
    browser.when(&format!("!{}", is_listed("least_gain", "set by operator")));
    assert_ne!(source(&stage, "least_gain"), "set");
    is_sound(&mut browser);
}

/// Chooses a setting, and shows its present value beside another.
fn compare(browser: &mut Browser, key: &str, value: &str) {
    let select = "document.querySelector('select[aria-label=\"Setting\"]')";
    browser.when(&format!("{select}.options.length === 29"));
    browser.value(&format!(
        "{select}.value = {}, {select}.dispatchEvent(new Event('change'))",
        json!(key)
    ));
    let field = "document.querySelector('[aria-label=\"New value\"]')";
    browser.value(&format!("{field}.value = {}", json!(value)));
    browser.press("Compare with the new value");
    let change = format!("{key} = {value}");
    browser.when(&format!(
        "document.querySelector('[aria-label=\"Change of the policy\"]').innerText.includes({})",
        json!(change)
    ));
}

/// Whether the list of settings has this source for the key.
fn is_listed(key: &str, source: &str) -> String {
    let row = format!(
        "(it) => it.cells[0]?.innerText === {} && it.cells[2]?.innerText.includes({})",
        json!(key),
        json!(source)
    );
    format!("[...document.querySelectorAll('[aria-label=\"Policy\"] tr')].some({row})")
}

/// The source that a script reads.
fn source(stage: &Stage, key: &str) -> String {
    let policy: Value = must(stage.operator().ask(&["policy", "show"]));
    let mut settings = policy["settings"].as_array().expect("a list").iter();
    let found = settings.find(|setting| setting["key"] == key);
    let source = found.and_then(|setting| setting["source"].as_str());
    source.expect("every key has one").to_owned()
}
