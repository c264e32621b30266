//! Three coordinators, with all agents at the leader, which is killed.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, timeout};

use crate::agents::Crowd;
use crate::load::up;
use crate::machine;
use crate::members::Members;
use crate::process::core_s;

const ROUND_COUNT: usize = 3;
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(120);
/// Time after which admission work is over.
const SETTLE_TIME: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

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
    let crowd = Crowd::of(members, agents);
    all_report(members, &crowd, agents, None).await;
    println!("agents led_after_s all_report_after_s sessions_each leader_core_s crowd_core_s");
    for _ in 0..ROUND_COUNT {
        let rest = timeout(RECONNECT_TIMEOUT, all_wait(members, agents)).await;
        rest.expect("all come to wait with every coordinator");
        let first = members.leader().expect("a coordinator leads");
        let (began, before) = (Instant::now(), Effort::of(members, &crowd, first));
        members.kill(first);
        let led = all_report(members, &crowd, agents, Some(first)).await;
        let (led_s, all_s) = ((led - began).as_secs_f64(), began.elapsed().as_secs_f64());
        let effort = Effort::of(members, &crowd, first).since(&before);
        let each = effort.sessions as f64 / agents as f64;
        let [leader_s, crowd_s] = [effort.members_core_s, effort.crowd_core_s];
        println!("{agents} {led_s:.2} {all_s:.2} {each:.2} {leader_s:.1} {crowd_s:.1}");
        members.start(first);
    }
    println!("# goal: all within 5 s after the leader is lost");
}

/// Waits until all agents have a session with each coordinator: an active one with the leader, and standby sessions
/// with the followers. If the leader is lost earlier, some agents have to be admitted again.
async fn all_wait(members: &Members, agents: usize) {
    for place in members.who_run() {
        while members
            .agents_of(place)
            .await
            .is_none_or(|here| here < agents)
        {
            sleep(POLL_INTERVAL * 5).await;
        }
    }
    sleep(SETTLE_TIME).await;
}

/// Effort of the remaining coordinators.
struct Effort {
    sessions: u64,
    members_core_s: f64,
    crowd_core_s: f64,
}

impl Effort {
    fn of(members: &Members, crowd: &Crowd, lost: usize) -> Self {
        let left = (0..3).filter(|place| *place != lost);
        Self {
            sessions: crowd.counts.sessions.load(Ordering::Relaxed),
            members_core_s: left.map(|place| core_s(members.pid(place))).sum(),
            crowd_core_s: core_s(std::process::id()),
        }
    }

    fn since(self, before: &Self) -> Self {
        Self {
            sessions: self.sessions - before.sessions,
            members_core_s: self.members_core_s - before.members_core_s,
            crowd_core_s: self.crowd_core_s - before.crowd_core_s,
        }
    }
}

/// Waits until all report to another coordinator than this one; returns when another began to lead.
async fn all_report(
    members: &Members,
    crowd: &Crowd,
    agents: usize,
    lost: Option<usize>,
) -> Instant {
    let waiting = async {
        let mut leader = leader_but(members, lost).await;
        let led = Instant::now();
        let mut operator = members.operator(leader);
        // Requests to a busy coordinator would delay the agents, so none are sent until all are connected.
        let are_in = || crowd.counts.connected.load(Ordering::Relaxed) >= agents;
        loop {
            sleep(POLL_INTERVAL).await;
            let now = leader_but(members, lost).await;
            if now != leader {
                println!("# the lead went over to another");
                (leader, operator) = (now, members.operator(now));
            }
            if are_in() && operator.status().await.is_some_and(|it| up(&it) >= agents) {
                return led;
            }
        }
    };
    timeout(RECONNECT_TIMEOUT, waiting)
        .await
        .expect("all report in the end")
}

async fn leader_but(members: &Members, lost: Option<usize>) -> usize {
    loop {
        match members.leader().filter(|leader| Some(*leader) != lost) {
            Some(leader) => return leader,
            None => sleep(POLL_INTERVAL / 10).await,
        }
    }
}
