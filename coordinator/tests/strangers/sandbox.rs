//! Traffic of the past, played over HTTP: a client that may look may play, and the cluster is as it
//! was.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::moment::Moment;
use reweave_common::sample::FlowReading;
use reweave_common::units::{Bytes, Rate};
use reweave_history::{Chronicle, Entry, Rules, written};
use serde_json::{Value, json};

use super::api::{is_problem, operators, viewers};
use super::house::House;
use super::http::{Answer, send, send_json};

/// Two share an uplink of 200 Mb/s.
const SHARE_BITS_PER_S: u64 = 100_000_000;

/// A minute ago h0 sent to h2 and h1 to h3, both over spine0, for four seconds.
fn collided(house: &House) -> Moment {
    let folder = house.path("data/history");
    // The writer there waits for it, which the thread of a test must not.
    let written = thread::spawn(move || write(&folder));
    written.join().unwrap()
}

fn write(folder: &Path) -> Moment {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let second = |at: u64| Moment::from_micros((now.as_secs() - 60 + at) * 1_000_000);
    let mut chronicle = Chronicle::open(folder.to_str().unwrap(), Rules::default(), 1).unwrap();
    for at in 0..=4 {
        chronicle.advance(second(at)).unwrap();
        for host in [0, 1] {
            chronicle.observe(second(at), &sent(host, at));
        }
    }
    chronicle.close().unwrap();
    second(0)
}

fn sent(host: u8, at: u64) -> Entry {
    let end = |last, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, last), port);
    let reading = FlowReading {
        flow: FlowKey {
            protocol: Protocol::Tcp,
            source: end(host, 40_000),
            destination: end(host + 2, 5001),
        },
        bytes: Bytes::new(SHARE_BITS_PER_S / 8 * at),
        rate: Some(Rate::from_bits_per_s(SHARE_BITS_PER_S)),
        rtt: None,
        retransmits: None,
    };
    let [from, to] = [host, host + 2].map(|host| format!("h{host}").into());
    let hops = format!("{from}/0 leaf0/2 spine0/1 leaf1/{host}").into();
    Entry::flow(&from, Some(&to), Some(hops), &reading)
}

fn plays(house: &House, who: &str, from: Moment, variants: &[&str]) -> Answer {
    let variant = |(nth, text): (usize, &&str)| {
        let text = format!("recorded = \"fabric.toml\"\n{text}");
        json!({ "name": format!("v{nth}"), "variant": text })
    };
    let variants: Vec<Value> = variants.iter().enumerate().map(variant).collect();
    let to = written(from + Duration::from_secs(10));
    let asked = json!({ "from": written(from), "to": to, "variants": variants });
    send_json(house, "POST", "/api/v1/sandbox", who, &asked.to_string())
}

/// How long the log is, and what is in force.
fn state(house: &House, token: &str) -> (String, Value) {
    let metrics = send(house, "GET", "/metrics", "").body;
    let index = metrics
        .lines()
        .find(|line| line.starts_with("reweave_log_last_index "));
    let status = send(house, "GET", "/api/v1/status", token).json();
    (index.unwrap().to_owned(), status["generation"].clone())
}

#[tokio::test]
async fn viewer_may_simulate_without_side_effects() {
    let house = House::new();
    let (operator, viewer) = (operators(&house).await, viewers(&house).await);
    let from = collided(&house);
    let before = state(&house, &viewer);
    let apart = "[[way]]\nnodes = [\"h1\", \"leaf0\", \"spine1\", \"leaf1\", \"h3\"]\n";
    let lost = "without = [\"leaf0-spine7\"]\n";
    let played = plays(&house, &viewer, from, &["", apart, lost]);
    assert_eq!(played.code, 200, "{}", played.body);
    let variants = &played.json()["variants"];
    let rate = |nth: usize, side: &str| {
        let compared = &variants[nth]["compared"];
        compared[side]["slowest_mbps"].as_f64().unwrap().round()
    };
    assert_eq!((rate(0, "as_it_was"), rate(0, "variant")), (100.0, 100.0));
    assert_eq!((rate(1, "as_it_was"), rate(1, "variant")), (100.0, 200.0));
    let problem = variants[2]["problem"].as_str().unwrap();
    let says = "v2:2: without: the fabric has no link named \"leaf0-spine7\"";
    assert_eq!(problem, says);
    let drained = json!({ "variant": "recorded = \"f.toml\"\nwithout = [\"leaf0-spine7\"]\n" });
    let promoted = |who: &str| {
        let path = "/api/v1/sandbox/plan";
        send_json(&house, "POST", path, who, &drained.to_string())
    };
    is_problem(&promoted(&viewer), 403, "not-allowed");
    is_problem(&promoted(&operator), 404, "no-such-link");
    assert_eq!(state(&house, &viewer), before);
    let keyed = |text: &str| {
        let who = format!("{operator}Idempotency-Key: one\r\n");
        let variant =
            json!({ "variant": format!("recorded = \"f.toml\"\nwithout = [{text:?}]\n") });
        send_json(
            &house,
            "POST",
            "/api/v1/sandbox/plan",
            &who,
            &variant.to_string(),
        )
    };
    let (first, again) = (keyed("leaf0-spine0"), keyed("leaf0-spine0"));
    assert_eq!((first.code, &first.body), (200, &again.body));
    is_problem(&keyed("leaf0-spine1"), 422, "other-request");
}

#[tokio::test]
async fn impossible_sandbox_request_is_problem() {
    let house = House::new();
    let viewer = viewers(&house).await;
    let posted = |json: &str| send_json(&house, "POST", "/api/v1/sandbox", &viewer, json);
    for bad in [
        "",
        "x",
        "{}",
        "[]",
        r#"{"from":"1m","to":"0s","variants":[{}]}"#,
    ] {
        is_problem(&posted(bad), 400, "bad-request");
    }
    let variant = r#"{ "name": "a", "variant": "recorded = 1" }"#;
    let long = format!(r#"{{"from":"3h","to":"0s","variants":[{variant}]}}"#);
    is_problem(&posted(&long), 422, "too-much");
    let wrong = format!(r#"{{"from":"1m","to":"0s","variants":[{variant}]}}"#);
    let reply = posted(&wrong).json();
    let problem = reply["variants"][0]["problem"].as_str().unwrap();
    assert!(problem.starts_with("a:1: recorded: "), "{problem}");
    let foreign = wrong.replace("recorded = 1", "recorded = \\\"other.toml\\\"");
    let reply = posted(&foreign).json();
    let problem = reply["variants"][0]["problem"].as_str().unwrap();
    assert!(
        problem.starts_with("\"other.toml\" is not among the files"),
        "{problem}"
    );
    let huge = format!(r#"{{"from":"{}"}}"#, "1".repeat(11 << 20));
    is_problem(&posted(&huge), 413, "too-large");
    let path = "/api/v1/sandbox/plan";
    let large = format!(r#"{{"variant":"{}"}}"#, "1".repeat(3 << 20));
    let answer = send_json(&house, "POST", path, &viewer, &large);
    is_problem(&answer, 413, "too-large");
    let stranger = send_json(&house, "POST", "/api/v1/sandbox", "", &wrong);
    is_problem(&stranger, 401, "no-token");
}

/// Both over spine0, as what collided.
const FLOWS: &str = "src,dst,bytes,start_us,path\n\
                     h0,h2,25000000,0,h0>leaf0>spine0>leaf1>h2\n\
                     h1,h3,25000000,0,h1>leaf0>spine0>leaf1>h3\n";
const JOB: &str = "model = \"vgg16\"\nbatch_per_replica = 4\n";
const NARROW_FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\nhost_gbps = 0.4\n\
                      uplink_gbps = 0.1\n";

/// What is played besides the past, with variants that are named after their places.
fn tried(house: &House, who: &str, mut what: Value, variants: &[&str]) -> Answer {
    let variant = |(nth, text): (usize, &&str)| json!({ "name": format!("v{nth}"), "variant": text, "files": { "narrow.toml": NARROW_FABRIC } });
    what["variants"] = variants.iter().enumerate().map(variant).collect();
    send_json(house, "POST", "/api/v1/sandbox", who, &what.to_string())
}

fn figures(answer: &Answer, place: &str) -> Vec<i64> {
    assert_eq!(answer.code, 200, "{}", answer.body);
    let reply = answer.json();
    let variants = reply["variants"].as_array().unwrap().iter();
    let figure = |it: &Value| it["compared"].pointer(place).and_then(Value::as_f64);
    variants
        .map(|it| figure(it).unwrap_or_else(|| panic!("{it:#}")).round() as i64)
        .collect()
}

#[tokio::test]
async fn sandbox_plays_flows_and_jobs() {
    let house = House::new();
    let viewer = viewers(&house).await;
    let before = state(&house, &viewer);
    let apart = "[[way]]\nnodes = [\"h1\", \"leaf0\", \"spine1\", \"leaf1\", \"h3\"]\n";
    let narrow = "recorded = \"fabric.toml\"\nfabric = \"narrow.toml\"\n";
    let variants = ["", apart, narrow];
    let flows = tried(&house, &viewer, json!({ "flows": FLOWS }), &variants);
    assert_eq!(figures(&flows, "/as_it_was/end_ms"), [2000; 3]);
    assert_eq!(figures(&flows, "/variant/end_ms")[..2], [2000, 1000]);
    assert!(flows.json().get("from").is_none(), "{}", flows.body);
    let given = json!({ "flows": FLOWS, "fabric": NARROW_FABRIC });
    let given = tried(&house, &viewer, given, &["", "fabric = \"fabric.toml\"\n"]);
    assert_eq!(figures(&given, "/as_it_was/end_ms"), [4000; 2]);
    let larger = "[job]\nmodel = \"resnet50\"\nbatch_per_replica = 64\n";
    let less = "without = [\"leaf0-spine1\"]\n";
    let job = tried(&house, &viewer, json!({ "job": JOB }), &["", less, larger]);
    let [was, then] =
        ["/as_it_was/iteration_ms", "/variant/iteration_ms"].map(|it| figures(&job, it));
    assert_eq!(was[0], then[0]);
    assert!(then[1] > was[1] && then[2] != was[2], "{was:?} {then:?}");
    assert_eq!(state(&house, &viewer), before);
}

/// Behind the heading of a table, and what is said of it.
const BAD_FLOWS: [(&str, &str); 6] = [
    ("", "flows:1: it lists no flows"),
    ("h0,h9,1,0", "flows:2: dst: the fabric has no node"),
    ("h0,h1,-1,0", "flows:2: bytes: "),
    ("h0,h1,1e300,0", "flows:2: bytes: "),
    ("<script>,h1,1,0", "flows:2: src: "),
    ("h0,h1,1", "flows:2: "),
];
const BAD_JOBS: [(&str, &str); 5] = [
    ("", "job:1: model: "),
    ("model = \"x\"\nbatch = 1\n", "job:1: model: "),
    (TOO_MANY_RANKS, "512 ranks are more than 256"),
    (TOO_MANY_PARTS, "micro-batches of all ranks are more than"),
    (OPERATORS, "send its text as `profile`"),
];
const TOO_MANY_RANKS: &str = "model = \"vgg16\"\nbatch_per_replica = 4\ngpus_per_host = 128\n";
const TOO_MANY_PARTS: &str = "model = \"vgg16\"\nbatch_per_replica = 4\n\
                          [parallelism]\nmicrobatches = 65536\n";
const OPERATORS: &str = "model = \"two\"\nbatch = 4\nprofile = \"/etc/passwd\"\n\
                         [[operator]]\nname = \"a\"\ntiming = \"a\"\nweight_bytes = 1\n\
                         out_bytes_per_sample = 1\n";

fn is_refused(answer: &Answer, kind: &str, says: &str) {
    is_problem(answer, 422, kind);
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains(says), "{detail}");
}

#[tokio::test]
async fn impossible_flows_and_jobs_are_problems() {
    let house = House::new();
    let viewer = viewers(&house).await;
    let try_out = |what: Value| tried(&house, &viewer, what, &[""]);
    let table = |rows: &str| format!("src,dst,bytes,start_us\n{rows}\n");
    for (rows, says) in BAD_FLOWS {
        let answer = try_out(json!({ "flows": table(rows) }));
        is_refused(&answer, "not-to-be-played", says);
    }
    for (job, says) in BAD_JOBS {
        let answer = try_out(json!({ "job": job }));
        is_refused(&answer, "not-to-be-played", says);
    }
    let bad = try_out(json!({ "job": JOB, "fabric": "kind = 1" }));
    is_refused(&bad, "not-to-be-played", "fabric.toml:1: kind: ");
    let many = table(&"h0,h1,1,0\n".repeat(20_001));
    let says = "flows: 20001 are more than 20000";
    is_refused(&try_out(json!({ "flows": many })), "too-much", says);
    let long = "x".repeat((1 << 20) + 1);
    for what in ["flows", "job"] {
        let says = format!("{what}: 1048577 bytes");
        is_refused(&try_out(json!({ what: long })), "too-much", &says);
    }
    let both = try_out(json!({ "job": JOB, "flows": FLOWS }));
    is_problem(&both, 400, "bad-request");
}

#[tokio::test]
async fn unfitting_variant_fails_alone() {
    let house = House::new();
    let viewer = viewers(&house).await;
    let (flows, job) = (json!({ "flows": FLOWS }), json!({ "job": JOB }));
    let no_job = "[job]\nbatch = 1\n";
    for (what, variant, says) in [
        (&flows, no_job, "v0:1: job: the input is not a job"),
        (&job, "[job]\nbatch = 0\n", "v0:2: batch: 0 is not between"),
        (
            &job,
            "[job]\ngpus_per_host = 128\n",
            "512 ranks are more than",
        ),
        (&job, "fabric = \"x\"\n", "\"x\" is not among the files"),
    ] {
        let answer = tried(&house, &viewer, what.clone(), &[variant, ""]).json();
        let problem = answer["variants"][0]["problem"].as_str().unwrap();
        assert!(problem.starts_with(says), "{problem}");
        assert!(answer["variants"][1]["problem"].is_null(), "{answer:#}");
    }
}

/// What each of four ranks recorded of one exchange.
fn dump(bytes: u64) -> String {
    json!({
        "version": "2.4",
        "pg_config": { "0": { "name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]" } },
        "entries": [{
            "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": 1,
            "profiling_name": "nccl:all_reduce", "input_sizes": [[bytes]], "input_dtypes": ["Byte"],
            "output_sizes": [[bytes]], "output_dtypes": ["Byte"], "state": "completed",
            "time_created_ns": 5000, "duration_ms": 1.5,
        }],
    })
    .to_string()
}

fn inspected(rank: u32) -> String {
    json!({
        "header": { "id": "0xa", "rank": rank, "n_ranks": 4, "nnodes": 4 },
        "metadata": { "inspector_output_format_version": "v4.0", "hostname": format!("h{rank}"), "pid": rank },
        "coll_perf": { "coll": "AllReduce", "coll_sn": 1, "coll_msg_size_bytes": 25_000_000,
                       "coll_exec_time_us": 250, "coll_busbw_gbs": 1.5 },
    })
    .to_string()
}

/// Of Chakra: one rank, which computes for 30 ms.
const CHAKRA_COMPUTE: &[u8] =
    b"\x07\x0a\x050.0.4\x20\x08\x01\x12\x04some\x18\x04\x2a\x00\x38\xb0\xea\x01\
                          \x52\x0e\x0a\x09is_cpu_op\xd8\x01\x00";

fn trace(format: &str, files: &[impl AsRef<[u8]>]) -> Value {
    let file = |(rank, bytes): (usize, _)| json!({ "name": format!("rank{rank}"), "base64": BASE64_STANDARD.encode(bytes) });
    let files: Vec<_> = files.iter().enumerate().map(file).collect();
    json!({ "trace": { "format": format, "files": files } })
}

#[tokio::test]
async fn sandbox_plays_traces_of_every_recorder() {
    let house = House::new();
    let viewer = viewers(&house).await;
    let before = state(&house, &viewer);
    let variants = ["", "without = [\"leaf0-spine1\"]\n"];
    let dumps = [0; 4].map(|_| dump(25_000_000));
    let inspected = [0, 1, 2, 3].map(inspected);
    for what in [
        trace("flight-recorder", &dumps),
        trace("nccl-inspector", &inspected),
    ] {
        let played = tried(&house, &viewer, what, &variants);
        let [was, then] =
            ["/as_it_was/iteration_ms", "/variant/iteration_ms"].map(|it| figures(&played, it));
        assert!(
            was[0] > 500 && then[0] == was[0] && then[1] > was[1],
            "{was:?} {then:?}"
        );
    }
    let larger = [0; 4].map(|_| dump(50_000_000));
    let [small, large] = [dumps, larger].map(|dumps| {
        let played = tried(&house, &viewer, trace("flight-recorder", &dumps), &[""]);
        figures(&played, "/as_it_was/iteration_ms")[0]
    });
    assert!(large > small * 19 / 10, "{small} {large}");
    let played = tried(&house, &viewer, trace("chakra", &[CHAKRA_COMPUTE]), &[""]);
    assert_eq!(figures(&played, "/variant/iteration_ms"), [30]);
    assert_eq!(state(&house, &viewer), before);
}

#[tokio::test]
async fn impossible_trace_names_its_file() {
    let house = House::new();
    let viewer = viewers(&house).await;
    let try_out = |what: Value| tried(&house, &viewer, what, &[""]);
    let with = |key: &str, value: Value| {
        let mut what = trace("flight-recorder", &[dump(1)]);
        what["trace"][key] = value;
        what
    };
    let file = |base64: &str| json!([{ "name": "<b>", "base64": base64 }]);
    for (what, says) in [
        (with("files", file("?")), "<b>: not base64"),
        (with("files", file("AAAA")), "<b>: "),
        (trace("nccl-inspector", &[[0xff]]), "rank0: "),
        (trace("chakra", &[b"x"]), "not an execution trace"),
        (trace("flight-recorder", &[dump(1), dump(1)]), "rank 2"),
        (
            trace("flight-recorder", &[b"{}"; 5]),
            "5 ranks, but only 4 places",
        ),
        (
            trace("flight-recorder", &[b"{}"; 257]),
            "257 ranks are more than 256",
        ),
        (
            with("gpus_per_host", json!(0)),
            "gpus_per_host: 0 is not between",
        ),
    ] {
        is_refused(&try_out(what), "not-to-be-played", says);
    }
    let large = vec![vec![0; 7 << 19]; 2];
    is_refused(
        &try_out(trace("chakra", &large)),
        "too-much",
        "bytes are more than 6291456",
    );
    for bad in [with("format", json!("pcap")), with("other", json!(1))] {
        is_problem(&try_out(bad), 400, "bad-request");
    }
    let answer = tried(
        &house,
        &viewer,
        trace("flight-recorder", &[0; 4].map(|_| dump(1))),
        &["[job]\nbatch = 1\n"],
    );
    let answer = answer.json();
    let problem = answer["variants"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("the input is not a job"), "{problem}");
}

/// Two operators, one after the other, as they were measured.
const TIMED_JOB: &str = "model = \"two\"\nbatch = 4\nprofile = \"profile.json\"\n\
                     [[operator]]\nname = \"a\"\ntiming = \"a\"\nweight_bytes = 25000000\n\
                     out_bytes_per_sample = 1\n";
const PROFILE: &str = r#"{ "batch_size": 4, "measurements": [
    { "name": "a", "pc_str": "2-1-4", "fw_time": 2, "bw_time": 4, "mem_req": 1 },
    { "name": "a", "pc_str": "2-1-1", "fw_time": 8, "bw_time": 16, "mem_req": 1 }] }"#;

#[tokio::test]
async fn sandbox_plays_operators_with_timings() {
    let house = House::new();
    let viewer = viewers(&house).await;
    let what = json!({ "job": TIMED_JOB, "profile": PROFILE });
    let less = "without = [\"leaf0-spine1\"]\n";
    let played = tried(&house, &viewer, what, &["", less, "[job]\nbatch = 8\n"]);
    let [was, then] =
        ["/as_it_was/iteration_ms", "/variant/iteration_ms"].map(|it| figures(&played, it));
    assert!(
        was[0] > 6 && then[0] == was[0] && then[1] > was[1],
        "{was:?} {then:?}"
    );
    let torn = json!({ "job": TIMED_JOB, "profile": "{" });
    let torn = tried(&house, &viewer, torn, &[""]);
    is_refused(
        &torn,
        "not-to-be-played",
        "profile: not a profile of operators",
    );
}
