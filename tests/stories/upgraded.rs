//! Three coordinators and 16 agents are exchanged, one after the other, under a job whose flows are pinned: it does not
//! notice. `REWEAVE_RELEASE_BEFORE` names a folder with the programs of the release before, which come first then, and
//! again in the end.

use std::env;
use std::path::Path;
use std::time::Instant;

use libtest_mimic::Trial;
use reweave_common::operator::{
    AgentState, CoordinatorState, CoordinatorStatus, Outcome, PolicySetting, PolicyStatus,
    SettingSource, Status,
};
use reweave_proto::hello::PROTOCOL_VERSION;
use reweave_proto::since_version::came_with;
use reweave_tests::{Job, Labs, Programs, STAGE_TIMEOUT, Setting, Stage, StageError, wait_for};
use serde::Deserialize;

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, collide, ended, must, status_when};

/// With the switches these are 16 nodes.
const SIX_HOSTS_PER_LEAF: Setting<'static> = Setting {
    scenario: "name = \"upgraded\"\nseed = 1\nmanagement = true\nfabric = \"two-leaves.toml\"\n\
               [[job]]\nname = \"train\"\npattern = \"streams\"\nhosts = [\"h0\", \"h1\", \"h6\", \"h7\"]\n\
               pairs = [[0, 2], [1, 3]]\nbytes = 8_000_000\ncompute_ms = 10\niterations = 1_000_000\n\
               paths = \"collide\"\n",
    fabric: "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 6\nhost_gbps = 0.4\nuplink_gbps = 0.2\n",
};

/// The setting of the policy that is set. No plan depends on it.
const POLICY_KEY: &str = "trains_every_ms";

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "rolling_upgrade_resets_no_session",
        STAGE_NEEDS,
        exchanged,
    )]
}

#[derive(Debug, PartialEq, Deserialize)]
struct ClusterVersion {
    version: String,
    lowered_by: Option<String>,
}

/// Where no operator has lowered it.
fn at_minor(minor: u16) -> ClusterVersion {
    ClusterVersion {
        version: came_with(minor).to_string(),
        lowered_by: None,
    }
}

fn is_at(stage: &Stage, expected: &ClusterVersion) {
    let what = format!("the cluster is at {expected:?}");
    must(wait_for(&what, STAGE_TIMEOUT, || {
        let version: ClusterVersion = stage.operator().ask(&["cluster", "version"])?;
        Ok((version == *expected).then_some(()))
    }));
}

/// To the one of the release before; how it is then.
fn lower(stage: &Stage) -> ClusterVersion {
    let before = came_with(PROTOCOL_VERSION.minor - 1).to_string();
    let lowered: ClusterVersion = must(wait_for("the version is lowered", STAGE_TIMEOUT, || {
        let lowered = stage.operator().ask(&["cluster", "version", &before])?;
        Ok(Some(lowered))
    }));
    assert_eq!(lowered.version, before);
    assert!(lowered.lowered_by.is_some(), "{lowered:?}");
    lowered
}

/// Both flows of the job have an uplink of their own.
fn pin(stage: &Stage) {
    let operator = stage.operator();
    must(wait_for("a plan is begun", STAGE_TIMEOUT, || {
        let Some(plan) = operator.plan()? else {
            return Ok(None);
        };
        let begun = operator.begin_anyway(&plan)?.code == Some(0);
        Ok(begun.then_some(()))
    }));
    let record = ended(stage);
    assert_eq!(record.outcome, Outcome::Committed, "{record:#?}");
}

/// The nodes are instructed by this release, too.
fn pin_again(stage: &Stage) {
    let operator = stage.operator();
    must(wait_for("the pins are rolled back", STAGE_TIMEOUT, || {
        let Some(plan) = operator.way_back()? else {
            return Ok(None);
        };
        let begun = operator.begin_anyway(&plan)?.code == Some(0);
        Ok(begun.then_some(()))
    }));
    let record = ended(stage);
    assert_eq!(record.outcome, Outcome::Committed, "{record:#?}");
    assert_eq!(must(operator.status()).pins, []);
    pin(stage);
}

fn policy_setting(stage: &Stage) -> PolicySetting {
    must(wait_for("the policy is shown", STAGE_TIMEOUT, || {
        let policy: PolicyStatus = stage.operator().ask(&["policy", "show"])?;
        let mut settings = policy.settings.into_iter();
        Ok(settings.find(|setting| setting.key == POLICY_KEY))
    }))
}

/// An entry that came with 1.2, and what the state has of it.
fn set_policy(stage: &Stage) {
    let assignment = format!("{POLICY_KEY}=90000");
    must(wait_for("the policy is set", STAGE_TIMEOUT, || {
        let words = ["policy", "set", &assignment];
        stage.operator().shown(&words).map(Some)
    }));
    let setting = policy_setting(stage);
    assert_eq!(setting.source, SettingSource::Set, "{setting:?}");
}

/// Coordinators of the release before have no such state, so the version stays until the file's value is in force.
fn reset_policy(stage: &Stage) {
    let before = came_with(PROTOCOL_VERSION.minor - 1).to_string();
    match stage.operator().shown(&["cluster", "version", &before]) {
        Err(StageError::Failed { said, .. }) => assert!(said.contains(POLICY_KEY), "{said}"),
        other => panic!("{other:?}"),
    }
    must(wait_for("the policy is reset", STAGE_TIMEOUT, || {
        let words = ["policy", "reset", POLICY_KEY];
        stage.operator().shown(&words).map(Some)
    }));
    let setting = policy_setting(stage);
    assert_ne!(setting.source, SettingSource::Set, "{setting:?}");
}

fn rules(stage: &Stage) -> String {
    must(stage.output("leaf0", &["ip", "rule"]))
}

/// Whether the coordinator at this place was heard since then, and all others are there.
fn is_heard(status: &Status, place: usize, since: Instant) -> bool {
    let is_there = |one: &CoordinatorStatus| {
        matches!(
            one.state,
            CoordinatorState::Leads | CoordinatorState::Follows
        )
    };
    let is_new = |one: &CoordinatorStatus| match one.heard_ms {
        Some(ms) => u128::from(ms) < since.elapsed().as_millis(),
        None => one.state == CoordinatorState::Leads,
    };
    let all = &status.coordinators;
    let mut own = all.iter().filter(|one| one.name == format!("c{place}"));
    all.iter().all(is_there) && own.any(is_new)
}

fn is_up(status: &Status, node: &str) -> bool {
    let mut agents = status.agents.iter();
    agents.any(|agent| agent.node == node && agent.state == AgentState::Up)
}

/// Each is there again before the next one goes.
fn exchange(stage: &mut Stage, daemons: &Programs, job: &mut Job) {
    let (pinned, nodes) = (rules(stage), stage.nodes().map(str::to_owned));
    let nodes: Vec<_> = nodes.collect();
    stage.run_daemons(daemons.clone());
    for place in 0..3 {
        assert_eq!(must(stage.restart_one_of_three(place)), 0);
        let since = Instant::now();
        let what = format!("c{place} is heard again");
        status_when(stage, &what, |status| is_heard(status, place, since));
    }
    for node in &nodes {
        assert_eq!(must(must(stage.agent(node)).end()), 0);
        status_when(stage, "its agent is gone", |status| !is_up(status, node));
        must(stage.start_agent(node));
        status_when(stage, "its agent is heard again", |status| {
            is_up(status, node)
        });
    }
    must(stage.wait_until_known());
    assert_eq!(rules(stage), pinned);
    let before = job.latest().map_or(0, |progress| progress.iterations);
    must(job.wait_until("it goes on", |it| it.iterations > before));
}

/// What this build says of the log of the one at this place.
fn checked(stage: &Stage, build: &Programs, place: usize) -> Result<String, StageError> {
    let coordinator = build.coordinator().display().to_string();
    let settings = stage.path(&format!("c{place}.toml"));
    let settings = settings.display().to_string();
    let words = [&*coordinator, "check", "--config", &settings];
    stage.output(Stage::STATION_NAME, &words)
}

/// This build, on the log of each.
fn would_start(stage: &Stage, build: &Programs) {
    for place in 0..3 {
        must(wait_for("it would start", STAGE_TIMEOUT, || {
            checked(stage, build, place).map(Some)
        }));
    }
}

/// There are entries in the log of each that it cannot read.
fn would_not_start(stage: &Stage, earlier: &Programs) {
    let version = format!("the cluster is at version {PROTOCOL_VERSION}");
    let is_why = |said: &str| said.contains(&version) || said.contains("version of this program");
    for place in 0..3 {
        match checked(stage, earlier, place) {
            Err(StageError::Failed { code, said, .. }) => {
                assert!(code == Some(2) && is_why(&said), "c{place}: {said}");
            }
            other => panic!("c{place}: {other:?}"),
        }
    }
}

/// Coordinators of the release before do not know this question.
fn speaks_the_earlier(stage: &Stage) {
    match stage.operator().shown(&["policy", "show"]) {
        Err(StageError::Failed { said, .. }) => {
            assert!(said.contains("upgrade the other side"), "{said}");
        }
        other => panic!("{other:?}"),
    }
}

fn exchanged() {
    let earlier = env::var_os("REWEAVE_RELEASE_BEFORE");
    let earlier = earlier.map(|folder| must(Programs::in_folder(Path::new(&folder))));
    let mut stage = must(Stage::up(SIX_HOSTS_PER_LEAF, Labs::Hidden));
    assert_eq!(stage.nodes().count(), 16);
    let this = stage.programs().clone();
    stage.run_daemons(earlier.clone().unwrap_or_else(|| this.clone()));
    must(stage.lead_by_three());
    must(stage.start_agents());
    must(stage.wait_until_known());
    let mut job = collide(&stage);
    pin(&stage);
    let [before, latest] = [PROTOCOL_VERSION.minor - 1, PROTOCOL_VERSION.minor].map(at_minor);
    if let Some(earlier) = &earlier {
        is_at(&stage, &before);
        speaks_the_earlier(&stage);
        exchange(&mut stage, &this, &mut job);
        is_at(&stage, &latest);
        set_policy(&stage);
        pin_again(&stage);
        would_not_start(&stage, earlier);
        reset_policy(&stage);
        let lowered = lower(&stage);
        would_start(&stage, earlier);
        exchange(&mut stage, earlier, &mut job);
        is_at(&stage, &lowered);
        speaks_the_earlier(&stage);
    } else {
        // Any coordinator may come to lead meanwhile, and all read more.
        is_at(&stage, &latest);
        set_policy(&stage);
        reset_policy(&stage);
        let lowered = lower(&stage);
        exchange(&mut stage, &this, &mut job);
        is_at(&stage, &lowered);
        let words = ["cluster", "version", &latest.version];
        must(stage.operator().shown(&words));
        is_at(&stage, &latest);
    }
    let report = must(job.stop());
    assert!(report.kept_all_sessions(), "{report:#?}");
    eprintln!("longest stall: {:?} ms", report.longest_stall_ms());
}
