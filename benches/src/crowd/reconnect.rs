//! Three coordinators, and everybody with the leader of them, which is killed.

use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, timeout};

use crate::agents::Crowd;
use crate::load::up;
use crate::machine;
use crate::members::Members;

const ROUNDS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(crate) fn measure(agents: usize) {
    machine::introduce();
    let mut members = Members::new(3, agents);
    (0..3).for_each(|place| members.start(place));
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime
        .expect("a runtime")
        .block_on(run(&mut members, agents));
}

async fn run(members: &mut Members, agents: usize) {
    let _crowd = Crowd::of(members, agents);
    all_report(members, agents, None).await;
    println!("agents led_after_s all_report_after_s");
    for _ in 0..ROUNDS {
        // All are together and at rest.
        sleep(Duration::from_secs(10)).await;
        let first = members.leader().expect("somebody leads");
        let began = Instant::now();
        members.kill(first);
        let led = all_report(members, agents, Some(first)).await;
        let (led_s, all_s) = ((led - began).as_secs_f64(), began.elapsed().as_secs_f64());
        println!("{agents} {led_s:.2} {all_s:.2}");
        members.start(first);
    }
    println!("# goal: all within 5 s after the leader is lost");
}

/// Waits until all report to somebody else than this one; when somebody else came to lead.
async fn all_report(members: &Members, agents: usize, lost: Option<usize>) -> Instant {
    let waiting = async {
        let leader = loop {
            match members.leader().filter(|leader| Some(*leader) != lost) {
                Some(leader) => break leader,
                None => sleep(LOOK_EVERY / 10).await,
            }
        };
        let led = Instant::now();
        let mut operator = members.operator(leader);
        loop {
            if operator
                .status()
                .await
                .is_some_and(|status| up(&status) >= agents)
            {
                return led;
            }
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(PATIENCE, waiting)
        .await
        .expect("all report in the end")
}
