//! What an operator reads and rolls back: paths of flows, their imbalance, earlier plans, and the discovered fabric.

use std::collections::BTreeMap;
use std::fs;

use libtest_mimic::Trial;
use reweave_common::fabric::Fabric;
use reweave_common::operator::{
    Imbalances, JobStatus, Mode, Outcome, Plan, Record, TracedFlow, TracedWay, What,
};
use reweave_tests::{Job, Labs, Leadership, STAGE_TIMEOUT, Setting, Stage, wait_for};
use serde::Deserialize;

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, begun, ended, must, planned, status_when};
use crate::scene::{leaf_spine, led, rollback_on_halved_rates};
use crate::unwelcome;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "collision_is_traced_separated_and_reverted",
            STAGE_NEEDS,
            looked,
        ),
        trial(
            "flows_past_silent_switch_stay",
            STAGE_NEEDS,
            past_a_silent_switch,
        ),
        trial(
            "discovered_fabric_matches_agents_view",
            STAGE_NEEDS,
            discovered,
        ),
    ]
}

#[derive(Deserialize)]
struct Traces {
    flows: Vec<TracedFlow>,
}

#[derive(Deserialize)]
struct Jobs {
    jobs: Vec<JobStatus>,
}

#[derive(Deserialize)]
struct Planned {
    plan: Option<Plan>,
}

/// Two flows that meet on the first spine.
const JOB: &str = "[[job]]\nname = \"train\"\npattern = \"streams\"\nhosts = [\"h0\", \"h1\", \"h2\", \"h3\"]\n\
    pairs = [[0, 2], [1, 3]]\nbytes = 4_000_000\ncompute_ms = 5\niterations = 1_000_000\nvia = \"spine0\"\n";

fn traced(stage: &Stage, words: &[&str]) -> Vec<TracedFlow> {
    let words = [&["trace"], words].concat();
    println!("{}", must(stage.operator().shown(&words)));
    let answer: Traces = must(stage.operator().ask(&words));
    answer.flows
}

fn over(way: &TracedWay) -> Vec<&str> {
    let names = way.steps.iter().map(|step| step.node.as_deref());
    names.map(|name| name.unwrap_or("?")).collect()
}

fn looked() {
    let stage = led(&leaf_spine(2, 2, 2), JOB, &rollback_on_halved_rates());
    let job = must(stage.job("train"));
    must(job.wait_until("it sends", |progress| {
        progress.iterations >= 2 && progress.slowest_mbps() > 20.0
    }));
    is_traced(&stage);
    nonexistent_flow_is_traced(&stage);
    is_uneven(&stage);
    let kept = is_kept(&stage);
    is_listed(&stage, &kept);
    refuses(&stage);
    unwelcome::is_refused(&stage);
    is_put_back(&stage, &kept);
    let report = must(Job::stop(job));
    assert!(report.kept_all_sessions(), "{report:#?}");
}

fn is_traced(stage: &Stage) {
    let there = must(wait_for("its receiver has seen it", STAGE_TIMEOUT, || {
        let answer: Traces = stage.operator().ask(&["trace", "h0", "h2"])?;
        let way = answer.flows.into_iter().find_map(|flow| flow.there);
        Ok(way.filter(|way| way.is_confirmed))
    }));
    assert_eq!(over(&there), ["leaf0", "spine0", "leaf1", "h2"]);
    let flow = &traced(stage, &["h0", "h2"])[0];
    let named = flow.flow.to_string();
    assert_eq!(traced(stage, &[&named])[0].flow, flow.flow);
    assert_eq!(traced(stage, &[&named, "--refresh"])[0].flow, flow.flow);
}

/// A flow that does not exist is traced: of two paths, some of twelve source ports use each.
fn nonexistent_flow_is_traced(stage: &Stage) {
    let mut spines = BTreeMap::new();
    for port in 41_000..41_012 {
        let (from, to) = (format!("h1:{port}"), "h2:9");
        let words = [&*from, to, "--protocol", "udp", "--refresh"];
        let answer: Traces = must(stage.operator().ask(&[&["trace"][..], &words].concat()));
        let flow = &answer.flows[0];
        let there = flow.there.as_ref().expect("it was traced");
        let way = over(there);
        assert_eq!([way[0], way[2], way[3]], ["leaf0", "leaf1", "h2"]);
        let back = flow.back.as_ref().expect("and back");
        assert_eq!(over(back).last(), Some(&"h1"));
        assert_eq!(flow.is_symmetric, Some(way[1] == over(back)[1]));
        *spines.entry(way[1].to_owned()).or_insert(0) += 1;
    }
    println!("{spines:?}");
    assert_eq!(spines.len(), 2, "{spines:?}");
}

fn is_uneven(stage: &Stage) {
    println!("{}", must(stage.operator().shown(&["fim"])));
    let found: Imbalances = must(stage.operator().ask(&["fim"]));
    let worst = &found.groups[0];
    let links: Vec<_> = worst.over.iter().map(|hop| &hop.link[..]).collect();
    assert_eq!(links, ["leaf0-spine0", "leaf0-spine1"]);
    assert_eq!(
        (worst.imbalance.fim_percent, worst.imbalance.floor_percent),
        (100.0, 0.0)
    );
    assert_eq!(found.layers.len(), 2, "{:#?}", found.layers);
}

fn is_kept(stage: &Stage) -> Plan {
    let plan = begun(stage);
    assert_eq!(ended(stage).outcome, Outcome::Committed);
    plan
}

/// The history lists predicted and measured rates side by side.
fn is_listed(stage: &Stage, kept: &Plan) {
    let jobs = must(wait_for("rates are known again", STAGE_TIMEOUT, || {
        let answer: Jobs = stage.operator().ask(&["jobs"])?;
        let promised = answer.jobs.iter().filter(|job| job.promise.is_some());
        Ok((promised.count() == 2).then_some(answer.jobs))
    }));
    println!("{}", must(stage.operator().shown(&["jobs"])));
    let mut names: Vec<_> = jobs.iter().map(|job| &job.job[..]).collect();
    names.sort_unstable();
    assert_eq!(names, ["h0 and h2", "h1 and h3"]);
    for job in &jobs {
        let promise = job.promise.as_ref().expect("there is one");
        assert_eq!((promise.generation, promise.flows), (kept.generation, 1));
        assert!(job.sending == 1 && job.seen_for_ms > 0, "{job:?}");
    }
    let one: Jobs = must(stage.operator().ask(&["jobs", "h1"]));
    assert_eq!(one.jobs.len(), 1);
}

fn number(plan: &Plan) -> String {
    plan.generation.to_string()
}

fn refused(stage: &Stage, words: &[&str]) -> (Option<i32>, String) {
    let output = stage.operator().command(words).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    println!("{words:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{words:?}: {said}");
    (output.status.code(), said)
}

fn refuses(stage: &Stage) {
    for (words, says) in [
        (&["rollback", "9000"][..], "was not applied and kept"),
        (&["plan", "show", "9000"], "no plan 9000 in the history"),
        (&["plan", "diff", "9000"], "no plan 9000 in the history"),
        (&["history", "9000"], "no plan 9000 in the history"),
        (&["trace", "h0", "h9"], "no host named \"h9\""),
        (
            &["trace", "h0", "h1", "--protocol", "tcp"],
            "no flow from h0 to h1",
        ),
        (&["jobs", "h9"], "no node h9"),
    ] {
        let (code, said) = refused(stage, words);
        assert!(code != Some(0) && said.contains(says), "{words:?}: {said}");
    }
}

/// A rollback is checked like any plan: to make flows slower, an operator must force it.
fn is_put_back(stage: &Stage, kept: &Plan) {
    let number_kept = number(kept);
    println!(
        "{}",
        must(stage.operator().shown(&["plan", "show", &number_kept]))
    );
    let shown: Record = must(stage.operator().ask(&["plan", "show", &number_kept]));
    assert_eq!(shown.outcome, Outcome::Committed);
    let pins = |what: &What| matches!(what, What::Pin(_));
    assert!(shown.plan.changes.iter().any(|line| pins(&line.what)));
    let diff = stage
        .operator()
        .command(&["plan", "diff", "--detailed-exitcode", &number_kept])
        .status();
    assert_eq!(diff.expect("it runs").code(), Some(3));

    let undo = taking_back(stage, &number_kept);
    let applied = must(stage.operator().begin(&undo));
    assert_eq!(applied.code, Some(0), "{}", applied.words);
    let outcome = ended(stage).outcome;
    assert!(matches!(outcome, Outcome::RolledBack { .. }), "{outcome:?}");
    assert_eq!(must(stage.operator().status()).pins.len(), kept.pins.len());

    let undo = taking_back(stage, &number_kept);
    assert_eq!(must(stage.operator().begin_anyway(&undo)).code, Some(0));
    assert_eq!(ended(stage).outcome, Outcome::Committed);
    assert_eq!(must(stage.operator().status()).pins, []);
    let (code, said) = refused(stage, &["rollback", &number_kept]);
    assert!(
        code == Some(1) && said.contains("rolled back already"),
        "{said}"
    );
    println!("{}", must(stage.operator().shown(&["history"])));
}

fn taking_back(stage: &Stage, number: &str) -> Plan {
    // While rates are unknown, the plan would not be applied.
    status_when(stage, "nothing is under way", |status| {
        status.changes.is_empty() && status.mode == Mode::Manual
    });
    println!("{}", must(stage.operator().shown(&["rollback", number])));
    let answer: Planned = must(stage.operator().ask(&["rollback", number]));
    answer.plan.expect("there is a plan")
}

/// A trace gets no reply from a spine: flows that meet there are on no known link in common, and the output says that
/// hops are unknown.
fn past_a_silent_switch() {
    let stage = led(&leaf_spine(2, 2, 2), JOB, &Leadership::default());
    let answers = "type filter hook output priority 0; icmp type time-exceeded drop;";
    let table = format!("table ip silence {{ chain answers {{ {answers} }}; }}");
    must(stage.output("spine0", &["nft", &table]));
    let job = must(stage.job("train"));
    must(job.wait_until("it sends", |progress| progress.iterations >= 2));
    let found = must(wait_for("they are large flows", STAGE_TIMEOUT, || {
        let found: Imbalances = stage.operator().ask(&["fim"])?;
        Ok((found.unknown_flows == 2).then_some(found))
    }));
    assert_eq!(found.groups, [], "nothing is guessed");
    assert_eq!(must(stage.operator().plan()), None);
    let diagnosis = must(stage.operator().diagnose());
    assert_eq!(
        (diagnosis.findings.len(), diagnosis.not_seen.ways_of.len()),
        (0, 2)
    );
    for words in ["fim", "diagnose"] {
        let shown = must(stage.operator().shown(&[words]));
        println!("{shown}");
        assert!(shown.contains("unknown"), "{words}: {shown}");
    }
    must(stage.output("spine0", &["nft", "delete", "table", "ip", "silence"]));
    assert_eq!(planned(&stage).pins.len(), 1, "it waited for the way alone");
    must(job.stop());
}

/// The rates that interfaces of the lab report. The loopbacks of the third leaf and the first spine are the addresses
/// of one /31, which is not a link between them.
const NOMINAL_RATE_FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 3\nspines = 2\nhosts_per_leaf = 2\n\
    host_gbps = 10.0\nuplink_gbps = 10.0\n";

/// The nodes of the fabric without its links.
fn nodes_alone(fabric: &Fabric) -> String {
    let node = |name: &str, role| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    let nodes = fabric.nodes().map(|(_, it)| {
        if it.role.is_endpoint() {
            node(&it.name, "host")
        } else {
            node(&it.name, "switch")
        }
    });
    format!("kind = \"graph\"\n{}", nodes.collect::<String>())
}

/// Each link by its sorted ends, with its rate.
fn joined(fabric: &Fabric) -> Vec<([String; 2], u64)> {
    let link = |link: &reweave_common::fabric::Link| {
        let mut ends = link.ports().map(|port| fabric.name(port.node).to_owned());
        ends.sort_unstable();
        (ends, link.rate.bits_per_s())
    };
    let mut joined: Vec<_> = fabric.links().map(|(_, it)| link(it)).collect();
    joined.sort_unstable();
    joined
}

fn discovered() {
    let scenario = "name = \"seen\"\nseed = 1\nmanagement = true\nfabric = \"two-leaves.toml\"\n";
    let setting = Setting {
        scenario,
        fabric: NOMINAL_RATE_FABRIC,
    };
    let mut stage = must(Stage::up(setting, Labs::Hidden));
    must(stage.write("two-leaves.toml", &nodes_alone(stage.fabric())));
    must(stage.lead(&Leadership::default()));
    must(stage.start_agents());
    must(stage.wait_until_known());
    let file = stage.path("seen.toml");
    let name = file.display().to_string();
    let seen = must(wait_for("all links are seen", STAGE_TIMEOUT, || {
        let words = ["discover", "--out", &name, "--force"];
        let _: serde_json::Value = stage.operator().ask(&words)?;
        let text = fs::read_to_string(&file).expect("it was written");
        let seen = Fabric::parse("seen.toml", &text)?;
        let is_all = seen.links().len() == stage.fabric().links().len();
        Ok(is_all.then_some((seen, text)))
    }));
    println!("{}", seen.1);
    println!(
        "{}",
        must(
            stage
                .operator()
                .shown(&["discover", "--out", &name, "--force"])
        )
    );
    assert_eq!(joined(&seen.0), joined(stage.fabric()));
    let (code, said) = refused(&stage, &["discover", "--out", &name]);
    assert!(code == Some(2) && said.contains("exists already"), "{said}");
    is_good_for_a_coordinator(&mut stage, &seen.1);
}

/// A coordinator starts with the discovered fabric; earlier decisions belong to another fabric.
fn is_good_for_a_coordinator(stage: &mut Stage, text: &str) {
    must(stage.write("two-leaves.toml", text));
    fs::remove_dir_all(stage.path("data")).expect("it kept something");
    must(stage.lead(&Leadership::default()));
    must(stage.wait_until_known());
    let status = must(stage.operator().status());
    let links: usize = status.agents.iter().map(|agent| agent.links).sum();
    assert_eq!(links, 2 * stage.fabric().links().len());
}
