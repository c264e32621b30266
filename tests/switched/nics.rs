//! Hosts with a NIC on each of two rails and one for storage: each rail is measured by itself.

use std::fs;

use libtest_mimic::Trial;
use reweave_common::fabric::NicUse;
use reweave_common::operator::{Matrix, NicStatus};
use reweave_tests::{Leadership, STAGE_TIMEOUT, Stage, StageError, wait_for};
use serde::Deserialize;

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, must};
use crate::scene::up;

const FABRIC: &str = "kind = \"rails\"\npods = 2\nhosts_per_pod = 2\nrails = 2\nspines = 2\n\
    storage_nics = 1\nhost_gbps = 0.2\nuplink_gbps = 0.1\n";
/// Of four hosts, each probes the others.
const PAIRS: usize = 12;
/// The pairs to and from one host.
const PAIRS_OF_HOST: usize = 6;
/// A dead path loses all its probes, and a busy machine few.
const MIN_DEAD_SHARE: f64 = 0.5;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "each_rail_is_probed_alone",
            STAGE_NEEDS,
            each_rail_is_probed_alone,
        ),
        trial(
            "dead_nic_is_named_by_rail",
            STAGE_NEEDS,
            dead_nic_is_named_by_rail,
        ),
    ]
}

/// The coordinator gets the lab's own fabric file, which has the address of each NIC.
fn on_rails() -> Stage {
    let mut stage = up(FABRIC, "");
    let file = must(stage.output(Stage::STATION_NAME, &["cat", "/run/fabric.toml"]));
    fs::write(stage.path("two-leaves.toml"), file).expect("a file can be made");
    must(stage.lead(&Leadership::default()));
    must(stage.start_agents());
    must(stage.wait_until_known());
    stage
}

fn matrix(stage: &Stage, rail: &str) -> Result<Matrix, StageError> {
    stage.operator().ask(&["matrix", "--rail", rail])
}

/// The pairs without an answer on this rail.
fn dead_pairs(stage: &Stage, rail: &str) -> Result<Vec<[String; 2]>, StageError> {
    let Matrix { hosts, cells } = matrix(stage, rail)?;
    let is_dead = |share: f64| share > MIN_DEAD_SHARE;
    let dead = cells
        .iter()
        .filter(|cell| cell.lost_share.is_some_and(is_dead));
    let name = |host: u32| hosts[host as usize].clone();
    Ok(dead.map(|cell| [cell.from, cell.to].map(name)).collect())
}

/// The leaf of rail 1 loses its cable to one host.
fn each_rail_is_probed_alone() {
    let stage = on_rails();
    for rail in ["0", "1"] {
        must(wait_for("all pairs are probed", STAGE_TIMEOUT, || {
            let cells = matrix(&stage, rail)?.cells;
            let answered = cells.iter().filter(|cell| cell.median_us.is_some());
            Ok((answered.count() == PAIRS).then_some(()))
        }));
    }
    must(stage.sever("leaf0-1", "h0"));
    let dead = must(wait_for("the host is cut off", STAGE_TIMEOUT, || {
        let dead = dead_pairs(&stage, "1")?;
        Ok((dead.len() == PAIRS_OF_HOST).then_some(dead))
    }));
    let has_host = |ends: &[String; 2]| ends.iter().any(|end| end == "h0");
    assert!(dead.iter().all(has_host), "{dead:?}");
    let others = must(dead_pairs(&stage, "0"));
    assert!(others.is_empty(), "{others:?}");
}

#[derive(Debug, Deserialize)]
struct Nics {
    nics: Vec<NicStatus>,
}

fn nics(stage: &Stage) -> Result<Vec<NicStatus>, StageError> {
    let answer: Nics = stage.operator().ask(&["hosts", "--nics"])?;
    Ok(answer.nics)
}

fn dead_nic_is_named_by_rail() {
    let stage = on_rails();
    let all = must(wait_for("all NICs are up", STAGE_TIMEOUT, || {
        let all = nics(&stage)?;
        let is_up = all.iter().all(|nic| nic.up == Some(true));
        Ok(is_up.then_some(all))
    }));
    let storage = all.iter().filter(|nic| nic.purpose == NicUse::Storage);
    assert_eq!((all.len(), storage.count()), (12, 4));
    must(stage.sever("leaf0-1", "h0"));
    let down = must(wait_for("a NIC is down", STAGE_TIMEOUT, || {
        let mut down = nics(&stage)?;
        down.retain(|nic| nic.up == Some(false));
        Ok((!down.is_empty()).then_some(down))
    }));
    let [nic] = &down[..] else {
        panic!("one is down: {down:?}")
    };
    let named = (&*nic.host, nic.rail, nic.purpose, &*nic.link);
    assert_eq!(named, ("h0", 1, NicUse::Training, "h0-leaf0-1"));
    let shown = must(stage.operator().shown(&["hosts", "--nics", "h0"]));
    let first = shown.lines().nth(1).unwrap_or_default();
    let words: Vec<_> = first.split_whitespace().collect();
    assert_eq!(
        words[..5],
        ["h0", "eth1", "1", "training", "down"],
        "{shown}"
    );
}
