//! Leaders that are paused and go on later, unaware of the pause.

use std::process::Stdio;
use std::thread;

use libtest_mimic::Trial;
use reweave_common::operator::Status;

use crate::cluster::{LAB_NEEDS, Quorum, must, wait};
use crate::needs::trial;

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "stalled_leader_serves_nothing_stale",
        LAB_NEEDS,
        stood_still,
    )]
}

fn stood_still() {
    let mut quorum = Quorum::up();
    quorum.decide();
    for _ in 0..3 {
        let (first, term) = quorum.leader();
        must(quorum.program(first).freeze());
        let (second, _) = quorum.leader_after(term);
        assert_ne!(first, second);
        quorum.decide_on();
        quorum.wait_for_agent();
        let known = quorum.status().expect("another answers").revoked;
        let mut ask = quorum.reweave_at(first);
        let asking = ask
            .arg("status")
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let asking = asking.spawn().expect("it was built");
        let answer = thread::spawn(|| asking.wait_with_output());
        must(quorum.program(first).thaw());
        let answer = answer.join().expect("it waits").expect("it is ours");
        // It has no status, or the same one as the others.
        if let Ok(status) = serde_json::from_slice::<Status>(&answer.stdout) {
            let is_reported = |it| status.revoked.contains(it);
            assert!(known.iter().all(is_reported), "what it said was old");
        }
        wait("it knows that it does not lead", || {
            let log = quorum.said(first);
            let leads = log.rfind("leader in term");
            log.rfind("lost leadership") > leads
        });
        quorum.decide_on();
    }
    quorum.nothing_is_lost();
}
