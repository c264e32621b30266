//! Links between coordinators that are cut, one way or both, or that lose packets.

use std::time::Instant;

use libtest_mimic::Trial;
use reweave_common::operator::{CoordinatorState, CoordinatorStatus};

use crate::cluster::{LAB_NEEDS, Place, Quorum, address, status_of, wait};
use crate::needs::trial;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("partitioned_leader_is_replaced", LAB_NEEDS, || {
            another_leads_after(&Cut::BOTH_WAYS);
        }),
        trial("leader_hearing_no_one_is_replaced", LAB_NEEDS, || {
            another_leads_after(&Cut::INBOUND);
        }),
        trial("leader_heard_by_none_is_replaced", LAB_NEEDS, || {
            another_leads_after(&Cut::OUTBOUND);
        }),
        trial(
            "leader_exists_exactly_with_connected_pair",
            LAB_NEEDS,
            all_ways_to_cut,
        ),
        trial("half_packet_loss_loses_no_decision", LAB_NEEDS, half_lost),
    ]
}

/// The links of one coordinator that are cut, to and from the others.
struct Cut {
    is_deaf: bool,
    is_mute: bool,
}

impl Cut {
    const BOTH_WAYS: Self = Self {
        is_deaf: true,
        is_mute: true,
    };
    const INBOUND: Self = Self {
        is_deaf: true,
        is_mute: false,
    };
    const OUTBOUND: Self = Self {
        is_deaf: false,
        is_mute: true,
    };

    fn directions(&self, of: Place) -> Vec<(Place, Place)> {
        let others = (0..3).filter(|&other| other != of);
        let to = others.clone().filter(|_| self.is_deaf);
        let from = others.filter(|_| self.is_mute);
        let to = to.map(|other| (other, of));
        to.chain(from.map(|other| (of, other))).collect()
    }
}

impl Quorum {
    /// Drops packets from the first of each pair to the second.
    fn cut(&self, directions: &[(Place, Place)]) {
        self.filter(directions, "");
    }

    fn filter(&self, directions: &[(Place, Place)], which: &str) {
        for to in 0..3 {
            let deaf = directions.iter().filter(|(_, deaf)| *deaf == to);
            let rule = |(from, _): &(Place, Place)| {
                let from = address(*from);
                format!("ip saddr {from} {which} drop\n")
            };
            let rules: String = deaf.map(rule).collect();
            let table = format!(
                "table inet cut {{}}\ndelete table inet cut\ntable inet cut {{\nchain in {{\ntype filter \
                 hook input priority 0\n{rules}}}\n}}\n"
            );
            let name = format!("cut{to}.nft");
            let file = self.stage.write(&name, &table).expect("there is room");
            self.on(to, &["nft", "-f", &file.display().to_string()]);
        }
    }
}

/// Waits for another leader. Operators and agents still reach all coordinators.
fn another_leads_after(cut: &Cut) {
    let mut quorum = Quorum::up();
    let (first, term) = quorum.leader();
    quorum.decide();
    let began = Instant::now();
    quorum.cut(&cut.directions(first));
    let (second, _) = quorum.leader_after(term);
    eprintln!("another led after {:?}", began.elapsed());
    assert_ne!(first, second);
    wait("the first knows that it does not lead", || {
        !quorum.leaders().iter().any(|(place, _)| *place == first)
    });
    // A coordinator that is cut off has no status of its own, or names another leader.
    if let Some(status) = status_of(&mut quorum.reweave_at(first)) {
        let leads = |one: &CoordinatorStatus| one.state == CoordinatorState::Leads;
        let leader = status.coordinators.into_iter().find(leads);
        assert_ne!(leader.map(|it| it.name), Some(format!("c{first}")));
    }
    quorum.decide_on();
    quorum.wait_for_agent();
    quorum.cut(&[]);
    // With the third stopped, a majority needs the one that was cut off.
    let third = 3 - first - second;
    quorum.kill(third);
    quorum.decide_on();
    quorum.nothing_is_lost();
}

/// All combinations of cuts. Those with a majority come first: without one, each question waits for its timeout.
fn all_ways_to_cut() {
    let mut quorum = Quorum::up();
    quorum.decide();
    let (some, none): (Vec<_>, Vec<_>) = (0..64).map(cuts).partition(|cuts| leaves_a_pair(cuts));
    for cuts in some {
        quorum.cut(&cuts);
        quorum.decide_on();
    }
    for cuts in none {
        quorum.cut(&cuts);
        wait("no coordinator leads", || quorum.leaders().is_empty());
        quorum.cut(&[]);
        quorum.decide_on();
    }
    quorum.nothing_is_lost();
}

const DIRECTED_PAIRS: [(Place, Place); 6] = [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)];

/// The directions that this combination cuts.
fn cuts(way: u32) -> Vec<(Place, Place)> {
    let lines = DIRECTED_PAIRS.into_iter().enumerate();
    let cut = lines.filter(|(nth, _)| way & (1 << nth) != 0);
    cut.map(|(_, line)| line).collect()
}

fn leaves_a_pair(cuts: &[(Place, Place)]) -> bool {
    let hear_each_other = |a, b| !cuts.contains(&(a, b)) && !cuts.contains(&(b, a));
    hear_each_other(0, 1) || hear_each_other(0, 2) || hear_each_other(1, 2)
}

fn half_lost() {
    let mut quorum = Quorum::up();
    quorum.decide();
    quorum.filter(&DIRECTED_PAIRS, "numgen random mod 100 < 50");
    for _ in 0..5 {
        quorum.decide_on();
    }
    quorum.cut(&[]);
    quorum.nothing_is_lost();
}
