//! Traffic of the past, played again between other hosts, on another fabric, and on the same one
//! written down otherwise.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Command, Output};

use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::moment::Moment;
use reweave_common::probing::{LossByDirection, ProbeReading, ProbeTally};
use reweave_common::sample::{FlowReading, TracedPath};
use reweave_common::units::{Bytes, Rate};
use reweave_history::{Chronicle, Entry, Probed, Rules};
use serde_json::Value;
use tempfile::TempDir;

/// 2026-11-20T14:00:00Z.
const START_S: u64 = 1_795_183_200;
const HISTORY_SPAN: &str = "2026-11-20T14:00:00Z/8s";
const SPAN_SECONDS: u64 = 4;
const WRITABLE_FOLDER: &str = "the folder can be written to";
/// Two share an uplink of 200 Mb/s.
const SHARE_MBPS: f64 = 100.0;
const RECORDED_FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
                        host_gbps = 0.4\nuplink_gbps = 0.2\n";
const IDEAL_FABRIC: &str = "kind = \"ideal\"\nhosts = 4\nnic_gbps = 0.3\n";
const TOO_SMALL_FABRIC: &str = "kind = \"ideal\"\nhosts = 3\nnic_gbps = 0.4\n";
/// The recorded fabric, with its nodes and links in another order and the other way round.
const RENUMBERED_FABRIC: &str = r#"
kind = "graph"
node = [{ name = "spine1", role = "switch" }, { name = "spine0", role = "switch" },
        { name = "leaf1", role = "switch" }, { name = "leaf0", role = "switch" },
        { name = "h3", role = "host" }, { name = "h2", role = "host" },
        { name = "h1", role = "host" }, { name = "h0", role = "host" }]
link = [{ a = "spine1", b = "leaf1", gbps = 0.2 }, { a = "spine1", b = "leaf0", gbps = 0.2 },
        { a = "spine0", b = "leaf1", gbps = 0.2 }, { a = "spine0", b = "leaf0", gbps = 0.2 },
        { a = "leaf1", b = "h3", gbps = 0.4 }, { a = "leaf1", b = "h2", gbps = 0.4 },
        { a = "leaf0", b = "h1", gbps = 0.4 }, { a = "leaf0", b = "h0", gbps = 0.4 }]
"#;

fn second(second: u64) -> Moment {
    Moment::from_micros((START_S + second) * 1_000_000)
}

/// What h0 sends to h2 and h1 to h3, which meet on the way over spine0.
fn sent(host: u8, at: u64, seen: bool) -> Entry {
    if seen {
        sent_over(host, at, "spine0")
    } else {
        sent_along(host, at, None)
    }
}

fn sent_over(host: u8, at: u64, spine: &str) -> Entry {
    let hops = format!("h{host}/0 leaf0/2 {spine}/1 leaf1/{host}");
    sent_along(host, at, Some(hops))
}

fn sent_along(host: u8, at: u64, hops: Option<String>) -> Entry {
    let rate = (SHARE_MBPS * 1e6) as u64;
    let end = |last, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, last), port);
    let reading = FlowReading {
        flow: FlowKey {
            protocol: Protocol::Tcp,
            source: end(host, 40_000),
            destination: end(host + 2, 5001),
        },
        bytes: Bytes::new(rate / 8 * at),
        rate: Some(Rate::from_bits_per_s(rate)),
        rtt: None,
        retransmits: None,
    };
    let [from, to] = [host, host + 2].map(|host| format!("h{host}").into());
    Entry::flow(&from, Some(&to), hops.map(Into::into), &reading)
}

/// A folder with a history in which two flows collide, and with fabrics.
fn recorded() -> TempDir {
    written_down(true)
}

/// The same; whether the ways were seen is said.
fn written_down(seen: bool) -> TempDir {
    let folder = tempfile::tempdir().expect(WRITABLE_FOLDER);
    let fabrics = [
        ("recorded.toml", RECORDED_FABRIC),
        ("ideal.toml", IDEAL_FABRIC),
        ("too-small.toml", TOO_SMALL_FABRIC),
        ("renumbered.toml", RENUMBERED_FABRIC),
    ];
    for (name, text) in fabrics {
        fs::write(folder.path().join(name), text).expect(WRITABLE_FOLDER);
    }
    let history = folder.path().join("history");
    let mut chronicle = Chronicle::open(
        history.to_str().expect("the folder has a plain name"),
        Rules::default(),
        1,
    )
    .expect(WRITABLE_FOLDER);
    for at in 0..=SPAN_SECONDS {
        chronicle.advance(second(at)).expect(WRITABLE_FOLDER);
        for host in [0, 1] {
            chronicle.observe(second(at), &sent(host, at, seen));
        }
    }
    chronicle.close().expect(WRITABLE_FOLDER);
    folder
}

fn asked(folder: &TempDir, variant: &str) -> Output {
    write_variant(folder, "variant.toml", variant);
    simulated(
        folder,
        HISTORY_SPAN,
        &["--output", "json", "--with", "variant.toml"],
    )
}

fn write_variant(folder: &TempDir, name: &str, variant: &str) {
    let file = folder.path().join(name);
    fs::write(&file, format!("recorded = \"recorded.toml\"\n{variant}")).expect(WRITABLE_FOLDER);
}

/// `reweave sim history` in the folder.
fn simulated(folder: &TempDir, span: &str, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reweave"));
    command.current_dir(folder.path());
    command.args(["sim", "history", span]).args(options);
    command.env("REWEAVE_HISTORY", "history");
    command.output().expect("reweave runs")
}

/// The rates of both flows, as they were by the model and in the variant.
fn rates(folder: &TempDir, variant: &str) -> [Vec<f64>; 2] {
    let output = asked(folder, variant);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer is JSON");
    let bursts = answer["bursts"].as_array().expect("bursts are a list");
    assert_eq!(bursts.len(), 2, "{answer:#}");
    ["as_it_was_mbps", "variant_mbps"].map(|key| {
        let rates = bursts
            .iter()
            .map(|burst| burst[key].as_f64().expect("a rate is a figure"));
        rates.collect()
    })
}

#[track_caller]
fn are(rates: &[f64], mbps: f64) {
    let near = |rate: &f64| (rate / mbps - 1.0).abs() < 1e-6;
    assert!(rates.iter().all(near), "{rates:?} are not {mbps}");
}

#[test]
fn moved_hosts_take_traffic_along() {
    // h2 and h1 change places, so that no traffic leaves its leaf.
    let moved = "[hosts]\nh1 = \"h2\"\nh2 = \"h1\"\n";
    let [as_it_was, moved] = rates(&recorded(), moved);
    are(&as_it_was, SHARE_MBPS);
    are(&moved, 400.0);
}

#[test]
fn other_fabric_carries_same_traffic() {
    let [as_it_was, ideal] = rates(&recorded(), "fabric = \"ideal.toml\"\n");
    are(&as_it_was, SHARE_MBPS);
    are(&ideal, 300.0);
}

#[test]
fn recorded_paths_survive_renumbered_links() {
    let folder = recorded();
    let renumbered = "fabric = \"renumbered.toml\"\nrouting = \"recorded\"\n";
    let [as_it_was, renumbered] = rates(&folder, renumbered);
    are(&as_it_was, SHARE_MBPS);
    are(&renumbered, SHARE_MBPS);
    let apart = "[[way]]\nnodes = [\"h0\", \"leaf0\", \"spine1\", \"leaf1\", \"h2\"]\n";
    let [_, apart] = rates(
        &folder,
        &format!(
            "fabric = \"renumbered.toml\"\n\
                                              routing = \"recorded\"\n{apart}"
        ),
    );
    are(&apart, 200.0);
}

/// As an operator types it: to the minute, with the history named once for all.
#[test]
fn history_interval_is_minute_precise() {
    let folder = recorded();
    write_variant(&folder, "variant.toml", "");
    let with = ["--with", "variant.toml"];
    for span in ["2026-11-20T14:00/30m", "2026-11-20/1day"] {
        let output = simulated(&folder, span, &with);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{span}: {said}");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains("2 bursts"), "{span}: {shown}");
    }
    let output = simulated(&folder, "2026-11-20T14/30m", &with);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("write 2026-11-20T14:00/10m"), "{said}");
}

/// Of eight seconds there are five.
#[test]
fn covered_share_of_interval_is_reported() {
    let folder = recorded();
    let answer: Value = serde_json::from_slice(&asked(&folder, "").stdout).expect("JSON");
    assert_eq!(answer["covered_percent"], 62.5, "{answer:#}");
    assert_eq!(answer["covered"][0]["to"], "2026-11-20T14:00:05.000000Z");
    let shown = simulated(&folder, HISTORY_SPAN, &["--with", "variant.toml"]);
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert!(
        shown.contains("The history covers 62.5 % of that"),
        "{shown}"
    );
    let whole = simulated(
        &folder,
        "2026-11-20T14:00:00Z/5s",
        &["--with", "variant.toml"],
    );
    let shown = String::from_utf8_lossy(&whole.stdout);
    assert!(!shown.contains("covers"), "{shown}");
    let beyond = simulated(&folder, "2m/999999999999d", &["--with", "variant.toml"]);
    let said = String::from_utf8_lossy(&beyond.stderr);
    assert_eq!(beyond.status.code(), Some(2), "{said}");
    assert!(said.contains("ends too late"), "{said}");
}

/// One that is twice as fast, one that is as fast, and one that is slower by a half.
fn three() -> TempDir {
    let folder = recorded();
    let narrow = IDEAL_FABRIC.replace("0.3", "0.0666666");
    fs::write(folder.path().join("narrow.toml"), narrow).expect(WRITABLE_FOLDER);
    let apart = "[[way]]\nnodes = [\"h0\", \"leaf0\", \"spine1\", \"leaf1\", \"h2\"]\n";
    write_variant(&folder, "apart.toml", apart);
    write_variant(&folder, "same.toml", "");
    write_variant(&folder, "slow.toml", "fabric = \"narrow.toml\"\n");
    folder
}

const THREE_VARIANTS: [&str; 6] = [
    "--with",
    "apart.toml",
    "--with",
    "same.toml",
    "--with",
    "slow.toml",
];

#[test]
fn several_variants_are_compared() {
    let folder = three();
    let json = simulated(
        &folder,
        HISTORY_SPAN,
        &[&THREE_VARIANTS[..], &["--output", "json"]].concat(),
    );
    let lines = String::from_utf8(json.stdout).expect("text");
    let lines = lines.lines().map(serde_json::from_str);
    let lines: Vec<Value> = lines.collect::<Result<_, _>>().expect("each is JSON");
    let reports: Vec<_> = lines
        .iter()
        .map(|it| (it["name"].as_str(), it["slower_percent"].as_f64()))
        .map(|(name, slower)| (name.unwrap(), slower.unwrap().round() as i64))
        .collect();
    assert_eq!(
        reports,
        [("apart.toml", -50), ("same.toml", 0), ("slow.toml", 50)]
    );
    let shown = simulated(&folder, HISTORY_SPAN, &THREE_VARIANTS);
    let shown = String::from_utf8(shown.stdout).expect("text");
    for row in [
        "as it was ",
        "apart.toml (-50.0 %) ",
        "slow.toml (+50.0 %) ",
    ] {
        let rows = shown
            .lines()
            .filter(|line| line.trim_start().starts_with(row));
        assert_eq!(rows.count(), 2, "{row}: {shown}");
    }
}

#[test]
fn fail_if_slower_fails_after_output() {
    let folder = three();
    let run = |options: &[&str]| {
        let output = simulated(
            &folder,
            HISTORY_SPAN,
            &[&THREE_VARIANTS[..], options].concat(),
        );
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said, output.stdout.is_empty())
    };
    assert_eq!(run(&[]), (Some(0), String::new(), false));
    let fail = "--fail-if-slower";
    assert_eq!(run(&[fail, "51"]), (Some(0), String::new(), false));
    let (code, said, is_silent) = run(&[fail, "49"]);
    assert_eq!((code, is_silent), (Some(1), false), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let expected = "slow.toml: the bursts take 50.0 % longer than the original; 49 % are allowed";
    assert!(said.contains(expected), "{said}");
    for bad in ["-1", "NaN", "inf", "five"] {
        assert_eq!(run(&[fail, bad]).0, Some(2), "{bad}");
    }
}

#[test]
fn hosts_missing_in_fabric_are_named() {
    let output = asked(&recorded(), "fabric = \"too-small.toml\"\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let expected = "too-small.toml: the fabric has no host named \"h3\"; name its replacement \
                    under [hosts]";
    assert!(said.contains(expected), "{said}");
    assert_eq!(said.lines().count(), 1);
}

#[test]
fn unknown_paths_are_counted() {
    for (seen, unknown) in [(true, 0), (false, 2)] {
        let output = asked(&written_down(seen), "");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["ways_unknown"], unknown, "{answer:#}");
    }
}

/// A flow from host to host that hashes onto a spine.
fn probe_flow([from, to]: [u8; 2], spine: u16) -> FlowKey {
    let end = |host, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), port);
    FlowKey {
        protocol: Protocol::Udp,
        source: end(from, 50_000 + spine),
        destination: end(to, 7),
    }
}

/// Probes between all hosts of different leaves, over both spines; over the first, one in ten is
/// lost. Links are numbered as in the recorded fabric.
fn probed() -> TempDir {
    let folder = recorded();
    let history = folder.path().join("probes");
    let history = history.to_str().expect("the folder has a plain name");
    let mut chronicle = Chronicle::open(history, Rules::default(), 2).expect(WRITABLE_FOLDER);
    for at in 0..=SPAN_SECONDS {
        chronicle.advance(second(at)).expect(WRITABLE_FOLDER);
        for (from, to) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
            for spine in [0, 1] {
                for entry in of_probe([from, to], spine) {
                    chronicle.observe(second(at), &entry);
                }
            }
        }
    }
    chronicle.close().expect(WRITABLE_FOLDER);
    folder
}

fn of_probe([from, to]: [u8; 2], spine: u16) -> [Entry; 3] {
    let flow = probe_flow([from, to], spine);
    let tally = ProbeTally {
        answered: if spine == 0 { 90 } else { 100 },
        lost: LossByDirection {
            somewhere: if spine == 0 { 10 } else { 0 },
            ..LossByDirection::default()
        },
        ..ProbeTally::default()
    };
    let traced = |flow| TracedPath {
        flow,
        routers: vec![None; 3],
        confirmed: true,
    };
    let way = |hosts: [u8; 2], leaves: [u8; 2]| {
        let [from, _] = hosts;
        let [here, there] = leaves;
        let hops = format!("h{from}/0 leaf{here}/1 spine{spine}/2 leaf{there}/3");
        Some(hops.into())
    };
    let [node, peer] = [from, to].map(|host| format!("h{host}").into());
    let probed = Probed::of(&ProbeReading { flow, tally });
    let (there, back) = (traced(flow), traced(flow.reversed()));
    [
        Entry::probes(&node, Some(&peer), &probed),
        Entry::path(&node, way([from, to], [0, 1]), &there),
        Entry::path(&peer, way([to, from], [1, 0]), &back),
    ]
}

/// What the interval of a job costs that sends over both spines.
fn job(folder: &TempDir, options: &[&str]) -> Value {
    let file = folder.path().join("job.toml");
    fs::write(&file, "model = \"vgg16\"\nbatch = 16\n").expect(WRITABLE_FOLDER);
    let mut command = Command::new(env!("CARGO_BIN_EXE_reweave"));
    command.args([
        "sim",
        "job",
        "--interval",
        "--seeds",
        "0",
        "--output",
        "json",
    ]);
    command.args(options).arg("--fabric");
    command.arg(folder.path().join("recorded.toml")).arg(&file);
    let output = command.output().expect("reweave runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("an answer is JSON")
}

#[test]
fn past_losses_cost_as_stated_ones() {
    let folder = probed();
    let history = folder.path().join("probes");
    let history = history.to_str().expect("the folder has a plain name");
    let measured = job(
        &folder,
        &["--loss-from", HISTORY_SPAN, "--history", history],
    );
    let said = ["leaf0-spine0=0.1", "leaf1-spine0=0.1"];
    let typed = job(&folder, &["--loss", said[0], "--loss", said[1]]);
    let breakdown = &measured["breakdown"];
    assert_eq!(breakdown["interval"], typed["breakdown"]["interval"]);
    let lossy = breakdown["lossy"].as_array().expect("losses are a list");
    let links: Vec<_> = lossy.iter().map(|it| it["link"].as_str()).collect();
    assert_eq!(links, [Some("leaf0-spine0"), Some("leaf1-spine0")]);
    for it in lossy {
        assert_eq!((&it["by"], &it["suspects"]), (&"probes".into(), &2.into()));
        let share = it["lost"].as_u64().zip(it["sent"].as_u64());
        assert!(
            share.is_some_and(|(lost, sent)| sent >= 1000 && lost * 10 == sent),
            "{it}"
        );
    }
    let costs = breakdown["interval"]["costs"]
        .as_array()
        .expect("costs are a list");
    assert!(
        costs.iter().any(|cost| cost["effect"] == "loss"),
        "{costs:?}"
    );
    // What is said of a link counts for more.
    let mended = job(
        &folder,
        &[
            "--loss-from",
            HISTORY_SPAN,
            "--history",
            history,
            "--loss",
            "leaf0-spine0=0",
            "--loss",
            "leaf1-spine0=0",
        ],
    );
    let costs = mended["breakdown"]["interval"]["costs"]
        .as_array()
        .expect("a list");
    assert!(
        !costs.iter().any(|cost| cost["effect"] == "loss"),
        "{costs:?}"
    );
}

/// Four hosts in a ring of circuits; any port could be led to any other.
const RING_FABRIC: &str = r#"
kind = "graph"
node = [{ name = "h0", role = "relay" }, { name = "h1", role = "relay" },
        { name = "h2", role = "relay" }, { name = "h3", role = "relay" }]
optical = [{ name = "ocs0", ports = 8, circuits = [[2, 3], [4, 5], [6, 7], [8, 1]] }]
fibre = [{ node = "h0", interface = "a", optical = "ocs0", port = 1, gbps = 0.2 },
         { node = "h0", interface = "b", optical = "ocs0", port = 2, gbps = 0.2 },
         { node = "h1", interface = "a", optical = "ocs0", port = 3, gbps = 0.2 },
         { node = "h1", interface = "b", optical = "ocs0", port = 4, gbps = 0.2 },
         { node = "h2", interface = "a", optical = "ocs0", port = 5, gbps = 0.2 },
         { node = "h2", interface = "b", optical = "ocs0", port = 6, gbps = 0.2 },
         { node = "h3", interface = "a", optical = "ocs0", port = 7, gbps = 0.2 },
         { node = "h3", interface = "b", optical = "ocs0", port = 8, gbps = 0.2 }]
"#;

#[test]
fn dark_fibres_carry_nothing() {
    let folder = tempfile::tempdir().expect(WRITABLE_FOLDER);
    let simulated = |flows: &str| {
        let files = [
            ("ring.toml", RING_FABRIC),
            ("flows.csv", flows),
            ("even.toml", "routing = \"even\"\n"),
        ];
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect(WRITABLE_FOLDER);
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_reweave"));
        command.current_dir(folder.path());
        command.args([
            "--output",
            "json",
            "sim",
            "flows",
            "flows.csv",
            "--fabric",
            "ring.toml",
        ]);
        command.args(["--with", "even.toml"]);
        command.output().expect("reweave runs")
    };
    let output = simulated("src,dst,bytes,start_us\nh0,h2,25000000,0\n");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer is JSON");
    // Around the ring one way, or both.
    let burst = &answer["bursts"][0];
    are(&[burst["as_it_was_mbps"].as_f64().expect("a rate")], 200.0);
    are(&[burst["variant_mbps"].as_f64().expect("a rate")], 400.0);
    let output = simulated("src,dst,bytes,start_us,path\nh0,h2,25000000,0,h0>h2\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("are not linked"), "{said}");
}

/// Of four seconds h0 sends two over the other spine.
#[test]
fn rerouted_flow_follows_recorded_paths() {
    let folder = recorded();
    let history = folder.path().join("moved");
    let history = history.to_str().expect("the folder has a plain name");
    let mut chronicle = Chronicle::open(history, Rules::default(), 1).expect(WRITABLE_FOLDER);
    for at in 0..=SPAN_SECONDS {
        chronicle.advance(second(at)).expect(WRITABLE_FOLDER);
        let sides = [(0, if at > 2 { "spine1" } else { "spine0" }), (1, "spine0")];
        for (host, spine) in sides {
            chronicle.observe(second(at), &sent_over(host, at, spine));
        }
    }
    chronicle.close().expect(WRITABLE_FOLDER);
    write_variant(&folder, "variant.toml", "");
    let options = [
        "--output",
        "json",
        "--with",
        "variant.toml",
        "--history",
        "moved",
    ];
    let output = simulated(&folder, HISTORY_SPAN, &options);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer is JSON");
    let bursts = answer["bursts"].as_array().expect("bursts are a list");
    let of = |from: &str| bursts.iter().filter(|it| it["from"] == from).count();
    assert_eq!((of("h0"), of("h1")), (2, 1), "{answer:#}");
    let late = bursts.iter().find(|it| it["at_ms"] == 3000.0);
    are(
        &[late.expect("it begins then")["as_it_was_mbps"]
            .as_f64()
            .expect("a rate")],
        200.0,
    );
}
