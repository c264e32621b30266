//! The page in a headless browser for a large cluster: time until it is shown, and time to redraw the matrix of all
//! pairs of hosts.
//!
//! With REWEAVE_PICTURES set to a folder, screenshots are stored there.

#[path = "../../../tests/page/browser.rs"]
mod browser;

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use reweave_common::operator::{Request, Response};
use reweave_link::access_token::AccessToken;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::agents::Crowd;
use crate::load::until_all_report;
use crate::machine;
use crate::members::Members;
use browser::Browser;

const VISIT_TTL: Duration = Duration::from_hours(1);
const HOSTS_PER_LEAF: usize = 32;
const SPINES: usize = 8;
const LOAD_COUNT: usize = 10;
/// Script that records when the first view is complete, for pages that do not do so themselves.
const VIEW_OBSERVER_SCRIPT: &str = "new MutationObserver(() => { \
    if (!window.viewMs && document.querySelector('main .panel')) window.viewMs = performance.now(); \
    }).observe(document, { childList: true, subtree: true })";

pub(crate) fn measure(agents: usize) {
    machine::introduce();
    let leaves = agents.div_ceil(HOSTS_PER_LEAF);
    let fabric = format!(
        "kind = \"leaf-spine\"\nleaves = {leaves}\nspines = {SPINES}\nhosts_per_leaf = {HOSTS_PER_LEAF}\n\
         host_gbps = 100\nuplink_gbps = 400\n"
    );
    let mut members = Members::on(&fabric, 1, agents);
    members.start(0);
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    // The agents report for as long as this runs.
    let (_crowd, link) = runtime.block_on(async {
        let crowd = Crowd::of(&members, agents);
        let mut operator = members.operator(0);
        until_all_report(&mut operator, agents).await;
        let visit = AccessToken::random();
        let asked = Request::Visit {
            token: visit.digest(),
            lasting: VISIT_TTL.into(),
        };
        let Some(Response::MayVisit {
            http: Some(place), ..
        }) = operator.ask(&asked).await
        else {
            panic!("no coordinator serves the page");
        };
        (crowd, format!("http://{place}/#token={visit}"))
    });
    let mut browser = Browser::start(Command::new("env"));
    paints(&mut browser, &link);
    for view in ["Overview", "Fabric", "Matrix"] {
        browser.press(view);
        browser.when("document.querySelector('main .panel')");
        if view == "Matrix" {
            browser.when("document.querySelector('canvas').dataset.painted === 'yes'");
        }
        photograph(&mut browser, &format!("{}-{agents}", view.to_lowercase()));
    }
    redraws(&mut browser, crate::DEFAULT_PAGE_AGENTS);
    photograph(&mut browser, "all-pairs");
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
}

fn photograph(browser: &mut Browser, name: &str) {
    if let Some(folder) = env::var_os("REWEAVE_PICTURES") {
        browser.photograph(&PathBuf::from(folder).join(format!("{name}.png")));
    }
}

/// Measures from the request of the page.
fn paints(browser: &mut Browser, link: &str) {
    let source = json!({ "source": VIEW_OBSERVER_SCRIPT });
    browser.order("Page.addScriptToEvaluateOnNewDocument", &source);
    let (mut first, mut views) = (Vec::new(), Vec::new());
    for _ in 0..LOAD_COUNT {
        browser.go("about:blank");
        browser.go(link);
        browser.when("window.viewMs && performance.getEntriesByName('first-contentful-paint')[0]");
        let painted = "performance.getEntriesByName('first-contentful-paint')[0].startTime";
        first.extend(browser.value(painted).as_f64());
        views.extend(browser.value("window.viewMs").as_f64());
    }
    println!("what times p50_ms max_ms");
    tell("first-paint", first);
    tell("first-view", views);
    println!("# goal: 1000 ms to the first paint");
}

/// Redraws all pairs, with new values each time, and then the same values by another measure.
fn redraws(browser: &mut Browser, hosts: usize) {
    let drawn = browser.value(&REDRAW_SCRIPT.replace("HOSTS", &hosts.to_string()));
    let times = |key: &str| -> Vec<f64> {
        let times = drawn[key].as_array().into_iter().flatten();
        times.filter_map(Value::as_f64).collect()
    };
    tell("other-figures", times("figures"));
    tell("other-measure", times("measure"));
    println!(
        "# goal: 50 ms to draw {hosts} x {hosts} pairs again, up to where its pixels can be read"
    );
}

const REDRAW_SCRIPT: &str = "(async () => {
  const { matrix } = await import('/assets/matrix.js');
  const hosts = Array.from({ length: HOSTS }, (_, index) => `h${index}`);
  const made = (turn) => {
    const cells = [];
    for (let from = 0; from < HOSTS; from += 1) for (let to = 0; to < HOSTS; to += 1) {
      if (from !== to) cells.push({ from, to, median_us: 5 + (from * 7 + to * 13 + turn) % 97, p99_us: 20 + (from ^ to) % 211, lost_share: ((from + to + turn) % 50) / 1e4, rate_bits_per_s: null });
    }
    return { matrix: { hosts, cells } };
  };
  const known = { was: made(0) };
  const view = matrix(known);
  document.getElementById('view').replaceChildren(view.element);
  const canvas = document.querySelector('#view canvas');
  const choice = document.querySelector('#view select');
  const timed = async (work) => {
    await new Promise(requestAnimationFrame);
    const began = performance.now();
    work();
    canvas.getContext('2d').getImageData(0, 0, 1, 1);
    return performance.now() - began;
  };
  const [figures, measure] = [[], []];
  for (let turn = 1; turn <= 10; turn += 1) {
    known.was = made(turn);
    figures.push(await timed(() => view.heard()));
    choice.value = turn % 2 ? 'p99_us' : 'median_us';
    measure.push(await timed(() => choice.dispatchEvent(new Event('change'))));
  }
  view.leave();
  return { figures, measure };
})()";

fn tell(what: &str, mut times_ms: Vec<f64>) {
    times_ms.sort_by(f64::total_cmp);
    let middle = times_ms.get(times_ms.len() / 2).unwrap_or(&f64::NAN);
    let most = times_ms.last().unwrap_or(&f64::NAN);
    println!("{what} {} {middle:.1} {most:.1}", times_ms.len());
}
