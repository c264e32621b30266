//! Plans of every kind before their approver: what they change, line by line, and their way back.

use std::collections::BTreeMap;

use reweave_common::circuit::{Circuit, CircuitSet, PortId};
use reweave_common::operator::{
    Joint, Line, NamedMigration, Outcome, Plan, Ranks, Report, Tag, Via, Wave, What,
};
use reweave_common::plan::Generation;
use reweave_common::units::Rate;
use reweave_tests::{Leadership, STAGE_TIMEOUT, Stage, wait_for};
use serde_json::json;

use super::browser::Browser;
use super::play::{collide, led, must};
use super::{HOSTILE_NAME, INJECTED_ELEMENTS, is_sound, operators_page, page_of, photograph, view};

/// From the sandbox to a change that is kept, and back again, by the page alone.
pub(crate) fn variant_becomes_plan_and_rolls_back() {
    let stage = led(&Leadership::without_rate_rollback());
    let _job = collide(&stage);
    let before = must(stage.routing());
    let mut browser = operators_page(&stage);
    let plan = make_it_a_plan(&mut browser);
    for words in ["routes of leaf0 towards", "live-safe", "Affected jobs"] {
        browser.when(&reads(words));
    }
    browser.value("document.querySelectorAll('#view details').forEach((it) => it.open = true)");
    browser.when(&reads("the network's own routes"));
    photograph(&mut browser, "plan-of-a-variant");
    is_sound(&mut browser);
    changes_meanwhile(&stage, &mut browser, plan);
    browser.press(&format!("Approve plan {plan}"));
    is_kept(&stage, &mut browser, plan);
    is_written_down(&mut browser, plan);
    assert_ne!(must(stage.routing()), before);
    browser.press(&format!("Roll plan {plan} back"));
    browser.when(&reads(&format!("rolls plan {plan} back")));
    photograph(&mut browser, "plan-of-taking-back");
    is_sound(&mut browser);
    browser.value("document.querySelector('input[name=\"force\"]').click()");
    let back = offered(&stage);
    browser.press(&format!("Approve plan {back}"));
    is_kept(&stage, &mut browser, back);
    assert_eq!(must(stage.routing()), before);
    is_withdrawn(&stage, &mut browser);
}

/// A change on its way waits for as long as the person at the page wants.
pub(crate) fn is_stopped_and_goes_on(browser: &mut Browser) {
    browser.press("Hold plan");
    browser.when(&reads("Stopped by operator: no further step starts"));
    photograph(browser, "stopped");
    is_sound(browser);
    browser.press("Resume plan");
    browser.when(&format!("!{}", reads("Stopped by")));
}

fn is_withdrawn(stage: &Stage, browser: &mut Browser) {
    must(stage.operator().shown(&["plan", "drain", "leaf0-spine0"]));
    let plan = offered(stage);
    browser.press(&format!("Withdraw plan {plan}"));
    browser.when(&format!(
        "[...document.querySelectorAll('.card')].some((it) => it.innerText.includes('Plan \
         {plan}') && it.innerText.includes('aborted'))"
    ));
    is_sound(browser);
}

fn make_it_a_plan(browser: &mut Browser) -> u64 {
    view(browser, "sandbox");
    browser.press("Add a variant");
    let links = "document.querySelector('select[aria-label=\"Take out a link\"]')";
    browser.value(&format!(
        "{links}.value = 'leaf0-spine0', {links}.dispatchEvent(new Event('change'))"
    ));
    browser.press("Make it a plan");
    browser.press("Review it under Changes");
    let approve = "[...document.querySelectorAll('button')].find((it) => it.innerText.startsWith('Approve plan'))";
    browser.when(approve);
    let words = browser.value(&format!("{approve}.innerText"));
    let number = words.as_str().and_then(|words| words.rsplit(' ').next());
    number.and_then(|it| it.parse().ok()).expect("it is named")
}

/// Another operator has a job left alone, and lets it go: what was shown before is not approved.
fn changes_meanwhile(stage: &Stage, browser: &mut Browser, plan: u64) {
    for (order, hinders) in [("freeze", true), ("thaw", false)] {
        must(stage.operator().shown(&["job", order, "h0"]));
        browser.press(&format!("Approve plan {plan}"));
        let said = "[...document.querySelectorAll('[role=\"alert\"]')].find((it) => \
                    it.innerText.includes('review it again'))";
        browser.when(said);
        let frozen = "document.querySelectorAll('.review > p.warn').length";
        browser.when(&format!("({frozen} > 0) === {hinders}"));
        photograph(browser, &format!("plan-{order}"));
        browser.value(&format!("{said}.remove()"));
    }
    assert_eq!(offered(stage), plan);
}

/// Refused, and done in the end.
fn is_written_down(browser: &mut Browser, plan: u64) {
    browser.press("Show");
    let approval = format!("approve plan {plan} as shown");
    browser.when(&reads(&approval));
    let outcomes = format!(
        "[...document.querySelectorAll('tr')].filter((it) => it.innerText.includes({})).map((it) => it.querySelector('.chip').innerText).join()",
        json!(approval)
    );
    assert_eq!(browser.value(&outcomes), "done,refused,refused");
    photograph(browser, "audit");
    is_sound(browser);
}

fn reads(words: &str) -> String {
    format!("document.body.innerText.includes({})", json!(words))
}

pub(crate) fn offered(stage: &Stage) -> u64 {
    let history = must(stage.operator().history());
    let offer = history.iter().find(|it| it.outcome == Outcome::Offered);
    offer.expect("one is on offer").plan.generation.0
}

/// The page says so because it is so.
#[track_caller]
fn is_kept(stage: &Stage, browser: &mut Browser, plan: u64) {
    browser.when(&format!(
        "[...document.querySelectorAll('.card')].some((it) => it.innerText.includes('Plan {plan}') && it.innerText.includes('kept'))"
    ));
    let history = must(stage.operator().history());
    let record = history.iter().find(|it| it.plan.generation.0 == plan);
    assert_eq!(record.map(|it| &it.outcome), Some(&Outcome::Committed));
}

/// What another operator has put on offer can be looked at by all, and approved by few.
pub(crate) fn an_offer_is_reviewed(stage: &Stage, browser: &mut Browser) {
    must(stage.operator().shown(&["plan", "drain", "leaf0-spine0"]));
    let plan = must(wait_for("it is on offer", STAGE_TIMEOUT, || {
        Ok(Some(offered(stage)))
    }));
    browser.press(&format!("Review plan {plan}"));
    browser.when(&reads("routes of leaf0 towards"));
    let approve = format!(
        "[...document.querySelectorAll('button')].find((it) => it.innerText === 'Approve plan {plan}')"
    );
    assert_eq!(browser.value(&format!("{approve}.disabled")), true);
    is_sound(browser);
}

/// Circuits and weights, which this cluster has none of, and names that no cluster has.
pub(crate) fn plans_of_all_kinds_are_shown() {
    let stage = led(&Leadership::default());
    let mut browser = page_of(&stage, "certificates/operator");
    view(&mut browser, "changes");
    let plan = serde_json::to_string(&of_all_kinds()).expect("it is JSON");
    browser.value(&format!(
        "import('/assets/review.js').then(({{ reviewed }}) => \
         document.getElementById('view').replaceChildren(reviewed({plan}, null, (flow) => flow.source, null)))"
    ));
    browser.value("document.querySelectorAll('#view details').forEach((it) => it.open = true)");
    for words in [
        "Plan 9, upon 8",
        &format!("circuit {HOSTILE_NAME} 1-2 (eth0 of {HOSTILE_NAME} to eth1 of h1)"),
        &format!("circuit {HOSTILE_NAME} 1-3"),
        "needs drain",
        "next restart",
        &format!("order ranks of {HOSTILE_NAME}: h1,{HOSTILE_NAME} (ring from "),
        "leaf0-spine0 ×3, leaf0-spine1 ×1",
        "the network's own routes",
        &format!("{HOSTILE_NAME}: 1-2"),
        "not now, says the policy",
    ] {
        browser.when(&reads(words));
    }
    assert_eq!(browser.value(INJECTED_ELEMENTS), 0);
    photograph(&mut browser, "plan-of-all-kinds");
    is_sound(&mut browser);
}

fn of_all_kinds() -> Plan {
    let circuit = |port| Circuit::new(PortId(1), PortId(port));
    let joint = |port, ends: &[String]| Joint {
        optical: HOSTILE_NAME.to_owned(),
        circuit: circuit(port),
        ends: ends.to_vec(),
    };
    let ranks = Ranks {
        job: HOSTILE_NAME.to_owned(),
        order: vec!["h1".to_owned(), HOSTILE_NAME.to_owned()],
        ring_bits_per_s: Some([1, 2].map(|gbps| Rate::from_bits_per_s(gbps * 1_000_000_000))),
    };
    let ends = [format!("eth0 of {HOSTILE_NAME}"), "eth1 of h1".to_owned()];
    let lines = [
        (What::Disconnect(joint(3, &[])), Tag::NeedsDrain),
        (What::Connect(joint(2, &ends)), Tag::NeedsDrain),
        (What::Ranks(ranks), Tag::NextRestart),
    ];
    let via = |(link, weight): (&str, u32)| Via {
        link: link.to_owned(),
        weight,
    };
    let weighed = [("leaf0-spine0", 3), ("leaf0-spine1", 1)].map(via);
    let routes = BTreeMap::from([("h4".to_owned(), weighed.to_vec())]);
    let tables = BTreeMap::from([("leaf0".to_owned(), routes)]);
    let moved = BTreeMap::from([(HOSTILE_NAME.to_owned(), CircuitSet::from_iter([circuit(2)]))]);
    let wave = Wave {
        drain: vec![tables.clone()],
        circuits: moved.clone(),
        undrain: Vec::new(),
    };
    Plan {
        generation: Generation(9),
        parent: Generation(8),
        takes_back: None,
        pins: Vec::new(),
        tables,
        circuits: moved,
        changes: lines.map(|(what, tag)| Line { what, tag }).to_vec(),
        seal: String::new(),
        hindered_by: vec!["not now, says the policy".to_owned()],
        touched: Vec::new(),
        migration: Some(NamedMigration {
            tables_before: BTreeMap::new(),
            circuits_before: BTreeMap::new(),
            waves: vec![wave],
        }),
        base: None,
        moves: Vec::new(),
        predictions: Vec::new(),
        iterations: Vec::new(),
        report: Report {
            findings: Vec::new(),
            slowest_before_bits_per_s: Rate::from_bits_per_s(0),
            slowest_after_bits_per_s: Rate::from_bits_per_s(0),
            alternatives: Vec::new(),
        },
    }
}
