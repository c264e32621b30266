//! What jobs tell of their collectives, drawn at random.

use proptest::collection::vec;
use proptest::prelude::*;
use reweave_common::collective::{Rank, RankPeer, RankReading, Works};

use super::arbitrary::{MAX_LIST_ITEMS, bytes, text, time_span};

pub(super) fn reading() -> impl Strategy<Value = RankReading> {
    let all = (
        rank(),
        time_span(),
        any::<u64>(),
        vec(works(), 0..MAX_LIST_ITEMS),
        vec(peer(), 0..MAX_LIST_ITEMS),
    );
    all.prop_map(|(rank, over, missed, works, peers)| RankReading {
        rank,
        over,
        missed,
        works,
        peers,
    })
}

fn rank() -> impl Strategy<Value = Rank> {
    (any::<u64>(), text(), any::<[u32; 3]>()).prop_map(
        |(communicator, name, [nodes, ranks, rank])| Rank {
            communicator,
            name,
            nodes,
            ranks,
            rank,
        },
    )
}

fn works() -> impl Strategy<Value = Works> {
    let names = (text(), text(), text());
    (names, any::<[u64; 2]>(), bytes(), time_span()).prop_map(
        |((kind, algorithm, protocol), [count, timed], bytes, took)| Works {
            kind,
            algorithm,
            protocol,
            count,
            bytes,
            took,
            timed,
        },
    )
}

fn peer() -> impl Strategy<Value = RankPeer> {
    (any::<u32>(), [bytes(), bytes()], time_span(), time_span()).prop_map(
        |(rank, bytes, sending, receiving)| {
            let [sent, received] = bytes;
            RankPeer {
                rank,
                sent,
                received,
                sending,
                receiving,
            }
        },
    )
}
