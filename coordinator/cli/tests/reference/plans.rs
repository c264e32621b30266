//! `reweave plan topology`: published models no slower than published, and what it says of bad input.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::Test;

/// Model, and the iteration that is published for 16 servers of four ports of 100 Gb/s.
const PUBLISHED: [(&str, f64); 4] = [
    ("vgg16", 100.56),
    ("transformer16", 62.8),
    ("dlrm16", 26.0),
    ("candle16", 225.2),
];

pub(crate) fn tests() -> impl Iterator<Item = (String, Test)> {
    PUBLISHED.into_iter().map(|(model, most_ms)| {
        let test: Test = Box::new(move |data| is_as_fast(data, model, most_ms));
        (format!("plans::{model}"), test)
    })
}

fn plan(job: &Path, hosts: u32, degree: u32, more: &[&str]) -> Result<Output, Failed> {
    let numbers = [hosts, degree].map(|it| it.to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_reweave"));
    command.args([
        "plan", "topology", "--output", "json", "--gbps", "100", "--job",
    ]);
    command
        .arg(job)
        .args(["--hosts", &numbers[0], "--degree", &numbers[1]]);
    Ok(command.args(more).output()?)
}

fn answer(output: &Output) -> Result<Value, Failed> {
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout)?),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
    }
}

/// The median of ten seeds.
fn is_as_fast(data: &Path, model: &str, most_ms: f64) -> Result<(), Failed> {
    let job = data.join(format!("topoopt/models/{model}.toml"));
    let mut found = Vec::new();
    let ms = |answer: Value| answer["iteration_ms"].as_f64().unwrap_or(f64::INFINITY);
    for seed in 0..10 {
        let output = plan(&job, 16, 4, &["--keep", "--seed", &seed.to_string()])?;
        found.push(ms(answer(&output)?));
    }
    let searched = ms(answer(&plan(&job, 16, 4, &["--tries", "12"])?)?);
    if searched > found[1] * 1.001 {
        return Err(format!("the search made it {searched} ms from {} ms", found[1]).into());
    }
    found.sort_by(f64::total_cmp);
    match found[5] <= most_ms {
        true => Ok(()),
        false => Err(format!("{found:?}, published are {most_ms} ms").into()),
    }
}

type Check = fn() -> Result<(), Failed>;

/// Hosts, degree, what is said of them, and the hosts and degree that are named instead.
const REFUSED: [(u32, u32, &str, [u32; 2]); 4] = [
    (
        12,
        12,
        "a degree of 12 is more; take a degree of 11",
        [12, 11],
    ),
    (12, 1, "take a degree of 2", [12, 2]),
    (1, 1, "two hosts or more, this is 1; take 2", [2, 1]),
    (
        16385,
        4,
        "more than the 16384 that are planned for; take 16384",
        [0, 0],
    ),
];

pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    let refused = REFUSED.into_iter().map(|(hosts, degree, said, instead)| {
        let name = format!("plans::{hosts} hosts of {degree} ports");
        Trial::test(name, move || is_refused(hosts, degree, said, instead))
    });
    let wrong = WRONG.into_iter().map(|(options, said)| {
        let name = format!("plans::refused: {}", options.join(" "));
        Trial::test(name, move || is_wrong(options, said))
    });
    let others: [(&str, Check); 10] = [
        (
            "plans::what is named instead of too little memory",
            little_memory,
        ),
        ("plans::gates of an unknown host", unknown_gate),
        ("plans::an operator on an unknown host", unknown_server),
        ("plans::operators without room", operators_without_room),
        ("plans::twelve hosts", twelve_hosts),
        ("plans::an odd end", an_odd_end),
        ("plans::repair", repair),
        ("plans::a preset is spread anew", spread_anew),
        ("plans::panels", panels),
        ("plans::prices", prices),
    ];
    refused
        .chain(wrong)
        .chain(others.map(|(name, test)| Trial::test(name, test)))
}

/// Options for twelve hosts of four ports, and what is said of them.
const WRONG: [(&[&str], &str); 6] = [
    (
        &["--cut", "h0-h12"],
        "there is no host h12: there are h0 to h11",
    ),
    (&["--dead-port", "server3"], "there is no host server3"),
    (
        &["--panel", "h0..h5=4", "--panel", "h6..h11=4"],
        "plan for those 6 alone, or mend a port between them",
    ),
    (&["--panel", "h0..h5"], "write it as in h0..h7=4"),
    (
        &["--reach-m", "1", "--spacing-m", "2"],
        "no cable can join to the other 11",
    ),
    (
        &["--memory-gb", "0.5"],
        "no spread fits into 0.5 GB of a processor",
    ),
];

fn is_wrong(options: &[&str], said: &str) -> Result<(), Failed> {
    says(&plan(job()?.path(), 12, 4, options)?, said)
}

fn job() -> Result<NamedTempFile, Failed> {
    let mut job = NamedTempFile::new()?;
    job.write_all(b"model = \"vgg16\"\nbatch_per_replica = 32\n")?;
    Ok(job)
}

fn is_refused(hosts: u32, degree: u32, said: &str, instead: [u32; 2]) -> Result<(), Failed> {
    let job = job()?;
    says(&plan(job.path(), hosts, degree, &[])?, said)?;
    let [hosts, degree] = instead;
    if hosts > 0 {
        answer(&plan(job.path(), hosts, degree, &[])?)?;
    }
    Ok(())
}

/// What is named instead of too little memory is enough, and a little less is not.
fn little_memory() -> Result<(), Failed> {
    let job = job()?;
    let with = |gb: &str, hosts| plan(job.path(), hosts, 4, &["--memory-gb", gb]);
    let refused = with("0.5", 12)?;
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    let needed = words
        .split("it needs ")
        .nth(1)
        .and_then(|it| it.split(' ').next());
    let needed: f64 = needed.ok_or(words.clone())?.parse()?;
    says(
        &with(&format!("{:.1}", needed - 0.2), 12)?,
        "no spread fits",
    )?;
    answer(&with(&format!("{:.1}", needed + 0.1), 12)?).map(|_| ())
}

/// Gates of a host that a shard does not have.
fn unknown_gate() -> Result<(), Failed> {
    let folder = tempfile::TempDir::new()?;
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
    write(
        "moe.toml",
        "model = \"moe\"\nsize = \"64e\"\nbatch_per_replica = 8\n",
    )?;
    write("gates.csv", "iteration,from,to,bytes\n0,0,4,1000\n")?;
    write(
        "cluster.toml",
        "gbps = 100\nswitching = \"3d-mems\"\n[[block]]\nname = \"a\"\nhosts = 4\nports = 4\n\
         switched_gbps = 100\n[[job]]\nname = \"moe\"\nfile = \"moe.toml\"\nservers = 4\niterations = 100\n\
         gates = \"gates.csv\"\n",
    )?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_reweave"));
    command
        .args(["plan", "shard"])
        .arg(folder.path().join("cluster.toml"));
    says(
        &command.output()?,
        "gates.csv:2: to: \"4\" is not between 0 and 3",
    )
}

/// One operator of 8 GB, on this server, with a batch of so many samples, and its measurement.
fn operators(server: usize, batch: u32, more: &[&str]) -> Result<Output, Failed> {
    let folder = tempfile::TempDir::new()?;
    let profile = r#"{"batch_size": 64, "measurements": [
        {"name": "dense", "pc_str": "2-1-1", "fw_time": 1, "bw_time": 2, "mem_req": 8000000000}]}"#;
    std::fs::write(folder.path().join("profile.json"), profile)?;
    let job = folder.path().join("job.toml");
    let text = format!(
        "model = \"one\"\nbatch = {batch}\nprofile = \"profile.json\"\n[[operator]]\nname = \"only\"\n\
         timing = \"dense\"\nweight_bytes = 8\nout_bytes_per_sample = 8\nservers = [{server}]\n"
    );
    std::fs::write(&job, text)?;
    plan(&job, 12, 4, more)
}

fn says(output: &Output, said: &str) -> Result<(), Failed> {
    let words = String::from_utf8_lossy(&output.stderr);
    let one_line = words.lines().count() == 1;
    match output.status.code() == Some(2) && words.contains(said) && one_line {
        true => Ok(()),
        false => Err(format!("{:?}: {words}", output.status.code()).into()),
    }
}

fn unknown_server() -> Result<(), Failed> {
    let said = "only runs on server 12, and there are 12, from 0 on; take 13 servers";
    for more in [&[][..], &["--memory-gb", "80"], &["--keep"]] {
        says(&operators(12, 64, more)?, said)?;
    }
    answer(&operators(11, 64, &[])?).map(|_| ())
}

fn operators_without_room() -> Result<(), Failed> {
    let crowded = operators(0, 64, &["--memory-gb", "4"])?;
    says(
        &crowded,
        "into 12 servers of 4.0 GB; take servers of 8.0 GB",
    )?;
    let uneven = operators(0, 100, &[])?;
    says(
        &uneven,
        "a batch of 64: one of 100 has no parts of the same size",
    )
}

/// Two rings; an all-reduce is as fast as on a switch, and the same seed says the same again.
fn twelve_hosts() -> Result<(), Failed> {
    let job = job()?;
    let [first, again] = [0, 1].map(|_| plan(job.path(), 12, 4, &["--explain"]));
    let (first, again) = (answer(&first?)?, answer(&again?)?);
    let links = first["links"].as_array().map_or(0, Vec::len);
    let ms = |key: &str| first[key].as_f64().unwrap_or(f64::NAN);
    let hops = &first["explained"]["pairs_by_hops"];
    let good = links == 24
        && *hops == serde_json::json!([48, 60, 24])
        && (ms("iteration_ms") / ms("ideal_switch_ms") - 1.0).abs() < 1e-6
        && first == again;
    match good {
        true => Ok(()),
        false => Err(first.to_string().into()),
    }
}

/// Thirteen hosts of three ports have one end too many, which is said with what would do.
fn an_odd_end() -> Result<(), Failed> {
    let answer = answer(&plan(job()?.path(), 13, 3, &[])?)?;
    let links = answer["links"].as_array().map_or(0, Vec::len);
    let said = answer["report"].to_string();
    match links == 19 && said.contains("14 hosts, or a degree of 2, would use all") {
        true => Ok(()),
        false => Err(answer.to_string().into()),
    }
}

/// One link of two rings fails: what is left reduces hardly slower than before.
fn repair() -> Result<(), Failed> {
    let job = job()?;
    let planned = plan(job.path(), 12, 4, &[])?;
    let mut file = NamedTempFile::new()?;
    file.write_all(&planned.stdout)?;
    let repaired = |failed: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reweave"));
        command.args(["plan", "repair", "--output", "json", "--failed", failed]);
        command.arg(file.path()).output()
    };
    let found = answer(&repaired("h0-h1")?)?;
    let ms = |key: &str| found[key].as_f64().unwrap_or(f64::NAN);
    if !(ms("before_ms")..=ms("before_ms") * 4.0 / 3.0).contains(&ms("iteration_ms")) {
        return Err(found.to_string().into());
    }
    for failed in ["h0:h1", "h3"] {
        let found = answer(&repaired(failed)?)?;
        let rewired = found["rewired"]["links"].as_array().map_or(0, Vec::len);
        let uses_h3 = found["rewired"]["links"]
            .as_array()
            .is_some_and(|links| links.iter().any(|link| link[0] == 3 || link[1] == 3));
        if rewired < 20 || (failed == "h3" && uses_h3) {
            return Err(found.to_string().into());
        }
    }
    let refused = repaired("h0-h2")?;
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    match refused.status.code() == Some(2) && words.contains("no link h0-h2") {
        true => Ok(()),
        false => Err(words.into()),
    }
}

/// What a plan says of the spread is what a repair of it goes by.
fn spread_anew() -> Result<(), Failed> {
    let mut job = NamedTempFile::new()?;
    job.write_all(b"model = \"bert\"\nbatch_per_replica = 16\ngpus_per_host = 4\n")?;
    let planned = plan(job.path(), 8, 4, &[])?;
    let (found, kept) = (
        answer(&planned)?,
        answer(&plan(job.path(), 8, 4, &["--keep"])?)?,
    );
    let ms = |answer: &Value, key: &str| answer[key].as_f64().unwrap_or(f64::NAN);
    let faster = ms(&found, "iteration_ms") < ms(&kept, "iteration_ms") * 0.9;
    let interval = &found["interval_ms"];
    let within = interval[0].as_f64() <= found["iteration_ms"].as_f64()
        && found["iteration_ms"].as_f64() <= interval[1].as_f64();
    let mut file = NamedTempFile::new()?;
    file.write_all(&planned.stdout)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_reweave"));
    command.args(["plan", "repair", "--output", "json", "--failed", "h7"]);
    let repaired = answer(&command.arg(file.path()).output()?)?;
    let same = (ms(&repaired, "before_ms") / ms(&found, "iteration_ms") - 1.0).abs() < 0.02;
    match faster && within && same && found["parallelism"]["data"] != 32 {
        true => Ok(()),
        false => Err(format!("{found} {kept} {repaired}").into()),
    }
}

/// Four optical switches with a port for each host: each link runs through one of them.
fn panels() -> Result<(), Failed> {
    let four = ["--panel", "h0..h11=1"].repeat(4);
    let job = job()?;
    let planned = plan(job.path(), 12, 4, &four)?;
    let found = answer(&planned)?;
    let links = found["links"].as_array().map_or(0, Vec::len);
    let patches = found["patches"].as_array().cloned().unwrap_or_default();
    let on = |panel: u64| patches.iter().filter(|it| it["panel"] == panel).count();
    let mut file = NamedTempFile::new()?;
    file.write_all(&planned.stdout)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_reweave"));
    command.args(["plan", "repair", "--output", "json", "--failed", "panel1"]);
    let repaired = answer(&command.arg(file.path()).output()?)?;
    let left = repaired["rewired"]["links"].as_array().map_or(0, Vec::len);
    match links == patches.len() && (0..4).all(|it| on(it) <= 6) && left <= 18 {
        true => Ok(()),
        false => Err(format!("{found} {repaired}").into()),
    }
}

/// Twelve hosts of four ports, part by part.
fn prices() -> Result<(), Failed> {
    let job = job()?;
    let priced = |text: &str| -> Result<Output, Failed> {
        let mut file = NamedTempFile::new()?;
        file.write_all(text.as_bytes())?;
        let file = file.path().display().to_string();
        plan(
            job.path(),
            12,
            4,
            &["--keep", "--explain", "--prices", &file],
        )
    };
    let parts = "transceiver = 10\nswitch_port = 20\noptical_port = 50\n";
    let found = answer(&priced(&format!("{parts}panel_port = 30\n"))?)?;
    let cost = &found["explained"]["cost"];
    let bill = ["patch_panels", "optical_switches", "fat_tree"].map(|it| cost["bill"][it].as_f64());
    // A tree: six transceivers and five ports of switches for each port of a host.
    let right = bill == [48.0 * 40.0, 48.0 * 60.0, 48.0 * 160.0].map(Some);
    let others = cost["others"].as_array().cloned().unwrap_or_default();
    let ms = |nth: usize| others.get(nth).and_then(|it| it["iteration_ms"].as_f64());
    let slower = ms(0).zip(ms(1)).is_some_and(|(ideal, tree)| ideal <= tree);
    if !right || !slower || others.len() != 4 {
        return Err(cost.to_string().into());
    }
    let wrong = [
        (
            format!("{parts}panel_port = -1\n"),
            "panel_port = -1 is no price",
        ),
        (parts.to_owned(), "panel_port"),
    ];
    for (text, said) in wrong {
        let output = priced(&text)?;
        let words = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(2) || !words.contains(said) || words.lines().count() != 1 {
            return Err(words.into_owned().into());
        }
    }
    Ok(())
}
