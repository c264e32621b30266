//! Bad input gives one line that names the place, and exit code 2. These tests need no data.

use std::io::Write;
use std::process::Command;

use libtest_mimic::{Failed, Trial};
use tempfile::NamedTempFile;

/// Arguments in which `FILE` stands for a file of this content, and `FABRIC` and `SPLIT_FABRIC` for fabrics; and
/// what is said of it.
const REFUSALS: [(&str, &[&str], &[u8], &str); 27] = [
    (
        "empty graph",
        &["replay", "FILE"],
        b"",
        "not a task graph: byte 0 is outside",
    ),
    (
        "graph pointing outside",
        &["replay", "FILE"],
        b"\xff\xff\xff\x7f",
        "not a task graph: byte 2147483647 is outside of the file, which has 4",
    ),
    (
        "absurd rate",
        &["replay", "FILE", "--nic-gbps", "0"],
        b"",
        "invalid value '0' for '--nic-gbps",
    ),
    (
        "unknown preset",
        &["job", "FILE", "--fabric", "FILE"],
        b"model = \"gtp\"\nbatch = 1\n",
        "kind: this key is missing",
    ),
    (
        "empty execution trace",
        &["trace", "--format", "chakra", "FILE", "--fabric", "FABRIC"],
        b"",
        "an execution trace has at least its metadata",
    ),
    (
        "truncated execution trace",
        &["trace", "--format", "chakra", "FILE", "--fabric", "FABRIC"],
        b"\x05abc",
        "not an execution trace: it ends in the middle",
    ),
    (
        "pickle calling function",
        &RECORDER_ARGUMENTS,
        b"\x80\x02cos\nsystem\nX\x04\0\0\0true\x85R.",
        "the pickle calls os system, which is refused",
    ),
    (
        "oldest pickle protocol calling function",
        &RECORDER_ARGUMENTS,
        b"cos\nsystem\n(S'true'\ntR.",
        "the pickle calls os system, which is refused",
    ),
    (
        "pickle creating instance",
        &RECORDER_ARGUMENTS,
        b"(S'true'\nios\nsystem\n.",
        "the pickle calls os system, which is refused",
    ),
    (
        "pickle claiming too much",
        &RECORDER_ARGUMENTS,
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.",
        "the pickle ends in the middle of something, at byte 11",
    ),
    (
        "overlong number in execution trace",
        &["trace", "--format", "chakra", "FILE", "--fabric", "FABRIC"],
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        "the trace of rank 0: not an execution trace: a number is longer than ten bytes",
    ),
    (
        "cyclic flows",
        &FLOWS_ARGUMENTS,
        b"src,dst,bytes,start_us,after\nh0,h1,8,0,1\nh1,h0,8,0,0\n",
        ":3: after: flows wait for one another in a circle: 1, 0",
    ),
    (
        "flow of too many bytes",
        &FLOWS_ARGUMENTS,
        b"src,dst,bytes,start_us\nh0,h1,18446744073709551616,0\n",
        ":2: bytes: 1.8446744073709552e19 bytes is not a flow size",
    ),
    (
        "flow to nowhere",
        &["flows", "FILE", "--fabric", "SPLIT"],
        b"src,dst,bytes,start_us\nh0,h2,8,0\n",
        ":2: dst: no path from h0 to h2",
    ),
    (
        "cyclic bare flows",
        &["raw", "FILE"],
        b"cap 1\nflow 1 0 0\nflow 1 0 0\ndep 0 1\ndep 1 0\n",
        ":5: dep: flows wait for one another in a circle: 1, 0",
    ),
    (
        "bare link without capacity",
        &["raw", "FILE"],
        b"cap 0\nflow 1 0 0\n",
        ":1: cap: 0 Gb/s is not a rate a link can have",
    ),
    (
        "fabric without capacity",
        &COLLECTIVE_ARGUMENTS,
        b"kind = \"ideal\"\nhosts = 2\nnic_gbps = 0\n",
        ":3: nic_gbps: 0 Gb/s is not a rate a link can have",
    ),
    (
        "collective to nowhere",
        &[
            "collective",
            "--op",
            "allreduce",
            "--bytes",
            "8",
            "--fabric",
            "SPLIT",
        ],
        b"",
        "split.toml: no path from h1 to h2",
    ),
    (
        "collective of less than nothing",
        &[
            "collective",
            "--op",
            "allreduce",
            "--bytes",
            "-1",
            "--fabric",
            "FABRIC",
        ],
        b"",
        "-1.0 bytes are no size of a collective",
    ),
    (
        "unknown algorithm",
        &["job", "FILE", "--fabric", "FABRIC"],
        b"model = \"vgg16\"\nbatch = 4\n[collectives]\nall_reduce = \"rings\"\n",
        ":4: all_reduce: \"rings\" is not an algorithm for all-reduce; use ring, multi-ring, tree",
    ),
    (
        "dump of something else",
        &RECORDER_ARGUMENTS,
        b"{\"entries\": 3}",
        "not a dump of the flight recorder",
    ),
    (
        "truncated inspector file",
        &[
            "trace",
            "--format",
            "nccl-inspector",
            "FILE",
            "--fabric",
            "FABRIC",
        ],
        b"{\"header\": {",
        ": not what NCCL's Inspector writes: EOF",
    ),
    (
        "more ranks than places",
        &["job", "FILE", "--fabric", "FABRIC"],
        b"model = \"vgg16\"\nbatch = 4\n[parallelism]\ndata = 4\n",
        "the job needs 4 GPUs, and the hosts have 2",
    ),
    (
        "unknown link",
        &[
            "job",
            "FILE",
            "--fabric",
            "FABRIC",
            "--interval",
            "--loss",
            "h0-h9=0.1",
        ],
        b"model = \"vgg16\"\nbatch = 4\n",
        "fabric.toml: the fabric has no link h0-h9",
    ),
    (
        "too many hashes",
        &[
            "job",
            "FILE",
            "--fabric",
            "FABRIC",
            "--interval",
            "--seeds",
            "4000000000",
        ],
        b"model = \"vgg16\"\nbatch = 4\n",
        "4000000000 is not in 0..=65536",
    ),
    (
        "endless wait",
        &[
            "job",
            "FILE",
            "--fabric",
            "FABRIC",
            "--interval",
            "--incast-us",
            "1e300",
        ],
        b"model = \"vgg16\"\nbatch = 4\n",
        "--incast-us 1e300 is out of range",
    ),
    (
        "job to nowhere",
        &["job", "FILE", "--fabric", "SPLIT"],
        b"model = \"vgg16\"\nbatch = 3\n",
        "split.toml: no path from h1 to h2",
    ),
];

const RECORDER_ARGUMENTS: [&str; 6] = [
    "trace",
    "--format",
    "flight-recorder",
    "FILE",
    "--fabric",
    "FABRIC",
];
const FLOWS_ARGUMENTS: [&str; 4] = ["flows", "FILE", "--fabric", "FABRIC"];
const COLLECTIVE_ARGUMENTS: [&str; 7] = [
    "collective",
    "--op",
    "allreduce",
    "--bytes",
    "8",
    "--fabric",
    "FILE",
];
/// One of its hosts cannot be reached.
const SPLIT_FABRIC: &str = r#"
kind = "graph"
node = [{ name = "h0", role = "host" }, { name = "h1", role = "host" },
        { name = "h2", role = "host" }]
link = [{ a = "h0", b = "h1", gbps = 100 }]
"#;

pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    REFUSALS
        .into_iter()
        .map(|(name, arguments, content, said)| {
            Trial::test(format!("refusals::{name}"), move || {
                refused(arguments, content, said)
            })
        })
}

fn refused(arguments: &[&str], content: &[u8], said: &str) -> Result<(), Failed> {
    let named = |name| tempfile::Builder::new().suffix(name).tempfile();
    let (mut file, mut fabric) = (NamedTempFile::new()?, named("fabric.toml")?);
    file.write_all(content)?;
    fabric.write_all(b"kind = \"ideal\"\nhosts = 2\nnic_gbps = 100\n")?;
    let mut split = named("split.toml")?;
    split.write_all(SPLIT_FABRIC.as_bytes())?;
    let mut reweave = Command::new(env!("CARGO_BIN_EXE_reweave"));
    reweave.arg("sim");
    for &argument in arguments {
        match argument {
            "FILE" => reweave.arg(file.path()),
            "FABRIC" => reweave.arg(fabric.path()),
            "SPLIT" => reweave.arg(split.path()),
            other => reweave.arg(other),
        };
    }
    let output = reweave.output()?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let one_line = words.lines().count() == 1 || words.contains("For more information");
    if output.status.code() == Some(2) && words.contains(said) && one_line {
        Ok(())
    } else {
        Err(format!("{:?}: {words}", output.status).into())
    }
}
