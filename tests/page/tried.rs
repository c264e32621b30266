//! What nobody has sent yet, tried on in the sandbox: flows from a table, and a job.

use serde_json::json;

use super::browser::Browser;
use super::{MARKUP, is_sound, photograph};

/// Both over spine0; the third waits for both.
const FLOWS: &str = "src,dst,bytes,start_us,after,path\n\
                     h0,h4,25000000,0,,h0>leaf0>spine0>leaf1>h4\n\
                     h1,h5,25000000,0,,h1>leaf0>spine0>leaf1>h5\n\
                     h4,h0,25000000,0,0 1,\n";
const JOB: &str = "model = \"vgg16\"\nbatch_per_replica = 4\n";
const NARROW: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nhost_gbps = 0.4\n\
                      uplink_gbps = 0.1\n";
const FABRIC: &str = "The fabric (the cluster's own while this is empty)";

/// In the sandbox, which has variants: played beside each, shared, and told what is wrong.
pub(crate) fn flows_and_jobs_are_played(browser: &mut Browser) {
    choose(browser, "flows");
    write(browser, "Flows, as a table", FLOWS);
    plays(browser, &["ends after", "3 flows are shown", "h4"]);
    assert_eq!(browser.value(&reads("measured")), false);
    photograph(browser, "sandbox-flows");
    is_sound(browser);
    write(browser, FABRIC, NARROW);
    plays(browser, &["ends after"]);
    is_shared_with(browser, FLOWS);
    choose(browser, "job");
    write(browser, FABRIC, "");
    write(browser, "The job, as its file says it", JOB);
    plays(
        browser,
        &[
            "an iteration takes",
            "waits for its own communication",
            "The same job",
        ],
    );
    photograph(browser, "sandbox-job");
    is_sound(browser);
    browser.press("◐");
    photograph(browser, "sandbox-job-dark");
    browser.press("◐");
    is_reached_by_keys(browser);
    is_refused(browser);
    choose(browser, "past");
    browser.when("document.querySelector('[aria-label=\"Until when\"]')");
}

/// The browser itself complains of the answer, so that this comes last.
fn is_refused(browser: &mut Browser) {
    choose(browser, "flows");
    write(
        browser,
        "Flows, as a table",
        "src,dst,bytes,start_us\nh0,<img src=x>,1,0\n",
    );
    browser.press("Simulate");
    browser.when(&reads(
        "flows:2: dst: the fabric has no node named \"<img src=x>\"",
    ));
    assert_eq!(browser.value(MARKUP), 0);
}

fn choose(browser: &mut Browser, kind: &str) {
    let list = "document.querySelector('[aria-label=\"Source\"]')";
    browser.value(&format!(
        "{list}.value = '{kind}', {list}.dispatchEvent(new Event('change'))"
    ));
}

fn field(words: &str) -> String {
    let words = json!(words);
    format!(
        "[...document.querySelectorAll('#view textarea')].find((it) => it.ariaLabel === {words})"
    )
}

fn write(browser: &mut Browser, words: &str, text: &str) {
    let (field, text) = (field(words), json!(text));
    browser.value(&format!(
        "{field}.value = {text}, {field}.dispatchEvent(new Event('input'))"
    ));
}

fn reads(words: &str) -> String {
    format!("document.body.innerText.includes({})", json!(words))
}

/// Of what was shown before nothing is left to be taken for it.
fn plays(browser: &mut Browser, words: &[&str]) {
    browser.value("document.querySelector('.compared')?.remove()");
    browser.press("Simulate");
    browser.when("document.querySelector('.compared')");
    for words in words {
        browser.when(&reads(words));
    }
}

fn is_shared_with(browser: &mut Browser, flows: &str) {
    browser.press("Share");
    let link = "document.querySelector('[aria-label=\"Link to this sandbox\"]')";
    browser.when(&format!("{link}.value && !{link}.hidden"));
    let shared = browser.value(&format!("{link}.value"));
    write(browser, "Flows, as a table", "");
    write(browser, FABRIC, "");
    browser.go(shared.as_str().expect("a link"));
    browser.when("document.querySelector('textarea') && location.hash === ''");
    for (words, text) in [("Flows, as a table", flows), (FABRIC, NARROW)] {
        assert_eq!(browser.value(&format!("{}.value", field(words))), text);
    }
}

/// All that asks for something can be focused, in the order in which it is read.
fn is_reached_by_keys(browser: &mut Browser) {
    let asks = "[...document.querySelectorAll('#view select, #view textarea, #view input:not([hidden]), #view button:not([disabled])')]";
    let reached = browser.value(&format!(
        "{asks}.every((it) => (it.focus(), document.activeElement === it && it.tabIndex === 0))"
    ));
    assert_eq!(reached, true);
}
