//! Bad input gives one line that names the place, and exit code 2. These tests need no data.

use std::io::Write;
use std::process::Command;

use libtest_mimic::{Failed, Trial};
use tempfile::NamedTempFile;

/// Arguments in which `FILE` stands for the file, its content, and what is said of it.
const REFUSALS: [(&str, &[&str], &[u8], &str); 11] = [
    (
        "empty graph",
        &["replay", "FILE"],
        b"",
        "not a task graph: byte 0 is outside",
    ),
    (
        "graph that points outside",
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
        "execution trace that ends early",
        &["trace", "--format", "chakra", "FILE", "--fabric", "FABRIC"],
        b"\x05abc",
        "not an execution trace: it ends in the middle",
    ),
    (
        "pickle that calls",
        &[
            "trace",
            "--format",
            "flight-recorder",
            "FILE",
            "--fabric",
            "FABRIC",
        ],
        b"\x80\x02cos\nsystem\nX\x04\0\0\0true\x85R.",
        "the pickle wants to call os system, which is never done",
    ),
    (
        "dump of something else",
        &[
            "trace",
            "--format",
            "flight-recorder",
            "FILE",
            "--fabric",
            "FABRIC",
        ],
        b"{\"entries\": 3}",
        "not a dump of the flight recorder",
    ),
    (
        "inspector's file cut short",
        &[
            "trace",
            "--format",
            "nccl-inspector",
            "FILE",
            "--fabric",
            "FABRIC",
        ],
        b"{\"header\": {",
        "file 0: not what NCCL's Inspector writes",
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
        "the fabric has no link h0-h9",
    ),
];

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
    let (mut file, mut fabric) = (NamedTempFile::new()?, NamedTempFile::new()?);
    file.write_all(content)?;
    fabric.write_all(b"kind = \"ideal\"\nhosts = 2\nnic_gbps = 100\n")?;
    let mut reweave = Command::new(env!("CARGO_BIN_EXE_reweave"));
    reweave.arg("sim");
    for &argument in arguments {
        match argument {
            "FILE" => reweave.arg(file.path()),
            "FABRIC" => reweave.arg(fabric.path()),
            other => reweave.arg(other),
        };
    }
    let output = reweave.output()?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let one_line = words.lines().count() == 1 || words.contains("For more information");
    match output.status.code() == Some(2) && words.contains(said) && one_line {
        true => Ok(()),
        false => Err(format!("{:?}: {words}", output.status).into()),
    }
}
