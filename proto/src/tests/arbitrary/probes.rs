//! Any list of probes, and anything that came of them.

use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use reweave_common::bandwidth::{Bandwidth, Unclear};
use reweave_common::operator::{PairStatus, PathBandwidth, ProbeCoverage, ProbeStatus};
use reweave_common::probing::{
    Large, Loss, LossByDirection, ProbeList, ProbePart, ProbeReading, ProbeTally, Routers, Spread,
    Stamped, Summary, Times, Unsent,
};

use super::{MAX_LIST_ITEMS, addresses, finite, flow, hop, rate, text, time_span};

pub(super) fn list() -> impl Strategy<Value = ProbeList> {
    let parts = (
        vec(flow(), 0..MAX_LIST_ITEMS),
        time_span(),
        rate(),
        addresses(),
        time_span(),
        option::of(time_span()),
    );
    parts.prop_map(
        |(flows, period, most_rate, roster, valid_for, trains_every)| ProbeList {
            flows,
            period,
            most_rate,
            roster,
            valid_for,
            trains_every,
        },
    )
}

pub(super) fn bandwidth() -> impl Strategy<Value = Bandwidth> {
    let unclear = [
        Unclear::Few,
        Unclear::Lost,
        Unclear::Batched,
        Unclear::Unsteady,
    ];
    let unclear = prop::sample::select(unclear.to_vec());
    prop_oneof![
        (rate(), rate(), rate(), any::<u32>()).prop_map(|(rate, least, most, trains)| {
            Bandwidth::Known {
                rate,
                least,
                most,
                trains,
            }
        }),
        (rate(), any::<u32>()).prop_map(|(rate, trains)| Bandwidth::AtLeast { rate, trains }),
        (unclear, any::<u32>()).prop_map(|(why, trains)| Bandwidth::Unknown { why, trains }),
    ]
}

pub(super) fn path_bandwidth() -> impl Strategy<Value = PathBandwidth> {
    let over = option::of(vec(text(), 0..MAX_LIST_ITEMS));
    let parts = (text(), text(), flow(), bandwidth(), over, any::<u64>());
    parts.prop_map(|(from, to, flow, bandwidth, over, age_ms)| PathBandwidth {
        from,
        to,
        flow,
        bandwidth,
        over,
        age_ms,
    })
}

pub(super) fn reading() -> impl Strategy<Value = ProbeReading> {
    (flow(), tally()).prop_map(|(flow, tally)| ProbeReading { flow, tally })
}

fn times() -> impl Strategy<Value = Times> {
    let part = prop::sample::select(&ProbePart::ALL[..]);
    vec((part, any::<u64>()), 0..MAX_LIST_ITEMS).prop_map(|durations| {
        let mut times = Times::default();
        for (part, nanos) in durations {
            times.record(part, Duration::from_nanos(nanos));
        }
        times
    })
}

fn tally() -> impl Strategy<Value = ProbeTally> {
    let counts = any::<[u32; 14]>();
    let parts = (counts, times(), stamped(), routers());
    parts.prop_map(|(counts, times, stamped, routers)| {
        let lost = LossByDirection {
            there: counts[1],
            back: counts[2],
            somewhere: counts[3],
        };
        ProbeTally {
            answered: counts[0],
            lost,
            refused: counts[4],
            stalled: counts[13],
            unsent: Unsent {
                forbidden: counts[5],
                no_room: counts[9],
                no_way: counts[10],
            },
            large: Large {
                arrived: counts[11],
                lost: counts[12],
            },
            reordered: counts[6],
            duplicated: counts[7],
            untimed: counts[8],
            times,
            stamped,
            routers,
        }
    })
}

fn stamped() -> impl Strategy<Value = Stamped> {
    any::<(u32, u32, u32)>().prop_map(|(program, kernel, hardware)| Stamped {
        program,
        kernel,
        hardware,
    })
}

fn routers() -> impl Strategy<Value = Option<Routers>> {
    let routers = any::<(u8, u8)>().prop_map(|(there, back)| Routers { there, back });
    option::of(routers)
}

pub(super) fn status() -> impl Strategy<Value = ProbeStatus> {
    let pair = (text(), text(), summary()).prop_map(|(from, to, summary)| PairStatus {
        from,
        to,
        summary,
    });
    let coverage = (any::<(usize, u32, usize)>(), vec(hop(), 0..MAX_LIST_ITEMS));
    let coverage = coverage.prop_map(
        |((directions, wanted, seldom), seldom_hops)| ProbeCoverage {
            directions,
            wanted,
            seldom,
            seldom_hops,
        },
    );
    let worst = vec(pair, 0..MAX_LIST_ITEMS);
    let parts = (
        any::<usize>(),
        option::of(summary()),
        worst,
        option::of(coverage),
    );
    parts.prop_map(|(pairs, all, worst, coverage)| ProbeStatus {
        pairs,
        all,
        worst,
        coverage,
    })
}

fn summary() -> impl Strategy<Value = Summary> {
    let spread = || {
        let spread = [(); 4].map(|()| finite());
        option::of(spread.prop_map(|[least, median, p99, most]| Spread {
            least,
            median,
            p99,
            most,
        }))
    };
    let loss = [(); 3].map(|()| finite());
    let loss = option::of(loss.prop_map(|[share, least, most]| Loss { share, least, most }));
    let spreads = [(); 4].map(|()| spread());
    let totals = any::<[u64; 4]>();
    let parts = (
        totals,
        any::<[u32; 10]>(),
        loss,
        spreads,
        stamped(),
        routers(),
    );
    parts.prop_map(
        |(totals, counts, loss, spreads, stamped, routers)| Summary {
            sent: totals[0],
            lost: totals[1],
            lost_there: counts[0],
            lost_back: counts[1],
            loss,
            refused: counts[2],
            stalled: counts[9],
            unsent: totals[2],
            unsent_forbidden: counts[3],
            unsent_no_room: counts[4],
            large_sent: totals[3],
            large_lost: counts[5],
            reordered: counts[6],
            duplicated: counts[7],
            untimed: counts[8],
            network_us: spreads[0],
            responder_us: spreads[1],
            prober_us: spreads[2],
            jitter_us: spreads[3],
            stamped,
            routers,
        },
    )
}
