//! Job files.

use super::*;
use crate::collectives::Algorithm;
use crate::workload::job::JobFile;
use crate::workload::job::preset::{Batch, Zero};

const OPERATORS_JOB: &str = r#"
model = "two"
batch = 64
profile = "two.json"

[[operator]]
name = "first"
timing = "Dense_8_8"
inputs = []
weight_bytes = 288
out_bytes_per_sample = 32

[[operator]]
name = "second"
timing = "Dense_8_8"
inputs = ["first"]
weight_bytes = 288
out_bytes_per_sample = 32
servers = [3, 1]
"#;

const PRESET_JOB: &str = r#"
model = "gpt"
size = "1.3b"
batch = 64
seq = 2048
gpu = "h100"
gpus_per_host = 8
inside_gbps = 3600.0
gradient_bytes = 4
recompute = true

[parallelism]
tensor = 2
pipeline = 4
interleave = 2
microbatches = 8
zero = 1
"#;

fn refusal(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    let refused = JobFile::parse("job.toml", &text.replacen(from, to, 1));
    refused.unwrap_err().to_string()
}

#[test]
fn operators_are_read_with_inputs() {
    let JobFile::Operators { model, profile, .. } =
        JobFile::parse("job.toml", OPERATORS_JOB).unwrap()
    else {
        panic!("these are operators");
    };
    assert_eq!((model.batch, profile.as_str()), (64, "two.json"));
    assert_eq!(model.operators[1].inputs, [0]);
    assert_eq!(model.operators[1].servers, Some(vec![rank(3), rank(1)]));
    assert_eq!(model.operators[0].weights, Bytes::new(288));
}

#[test]
fn collectives_are_read_with_their_algorithms() {
    let table = "[collectives]\nall_reduce = \"auto\"\nall_gather = \"halving-doubling\"\n\
                 reduce_scatter = \"hierarchical\"\ngroup = 8\n";
    let parsed = JobFile::parse("job.toml", &format!("{PRESET_JOB}{table}"));
    let JobFile::Preset(job) = parsed.unwrap() else {
        panic!("this is a preset");
    };
    let grouped = Algorithm::Hierarchical { group: 8 };
    let fastest = algorithms(Operation::AllReduce, 8);
    assert!(fastest.contains(&grouped));
    let expected = [
        (Operation::AllReduce, Choice::Fastest(fastest)),
        (Operation::AllGather, Choice::Given(Algorithm::Recursive)),
        (Operation::ReduceScatter, Choice::Given(grouped)),
    ];
    assert_eq!(job.choices, Choices(expected.into()));
    let of_operators = OPERATORS_JOB.replacen("\n[[", &format!("\n{table}\n[["), 1);
    let JobFile::Operators { choices, .. } = JobFile::parse("job.toml", &of_operators).unwrap()
    else {
        panic!("these are operators");
    };
    assert_eq!(choices, job.choices);
}

#[test]
fn unknown_algorithm_lists_known_ones() {
    let said = |line: &str| {
        let text = format!("{PRESET_JOB}[collectives]\n{line}\n");
        JobFile::parse("job.toml", &text).unwrap_err().to_string()
    };
    assert_eq!(
        said("all_reduce = \"rings\""),
        "job.toml:19: all_reduce: \"rings\" is not an algorithm for all-reduce; use ring, \
         multi-ring, tree, recursive, hierarchical, optimal, auto"
    );
    let other = said("all_to_all = \"tree\"");
    assert!(other.ends_with("use direct, shifted, auto"), "{other}");
    assert!(said("allreduce = \"ring\"").contains("allreduce"));
    assert!(said("group = 0").contains("group"));
}

#[test]
fn preset_is_read_with_parallelism() {
    let JobFile::Preset(job) = JobFile::parse("job.toml", PRESET_JOB).unwrap() else {
        panic!("this is a preset");
    };
    let spread = job.preset.parallelism;
    assert_eq!(
        (spread.data, spread.tensor, spread.pipeline, spread.zero),
        (None, 2, 4, Zero::Optimizer)
    );
    assert_eq!(job.preset.batch, Batch::Whole(64));
    assert_eq!((job.preset.gpu.name, job.preset.gpus_per_host), ("h100", 8));
    assert_eq!(job.inside, Rate::from_gbps(3600.0));
    assert!(job.preset.recompute && job.preset.gradient_bytes == 4);
}

#[test]
fn operator_errors_name_file_line_key() {
    for (from, to, said) in [
        (
            "\"first\"]",
            "\"third\"]",
            "job.toml:16: inputs: no operator before this one is called",
        ),
        (
            "\"second\"",
            "\"first\"",
            "job.toml:14: name: there are two operators called",
        ),
        (
            "= 288",
            "= -1",
            "job.toml:10: weight_bytes: -1 is not between 0 and",
        ),
        (
            "[3, 1]",
            "[3, 3]",
            "job.toml:19: servers: server 3 is named twice",
        ),
        (
            "[3, 1]",
            "[]",
            "job.toml:19: servers: an operator needs at least one",
        ),
        (
            "batch = 64",
            "batch = 0",
            "job.toml:3: batch: 0 is not between 1 and",
        ),
        (
            "profile = \"two.json\"\n",
            "",
            "job.toml:1: profile: this key is missing",
        ),
        (
            "timing",
            "timings",
            "job.toml:8: timings: this key is unknown",
        ),
    ] {
        let found = refusal(OPERATORS_JOB, from, to);
        assert!(found.starts_with(said), "{found}");
    }
}

#[test]
fn preset_errors_name_file_line_key() {
    for (from, to, said) in [
        (
            "\"gpt\"",
            "\"gtp\"",
            "job.toml:2: model: \"gtp\" is an unknown preset; known are vgg16,",
        ),
        (
            "\"1.3b\"",
            "\"2b\"",
            "job.toml:3: size: \"2b\" is an unknown size; known are 6.7b,",
        ),
        (
            "\"h100\"",
            "\"abacus\"",
            "job.toml:6: gpu: \"abacus\" is an unknown processor",
        ),
        (
            "batch = 64",
            "",
            "job.toml:2: model: a preset needs either `batch`",
        ),
        (
            "zero = 1",
            "zero = 4",
            "job.toml:17: zero: 4 is not between 0 and 3",
        ),
        (
            "tensor = 2",
            "tensor = 0",
            "job.toml:13: tensor: 0 is not between 1 and",
        ),
        (
            "recompute",
            "tables = 3\nrecompute",
            "job.toml:10: tables: this model has no embedding",
        ),
        (
            "interleave",
            "interleaved",
            "job.toml:15: interleaved: this key is unknown",
        ),
    ] {
        let found = refusal(PRESET_JOB, from, to);
        assert!(found.starts_with(said), "{found}");
    }
    let one_size = refusal(PRESET_JOB, "\"gpt\"", "\"vgg16\"");
    assert!(one_size.contains("comes in one size only"), "{one_size}");
}

#[test]
fn any_text_gives_job_or_error() {
    let pieces = "[\\[\\]a-c=\"{}, \n1.-]{0,30}";
    proptest::proptest!(|(piece in pieces, at in 0usize..400)| {
        for text in [OPERATORS_JOB, PRESET_JOB] {
            let at = at.min(text.len());
            let text = format!("{}{piece}{}", &text[..at], &text[at..]);
            let _ = JobFile::parse("job.toml", &text);
        }
    });
}
