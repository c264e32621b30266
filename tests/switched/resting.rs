//! A job that rests, and keeps its sessions, while another sends where it will.

use std::time::Duration;

use libtest_mimic::Trial;
use reweave_common::cause::Class;
use reweave_tests::{Leadership, wait_for};

use crate::needs::trial;
use crate::play::{STAGE, must};
use crate::scene::{causes, led};

/// An uplink has room for two hosts, and not for three.
const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n\
    host_gbps = 0.04\nuplink_gbps = 0.1\n";

/// Three rounds of sending and resting: the ways of flows have to be traced while they send.
const WITHIN: Duration = Duration::from_mins(1);

pub(crate) fn tests() -> Vec<Trial> {
    let name = "a_link_that_a_resting_job_will_fill_is_foreseen";
    vec![trial(name, STAGE, foreseen)]
}

/// Past the first spine: some seconds of sending, and then so many of rest.
fn job(name: &str, hosts: &str, pairs: &str, rest_ms: u32) -> String {
    format!(
        "[[job]]\nname = \"{name}\"\npattern = \"streams\"\nhosts = [{hosts}]\npairs = [{pairs}]\n\
         bytes = 30_000_000\ncompute_ms = {rest_ms}\niterations = 1_000_000\nvia = \"spine0\"\n"
    )
}

fn foreseen() {
    let jobs = job("steady", "\"h2\", \"h6\"", "[0, 1]", 5)
        + &job(
            "rests",
            "\"h0\", \"h1\", \"h4\", \"h5\"",
            "[0, 2], [1, 3]",
            10_000,
        );
    let stage = led(FABRIC, &jobs, &Leadership::default());
    let jobs = ["steady", "rests"].map(|name| must(stage.job(name)));
    let found = must(wait_for("it is foreseen", WITHIN, || {
        let mut found = causes(&stage).into_iter();
        Ok(found.find(|cause| cause.class == Class::Saturation))
    }));
    println!("{found:#?}");
    let link = found.subject.to_string();
    assert!(
        ["leaf0-spine0 from leaf0", "leaf1-spine0 from spine0"].contains(&&*link),
        "{link}"
    );
    assert!(
        found.jobs.iter().any(|job| job == "h2 and h6"),
        "whom it will hurt"
    );
    for job in jobs {
        assert!(must(job.stop()).kept_all_sessions());
    }
}
