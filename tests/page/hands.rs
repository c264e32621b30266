//! What a person does with a keyboard alone, or with a pointer, and what is seen of it.

use std::collections::BTreeSet;

use reweave_common::operator::FlowStatus;
use reweave_tests::{Leadership, STAGE_TIMEOUT, Stage, wait_for};
use serde_json::json;

use super::browser::Browser;
use super::play::{collide, led, must};
use super::{
    HOSTILE_NAME, INJECTED_ELEMENTS, VIEW_NAMES, approve, hostile, is_sound, operators_page,
    photograph, view,
};

const ACTIVE_ELEMENT: &str = "document.activeElement";

pub(crate) fn keyboard_and_pointer_reach_every_action() {
    let stage = led(&Leadership::default());
    let _job = collide(&stage);
    let mut browser = operators_page(&stage);
    keys_turn_to_every_view(&mut browser);
    links_are_one_stop(&mut browser);
    a_flows_way_is_shown_under_the_pointer(&stage, &mut browser);
    colours_are_by_value(&mut browser);
    servers_without_switches_stand_around_a_table(&mut browser);
    is_sound(&mut browser);
    a_plan_is_approved_by_keys(&stage, &mut browser);
    is_sound(&mut browser);
    circuits_are_asked_for_where_there_are_fibres(&mut browser);
}

fn keys_turn_to_every_view(browser: &mut Browser) {
    let order = "[...document.querySelectorAll('[role=\"tab\"]')].map((it) => it.id)";
    let tabs = browser.value(order);
    let tabs = tabs.as_array().expect("there are tabs").clone();
    assert_eq!(tabs.len(), VIEW_NAMES.len());
    for (nth, tab) in tabs.iter().enumerate() {
        key(browser, &(nth + 1).to_string());
        browser.when(&format!(
            "document.getElementById({tab}).ariaSelected === 'true' && document.querySelector('main .panel')"
        ));
    }
    tab_to(browser, "it.role === 'tab'");
    key(browser, "ArrowRight");
    browser.when(&format!("{ACTIVE_ELEMENT}.id === {}", tabs[0]));
    key(browser, "ArrowLeft");
    browser.when(&format!("{ACTIVE_ELEMENT}.id === {}", tabs[tabs.len() - 1]));
    let theme = "document.documentElement.dataset.theme";
    let before = browser.value(theme);
    key(browser, "d");
    assert_ne!(browser.value(theme), before);
    key(browser, "d");
}

/// However many there are: keys go from one to the next, and choose.
fn links_are_one_stop(browser: &mut Browser) {
    view(browser, "fabric");
    let is_link = "it.classList?.contains('link')";
    tab_to(browser, is_link);
    let name = format!("{ACTIVE_ELEMENT}.getAttribute('aria-label')");
    let first = browser.value(&name);
    key(browser, "ArrowRight");
    let second = browser.value(&name);
    assert_ne!(first, second);
    key(browser, "Enter");
    browser.when(&format!(
        "{second} === `Link ${{document.querySelector('.detail h3')?.innerText}}`"
    ));
    key(browser, "Enter");
    key(browser, "Tab");
    assert_eq!(
        browser.value(&format!("((it) => {is_link})({ACTIVE_ELEMENT})")),
        false
    );
}

/// For as long as the pointer is there, however often the page is redrawn meanwhile.
fn a_flows_way_is_shown_under_the_pointer(stage: &Stage, browser: &mut Browser) {
    let flow = "document.querySelector('.flows li')";
    browser.when(flow);
    point_at(browser, flow);
    let shown = "[...document.querySelectorAll('.link.onpath')].map((it) => it.getAttribute('aria-label').slice(5))";
    browser.when(&format!("{shown}.length > 1"));
    browser.value("document.querySelector('.flows').isOld = true");
    browser.when("!document.querySelector('.flows').isOld");
    // Whichever is the largest just then is the first, and is pointed at.
    must(wait_for("its own way is shown", STAGE_TIMEOUT, || {
        let shown_text = browser.value(&format!(
            "[{flow}.querySelector('span').innerText, {shown}]"
        ));
        let links: BTreeSet<String> = serde_json::from_value(shown_text[1].clone()).expect("names");
        let status = stage.operator().status()?;
        let is_shown = |it: &&FlowStatus| shown_text[0] == format!("{} > {}", it.from, it.to);
        let flow = status.flows.iter().find(is_shown);
        let path = flow.and_then(|it| it.path.as_ref());
        let path = path.map(|path| path.iter().map(|hop| hop.link.clone()).collect());
        Ok((path == Some(links)).then_some(()))
    }));
    photograph(browser, "fabric-flow");
    point_at(browser, "document.querySelector('h1')");
    browser.when(&format!("{shown}.length === 0"));
}

/// The worst is red and the best blue; the cell that keys lead to is marked and described.
fn colours_are_by_value(browser: &mut Browser) {
    view(browser, "matrix");
    browser.when("document.querySelector('canvas').dataset.painted === 'yes'");
    browser.when("document.querySelector('table caption')?.innerText === 'The worst'");
    // Of one picture: it is redrawn every two seconds.
    let colours = browser.value(
        "(() => {
          const canvas = document.querySelector('canvas');
          const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
          const pixels = [...Array(data.length / 4).keys()].map((at) => [...data.slice(4 * at, 4 * at + 4)]);
          const hosts = [...Array(canvas.width).keys()].map((nth) => `h${nth}`);
          const [from, to] = [...document.querySelectorAll('tbody tr:first-child td')].map((it) => hosts.indexOf(it.innerText));
          return { worst: pixels[from * canvas.width + to], pixels: pixels.filter((it) => it[3]) };
        })()",
    );
    let [blue, red] = [json!([38, 98, 171, 255]), json!([190, 30, 45, 255])];
    assert_eq!(colours["worst"], red);
    let pixels = colours["pixels"].as_array().expect("pixels");
    assert!(pixels.contains(&blue), "{colours}");
    assert!(pixels.len() > 2, "{colours}");
    tab_to(browser, "it.tagName === 'CANVAS'");
    key(browser, "ArrowRight");
    browser.when("document.querySelector('.said').innerText.startsWith('h0 > h1: ')");
    key(browser, "ArrowDown");
    key(browser, "ArrowRight");
    browser.when("document.querySelector('.said').innerText.startsWith('h1 > h2: ')");
    let places = "((cursor, map) => [cursor.top - map.top, cursor.left - map.left].map((at) => Math.round(8 * at / map.width)))(\
        document.querySelector('.cursor').getBoundingClientRect(), document.querySelector('canvas').getBoundingClientRect())";
    assert_eq!(browser.value(places), json!([1, 2]));
    photograph(browser, "matrix-cell");
}

const DIRECT_FABRIC_SCRIPT: &str = "import('/assets/fabric.js').then(({ fabric }) => {
  const name = (nth) => `${NAME}${nth}`;
  const places = [...Array(8).keys()];
  const nodes = places.map((nth) => ({ name: name(nth), role: 'relay' }));
  const links = places.map((nth) => ({ name: `${NAME}-${nth}`, a: name(nth), b: name((nth + 1) % 8) }));
  const view = fabric({ fabric: { nodes, links }, status: { links: [], flows: [] } });
  document.getElementById('view').replaceChildren(view.element);
  view.heard();
})";

/// Each at a place of its own, and what they are called is text.
fn servers_without_switches_stand_around_a_table(browser: &mut Browser) {
    browser.value(&hostile(DIRECT_FABRIC_SCRIPT));
    let places = "new Set([...document.querySelectorAll('.node circle')].map((it) => `${Math.round(it.cx.baseVal.value)} ${Math.round(it.cy.baseVal.value)}`)).size";
    browser.when(&format!("{places} === 8"));
    assert_eq!(
        browser.value("document.querySelectorAll('line.link[role]').length"),
        8
    );
    let read = format!(
        "document.querySelector('.node text').textContent === {}",
        json!(format!("{HOSTILE_NAME}0"))
    );
    browser.when(&read);
    assert_eq!(browser.value(INJECTED_ELEMENTS), 0);
    photograph(browser, "fabric-direct");
}

const OPTICAL_CHANGES_SCRIPT: &str = "import('/assets/changes.js').then(({ changes }) => {
  const status = { opticals: OPTICALS, flows: [], changes: [], generation: 0, agents: [] };
  const view = changes({ me: { role: 'operator' }, status });
  document.getElementById('view').replaceChildren(view.element);
})";

/// This cluster has none, and the coordinator says so to a client that asks all the same.
fn circuits_are_asked_for_where_there_are_fibres(browser: &mut Browser) {
    let asks = "[...document.querySelectorAll('#view button')].some((it) => it.innerText === 'Choose circuits')";
    for (opticals, is_asked) in [("[]", false), ("[{ optical: 'ocs0' }]", true)] {
        browser.value(&OPTICAL_CHANGES_SCRIPT.replace("OPTICALS", opticals));
        browser.when(&format!("{asks} === {is_asked}"));
    }
    browser.press("Choose circuits");
    browser.when(
        "document.querySelector('#view').innerText.includes('no fibre leads to an optical switch')",
    );
    photograph(browser, "changes-circuits");
}

fn a_plan_is_approved_by_keys(stage: &Stage, browser: &mut Browser) {
    browser.asks_again = true;
    view(browser, "changes");
    must(wait_for("there is a plan", STAGE_TIMEOUT, || {
        tab_to(
            browser,
            "it.innerText?.startsWith('Make a plan') && !it.disabled",
        );
        key(browser, "Enter");
        browser.when("!document.querySelector('#view .nothing')?.innerText.startsWith('Ask')");
        let is_there = browser.value("document.querySelector('.review') !== null");
        Ok((is_there == true).then_some(()))
    }));
    approve(browser, |browser, words| {
        tab_to(browser, &format!("it.innerText?.startsWith('{words}')"));
        key(browser, "Enter");
    });
    browser.when("document.querySelector('.card .chip.good')?.innerText === 'kept'");
    let newest = must(stage.operator().history()).remove(0);
    assert_eq!(newest.approved_by.as_deref(), Some("operator"));
}

/// A key as a person presses it, by the name that pages know it by.
pub(crate) fn key(browser: &mut Browser, key: &str) {
    let (code, text) = match key {
        "Tab" => (9, ""),
        "Enter" => (13, "\r"),
        "Escape" => (27, ""),
        "ArrowLeft" => (37, ""),
        "ArrowUp" => (38, ""),
        "ArrowRight" => (39, ""),
        "ArrowDown" => (40, ""),
        letter => (0, letter),
    };
    for kind in ["keyDown", "keyUp"] {
        let mut event = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code });
        if kind == "keyDown" && !text.is_empty() {
            event["text"] = json!(text);
        }
        browser.order("Input.dispatchKeyEvent", &event);
    }
}

/// Presses Tab until what has the focus is so; `it` is the element.
#[track_caller]
pub(crate) fn tab_to(browser: &mut Browser, what: &str) {
    const MAX_TAB_STOPS: usize = 60;
    let holds = format!("((it) => Boolean({what}))(document.activeElement)");
    for _ in 0..MAX_TAB_STOPS {
        if browser.value(&holds) == true {
            return;
        }
        key(browser, "Tab");
    }
    panic!("no key leads to {what}\n{}", browser.text());
}

/// The pointer goes to the middle of an element.
fn point_at(browser: &mut Browser, element: &str) {
    let place = browser.value(&format!(
        "(({{ x, y, width, height }}) => [x + width / 2, y + height / 2])({element}.getBoundingClientRect())"
    ));
    let moved = json!({ "type": "mouseMoved", "x": place[0], "y": place[1] });
    browser.order("Input.dispatchMouseEvent", &moved);
}
