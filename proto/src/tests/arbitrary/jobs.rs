//! Any explanation of a slow job, and any pair of hosts beside its peers.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use reweave_common::operator::{
    Allocation, Explanation, JobOrder, JobPhase, JobStatus, Lane, Lanes, MeasuredPair,
    MeasuredPairs, Promise, RegisteredJob, Request, Response, StartedJob,
};

use super::findings::{cause, subject};
use super::{MAX_LIST_ITEMS, finite, generation, rate, text, texts};

pub(super) fn request() -> impl Strategy<Value = Request> {
    let explain = (text(), texts()).prop_map(|(job, hosts)| Request::Explain { job, hosts });
    let pairs = any::<u32>().prop_map(|most| Request::Pairs { most });
    let strategy = (text(), order()).prop_map(|(job, order)| Request::Job { job, order });
    let gate = (texts(), option::of(text())).prop_map(|(hosts, job)| Request::Gate { hosts, job });
    let known = prop_oneof![Just(Request::Jobs), Just(Request::Registered)];
    let lanes = texts().prop_map(|hosts| Request::Lanes { hosts });
    let reorder = text().prop_map(|job| Request::Reorder { job });
    prop_oneof![explain, pairs, strategy, gate, known, lanes, reorder]
}

fn order() -> impl Strategy<Value = JobOrder> {
    let phase = |(name, ring_bits_per_s)| JobOrder::Phase {
        name,
        ring_bits_per_s,
    };
    let register = |(hosts, may_reorder)| JobOrder::Register { hosts, may_reorder };
    prop_oneof![
        (texts(), any::<bool>()).prop_map(register),
        (text(), option::of(rate())).prop_map(phase),
        any::<bool>().prop_map(|may_change| JobOrder::Start { may_change }),
        Just(JobOrder::End),
    ]
}

fn registered() -> impl Strategy<Value = RegisteredJob> {
    let phase = (text(), option::of(rate()), any::<u64>());
    let phase = phase.prop_map(|(name, ring_bits_per_s, age_ms)| JobPhase {
        name,
        ring_bits_per_s,
        age_ms,
    });
    let parts = (
        text(),
        texts(),
        text(),
        any::<[u64; 2]>(),
        option::of(phase),
    );
    parts.prop_map(|(job, hosts, by, ages, phase)| RegisteredJob {
        job,
        hosts,
        by,
        age_ms: ages[0],
        silent_ms: ages[1],
        phase,
    })
}

fn allocation() -> impl Strategy<Value = Allocation> {
    let groups = vec(texts(), 0..MAX_LIST_ITEMS);
    let parts = (
        any::<bool>(),
        texts(),
        texts(),
        groups,
        option::of([rate(), rate()]),
    );
    parts.prop_map(|(is_good, against, order, groups, ring)| Allocation {
        is_good,
        against,
        order,
        groups,
        ring_bits_per_s: ring,
    })
}

fn started() -> impl Strategy<Value = StartedJob> {
    let parts = (allocation(), option::of(generation()), option::of(text()));
    parts.prop_map(|(allocation, generation, because)| StartedJob {
        allocation,
        generation,
        because,
    })
}

pub(super) fn response() -> impl Strategy<Value = Response> {
    let strategy = option::of(explanation().prop_map(Box::new)).prop_map(Response::Explanation);
    let pairs =
        vec(pair(), 0..MAX_LIST_ITEMS).prop_map(|pairs| Response::Pairs(MeasuredPairs { pairs }));
    let jobs = vec(job(), 0..MAX_LIST_ITEMS).prop_map(Response::Jobs);
    let registered = vec(registered(), 0..MAX_LIST_ITEMS).prop_map(Response::Registered);
    let started = started().prop_map(|it| Response::Started(Box::new(it)));
    let gate = allocation().prop_map(|it| Response::Allocation(Box::new(it)));
    let lanes = (vec(lane(), 0..MAX_LIST_ITEMS), texts());
    let lanes = lanes.prop_map(|(lanes, left_out)| Response::Lanes(Lanes { lanes, left_out }));
    prop_oneof![strategy, pairs, jobs, registered, started, gate, lanes]
}

fn lane() -> impl Strategy<Value = Lane> {
    (text(), any::<u32>()).prop_map(|(device, ways)| Lane { device, ways })
}

fn job() -> impl Strategy<Value = JobStatus> {
    let promise = (generation(), any::<usize>(), [rate(), rate()], rate());
    let promise = promise.prop_map(|(generation, flows, predicted, achieved)| Promise {
        generation,
        flows,
        predicted_bits_per_s: predicted,
        achieved_bits_per_s: achieved,
    });
    let names = (text(), texts(), any::<(usize, usize, u64)>());
    let beat = (option::of(finite()), option::of(finite()));
    let parts = (names, rate(), option::of(rate()), beat, option::of(promise));
    parts.prop_map(|(names, rate, slowest, beat, promise)| JobStatus {
        job: names.0,
        hosts: names.1,
        flows: names.2.0,
        sending: names.2.1,
        rate_bits_per_s: rate,
        slowest_bits_per_s: slowest,
        iteration_ms: beat.0,
        rest_share: beat.1,
        seen_for_ms: names.2.2,
        promise,
    })
}

fn explanation() -> impl Strategy<Value = Explanation> {
    let maybe = || option::of(finite());
    let exchange = (maybe(), option::of(text()), maybe());
    let slowest = (option::of(any::<[usize; 2]>()), [text(), text()]);
    let beside = ((maybe(), maybe()), (option::of(rate()), option::of(rate())));
    let blamed = (texts(), option::of(subject()), option::of(cause()), texts());
    let parts = (text(), exchange, slowest, beside, blamed);
    parts.prop_map(|(job, exchange, slowest, beside, blamed)| Explanation {
        job,
        iteration_ms: exchange.0,
        collective: exchange.1,
        collective_ms: exchange.2,
        ranks: slowest.0,
        hosts: slowest.1,
        pair_ms: beside.0.0,
        others_ms: beside.0.1,
        pair_bits_per_s: beside.1.0,
        others_bits_per_s: beside.1.1,
        path: blamed.0,
        link: blamed.1,
        cause: blamed.2,
        doubts: blamed.3,
    })
}

fn pair() -> impl Strategy<Value = MeasuredPair> {
    let ends = (text(), text(), any::<u32>(), any::<bool>());
    let parts = (ends, rate(), rate(), any::<(usize, bool, u64)>());
    parts.prop_map(
        |(ends, rate, usual, (peers, is_slow, age_ms))| MeasuredPair {
            from: ends.0,
            to: ends.1,
            rail: ends.2,
            in_rack: ends.3,
            rate_bits_per_s: rate,
            usual_bits_per_s: usual,
            peers,
            is_slow,
            age_ms,
        },
    )
}
