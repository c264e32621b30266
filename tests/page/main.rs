//! The dashboard in a real browser, on a cluster that is really there: does it show the state, soon, and to all
//! readers?
//!
//! With REWEAVE_PICTURES, a folder, the views are photographed into it.

mod browser;
mod hands;
mod leaders;
mod looks;
#[path = "../lab/tests/support/needs.rs"]
mod needs;
mod plans;
#[path = "../play.rs"]
mod play;
mod policy;
mod tried;

use std::path::PathBuf;
use std::process::ExitCode;

use libtest_mimic::Arguments;
use reweave_tests::{Leadership, NO_RATE_ROLLBACK_POLICY, STAGE_TIMEOUT, Stage, wait_for};
use serde_json::{Value, json};

use browser::Browser;
use needs::{Need, trial};
use play::{collide, led, must};

const NEEDS: &[Need] = &[Need::Lab, Need::Program("chromium")];

fn main() -> ExitCode {
    let tests = vec![
        trial("every_view_shows_fault", NEEDS, every_view_shows_fault),
        trial("plan_is_approved", NEEDS, plan_is_approved),
        trial(
            "viewer_cannot_change_anything",
            NEEDS,
            viewer_cannot_change_anything,
        ),
        trial(
            "variant_becomes_plan_and_rolls_back",
            NEEDS,
            plans::variant_becomes_plan_and_rolls_back,
        ),
        trial(
            "plans_of_all_kinds_are_shown",
            NEEDS,
            plans::plans_of_all_kinds_are_shown,
        ),
        trial(
            "policy_is_changed_after_comparison",
            NEEDS,
            policy::policy_is_changed_after_comparison,
        ),
        trial(
            "keyboard_and_pointer_reach_every_action",
            NEEDS,
            hands::keyboard_and_pointer_reach_every_action,
        ),
        trial(
            "findings_are_visible_at_once",
            NEEDS,
            looks::findings_are_visible_at_once,
        ),
        trial(
            "large_cluster_hides_no_host",
            NEEDS,
            looks::large_cluster_hides_no_host,
        ),
        trial(
            "content_fits_its_place",
            NEEDS,
            looks::content_fits_its_place,
        ),
        trial(
            "focus_follows_opened_elements",
            NEEDS,
            looks::focus_follows_opened_elements,
        ),
        trial(
            "page_follows_new_leader",
            NEEDS,
            leaders::page_follows_new_leader,
        ),
    ];
    // Each measures rates or times, so none may have another beside it.
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// The page, opened with this certificate, in a browser beside the coordinator.
fn page_of(stage: &Stage, identity: &str) -> Browser {
    let mut browser = Browser::start(stage.enter(Stage::STATION_NAME));
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
const VIEW_NAMES: [&str; 8] = [
    "overview", "matrix", "flows", "jobs", "changes", "agents", "sandbox", "fabric",
];
const DOWN_LINK_ELEMENT: &str = "document.querySelector('[aria-label=\"Link leaf0-spine0\"].down')";

fn every_view_shows_fault() {
    // What is written soon can be looked back at soon.
    let tables = "[history]\nwrite_every_s = 1\n".to_owned();
    let stage = led(&Leadership {
        tables,
        ..Leadership::default()
    });
    let _job = collide(&stage);
    let mut browser = operators_page(&stage);
    for name in VIEW_NAMES {
        view(&mut browser, name);
        if name == "matrix" {
            matrix_is_painted(&mut browser);
        }
        photograph(&mut browser, name);
        is_sound(&mut browser);
    }
    turns_dark_and_back(&mut browser);
    let before = sever_and_wait(&stage, &mut browser);
    photograph(&mut browser, "fabric-down");
    is_sound(&mut browser);
    is_as_it_was(&mut browser, &before);
    is_played_otherwise(&stage, &mut browser);
}

/// A moment before the fault, on the browser's clock.
fn sever_and_wait(stage: &Stage, browser: &mut Browser) -> Value {
    let before = browser.value("Date.now() - 2000");
    must(stage.sever("leaf0", "spine0"));
    eprintln!(
        "the fault was seen after {:?}",
        browser.when(DOWN_LINK_ELEMENT)
    );
    before
}

/// Plays the last minute, once something that was sent in it is written down.
fn play_what_was_sent(browser: &mut Browser) {
    let until = "document.querySelector('input[type=\"datetime-local\"]')";
    browser.when(&format!("{until}.value"));
    // The field has the browser's own clock, to the second.
    let now = "Math.floor(Date.now() / 1000) * 1000 - new Date().getTimezoneOffset() * 60000";
    must(wait_for("the history has traffic", STAGE_TIMEOUT, || {
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
    let name = "document.querySelector('[aria-label=\"Name of the variant\"]')";
    browser.value(&format!(
        "{name}.value = {}, {name}.dispatchEvent(new Event('input'))",
        json!(HOSTILE_NAME)
    ));
    let text = "document.querySelector('textarea')";
    let fewer = "recorded = \"fabric.toml\"\nwithout = [\"leaf0-spine1\"]\nrouting = \"even\"\n";
    browser.value(&format!(
        "{text}.value = {}, {text}.dispatchEvent(new Event('input'))",
        json!(fewer)
    ));
    browser.press("Add a variant");
    let last = "[...document.querySelectorAll('select[aria-label=\"Routing\"]')].at(-1)";
    browser.value(&format!(
        "{last}.value = 'even', {last}.dispatchEvent(new Event('change'))"
    ));
    play_what_was_sent(browser);
    photograph(browser, "sandbox-played");
    is_sound(browser);
    let text = browser.text();
    assert!(text.contains("the cluster was not changed"), "{text}");
    assert!(text.contains(HOSTILE_NAME), "{text}");
    names_are_text(browser);
    is_shared(browser);
    tried::flows_and_jobs_are_played(browser);
    browser.press("Make it a plan");
    browser.when("document.body.innerText.includes('no plan can apply')");
    assert_eq!(must(stage.operator().status()).generation, generation);
}

/// Would be an image and run a script if it were taken for more than a name.
const HOSTILE_NAME: &str = "<img src=x onerror=alert(1)><script>alert(2)</script>";
const INJECTED_ELEMENTS: &str = "document.querySelectorAll('img[src=\"x\"], body script').length";

/// In views of what others name, in both colours.
fn names_are_text(browser: &mut Browser) {
    assert_eq!(browser.value(INJECTED_ELEMENTS), 0);
    browser.press("◐");
    // No cluster has such names: neither a node's certificate nor a job's is that.
    browser.value(&hostile(JOBS_SCRIPT));
    are_read(browser, "jobs", 12);
    browser.value(&hostile(HISTORY_SCRIPT));
    browser.press("Look back");
    browser.when(&format!("Number({SLIDER_ELEMENT}.max) > 1000"));
    browser.value(&format!(
        "{SLIDER_ELEMENT}.dispatchEvent(new Event('input'))"
    ));
    browser.when("document.body.classList.contains('then')");
    view(browser, "overview");
    are_read(browser, "past", 5);
    browser.value("dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))");
    browser.value("void (window.fetch = window.real)");
    view(browser, "sandbox");
    photograph(browser, "sandbox-dark");
    browser.press("◐");
}

fn hostile(text: &str) -> String {
    text.replace("NAME", &json!(HOSTILE_NAME).to_string())
}

/// This many times, and nowhere taken for more than a name.
fn are_read(browser: &mut Browser, what: &str, times: u32) {
    let named = "document.getElementById('view').innerText.split(NAME).length - 1";
    browser.when(&format!("{} === {times}", hostile(named)));
    assert_eq!(browser.value(INJECTED_ELEMENTS), 0);
    photograph(browser, &format!("hostile-{what}-dark"));
    is_sound(browser);
}

const JOBS_SCRIPT: &str = "import('/assets/jobs.js').then(async ({ jobs }) => {
  const answers = { history: [], registered: [{ job: NAME, hosts: [NAME], phase: { name: NAME }, by: NAME, age_ms: 1, silent_ms: 1 }],
    jobs: [{ job: NAME, iteration_ms: null, rest_share: null, rate_bits_per_s: 1, slowest_bits_per_s: 1, sending: 1, flows: 1, promise: null }] };
  const [real, ours] = [window.fetch, ['/api/v1/jobs', '/api/v1/history']];
  window.fetch = (path, ...more) => ours.includes(path) ? Promise.resolve(new Response(JSON.stringify(answers))) : real(path, ...more);
  const work = { name: NAME, stage: NAME, links: [NAME], by: NAME, age_ms: 1, not_empty: [NAME] };
  const view = jobs({ status: { agents: [], flows: [], maintenance: [work], frozen: [{ hosts: [NAME], by: NAME, age_ms: 1 }] } });
  window.fetch = real;
  view.heard();
  view.leave();
  document.getElementById('view').replaceChildren(view.element);
})";

/// What the history tells, until this is rolled back.
const HISTORY_SCRIPT: &str = "{
  const was = { at: '', resolution: NAME, links: [], flows: [], matrix: { hosts: [NAME], cells: [] }, missing: [NAME],
    agents: [{ node: NAME, connected_share: 0 }], events: [{ at: '', what: NAME, place: NAME, generation: null }] };
  window.real = window.fetch;
  window.fetch = (path, ...more) => path.startsWith('/api/v1/past?') ? Promise.resolve(new Response(JSON.stringify(was))) : real(path, ...more);
  null
}";

/// The link is all that another page needs, and one that was cut off is none.
fn is_shared(browser: &mut Browser) {
    let shown = "[...document.querySelectorAll('#view input:not([type=\"file\"]), #view textarea, #view .bar select')].map((it) => it.value)";
    let seconds = "document.querySelector('[aria-label=\"How long\"]')";
    browser.value(&format!(
        "{seconds}.value = 300, {seconds}.dispatchEvent(new Event('change'))"
    ));
    browser.when("document.querySelector('input[type=\"datetime-local\"]').value");
    browser.press("Share");
    let field = "document.querySelector('[aria-label=\"Link to this sandbox\"]')";
    browser.when(&format!("{field}.value && !{field}.hidden"));
    let link = browser.value(&format!("{field}.value"));
    let link = link.as_str().expect("a link");
    is_sound(browser);
    browser.value(&format!("{field}.value = ''"));
    let tried = browser.value(shown);
    browser.go(&link[..link.len() - 40]);
    browser.when("document.body?.innerText.includes('it may be truncated')");
    assert_eq!(
        browser.value("document.querySelectorAll('textarea').length"),
        0
    );
    browser.go(link);
    browser.when("document.querySelector('textarea') && location.hash === ''");
    browser.when("document.querySelector('input[type=\"datetime-local\"]').value");
    assert_eq!(browser.value(shown), tried);
    assert!(tried.to_string().contains("leaf0-spine1"), "{tried}");
    assert_eq!(browser.value(INJECTED_ELEMENTS), 0);
    photograph(browser, "sandbox-shared");
}

/// Before the fault there is none, whatever is reported now meanwhile; and back from there it is again.
fn is_as_it_was(browser: &mut Browser, before: &Value) {
    browser.press("Look back");
    browser.when(&format!("Number({SLIDER_ELEMENT}.max) > {before}"));
    browser.value(&format!(
        "{SLIDER_ELEMENT}.value = {before}, {SLIDER_ELEMENT}.dispatchEvent(new Event('input'))"
    ));
    browser.when("document.body.classList.contains('then')");
    assert!(browser.text().contains("This is the past: "));
    for name in VIEW_NAMES {
        view(browser, name);
        if name == "matrix" {
            matrix_is_painted(browser);
        }
        photograph(browser, &format!("past-{name}"));
        is_sound(browser);
    }
    assert_eq!(
        browser.value(&format!("{DOWN_LINK_ELEMENT} === null")),
        true
    );
    let measured = "document.querySelectorAll('.map .link:not(.unknown)').length";
    assert_ne!(browser.value(measured), 0);
    browser.value("dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))");
    browser.when(DOWN_LINK_ELEMENT);
    assert!(!browser.text().contains("This is the past"));
    is_sound(browser);
}

const SLIDER_ELEMENT: &str = "document.getElementById('moment')";

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

const IS_ANSWERED: &str = "document.querySelector('#view [inert]') === null";

/// What comes next comes to the page when it is let go: what was asked for later has been answered by then.
const DELAY_ANSWERS_SCRIPT: &str = "{
    const right = window.fetch;
    window.fetch = async (...asked) => {
        window.fetch = right;
        const answer = await right(...asked);
        await new Promise((go) => window.letGo = async () => {
            go();
            while (!answer.bodyUsed) await new Promise((soon) => setTimeout(soon));
            await new Promise((soon) => setTimeout(soon, 100));
        });
        return answer;
    };
}";

fn plan_is_approved() {
    // Verification begins after 10 s, which leaves time to hold the plan.
    let stage = led(&Leadership {
        policy: format!("{NO_RATE_ROLLBACK_POLICY}settle_ms = 10000\n"),
        ..Leadership::default()
    });
    let _job = collide(&stage);
    let mut browser = operators_page(&stage);
    browser.asks_again = true;
    browser.when("document.body.innerText.includes('flows share')");
    view(&mut browser, "changes");
    browser.value(DELAY_ANSWERS_SCRIPT);
    browser.press("Make a plan");
    // A measurement may be missing just then.
    must(wait_for("there is a plan", STAGE_TIMEOUT, || {
        browser.press("Make a plan");
        browser.when(IS_ANSWERED);
        let is_there = browser.value("document.querySelector('.review') !== null");
        Ok((is_there == true).then_some(()))
    }));
    browser.when("document.body.innerText.includes('Predictions')");
    browser.when("document.body.innerText.includes('Affected jobs')");
    browser.when("document.querySelector('.review td .chip.good')?.innerText === 'live-safe'");
    browser.when("document.querySelector('.review .plus').parentElement.nextSibling.innerText.startsWith('pin tcp h')");
    photograph(&mut browser, "plan");
    approve(&mut browser, |browser, words| browser.press(words));
    browser.value("letGo()");
    assert_eq!(
        browser.value("document.querySelector('.review') === null"),
        true
    );
    plans::is_stopped_and_goes_on(&mut browser);
    browser.when("document.querySelector('.card .chip.good')?.innerText === 'kept'");
    photograph(&mut browser, "committed");
    is_sound(&mut browser);
    let newest = must(stage.operator().history()).remove(0);
    assert_eq!(newest.approved_by.as_deref(), Some("operator"));
    view(&mut browser, "jobs");
    browser.when("document.body.innerText.includes('By change, the newest first')");
    photograph(&mut browser, "jobs");
    is_sound(&mut browser);
}

/// A measurement may be missing just when a plan is approved, and its promise may have changed meanwhile: an approver
/// looks at it again.
fn approve(browser: &mut Browser, press: impl Fn(&mut Browser, &str)) {
    let goes = "document.querySelector('#view').innerText.includes('is being applied')";
    let is_warned = "document.querySelector('#view p.warn[role=\"alert\"]')";
    must(wait_for("it is applied", STAGE_TIMEOUT, || {
        press(browser, "Approve plan");
        browser.when(IS_ANSWERED);
        if browser.value(goes) == true {
            return Ok(Some(()));
        }
        if browser.value(&format!("{is_warned} === null")) == true {
            press(browser, "Review plan");
        }
        Ok(None)
    }));
}

fn viewer_cannot_change_anything() {
    let stage = led(&Leadership::default());
    must(stage.certificate("viewer", "vic"));
    let mut browser = page_of(&stage, "certificates/viewers/vic");
    view(&mut browser, "changes");
    browser.when("document.querySelector('#view button.main').disabled");
    browser.when("document.body.innerText.includes('an operator may change')");
    browser.when("document.querySelectorAll('[aria-label=\"Policy\"] tbody tr').length === 29");
    assert_eq!(
        browser.value("document.querySelector('[aria-label=\"Policy\"] button') === null"),
        true
    );
    is_sound(&mut browser);
    plans::an_offer_is_reviewed(&stage, &mut browser);
    browser.value("sessionStorage.setItem('reweave-token', 'x'), location.reload()");
    browser.when("document.body?.innerText.includes('reweave dashboard')");
}
