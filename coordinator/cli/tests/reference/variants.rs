//! Flows that were listed, jobs and records of jobs, compared with variants as traffic of the past is.

use libtest_mimic::{Failed, Trial};
use serde_json::Value;

use super::switched::{Desk, holds};

type Check = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    let checks: [(&str, Check); 6] = [
        ("flows side by side", flows_side_by_side),
        ("flows that are slower than allowed", slower_than_allowed),
        ("job on another fabric", a_job_on_another_fabric),
        ("another job", another_job),
        ("records of job", records_of_a_job),
        ("invalid variant", what_is_no_variant),
    ];
    let trial = |(name, check): (&str, Check)| Trial::test(format!("variants::{name}"), check);
    checks.into_iter().map(trial)
}

const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
                      host_gbps = 0.4\nuplink_gbps = 0.2\n";
/// Both over spine0: two seconds, since they share 200 Mb/s. The third waits for both.
const FLOWS: &str = "src,dst,bytes,start_us,after,path\n\
                     h0,h2,25000000,0,,h0>leaf0>spine0>leaf1>h2\n\
                     h1,h3,25000000,0,,h1>leaf0>spine0>leaf1>h3\n\
                     h2,h0,25000000,0,0 1,\n";
const APART_VARIANT: &str = "[[way]]\nnodes = [\"h1\", \"leaf0\", \"spine1\", \"leaf1\", \"h3\"]\n";
/// Both hosts of a flow behind one leaf; the player names the fabric it is recorded on.
const MOVED_VARIANT: &str = "recorded = \"nowhere.toml\"\n[hosts]\nh1 = \"h2\"\nh2 = \"h1\"\n";
const NARROW_VARIANT: &str = "fabric = \"narrow.toml\"\n";
const JOB: &str = "model = \"vgg16\"\nbatch_per_replica = 4\n";
const OPERATORS: &str = "model = \"two\"\nbatch = 4\nprofile = \"nowhere.json\"\n\
                         [[operator]]\nname = \"a\"\ntiming = \"a\"\nweight_bytes = 1\n\
                         out_bytes_per_sample = 1\n";
const FLIGHT_RECORD: &str = r#"{"pg_config": {"0": {"ranks": "[0, 1, 2, 3]"}}, "entries": [
    {"pg_id": 0, "profiling_name": "nccl:all_reduce", "input_sizes": [[12500000]],
     "input_dtypes": ["Float"], "output_sizes": [[12500000]], "output_dtypes": ["Float"],
     "time_created_ns": 5000, "duration_ms": 1.5}]}"#;

fn desk() -> Result<Desk, Failed> {
    Desk::with(&[
        ("f.toml", FABRIC),
        (
            "narrow.toml",
            &FABRIC.replace("uplink_gbps = 0.2", "uplink_gbps = 0.1"),
        ),
        ("f.csv", FLOWS),
        ("same.toml", ""),
        ("apart.toml", APART_VARIANT),
        ("moved.toml", MOVED_VARIANT),
        ("slow.toml", NARROW_VARIANT),
        ("less.toml", "without = [\"leaf0-spine1\"]\n"),
        ("j.toml", JOB),
        ("larger.toml", "[job]\nmodel = \"resnet50\"\nbatch = 256\n"),
        ("operators.toml", OPERATORS),
        ("empty.csv", "src,dst,bytes,start_us\n"),
        ("rank.json", FLIGHT_RECORD),
    ])
}

const FABRIC_OPTION: &str = "--fabric f.toml";
const FLOWS_COMMAND: &str = "sim flows f.csv --fabric f.toml";

fn figure(answer: &Value, place: &str) -> f64 {
    answer
        .pointer(place)
        .and_then(Value::as_f64)
        .unwrap_or(f64::NAN)
}

/// By variant, what scripts read.
fn all(words: &str) -> Result<Vec<Value>, Failed> {
    let output = desk()?.run(&format!("{words} --output json"))?;
    let lines = String::from_utf8(output.stdout)?;
    Ok(lines
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?)
}

fn are(answers: &[Value], place: &str, figures: &[f64]) -> Result<(), Failed> {
    let reports: Vec<_> = answers.iter().map(|it| figure(it, place).round()).collect();
    holds(
        reports == figures,
        &format!("{place}: {reports:?} are not {figures:?}"),
    )
}

fn flows_side_by_side() -> Result<(), Failed> {
    let with = "--with same.toml --with apart.toml --with moved.toml --with slow.toml";
    let answers = all(&format!("{FLOWS_COMMAND} {with}"))?;
    let alone = desk()?.answer(FLOWS_COMMAND)?;
    let [makespan, end] = [
        figure(&alone, "/makespan_us") / 1e3,
        figure(&answers[0], "/as_it_was/end_ms"),
    ];
    holds(
        makespan == end,
        &format!("{makespan} alone, and {end} as it was"),
    )?;
    are(&answers, "/as_it_was/end_ms", &[3000.0; 4])?;
    // Without uplinks, the third still waits for the others.
    are(
        &answers,
        "/variant/end_ms",
        &[3000.0, 2000.0, 1000.0, 6000.0],
    )?;
    let slower = [0.0, -40.0, -70.0, 100.0];
    are(&answers, "/slower_percent", &slower)?;
    are(&answers[1..2], "/bursts/1/variant_mbps", &[200.0])?;
    let is_silent = answers
        .iter()
        .all(|it| it.get("mean_error").is_none() && it.get("from").is_none());
    holds(is_silent, "nothing was measured, at no time")?;
    let shown = desk()?.run(&format!("{FLOWS_COMMAND} {with}"))?;
    let shown = String::from_utf8(shown.stdout)?;
    let rows = [
        "3 flows, as they were listed",
        "as it was ",
        "apart.toml (-40.0 %) ",
    ];
    holds(rows.iter().all(|row| shown.contains(row)), &shown)
}

fn slower_than_allowed() -> Result<(), Failed> {
    let asked = format!("{FLOWS_COMMAND} --with slow.toml --with apart.toml --fail-if-slower");
    for (percent, code) in [("101", 0), ("99", 1), ("-1", 2), ("NaN", 2)] {
        let output = desk()?.run(&format!("{asked} {percent}"))?;
        let said = String::from_utf8(output.stderr)?;
        holds(
            output.status.code() == Some(code),
            &format!("{percent}: {said}"),
        )?;
        let slow = "slow.toml: the bursts take 100.0 % longer than the original; 99 % are allowed";
        holds((code == 1) == said.contains(slow), &said)?;
    }
    let without = format!("{FLOWS_COMMAND} --fail-if-slower 1");
    desk()?.says_no(&without, "--with <VARIANT.toml>")
}

fn a_job_on_another_fabric() -> Result<(), Failed> {
    let asked = format!(
        "sim job j.toml {FABRIC_OPTION} --with same.toml --with less.toml --with slow.toml"
    );
    let answers = all(&asked)?;
    let alone = desk()?.answer(&format!("sim job j.toml {FABRIC_OPTION}"))?;
    let [alone, was, same] = [
        figure(&alone, "/iteration_ms"),
        figure(&answers[0], "/as_it_was/iteration_ms"),
        figure(&answers[0], "/variant/iteration_ms"),
    ];
    holds(
        alone == was && was == same,
        &format!("{alone}, {was} and {same} are not one"),
    )?;
    are(&answers, "/slower_percent", &[0.0, 100.0, 100.0])?;
    let full = answers[1].pointer("/variant/fullest/0/link");
    holds(full == Some(&"leaf0-spine0".into()), &format!("{full:?}"))?;
    let shown = desk()?.run(&asked)?;
    let shown = String::from_utf8(shown.stdout)?;
    holds(shown.contains("less.toml (+100.0 %)"), &shown)?;
    let output = desk()?.run(&format!("{asked} --fail-if-slower 50"))?;
    let said = String::from_utf8(output.stderr)?;
    let takes = "less.toml: an iteration takes 100.0 % longer";
    holds(
        output.status.code() == Some(1) && said.contains(takes),
        &said,
    )
}

fn another_job() -> Result<(), Failed> {
    let answers = all(&format!(
        "sim job j.toml {FABRIC_OPTION} --with larger.toml"
    ))?;
    let larger = "model = \"resnet50\"\nbatch = 256\n";
    let desk = Desk::with(&[("f.toml", FABRIC), ("j.toml", larger)])?;
    let alone = desk.answer(&format!("sim job j.toml {FABRIC_OPTION}"))?;
    let [alone, then] = [
        figure(&alone, "/iteration_ms"),
        figure(&answers[0], "/variant/iteration_ms"),
    ];
    holds(
        alone == then,
        &format!("{alone} alone, {then} as a variant"),
    )
}

fn records_of_a_job() -> Result<(), Failed> {
    let files = "rank.json rank.json rank.json rank.json";
    let asked =
        format!("sim trace --format flight-recorder {files} {FABRIC_OPTION} --with less.toml");
    are(&all(&asked)?, "/slower_percent", &[100.0])?;
    desk()?.says_no(
        &asked.replace("less", "larger"),
        "larger.toml:1: job: the input is not a job",
    )
}

/// Of a job or of flows, and what is said of it.
const BAD_VARIANTS: [(bool, &str, &str); 10] = [
    (
        false,
        "[job]\nbatch = 1\n",
        "v.toml:1: job: the input is not a job",
    ),
    (
        false,
        "\nwithout = [\"x\"]\n",
        "v.toml:2: without: the fabric has no link named \"x\"",
    ),
    (
        false,
        "fabric = \"two.toml\"\n",
        "two.toml: the fabric has no host named \"h2\"; name its replacement under [hosts]",
    ),
    (false, "els = 1\n", "v.toml:1: els: "),
    (
        true,
        "fabric = \"two.toml\"\n",
        "two.toml: the fabric has no host named \"h2\"; name its replacement under [hosts]",
    ),
    (
        true,
        "[job]\nbatch = 0\n",
        "v.toml:2: batch: 0 is not between",
    ),
    (
        true,
        "[job]\nbatch = 5\n",
        "v.toml: a batch of 5 cannot be dealt out evenly",
    ),
    (
        true,
        "[job.parallelism]\ntensor = \"x\"\n",
        "v.toml:2: tensor: ",
    ),
    (
        true,
        "[job]\ntables = 4\n",
        "v.toml:2: tables: this model has no embedding tables",
    ),
    (
        true,
        "without = [\"leaf0-spine0\", \"leaf0-spine1\"]\n",
        "f.toml: no path from ",
    ),
];

/// Each with one line that names the place.
fn what_is_no_variant() -> Result<(), Failed> {
    for (job, variant, report) in BAD_VARIANTS {
        let two = "kind = \"ideal\"\nhosts = 2\nnic_gbps = 1\n";
        let files = [
            ("v.toml", variant),
            ("two.toml", two),
            ("f.toml", FABRIC),
            ("j.toml", JOB),
            ("f.csv", FLOWS),
        ];
        let words = if job { "job j.toml" } else { "flows f.csv" };
        let asked = format!("sim {words} {FABRIC_OPTION} --with v.toml");
        let desk = Desk::with(&files)?;
        desk.says_no(&asked, report)?;
        let said = String::from_utf8(desk.run(&asked)?.stderr)?;
        holds(said.lines().count() == 1, &said)?;
    }
    let desk = desk()?;
    let empty = format!("sim flows empty.csv {FABRIC_OPTION} --with same.toml");
    desk.says_no(&empty, "empty.csv:1: it lists no flows")?;
    let operators = format!("sim job operators.toml {FABRIC_OPTION} --with same.toml");
    desk.says_no(&operators, "nowhere.json")?;
    let interval = format!("sim job j.toml {FABRIC_OPTION} --with same.toml --interval");
    desk.says_no(&interval, "cannot be used with")
}
