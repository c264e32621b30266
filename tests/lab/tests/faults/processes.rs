//! Processes of a job that die or stand still.

use libtest_mimic::Trial;
use serde_json::Value;

use crate::PING_NEEDS;
use crate::support::{Home, Said, run, trial};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "stopped_process_holds_up_its_job",
            PING_NEEDS,
            stopped_process_holds_up_its_job,
        ),
        trial(
            "killed_process_breaks_its_job",
            PING_NEEDS,
            killed_process_breaks_its_job,
        ),
    ]
}

/// Three ranks that send to each other in a ring for two seconds and more.
fn ring_with(home: &Home, fault: &str) -> Said {
    let scenario = format!(
        "name = 'play'\n[fabric]\nkind = 'leaf-spine'\nleaves = 1\nspines = 1\n\
         hosts_per_leaf = 3\nhost_gbps = 0.4\nuplink_gbps = 0.2\n\
         [[job]]\nname = 'train'\npattern = 'ring-allreduce'\nhosts = ['h0', 'h1', 'h2']\n\
         bytes = 1_000_000\ncompute_ms = 50\niterations = 30\n\
         [[fault]]\nat_s = 0.5\njob = 'train'\nrank = 1\n{fault}\n\
         [[expect]]\njob = 'train'\nmax_resets = 0\n"
    );
    let file = home.file("play.toml", &scenario);
    let mut command = home.lab(&["run", "--output", "json"]);
    command.arg(file).current_dir(&home.path);
    run(command)
}

fn stopped_process_holds_up_its_job() {
    let home = Home::new();
    let said = ring_with(&home, "kind = 'process-stop'\nfor_s = 1");
    let report = said.expect_code(0).json();
    assert_eq!(
        events(&report),
        ["rank 1 of train stopped", "rank 1 of train continued"]
    );
    let at_s = |event: usize| report["faults"][event]["at_s"].as_f64().expect("a time");
    let stopped_s = at_s(1) - at_s(0);
    let job = &report["jobs"][0];
    assert_eq!(job["iterations"], 30);
    let longest_ms = job["iteration_ms"]["most"]
        .as_f64()
        .expect("it was measured");
    println!("stopped for {stopped_s} s, the longest iteration took {longest_ms} ms");
    assert!(stopped_s > 0.9, "it was stopped for {stopped_s} s");
    // The iteration that was held up may have been about to end, or to begin.
    assert!(longest_ms / 1e3 > stopped_s / 2.0);
}

fn killed_process_breaks_its_job() {
    let home = Home::new();
    let report = ring_with(&home, "kind = 'process-kill'")
        .expect_code(1)
        .json();
    assert_eq!(events(&report), ["rank 1 of train killed"]);
    let job = &report["jobs"][0];
    assert!(job["iterations"].as_u64() < Some(30), "{job}");
    let broken = job["broken"].as_array().expect("some are");
    assert!(broken.iter().any(|rank| rank["rank"] == 1), "{broken:?}");
    let kept = report["artifacts"].as_str().expect("a failure is kept");
    assert!(home.path.join(kept).join("h1.txt").is_file());
}

fn events(report: &Value) -> Vec<&str> {
    let faults = report["faults"].as_array().expect("it lists them");
    faults
        .iter()
        .filter_map(|fault| fault["what"].as_str())
        .collect()
}
