//! The dashboard in a real browser, on a cluster that is really there: does it show what is so, soon, and
//! to everybody?
//!
//! With REWEAVE_PICTURES, a folder, the views are photographed into it.

mod browser;
#[path = "../lab/tests/support/needs.rs"]
mod needs;
#[path = "../play.rs"]
mod play;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::Arguments;
use reweave_tests::{Leadership, PATIENCE, Stage, wait_for};
use serde_json::{Value, json};

use browser::Browser;
use needs::{Need, trial};
use play::{collide, led, must};

const NEEDS: &[Need] = &[Need::Lab, Need::Program("chromium")];
/// From a fault to its picture.
const SOON: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let tests = vec![
        trial("a_fault_is_seen_soon", NEEDS, a_fault_is_seen_soon),
        trial("a_plan_is_approved", NEEDS, a_plan_is_approved),
        trial("a_viewer_only_looks", NEEDS, a_viewer_only_looks),
    ];
    // Each measures rates or times, so none may have another beside it.
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// The page, opened by whoever has this certificate, in a browser beside the coordinator.
fn page_of(stage: &Stage, identity: &str) -> Browser {
    let mut browser = Browser::start(stage.enter(Stage::STATION));
    let identity = stage.path(identity);
    let identity = identity.to_string_lossy();
    let link = must(
        stage
            .operator()
            .shown(&["--identity", &identity, "dashboard"]),
    );
    browser.go(link.trim_end());
    browser.when("document.querySelector('#state .chip')");
    browser
}

fn operators_page(stage: &Stage) -> Browser {
    page_of(stage, "certificates/operator")
}

fn view(browser: &mut Browser, name: &str) {
    browser.value(&format!("document.getElementById('tab-{name}').click()"));
    browser.when("document.querySelector('main .panel')");
}

fn photograph(browser: &mut Browser, name: &str) {
    if let Some(folder) = std::env::var_os("REWEAVE_PICTURES") {
        browser.photograph(&PathBuf::from(folder).join(format!("{name}.png")));
    }
}

/// Nothing complained of, and everything that can be pressed or read has a name.
fn is_sound(browser: &mut Browser) {
    assert!(
        browser.complaints().is_empty(),
        "{:?}",
        browser.complaints()
    );
    let tree = browser.order("Accessibility.getFullAXTree", &json!({}));
    let roles = [
        "button",
        "tab",
        "link",
        "combobox",
        "searchbox",
        "img",
        "slider",
    ];
    for node in tree["nodes"].as_array().into_iter().flatten() {
        let role = node["role"]["value"].as_str().unwrap_or_default();
        let name = node["name"]["value"].as_str().unwrap_or_default();
        let is_seen = node["ignored"] == false && roles.contains(&role);
        assert!(!is_seen || !name.is_empty(), "{node}");
    }
}

/// The one whose picture is looked at comes last.
const VIEWS: [&str; 8] = [
    "overview", "matrix", "flows", "jobs", "changes", "agents", "sandbox", "fabric",
];
const DOWN: &str = "document.querySelector('[aria-label=\"Link leaf0-spine0\"].down')";

fn a_fault_is_seen_soon() {
    // What is written soon can be looked back at soon.
    let tables = "[history]\nwrite_every_s = 1\n".to_owned();
    let stage = led(&Leadership {
        tables,
        ..Leadership::default()
    });
    let _job = collide(&stage);
    let mut browser = operators_page(&stage);
    for name in VIEWS {
        view(&mut browser, name);
        if name == "matrix" {
            matrix_is_painted(&mut browser);
        }
        photograph(&mut browser, name);
        is_sound(&mut browser);
    }
    turns_dark_and_back(&mut browser);
    assert_eq!(browser.value(&format!("{DOWN} === null")), true);
    let before = browser.value("Date.now() - 2000");
    must(stage.sever("leaf0", "spine0"));
    let took = browser.when(DOWN);
    photograph(&mut browser, "fabric-down");
    is_sound(&mut browser);
    eprintln!("the fault was seen after {took:?}");
    assert!(took < SOON, "{took:?}");
    is_as_it_was(&mut browser, &before);
    is_played_otherwise(&stage, &mut browser);
}

/// Plays the last minute, once something that was sent in it is written down.
fn play_what_was_sent(browser: &mut Browser) {
    let until = "document.querySelector('input[type=\"datetime-local\"]')";
    browser.when(&format!("{until}.value"));
    // The field has the browser's own clock, to the second.
    let now = "Math.floor(Date.now() / 1000) * 1000 - new Date().getTimezoneOffset() * 60000";
    must(wait_for("the history has traffic", PATIENCE, || {
        browser.value(&format!("{until}.valueAsNumber = {now}"));
        browser.press("Simulate");
        browser.when("document.body.innerText.includes('Played from')");
        let is_there = browser.value("document.querySelector('.compared') !== null");
        Ok((is_there == true).then_some(()))
    }));
}

/// What collided is played apart; the cluster does not notice.
fn is_played_otherwise(stage: &Stage, browser: &mut Browser) {
    let generation = must(stage.operator().status()).generation;
    view(browser, "sandbox");
    browser.press("Add a variant");
    let text = "document.querySelector('textarea')";
    let fewer = "recorded = \"fabric.toml\"\nwithout = [\"leaf0-spine1\"]\nrouting = \"even\"\n";
    browser.value(&format!(
        "{text}.value = {}, {text}.dispatchEvent(new Event('input'))",
        json!(fewer)
    ));
    browser.press("Add a variant");
    let last = "[...document.querySelectorAll('select[aria-label=\"How flows go\"]')].at(-1)";
    browser.value(&format!(
        "{last}.value = 'even', {last}.dispatchEvent(new Event('change'))"
    ));
    play_what_was_sent(browser);
    photograph(browser, "sandbox-played");
    is_sound(browser);
    let text = browser.text();
    assert!(
        text.contains("nothing of the cluster was changed"),
        "{text}"
    );
    browser.press("Make it a plan");
    browser.when("document.body.innerText.includes('no plan can bring about')");
    assert_eq!(must(stage.operator().status()).generation, generation);
}

/// Before the fault there is none, whatever is heard of now meanwhile; and back from there it is again.
fn is_as_it_was(browser: &mut Browser, before: &Value) {
    browser.press("Look back");
    browser.when(&format!("Number({SLIDER}.max) > {before}"));
    browser.value(&format!(
        "{SLIDER}.value = {before}, {SLIDER}.dispatchEvent(new Event('input'))"
    ));
    browser.when("document.body.classList.contains('then')");
    assert!(browser.text().contains("This is the past: "));
    for name in VIEWS {
        view(browser, name);
        if name == "matrix" {
            matrix_is_painted(browser);
        }
        photograph(browser, &format!("past-{name}"));
        is_sound(browser);
    }
    assert_eq!(browser.value(&format!("{DOWN} === null")), true);
    let measured = "document.querySelectorAll('.map .link:not(.unknown)').length";
    assert_ne!(browser.value(measured), 0);
    browser.value("dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))");
    browser.when(DOWN);
    assert!(!browser.text().contains("This is the past"));
    is_sound(browser);
}

const SLIDER: &str = "document.getElementById('moment')";

/// By its button.
fn turns_dark_and_back(browser: &mut Browser) {
    let ground = "getComputedStyle(document.body).backgroundColor";
    let light = browser.value(ground);
    browser.press("◐");
    assert_ne!(browser.value(ground), light);
    photograph(browser, "fabric-dark");
    browser.press("◐");
    assert_eq!(browser.value(ground), light);
}

/// The cell of two hosts that probe each other has a colour, and the diagonal has none.
fn matrix_is_painted(browser: &mut Browser) {
    browser.when("document.querySelector('canvas').dataset.painted === 'yes'");
    let alpha = |row: u32, column: u32| {
        format!(
            "document.querySelector('canvas').getContext('2d').getImageData({column}, {row}, 1, 1).data[3]"
        )
    };
    browser.when(&format!("{} === 255", alpha(0, 5)));
    assert_eq!(browser.value(&alpha(0, 0)), 0);
}

fn a_plan_is_approved() {
    let stage = led(&Leadership::default());
    let _job = collide(&stage);
    let mut browser = operators_page(&stage);
    browser.when("document.body.innerText.includes('flows share')");
    view(&mut browser, "changes");
    browser.press("Make a plan");
    browser.when("document.body.innerText.includes('What it promises')");
    browser.when("document.body.innerText.includes('Whom it touches')");
    photograph(&mut browser, "plan");
    browser.press("Approve plan");
    browser.when("document.querySelector('.card .chip.good')?.innerText === 'committed'");
    photograph(&mut browser, "committed");
    is_sound(&mut browser);
    let newest = must(stage.operator().history()).remove(0);
    assert_eq!(newest.approved_by.as_deref(), Some("operator"));
    view(&mut browser, "jobs");
    browser.when("document.body.innerText.includes('By change, the newest first')");
    photograph(&mut browser, "jobs");
    is_sound(&mut browser);
}

fn a_viewer_only_looks() {
    let stage = led(&Leadership::default());
    must(stage.certificate("viewer", "vic"));
    let mut browser = page_of(&stage, "certificates/viewers/vic");
    view(&mut browser, "changes");
    browser.when("document.querySelector('#view button.main').disabled");
    browser.when("document.body.innerText.includes('an operator may change')");
    is_sound(&mut browser);
    browser.value("sessionStorage.setItem('reweave-token', 'x'), location.reload()");
    browser.when("document.body?.innerText.includes('reweave dashboard')");
}
