//! What was not sent yet, tried on in the sandbox: flows from a table, a job, and what recorders wrote of one.

use serde_json::json;

use super::browser::Browser;
use super::{INJECTED_ELEMENTS, is_sound, photograph};

/// Both over spine0; the third waits for both.
const FLOWS: &str = "src,dst,bytes,start_us,after,path\n\
                     h0,h4,25000000,0,,h0>leaf0>spine0>leaf1>h4\n\
                     h1,h5,25000000,0,,h1>leaf0>spine0>leaf1>h5\n\
                     h4,h0,25000000,0,0 1,\n";
const JOB: &str = "model = \"vgg16\"\nbatch_per_replica = 4\n";
const NARROW_FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nhost_gbps = 0.4\n\
                      uplink_gbps = 0.1\n";
const FABRIC: &str = "Fabric (empty: the cluster's own)";

/// In the sandbox, which has variants: played beside each, shared, and with errors reported.
pub(crate) fn flows_and_jobs_are_played(browser: &mut Browser) {
    choose(browser, "flows");
    write(browser, "Flows, as a table", FLOWS);
    plays(browser, &["ends after", "3 flows shown", "h4"]);
    assert_eq!(browser.value(&reads("measured")), false);
    photograph(browser, "sandbox-flows");
    is_sound(browser);
    write(browser, FABRIC, NARROW_FABRIC);
    plays(browser, &["ends after"]);
    is_shared_with(browser, FLOWS);
    choose(browser, "job");
    write(browser, FABRIC, "");
    write(browser, "Job file", JOB);
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
    a_trace_is_played(browser);
    is_refused(browser);
    choose(browser, "past");
    browser.when("document.querySelector('[aria-label=\"End time\"]')");
}

/// Its files are ranks in the order of their names, and a reader who follows a link has them, too.
fn a_trace_is_played(browser: &mut Browser) {
    choose(browser, "trace");
    browser.press("Simulate");
    browser.when(&reads("Open the files of a trace"));
    let recorder = "document.querySelector('[aria-label=\"Trace format\"]')";
    browser.value(&format!(
        "{recorder}.value = 'flight-recorder', {recorder}.dispatchEvent(new Event('change'))"
    ));
    let names = ["rank10", "rank2", "rank0", "rank1"];
    browser.value(&format!(
        "(() => {{
            const [files, data] = [document.querySelector('[aria-label^=\"Open the files\"]'), new DataTransfer()];
            for (const name of {names}) data.items.add(new File([{dump}], name));
            files.files = data.files;
            files.dispatchEvent(new Event('change'));
        }})()",
        names = json!(names),
        dump = json!(FLIGHT_RECORDER_DUMP),
    ));
    let listed = "[...document.querySelectorAll('.scroll tbody td:nth-child(2)')].slice(0, 4).map((it) => it.innerText).join()";
    browser.when(&format!("{listed} === 'rank0,rank1,rank2,rank10'"));
    plays(browser, &["an iteration takes", "The same job"]);
    browser.value("scrollTo(0, 0)");
    photograph(browser, "sandbox-trace");
    is_sound(browser);
    let shared = shared(browser);
    choose(browser, "job");
    browser.go(&shared);
    browser.when(&format!(
        "location.hash === '' && {listed} === 'rank0,rank1,rank2,rank10'"
    ));
    assert_eq!(
        browser.value(&format!("{recorder}.value")),
        "flight-recorder"
    );
    plays(browser, &["an iteration takes"]);
}

/// What each of four ranks wrote of one exchange.
const FLIGHT_RECORDER_DUMP: &str = r#"{ "version": "2.4",
    "pg_config": { "0": { "name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]" } },
    "entries": [{ "pg_id": 0, "process_group": ["0", "default_pg"], "profiling_name": "nccl:all_reduce",
                  "input_sizes": [[25000000]], "input_dtypes": ["Byte"], "time_created_ns": 5000 }] }"#;

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
    assert_eq!(browser.value(INJECTED_ELEMENTS), 0);
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

fn shared(browser: &mut Browser) -> String {
    browser.press("Share");
    let link = "document.querySelector('[aria-label=\"Link to this sandbox\"]')";
    browser.when(&format!("{link}.value && !{link}.hidden"));
    let shared = browser.value(&format!("{link}.value"));
    shared.as_str().expect("a link").to_owned()
}

fn is_shared_with(browser: &mut Browser, flows: &str) {
    let shared = shared(browser);
    write(browser, "Flows, as a table", "");
    write(browser, FABRIC, "");
    browser.go(&shared);
    browser.when("document.querySelector('textarea') && location.hash === ''");
    for (words, text) in [("Flows, as a table", flows), (FABRIC, NARROW_FABRIC)] {
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
