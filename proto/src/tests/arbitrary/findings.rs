//! Anything that may be found.

use proptest::collection::vec;
use proptest::prelude::*;
use reweave_common::cause::{Cause, Class, Subject};
use reweave_common::finding::Imbalance;
use reweave_common::operator::{Collision, Finding, Loser, NotSeen, Useless, UselessPin};

use super::{MAX_LIST_ITEMS, finite, flow, hop, rate, text, texts};

pub(super) fn imbalance() -> impl Strategy<Value = Imbalance> {
    [finite(), finite(), finite(), finite()].prop_map(|[fim, floor, weighted, most]| Imbalance {
        fim_percent: fim,
        floor_percent: floor,
        weighted_percent: weighted,
        max_over_mean: most,
    })
}

pub(super) fn finding() -> impl Strategy<Value = Finding> {
    prop_oneof![
        collision(),
        useless_pin().prop_map(Finding::UselessPin),
        cause().prop_map(Finding::Cause)
    ]
}

pub(super) fn cause() -> impl Strategy<Value = Cause> {
    let class = proptest::sample::select(Class::ALL.to_vec());
    (class, subject(), texts(), finite(), texts()).prop_map(
        |(class, subject, evidence, confidence, jobs)| Cause {
            class,
            subject,
            evidence,
            confidence,
            remedy: class.remedy().to_owned(),
            jobs,
        },
    )
}

pub(super) fn subject() -> impl Strategy<Value = Subject> {
    let one = prop_oneof![
        text().prop_map(Subject::Host),
        text().prop_map(Subject::Switch),
        (text(), text(), text()).prop_map(|(from, to, link)| Subject::Hop { from, to, link }),
        ([text(), text()], text()).prop_map(|(ends, link)| Subject::Link { ends, link }),
        text().prop_map(Subject::Job),
        [text(), text()].prop_map(Subject::Pair),
    ];
    let several = vec(one.clone(), 0..MAX_LIST_ITEMS).prop_map(Subject::either);
    let all = vec(one.clone(), 0..MAX_LIST_ITEMS).prop_map(Subject::all);
    prop_oneof![one, several, all]
}

pub(super) fn useless_pin() -> impl Strategy<Value = UselessPin> {
    let because = prop_oneof![
        texts().prop_map(|links| Useless::WayDown { links }),
        Just(Useless::FlowEnded)
    ];
    (flow(), hop(), because).prop_map(|(flow, hop, because)| UselessPin { flow, hop, because })
}

pub(super) fn not_seen() -> impl Strategy<Value = NotSeen> {
    let parts = (texts(), vec(flow(), 0..MAX_LIST_ITEMS), texts());
    parts.prop_map(|(nodes, ways_of, doubts)| NotSeen {
        nodes,
        ways_of,
        doubts,
    })
}

fn collision() -> impl Strategy<Value = Finding> {
    let hops = vec(hop(), 0..MAX_LIST_ITEMS);
    let parts = (
        hop(),
        finite(),
        vec(loser(), 0..MAX_LIST_ITEMS),
        hops,
        imbalance(),
    );
    parts.prop_map(|(hop, utilization, losers, with_room, imbalance)| {
        Finding::EcmpCollision(Collision {
            hop,
            utilization,
            losers,
            with_room,
            imbalance,
        })
    })
}

fn loser() -> impl Strategy<Value = Loser> {
    (flow(), rate(), rate()).prop_map(|(flow, rate, fair_rate)| Loser {
        flow,
        rate_bits_per_s: rate,
        fair_rate_bits_per_s: fair_rate,
    })
}
