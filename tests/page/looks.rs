//! What is seen at a glance, of few and of many, on a large screen and on a narrow one.

use reweave_tests::Leadership;
use serde_json::json;

use super::browser::Browser;
use super::hands::{key, tab_to};
use super::plans::offered;
use super::play::{led, must};
use super::{SLIDER_ELEMENT, VIEW_NAMES, is_sound, operators_page, photograph, view};

/// A link that loses everything, and a collision, as the coordinator would tell them.
const FINDINGS_SCRIPT: &str = "import('/assets/api.js').then(async ({ get }) => {
  const { agents } = await get('/status');
  const at = (host) => `${agents.find((it) => it.node === host).addresses[0]}:5000`;
  const loser = { flow: { protocol: 'tcp', source: at('h0'), destination: at('h4') }, rate_bits_per_s: 99e6, fair_rate_bits_per_s: 198e6 };
  const hop = (from, to, link) => ({ from, to, link });
  const collision = { hop: hop('leaf0', 'spine0', 'leaf0-spine0'), utilization: 0.99, losers: [loser, loser], with_room: [hop('leaf0', 'spine1', 'leaf0-spine1')] };
  const lossy = { class: 'lossy-link', subject: { hop: hop('leaf1', 'h7', 'h7-leaf1') }, evidence: ['5041 of 5041 probes lost'], confidence: 1, remedy: 'look at it', jobs: [] };
  const doubts = [...Array(9).keys()].map((nth) => `left out: a probe ${nth} over h3>*>h4>leaf1`);
  const answers = {
    '/api/v1/findings': { generation: 0, findings: [{ 'ecmp-collision': collision }, { cause: lossy }], not_seen: { nodes: [], ways_of: [], doubts } },
    '/api/v1/jobs': { jobs: [{ job: 'train', hosts: ['h0', 'h4'] }, { job: 'other', hosts: ['h6'] }], registered: [] },
  };
  const real = window.fetch;
  window.fetch = (path, ...more) => answers[path] ? Promise.resolve(new Response(JSON.stringify(answers[path]))) : real(path, ...more);
})";
const WORST_FINDING_TEXT: &str = "2 findings, the worst: lossy link, leaf1 > h7";

pub(crate) fn findings_are_visible_at_once() {
    let stage = led(&Leadership::default());
    let mut browser = operators_page(&stage);
    must(stage.operator().shown(&["plan", "drain", "leaf0-spine1"]));
    let plan = offered(&stage);
    browser.value(FINDINGS_SCRIPT);
    view(&mut browser, "overview");
    let attention = "document.querySelector('[aria-label=\"Attention\"]').innerText";
    for place in ["document.querySelector('#state').innerText", attention] {
        browser.when(&format!("{place}.includes({})", json!(WORST_FINDING_TEXT)));
    }
    let waits = format!("Plan {plan} is on offer");
    browser.when(&format!("{attention}.includes({})", json!(waits)));
    let findings = "document.querySelector('[aria-label=\"Findings\"]').innerText";
    for words in [
        "ECMP collision",
        "leaf0 > spine0, 90 % sure",
        "Remedy: rebalance: reweave plan",
        "Jobs hurt: train",
        "Incomplete data, 9 gaps",
        "and 7 more",
        "over h3 > … > h4 > leaf1",
    ] {
        browser.when(&format!("{findings}.includes({})", json!(words)));
    }
    photograph(&mut browser, "glance-overview");
    is_sound(&mut browser);
    view(&mut browser, "fabric");
    for link in ["h7-leaf1", "leaf0-spine0"] {
        browser.when(&format!(
            "document.querySelector('[aria-label=\"Link {link}\"]').classList.contains('found')"
        ));
    }
    photograph(&mut browser, "glance-fabric");
    drained_links_are_marked(&mut browser);
    is_sound(&mut browser);
}

const DRAINED_SCRIPT: &str = "import('/assets/fabric.js').then(({ fabric }) => {
  const nodes = ['h0', 'h1'].map((name) => ({ name, role: 'host' })).concat({ name: 'leaf0', role: 'switch' });
  const links = ['h0', 'h1'].map((a) => ({ name: `${a}-leaf0`, a, b: 'leaf0' }));
  const of = ({ name, a, b }) => ({ hop: { from: a, to: b, link: name }, up: true, drained: a === 'h0', rate_bits_per_s: 0, capacity_bits_per_s: 1, spare_bits_per_s: 1, age_ms: 1 });
  const view = fabric({ fabric: { nodes, links }, status: { links: links.map(of), flows: [] } });
  document.getElementById('view').replaceChildren(view.element);
  view.heard();
})";

fn drained_links_are_marked(browser: &mut Browser) {
    browser.value(DRAINED_SCRIPT);
    let is_marked = |link: &str| {
        format!(
            "document.querySelector('[aria-label=\"Link {link}\"]').classList.contains('drained')"
        )
    };
    browser.when(&is_marked("h0-leaf0"));
    assert_eq!(browser.value(&is_marked("h1-leaf0")), false);
    browser.when("document.querySelector('.legend').innerText.includes('drained')");
    photograph(browser, "fabric-drained");
}

/// Two columns are measured, which fall between the pixels of a picture that leaves some out; one pair fares ill.
const LARGE_MATRIX_SCRIPT: &str = "import('/assets/matrix.js').then(({ matrix }) => {
  const hosts = [...Array(1024).keys()].map((nth) => `h${nth}`);
  const cells = hosts.flatMap((_, from) => [128, 192].map((to) => ({ from, to, median_us: from === 700 && to === 192 ? 900 : 5, p99_us: 5, lost_share: 0, rate_bits_per_s: null })));
  const view = matrix({ was: { matrix: { hosts, cells } } });
  document.getElementById('view').replaceChildren(view.element);
  view.heard();
})";
const CANVAS_ELEMENT: &str = "document.querySelector('canvas.heat')";
const MATRIX_TEXT: &str = "document.querySelector('.said').innerText";

pub(crate) fn large_cluster_hides_no_host() {
    let stage = led(&Leadership::default());
    let mut browser = operators_page(&stage);
    view(&mut browser, "agents");
    browser.value(LARGE_MATRIX_SCRIPT);
    browser.when(&format!("{CANVAS_ELEMENT}.dataset.painted === 'yes'"));
    browser.when(&format!(
        "{CANVAS_ELEMENT}.width <= {CANVAS_ELEMENT}.clientWidth * devicePixelRatio"
    ));
    let colours = browser.value(&format!(
        "((canvas) => {{
          const place = (host) => Math.floor(host * canvas.width / 1024);
          const {{ data }} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.width);
          const at = (from, to) => [...data.slice(4 * (place(from) * canvas.width + place(to)), 4 * (place(from) * canvas.width + place(to)) + 4)];
          return [at(5, 128), at(1023, 192), at(700, 192), at(700, 500)];
        }})({CANVAS_ELEMENT})"
    ));
    let [blue, red, none] = [[38, 98, 171, 255], [190, 30, 45, 255], [0; 4]];
    assert_eq!(colours, json!([blue, blue, red, none]));
    photograph(&mut browser, "crowd");
    worst_of_several_is_shown(&mut browser);
    a_part_is_enlarged(&mut browser);
    hosts_are_found_on_the_map(&mut browser);
    is_sound(&mut browser);
}

/// A mouse points at whole pixels, and the canvas need not begin at one.
fn worst_of_several_is_shown(browser: &mut Browser) {
    browser.value(&format!(
        "((canvas, box) => canvas.dispatchEvent(new MouseEvent('mousemove', {{
          clientX: Math.ceil(box.left + canvas.clientLeft + Math.floor(192 * canvas.width / 1024) * canvas.clientWidth / canvas.width),
          clientY: Math.ceil(box.top + canvas.clientTop + Math.floor(700 * canvas.width / 1024) * canvas.clientHeight / canvas.width),
        }})))({CANVAS_ELEMENT}, {CANVAS_ELEMENT}.getBoundingClientRect())"
    ));
    browser.when(&format!("{MATRIX_TEXT}.startsWith('h700 > h192: ')"));
}

/// By a press, and by the name of a host; and all of it is there again.
fn a_part_is_enlarged(browser: &mut Browser) {
    browser.value(&format!("{CANVAS_ELEMENT}.click()"));
    browser.when(&format!("{CANVAS_ELEMENT}.width === 256"));
    browser.press("All hosts");
    browser.when(&format!("{CANVAS_ELEMENT}.width > 256"));
    let field = "document.querySelector('[aria-label=\"Find a host\"]')";
    browser.value(&format!(
        "{field}.value = 'h700', {field}.dispatchEvent(new Event('input'))"
    ));
    browser.when(&format!("{CANVAS_ELEMENT}.width === 64"));
    browser.when(&format!("{MATRIX_TEXT}.startsWith('h700 > h192: ')"));
    let names = "[...document.querySelectorAll('.axis.rows span')].map((it) => it.innerText)";
    browser.when(&format!("{names}.length > 20"));
    photograph(browser, "crowd-found");
}

const LARGE_FABRIC_SCRIPT: &str = "import('/assets/fabric.js').then(({ fabric }) => {
  const leaves = [...Array(32).keys()].map((nth) => `leaf${nth}`);
  const hosts = [...Array(1024).keys()].map((nth) => `h${nth}`);
  const nodes = [...hosts.map((name) => ({ name, role: 'host' })), ...[...leaves, 'spine0'].map((name) => ({ name, role: 'switch' }))];
  const link = (a, b) => ({ name: `${a}-${b}`, a, b });
  const links = [...hosts.map((host, nth) => link(host, leaves[nth % 32])), ...leaves.map((leaf) => link(leaf, 'spine0'))];
  const view = fabric({ fabric: { nodes, links }, status: { links: [], flows: [] } });
  document.getElementById('view').replaceChildren(view.element);
  view.heard();
})";

fn hosts_are_found_on_the_map(browser: &mut Browser) {
    browser.value(LARGE_FABRIC_SCRIPT);
    let shows = "document.querySelector('.map').getAttribute('viewBox')";
    let whole = browser.value(shows);
    let field = "document.querySelector('[aria-label=\"Find on the map\"]')";
    let found = "[...document.querySelectorAll('.wanted')].map((it) => it.querySelector('title').textContent.split(':')[0]).join()";
    for (text, wanted) in [
        ("h77", "Link h77-leaf13,h77"),
        ("leaf3-spine0", "Link leaf3-spine0"),
    ] {
        browser.value(&format!(
            "{field}.value = '{text}', {field}.dispatchEvent(new Event('input'))"
        ));
        browser.when(&format!("{found} === {}", json!(wanted)));
        assert_ne!(browser.value(shows), whole);
        photograph(browser, &format!("map-found-{text}"));
    }
    browser.when("document.querySelector('.detail h3')?.innerText === 'leaf3-spine0'");
    browser.value(&format!(
        "{field}.value = '', {field}.dispatchEvent(new Event('input'))"
    ));
    browser.when(&format!("{shows} === {whole}"));
}

pub(crate) fn content_fits_its_place() {
    let stage = led(&Leadership::default());
    let mut browser = operators_page(&stage);
    figures_are_such_as_people_read(&mut browser);
    long_names_are_cut_and_whole_once_chosen(&mut browser);
    browser.value(FINDINGS_SCRIPT);
    let narrow = json!({ "width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": true });
    browser.order("Emulation.setDeviceMetricsOverride", &narrow);
    must(stage.operator().shown(&["plan", "drain", "leaf0-spine0"]));
    for name in VIEW_NAMES {
        view(&mut browser, name);
        if name == "overview" {
            browser.when("document.body.innerText.includes('5041 of 5041')");
        }
        if name == "changes" {
            browser.press("Review plan");
            browser.when("document.querySelector('.review')");
        }
        browser.when("document.documentElement.scrollWidth <= 390");
        photograph(&mut browser, &format!("narrow-{name}"));
    }
    browser.press("Look back");
    browser.when("document.documentElement.scrollWidth <= 390");
    is_sound(&mut browser);
    browser.value("sessionStorage.removeItem('reweave-token'), location.reload()");
    browser.when("document.body?.innerText.includes('needs a personal link')");
    photograph(&mut browser, "no-link");
}

fn figures_are_such_as_people_read(browser: &mut Browser) {
    let shown_text = browser.value(
        "import('/assets/units.js').then(({ rate, micros }) => [rate(5.18e19), rate(999.7e6), rate(0), rate(12.34e9), micros(1.08e9), micros(70e6), micros(999.9), micros(1234)])",
    );
    let figures = [
        "51 800 Pb/s",
        "1.0 Gb/s",
        "0 bit/s",
        "12.3 Gb/s",
        "18 min",
        "70.0 s",
        "1.0 ms",
        "1.2 ms",
    ];
    assert_eq!(shown_text, json!(figures));
}

fn long_names_are_cut_and_whole_once_chosen(browser: &mut Browser) {
    browser.value(
        "import('/assets/dom.js').then(({ table }) => document.getElementById('view').replaceChildren(\
         table('of one', ['what'], [['n'.repeat(5000)], ['short']])))",
    );
    let size = "document.querySelector('#view td').getBoundingClientRect()";
    let clip = "document.querySelector('#view td .clip')";
    browser.when(&format!(
        "document.querySelector('#view table').scrollWidth < 1500 && {size}.height < 60 && {clip}.title.length === 5000"
    ));
    browser.value(&format!("{clip}.click()"));
    browser.when(&format!("{size}.height > 400"));
}

pub(crate) fn focus_follows_opened_elements() {
    // What is written soon can be looked back at soon.
    let stage = led(&Leadership {
        tables: "[history]\nwrite_every_s = 1\n".to_owned(),
        ..Leadership::default()
    });
    must(stage.operator().shown(&["plan", "drain", "leaf0-spine0"]));
    let plan = offered(&stage);
    let mut browser = operators_page(&stage);
    view(&mut browser, "overview");
    key(&mut browser, "t");
    browser.when(&format!(
        "!{SLIDER_ELEMENT}.disabled && Number({SLIDER_ELEMENT}.max) > 1000"
    ));
    key(&mut browser, "t");
    browser.when(&format!("document.activeElement === {SLIDER_ELEMENT}"));
    key(&mut browser, "6");
    browser.when("document.getElementById('tab-changes').ariaSelected === 'true'");
    key(&mut browser, "Escape");
    what_is_on_offer_does_not_run(&mut browser, plan);
    tab_to(
        &mut browser,
        &format!("it.innerText === 'Review plan {plan}'"),
    );
    key(&mut browser, "Enter");
    browser.when("document.activeElement.querySelector('.review') !== null && document.activeElement !== document.body");
    let approves =
        format!("document.activeElement.innerText?.startsWith('Approve plan {plan}') === true");
    let mut stops = 0;
    while browser.value(&approves) != true {
        key(&mut browser, "Tab");
        stops += 1;
        assert!(stops < 8, "{stops}");
    }
    photograph(&mut browser, "review-by-keys");
    is_sound(&mut browser);
}

/// And it grows older where it stands.
fn what_is_on_offer_does_not_run(browser: &mut Browser, plan: u64) {
    let card = format!(
        "[...document.querySelectorAll('.card')].find((it) => it.innerText.includes('Plan {plan}'))"
    );
    browser.when(&card);
    let running = "document.querySelector('[aria-label=\"Running changes\"]').innerText";
    browser.when(&format!("{running}.includes('No change in progress')"));
    assert_eq!(
        browser.value(&format!("{card}.querySelector('.chip').innerText")),
        "on offer"
    );
    let words = format!("{card}.querySelector('small').innerText");
    let before = browser.value(&words);
    browser.when(&format!("{words} !== {before}"));
}
