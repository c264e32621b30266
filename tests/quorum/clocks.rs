//! Clocks that are wrong by an hour. Certificates and dates depend on the clock; nothing else does.

use libtest_mimic::Trial;

use crate::cluster::{Place, Quorum, must, wait};
use crate::needs::trial;
use crate::skew::{FAKETIME_NEEDS, at};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "coordinators_decide_despite_clock_skew",
            FAKETIME_NEEDS,
            || apart(["+1h", "+0", "-1h"], "+0"),
        ),
        trial("agents_with_clock_skew_are_heard", FAKETIME_NEEDS, || {
            for skew in ["+1h", "-1h"] {
                apart(["+0", "+0", "+0"], skew);
            }
        }),
    ]
}

/// Each coordinator becomes leader once, and operators' decisions go on.
fn apart(clocks: [&str; 3], agents: &str) {
    let mut quorum = Quorum::up_with(|place| at(clocks[place]));
    quorum.start_agent_under(&at(agents));
    quorum.wait_for_agent();
    quorum.decide();
    if let Some(wrong) = clocks.iter().chain([&agents]).find(|skew| **skew != "+0") {
        wait(&format!("operators learn of {wrong}"), || {
            let status = quorum.status();
            let warnings = status.map(|status| status.warnings.join("\n"));
            warnings.is_some_and(|warnings| warnings.contains("clock"))
        });
    }
    for place in 0..3 {
        lead(&mut quorum, place, |place| at(clocks[place]));
        quorum.decide_on();
        quorum.wait_for_agent();
    }
    quorum.nothing_is_lost();
}

/// Restarts the leader while only `wanted` can win the election. In rare cases the restarted one wins, and this
/// repeats.
fn lead(quorum: &mut Quorum, wanted: Place, clock_of: impl Fn(Place) -> Vec<String>) {
    for _ in 0..20 {
        let (leader, term) = quorum.leader();
        if leader == wanted {
            return;
        }
        let other = 3 - leader - wanted;
        must(quorum.program(other).freeze());
        quorum.kill(leader);
        quorum.start_under(leader, &clock_of(leader));
        quorum.leader_after(term);
        must(quorum.program(other).thaw());
    }
    panic!("c{wanted} never came to lead");
}
