//! `reweave plan shard`: a small cluster from its first jobs to its last, and what is said of bad input.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use tempfile::TempDir;

const CLUSTER_HEAD: &str = "gbps = 100\nswitching = \"3d-mems\"\nflip_ms = 0.1\n\
    [[block]]\nname = \"a\"\nhosts = 8\nports = 5\nstorage_ports = [4]\nswitched_gbps = 100\n";

type Check = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    let checks: [(&str, Check); 10] = [
        ("shards::cluster continues", a_cluster_goes_on),
        ("shards::over two blocks", over_two_blocks),
        ("shards::shared links", shared_links),
        ("shards::experts", experts),
        ("shards::young experts", young_experts),
        ("shards::own parallelism", spread_in_a_shard),
        ("shards::little memory", little_memory_in_a_shard),
        ("shards::simultaneous jobs", all_come_at_once),
        ("shards::manual example", the_cluster_of_the_manual),
        ("shards::bad input", bad_input),
    ];
    checks
        .into_iter()
        .map(|(name, test)| Trial::test(name, test))
}

/// A folder with the files that cluster files name.
fn folder() -> Result<TempDir, Failed> {
    let folder = TempDir::new()?;
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text);
    write("vgg.toml", "model = \"vgg16\"\nbatch_per_replica = 32\n")?;
    write(
        "leaf.toml",
        "kind = \"leaf-spine\"\nleaves = 2\nspines = 1\nhosts_per_leaf = 4\nhost_gbps = 100\nuplink_gbps = 200\n",
    )?;
    let gates =
        (0..6).flat_map(|nth| (1..4).map(move |to| format!("{nth},0,{to},{}", to * 1_000_000)));
    write("gates.csv", &gates.collect::<Vec<_>>().join("\n"))?;
    Ok(folder)
}

fn job(name: &str, servers: &str) -> String {
    format!("[[job]]\nname = \"{name}\"\nfile = \"vgg.toml\"\niterations = 1000000\n{servers}\n")
}

fn plan(folder: &Path, jobs: &str, more: &[&str]) -> Result<Output, Failed> {
    fs::write(folder.join("c.toml"), format!("{CLUSTER_HEAD}{jobs}"))?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_reweave"));
    command
        .current_dir(folder)
        .args(["plan", "shard", "c.toml"]);
    if !more.contains(&"--output") {
        command.args(["--output", "json"]);
    }
    Ok(command.args(more).output()?)
}

fn answer(output: &Output) -> Result<Value, Failed> {
    if output.status.success() {
        Ok(serde_json::from_slice(&output.stdout)?)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
    }
}

fn words(answer: &Value) -> Vec<String> {
    let steps = answer["steps"].as_array().into_iter().flatten();
    let word = |step: &Value| {
        format!(
            "{} {}",
            step["job"].as_str().unwrap_or(""),
            step["what"].as_str().unwrap_or("")
        )
    };
    steps.map(word).collect()
}

fn is(holds: bool, answer: &Value) -> Result<(), Failed> {
    if holds {
        Ok(())
    } else {
        Err(answer.to_string().into())
    }
}

/// One job runs, a second waits with its circuits prepared, and takes over where the first ends.
fn a_cluster_goes_on() -> Result<(), Failed> {
    let folder = folder()?;
    let (first, second) = (job("first", "servers = 6"), job("second", "servers = 4"));
    let began = plan(folder.path(), &format!("{first}{second}"), &[])?;
    fs::write(folder.path().join("now.json"), &began.stdout)?;
    let began = answer(&began)?;
    is(
        words(&began) == ["first starts", "second waits", "second prepared"],
        &began,
    )?;
    let shard = &began["shards"][0];
    let ends = shard["circuits"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|it| it["ends"].as_array());
    let storage = ends.flatten().any(|end| end["number"] == 4);
    let ratio = shard["iteration_ms"].as_f64().unwrap_or(0.0)
        / shard["ideal_switch_ms"].as_f64().unwrap_or(1.0);
    is(
        !storage && (ratio - 1.0).abs() < 0.01 && shard["tables"]["h0"]["towards"]["h1"].is_array(),
        &began,
    )?;
    let after = ["--after", "now.json", "--elapsed-s", "60"];
    let same = answer(&plan(folder.path(), &format!("{first}{second}"), &after)?)?;
    is(
        same["shards"][0]["circuits"] == shard["circuits"] && words(&same).is_empty(),
        &same,
    )?;
    let table = [&after[..], &["--output", "table"]].concat();
    let table = plan(folder.path(), &format!("{first}{second}"), &table)?;
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    let waits = "second still waits: it needs 4 servers, and 2 are free; ";
    if !table.contains(waits) || table.contains("  none") {
        return Err(table.into());
    }
    let left = |it: &Value| it["shards"][0]["samples_left"].as_f64().unwrap_or(0.0);
    is(left(&same) < left(&began), &same)?;
    let next = answer(&plan(folder.path(), &second, &after)?)?;
    let flipped = next["steps"][0]["why"]
        .as_str()
        .is_some_and(|why| why.contains("that lay ready"));
    is(
        words(&next) == ["second starts"] && flipped && next["ended"][0] == "first",
        &next,
    )
}

/// What no block has room for lies over two, and goes on there while nothing is gained by a move.
fn over_two_blocks() -> Result<(), Failed> {
    let folder = folder()?;
    let second = "[[block]]\nname = \"b\"\nhosts = 8\nports = 4\n\
        [[trunk]]\nblocks = [\"a\", \"b\"]\nfibres = 2\n";
    let [left, right] = [job("left", "servers = 5"), job("right", "servers = 5")];
    let wide = job("wide", "servers = 4");
    let all = [second, &left, &right, &wide].concat();
    let began = plan(folder.path(), &all, &[])?;
    fs::write(folder.path().join("now.json"), &began.stdout)?;
    let began = answer(&began)?;
    let circuits = |answer: &Value, nth: usize| {
        let all = answer["shards"][nth]["circuits"].as_array().cloned();
        all.unwrap_or_default()
    };
    let fibres = |answer: &Value, nth: usize| {
        let crossing = circuits(answer, nth).into_iter();
        crossing.filter(|it| it["fibre"].is_u64()).count()
    };
    is(
        words(&began) == ["left starts", "right starts", "wide starts"]
            && began["shards"][2]["blocks"] == serde_json::json!(["a", "b"])
            && fibres(&began, 2) == 2,
        &began,
    )?;
    let after = ["--after", "now.json", "--elapsed-s", "60"];
    let same = answer(&plan(folder.path(), &all, &after)?)?;
    is(
        circuits(&same, 2) == circuits(&began, 2) && words(&same).is_empty(),
        &same,
    )?;
    let all = [second, &left, &wide].concat();
    let later = answer(&plan(folder.path(), &all, &after)?)?;
    let why = later["steps"][0]["why"].as_str().unwrap_or("").to_owned();
    is(
        words(&later) == ["wide stays"]
            && why.contains("of block b alone")
            && fibres(&later, 1) == 2,
        &later,
    )
}

/// Two jobs across the same two leaves are no slower shifted than at once.
fn shared_links() -> Result<(), Failed> {
    let folder = folder()?;
    let jobs = [job("first", "servers = 5"), job("second", "servers = 3")].concat();
    let answer = answer(&plan(folder.path(), &jobs, &["--over", "leaf.toml"])?)?;
    let sum = |key: &str| -> f64 {
        let all = answer["together"][0]["together"][key]
            .as_array()
            .into_iter()
            .flatten();
        all.filter_map(Value::as_f64).sum()
    };
    is(
        sum("alone_ms") > 0.0 && sum("shifted_ms") <= sum("at_once_ms") * 1.001,
        &answer,
    )
}

fn experts() -> Result<(), Failed> {
    let folder = folder()?;
    let jobs = job("moe", "servers = 4\ngates = \"gates.csv\"");
    let answer = answer(&plan(folder.path(), &jobs, &["--explain"])?)?;
    let experts = &answer["experts"][0];
    let ports = |circuits: &Value| -> Vec<String> {
        let circuits = circuits.as_array().cloned().unwrap_or_default();
        let ends = circuits
            .iter()
            .flat_map(|it| it["ends"].as_array().cloned());
        ends.flatten().map(|end| end.to_string()).collect()
    };
    let (laid, stay) = (
        ports(&experts["circuits"]),
        ports(&answer["shards"][0]["circuits"]),
    );
    let is_free = |port: &String| !stay.contains(port);
    let degree = &answer["degrees"][0]["degree"];
    is(
        experts["advice"]["pays"] == false
            && !laid.is_empty()
            && !stay.is_empty()
            && laid.iter().all(is_free)
            && degree["fat_tree_ms"].is_f64(),
        &answer,
    )
}

/// Where nothing can be learned from gates, that is said, and circuits are laid by those there are.
fn young_experts() -> Result<(), Failed> {
    let folder = folder()?;
    let path = folder.path().join("gates.csv");
    let jobs = job("moe", "servers = 4\ngates = \"gates.csv\"");
    for (gates, count, laid) in [
        ("", "0 iterations", false),
        ("0,0,1,1e6\n", "1 iteration", true),
    ] {
        fs::write(&path, gates)?;
        let answer = answer(&plan(folder.path(), &jobs, &[])?)?;
        let experts = &answer["experts"][0];
        let why = experts["why"].as_str().unwrap_or("");
        let circuits = experts["circuits"].as_array().map_or(0, Vec::len);
        is(
            experts["advice"].is_null()
                && why.ends_with(&format!(
                    "3 iterations or more are needed to decide whether new circuits pay off; its \
                     gates count {count}"
                ))
                && (circuits > 0) == laid,
            &answer,
        )?;
    }
    Ok(())
}

/// A shard's job is spread as one of its own servers would be, and says all that a topology does.
fn spread_in_a_shard() -> Result<(), Failed> {
    let folder = folder()?;
    let bert = "model = \"bert\"\nbatch_per_replica = 16\ngpus_per_host = 4\n";
    fs::write(folder.path().join("bert.toml"), bert)?;
    let job = "[[job]]\nname = \"bert\"\nfile = \"bert.toml\"\nservers = 8\niterations = 1000\n";
    let found = answer(&plan(folder.path(), job, &["--explain"])?)?;
    let shard = &found["shards"][0];
    let mut alone = Command::new(env!("CARGO_BIN_EXE_reweave"));
    alone.current_dir(folder.path());
    alone.args(
        "plan topology --output json --job bert.toml --hosts 8 --degree 4 --gbps 100".split(' '),
    );
    let alone = answer(&alone.output()?)?;
    let ms = |answer: &Value| answer["iteration_ms"].as_f64().unwrap_or(f64::NAN);
    let said = [
        "interval_ms",
        "ideal_switch_ms",
        "spread_bound_ms",
        "bandwidth_tax",
        "pairs_by_hops",
        "load_percent",
        "report",
    ];
    let explained = &shard["explained"];
    is(
        ms(shard) <= ms(&alone) * 1.02
            && said.iter().all(|key| !shard[key].is_null())
            && explained["failures"]
                .as_array()
                .is_some_and(|it| !it.is_empty())
            && explained["backups"][0]["entries"].is_array()
            && explained["cost"]["others"]
                .as_array()
                .is_some_and(|it| it.len() == 4)
            && explained["lost"]
                .as_array()
                .is_some_and(|it| !it.is_empty()),
        &found,
    )
}

/// What `plan topology` fits into memory, a shard does too.
fn little_memory_in_a_shard() -> Result<(), Failed> {
    let folder = folder()?;
    let gpt = "model = \"gpt\"\nsize = \"1.3b\"\nbatch_per_replica = 1\ngpus_per_host = 4\n";
    fs::write(folder.path().join("gpt.toml"), gpt)?;
    let text = |gb: u32| {
        let jobs = "[[job]]\nname = \"gpt\"\nfile = \"gpt.toml\"\nservers = 4\niterations = 1000\n";
        format!("memory_gb = {gb}\n{CLUSTER_HEAD}{jobs}")
    };
    let step = |gb: u32| -> Result<Value, Failed> {
        fs::write(folder.path().join("m.toml"), text(gb))?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_reweave"));
        command.current_dir(folder.path());
        answer(
            &command
                .args("plan shard m.toml --output json".split(' '))
                .output()?,
        )
    };
    // 16 bytes for each of 1.3 billion parameters are more than 12 GB, unless they are dealt out.
    let (some, none) = (step(12)?, step(1)?);
    is(words(&some) == ["gpt starts"], &some)?;
    let why = none["steps"][0]["why"].as_str().unwrap_or("");
    is(
        words(&none) == ["gpt refused"] && why.contains("no spread fits"),
        &none,
    )
}

/// Who comes at the same time is let in at once: nothing is laid that is torn before it was used.
fn all_come_at_once() -> Result<(), Failed> {
    let folder = folder()?;
    let elastic = job("elastic", "servers = 3\nmost_servers = 8");
    let jobs = [elastic, job("second", "servers = 4")].concat();
    let found = answer(&plan(folder.path(), &jobs, &[])?)?;
    let steps = found["steps"].as_array().cloned().unwrap_or_default();
    let torn = steps.iter().any(|step| step["touched"]["torn"] != 0);
    let circuits = |nth: usize| {
        found["shards"][nth]["circuits"]
            .as_array()
            .map_or(0, Vec::len)
    };
    let set = |nth: usize| steps[nth]["touched"]["set"].as_u64();
    is(
        words(&found) == ["elastic starts", "second starts"]
            && !torn
            && (0..2).all(|nth| set(nth) == Some(circuits(nth) as u64)),
        &found,
    )
}

/// The cluster that the manual shows.
fn the_cluster_of_the_manual() -> Result<(), Failed> {
    let folder = folder()?;
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/planning.md");
    let manual = fs::read_to_string(manual)?;
    let lines = manual
        .lines()
        .skip_while(|line| !line.starts_with("    gbps = 100"));
    let lines = lines.take_while(|line| line.is_empty() || line.starts_with("    "));
    let text: Vec<_> = lines.map(str::trim_start).collect();
    fs::write(folder.path().join("shown.toml"), text.join("\n"))?;
    fs::write(
        folder.path().join("bert.toml"),
        "model = \"vgg16\"\nbatch_per_replica = 32\n",
    )?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_reweave"));
    command.current_dir(folder.path());
    let found = command
        .args("plan shard shown.toml --output json".split(' '))
        .output()?;
    let found = answer(&found)?;
    is(words(&found) == ["bert starts"], &found)
}

/// Jobs, more arguments, and what is said in one line.
const REFUSED_CLUSTERS: [(&str, &[&str], &str); 6] = [
    (
        "[[trunk]]\nblocks = [\"a\", \"c\"]\nfibres = 2\n",
        &[],
        "c.toml:11: blocks: no block \"c\"",
    ),
    (
        "[[trunk]]\nblocks = [\"a\", \"a\"]\nfibres = 2\n",
        &[],
        "a trunk joins two blocks",
    ),
    (
        "[[job]]\nname = \"j\"\nfile = \"none.toml\"\nservers = 1\niterations = 1\n",
        &[],
        "cannot read none.toml",
    ),
    (
        "[[job]]\nname = \"j\"\nfile = \"vgg.toml\"\nservers = 0\niterations = 1\n",
        &[],
        "c.toml:13: servers: 0 is not between 1",
    ),
    (
        "",
        &["--after", "leaf.toml"],
        "is not output of `reweave plan shard --output json`",
    ),
    (
        "[[job]]\nname = \"j\"\nfile = \"vgg.toml\"\nservers = 2\niterations = 1\n",
        &["--over", "small.toml"],
        "--over has no host h1",
    ),
];

fn bad_input() -> Result<(), Failed> {
    let folder = folder()?;
    fs::write(
        folder.path().join("small.toml"),
        "kind = \"ideal\"\nhosts = 1\nnic_gbps = 1\n",
    )?;
    for (jobs, more, said) in REFUSED_CLUSTERS {
        let output = plan(folder.path(), jobs, more)?;
        let words = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(2) || !words.contains(said) || words.lines().count() != 1 {
            return Err(format!("{:?}: {words}", output.status.code()).into());
        }
    }
    Ok(())
}
