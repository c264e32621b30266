//! Hosts with eight NICs each, on rails: a drain moves what is for each of them, and no host sends by another NIC.

use std::collections::BTreeMap;
use std::fs;

use libtest_mimic::Trial;
use reweave_common::operator::Outcome;
use reweave_tests::{Job, Leadership, Stage};

use crate::drained::{MAX_IDLE_BYTES, drain, watched};
use crate::needs::trial;
use crate::play::{STAGE_NEEDS, WATCH_TIME, must};
use crate::scene::{sent_bytes, up};

/// In each pod, rails r and r + 4 share a leaf.
const FABRIC: &str = "kind = \"rails\"\npods = 2\nhosts_per_pod = 4\nrails = 8\nleaves_per_pod = 4\n\
    spines = 4\nhost_gbps = 0.2\nuplink_gbps = 0.1\n";
const RAILS: usize = 8;
/// Leaves of the sending host.
const LEAVES: [&str; 4] = ["leaf0-0", "leaf0-1", "leaf0-2", "leaf0-3"];
const SPINES: [&str; 4] = ["spine0", "spine1", "spine2", "spine3"];
/// Less than a rail sends meanwhile, and more than probes do.
const MIN_BUSY_BYTES: u64 = 100_000;

pub(crate) fn tests() -> Vec<Trial> {
    let name = "drained_uplink_is_empty_per_rail";
    vec![trial(name, STAGE_NEEDS, drained)]
}

/// One flow over each rail from one pod to the other. The two rails of a leaf begin on different uplinks.
const JOB: &str = "[[job]]\nname = \"train\"\npattern = \"streams\"\nhosts = [\"h0\", \"h4\"]\n\
    pairs = [[0, 1]]\nbytes = 400_000\ncompute_ms = 30\niterations = 1_000_000\nrails = true\n\
    paths = \"spread\"\n";

/// A cluster whose coordinator knows the interface and the address of each NIC, as the lab has written them down.
fn started() -> Stage {
    let mut stage = up(FABRIC, JOB);
    let fabric = must(stage.output("h0", &["cat", "/run/fabric.toml"]));
    fs::write(stage.path("two-leaves.toml"), fabric).expect("the stage has such a file");
    must(stage.lead(&Leadership::without_rate_rollback()));
    must(stage.start_agents());
    must(stage.wait_until_known());
    stage
}

/// Bytes that were sent meanwhile.
struct Sent {
    /// By link between a leaf and a spine, from the first to the second.
    uplinks: BTreeMap<[&'static str; 2], u64>,
    /// By NIC of the sending host.
    nics: Vec<u64>,
}

impl Sent {
    fn so_far(stage: &Stage) -> Self {
        let pairs = LEAVES
            .into_iter()
            .flat_map(|leaf| SPINES.map(|spine| [leaf, spine]));
        let ends = pairs.flat_map(|[leaf, spine]| [[leaf, spine], [spine, leaf]]);
        let nic = |nth| {
            let file = format!("/sys/class/net/eth{nth}/statistics/tx_bytes");
            let count = must(stage.output("h0", &["cat", &file]));
            count.trim().parse::<u64>().expect("a count")
        };
        Self {
            uplinks: ends
                .map(|[from, to]| ([from, to], sent_bytes(stage, from, to)))
                .collect(),
            nics: (0..RAILS).map(nic).collect(),
        }
    }

    fn while_running(stage: &Stage, job: &mut Job) -> Self {
        let before = Self::so_far(stage);
        watched(job, WATCH_TIME);
        let mut sent = Self::so_far(stage);
        for (ends, bytes) in &mut sent.uplinks {
            *bytes -= before.uplinks[ends];
        }
        for (bytes, before) in sent.nics.iter_mut().zip(before.nics) {
            *bytes -= before;
        }
        println!("{:?} {:?}", sent.uplinks, sent.nics);
        sent
    }

    /// Both ways between two switches.
    fn between(&self, [a, b]: [&'static str; 2]) -> u64 {
        self.uplinks[&[a, b]] + self.uplinks[&[b, a]]
    }

    /// Every NIC sends, and so does every leaf that the rails pass.
    fn assert_all_rails_send(&self) {
        for (rail, bytes) in self.nics.iter().enumerate() {
            assert!(*bytes > MIN_BUSY_BYTES, "rail {rail}: {bytes}");
        }
        for leaf in LEAVES {
            let up: u64 = SPINES
                .iter()
                .map(|&spine| self.uplinks[&[leaf, spine]])
                .sum();
            assert!(up > MIN_BUSY_BYTES, "{leaf}: {up}");
        }
    }
}

fn drained() {
    let stage = started();
    let mut job = must(stage.job("train"));
    must(job.wait_until("it sends", |progress| progress.iterations >= 2));
    let before = Sent::while_running(&stage, &mut job);
    before.assert_all_rails_send();
    let used = SPINES
        .into_iter()
        .max_by_key(|&spine| before.uplinks[&[LEAVES[0], spine]]);
    let spine = used.expect("there are four");
    let link = [LEAVES[0], spine];
    assert!(before.between(link) > MIN_BUSY_BYTES, "{link:?}");

    assert_eq!(drain(&stage, &[&link.join("-")]), Outcome::Committed);
    let after = Sent::while_running(&stage, &mut job);
    let left = after.between(link);
    assert!(left < MAX_IDLE_BYTES, "{link:?}: {left}");
    after.assert_all_rails_send();

    assert_eq!(drain(&stage, &[spine]), Outcome::Committed);
    let after = Sent::while_running(&stage, &mut job);
    for leaf in LEAVES {
        let left = after.between([leaf, spine]);
        assert!(left < MAX_IDLE_BYTES, "{leaf} and {spine}: {left}");
    }
    after.assert_all_rails_send();

    assert_eq!(drain(&stage, &["--none"]), Outcome::Committed);
    let back = Sent::while_running(&stage, &mut job);
    assert!(back.between(link) > MIN_BUSY_BYTES, "it carries again");
    let report = must(job.stop());
    assert!(report.kept_all_sessions(), "{report:#?}");
}
