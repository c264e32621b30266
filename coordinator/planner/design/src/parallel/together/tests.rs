//! Tests of the requested distribution when its first topology was only the most promising one.

use reweave_sim::workload::job::preset::{Batch, Parallelism, Preset};

use super::*;
use crate::crew::Alone;
use crate::parallel::presets;
use crate::topology::Limits;
use reweave_common::units::Rate;

const HELP: Help<'_> = Help {
    crew: &Alone,
    go_on: &|_| true,
    in_time: &|| true,
};

fn request(gbps: f64) -> Request {
    Request {
        limits: Limits::plain(4, 3),
        degree: 3,
        rate: Rate::from_gbps(gbps).unwrap(),
        seed: 1,
        work: 1 << 36,
        relay: None,
        interval: false,
    }
}

/// BERT on four hosts of two processors: all of them replicas, or two slices of each.
struct BertSearch {
    search: presets::Search,
    settings: Settings,
    start: Parallelism,
    other: Parallelism,
}

impl BertSearch {
    fn new() -> Self {
        let mut preset = Preset::named("bert", None, Batch::PerReplica(16)).unwrap();
        preset.gpus_per_host = 2;
        let search = presets::Search::new(&preset, 4, None);
        let start = search.start().unwrap();
        let other = Parallelism {
            data: Some(4),
            tensor: 2,
            ..start
        };
        Self {
            search,
            settings: Settings::default(),
            start,
            other,
        }
    }

    /// The best topology of ports of this rate.
    fn planned(&self, deal: &Parallelism, gbps: f64) -> Proposal {
        let job = Job {
            iteration: &self.search.iteration(deal).unwrap(),
            place: &self.search.place(),
            settings: &self.settings,
        };
        topology::plan(&job, &request(gbps)).unwrap()
    }

    /// Returns the state after the first topology took `first_ms`, and `found` was found for the other distribution.
    fn pairing(&self, first_ms: f64, found: Option<Proposal>) -> Pairing<Parallelism> {
        let mut pairing = Pairing::new(self.planned(&self.start, 1.0), self.start);
        pairing.course = vec![first_ms];
        if let Some(found) = found {
            pairing.take_if_better(found, self.other);
            assert_eq!(pairing.deal, self.other, "it takes longer than the first");
        }
        pairing
    }

    /// On ports of 10 Gb/s, when an iteration on the switch takes this long.
    fn again(&self, on_switch_ms: f64, pairing: &mut Pairing<Parallelism>) {
        let searching = Searching {
            model: &self.search,
            settings: &self.settings,
            request: &request(10.0),
            help: HELP,
        };
        let again = searching.start_again(&self.start, on_switch_ms, pairing);
        again.unwrap();
    }
}

#[test]
fn lasting_best_split_gets_best_topology() {
    let asked = BertSearch::new();
    let whole_ms = asked.planned(&asked.start, 10.0).evaluation.iteration_ms;
    let mut pairing = asked.pairing(1e9, None);
    assert!(pairing.proposal.evaluation.iteration_ms > whole_ms * 1.01);
    // However slow it is on the ideal switch: there is no other candidate.
    asked.again(1e9, &mut pairing);
    assert_eq!(pairing.course, [whole_ms]);
    assert_eq!(pairing.proposal.evaluation.iteration_ms, whole_ms);
    assert_eq!(pairing.deal, asked.start);
}

#[test]
fn possible_best_split_is_replanned() {
    let asked = BertSearch::new();
    let whole_ms = asked.planned(&asked.start, 10.0).evaluation.iteration_ms;
    let slow = asked.planned(&asked.other, 2.0);
    assert!(slow.evaluation.iteration_ms > whole_ms);
    let mut pairing = asked.pairing(1e9, Some(slow));
    asked.again(0.0, &mut pairing);
    assert_eq!(
        (pairing.deal, &pairing.course[..]),
        (asked.start, &[whole_ms][..])
    );
}

#[test]
fn beaten_split_keeps_its_estimate() {
    let asked = BertSearch::new();
    let whole_ms = asked.planned(&asked.start, 10.0).evaluation.iteration_ms;
    let fast = || asked.planned(&asked.other, 100.0);
    let fast_ms = fast().evaluation.iteration_ms;
    assert!(fast_ms < whole_ms);
    let mut pairing = asked.pairing(1e9, Some(fast()));
    asked.again(0.0, &mut pairing);
    assert_eq!(pairing.course, [whole_ms, fast_ms]);
    assert_eq!(pairing.deal, asked.other);
    // A candidate that is slower even on the ideal switch is not planned again.
    let mut hopeless = asked.pairing(1e9, Some(fast()));
    asked.again(1e6, &mut hopeless);
    assert_eq!(hopeless.course, [1e9, fast_ms]);
}
