//! Latency of the API and cost of event streams while all agents report.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reweave_common::operator::{Request, Response};
use reweave_common::time_span::TimeSpan;
use reweave_link::access_token::AccessToken;
use tokio::io::AsyncReadExt as _;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::agents::Crowd;
use crate::load::until_all_report;
use crate::machine;
use crate::members::{Members, Operator};
use crate::process::core_s;
use crate::times::{Spread, now};
use crate::web::Line;

const STATUS_PATH: &str = "/api/v1/status";
const QUERY_COUNT: usize = 400;
/// At most the rate limit of a token.
const QUERY_INTERVAL: Duration = Duration::from_millis(25);
/// Number of viewers, in turn, so that other load on the machine affects all alike.
const VIEWER_COUNTS: [usize; 3] = [0, 1, 50];
const TURN_COUNT: usize = 3;
const TURN_TIME: Duration = Duration::from_secs(6);
/// Time after which start-up work is over.
const SETTLE_TIME: Duration = Duration::from_secs(10);

pub(crate) fn measure(agents: usize) {
    machine::introduce();
    let mut members = Members::new(1, agents);
    members.start(0);
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(run(&members, agents));
}

async fn run(members: &Members, agents: usize) {
    let _crowd = Crowd::of(members, agents);
    let mut operator = members.operator(0);
    until_all_report(&mut operator, agents).await;
    sleep(SETTLE_TIME).await;
    let page = Page {
        address: members.watched_at(0).expect("it says where it serves HTTP"),
        token: token(&mut operator).await,
    };
    println!("agents asked times p50_ms p99_ms max_ms kib");
    let (times, bytes) = questions(&page).await;
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| times.ms(share));
    let (count, kib) = (times.count(), bytes / 1024);
    println!("{agents} status {count} {p50:.1} {p99:.1} {max:.1} {kib}");
    println!("# goal: p99 of 20 ms");
    println!("agents viewers cores kib_per_s_each");
    let costs = viewing(&page, members.pid(0)).await;
    for (viewers, cost) in VIEWER_COUNTS.iter().zip(&costs) {
        let (cores, kib) = (cost.core_s / cost.lasted_s, cost.kib / cost.lasted_s);
        let each = kib / (*viewers).max(1) as f64;
        println!("{agents} {viewers} {cores:.3} {each:.0}");
    }
    let [idle, one, fifty] = costs.each_ref().map(|cost| cost.core_s / cost.lasted_s);
    println!(
        "# one viewer takes {:.3} cores, fifty take {:.3}",
        one - idle,
        fifty - idle
    );
    println!("# goal: fifty take 0.05 cores, and no more than one");
}

/// Address and token of the page.
struct Page {
    address: SocketAddr,
    token: String,
}

impl Page {
    async fn line(&self) -> Line {
        let line = Line::to(self.address, &self.token).await;
        line.expect("there is a place")
    }
}

async fn token(operator: &mut Operator) -> String {
    let visit = AccessToken::random();
    let request = Request::Visit {
        token: visit.digest(),
        lasting: TimeSpan::from_secs(3600),
    };
    let answer = operator.ask(&request).await;
    assert!(
        matches!(answer, Some(Response::MayVisit { .. })),
        "{answer:?}"
    );
    visit.to_string()
}

/// Sends requests one after another, and returns the size of the last answer.
async fn questions(page: &Page) -> (Spread, usize) {
    let (mut line, mut bytes) = (page.line().await, 0);
    let mut times = Vec::new();
    for _ in 0..QUERY_COUNT {
        let asked = now();
        bytes = line.get(STATUS_PATH).await.expect("it is answered").len();
        times.push(now() - asked);
        sleep(QUERY_INTERVAL).await;
    }
    (Spread::of(times), bytes)
}

#[derive(Default)]
struct Cost {
    core_s: f64,
    lasted_s: f64,
    /// Data received by all of them.
    kib: f64,
}

async fn viewing(page: &Page, pid: u32) -> [Cost; VIEWER_COUNTS.len()] {
    let mut costs = <[Cost; VIEWER_COUNTS.len()]>::default();
    for _ in 0..TURN_COUNT {
        for (cost, viewers) in costs.iter_mut().zip(VIEWER_COUNTS) {
            watched(page, pid, viewers, cost).await;
        }
    }
    costs
}

async fn watched(page: &Page, pid: u32, viewers: usize, cost: &mut Cost) {
    let (mut watching, bytes) = (JoinSet::new(), Arc::<AtomicU64>::default());
    for _ in 0..viewers {
        let line = page.line().await;
        watching.spawn(watch(line, Arc::clone(&bytes)));
    }
    // Waits until all are connected.
    sleep(Duration::from_secs(1)).await;
    let (core_before_s, bytes_before) = (core_s(pid), bytes.load(Ordering::Relaxed));
    let began = Instant::now();
    sleep(TURN_TIME).await;
    cost.core_s += core_s(pid) - core_before_s;
    cost.lasted_s += began.elapsed().as_secs_f64();
    cost.kib += (bytes.load(Ordering::Relaxed) - bytes_before) as f64 / 1024.0;
    assert_eq!(watching.len(), viewers);
    assert!(watching.try_join_next().is_none(), "all watch to the end");
}

async fn watch(line: Line, bytes: Arc<AtomicU64>) {
    let mut events = line.follow("/api/v1/events").await.expect("it is let in");
    let mut piece = vec![0; 1 << 20];
    while let Ok(length @ 1..) = events.read(&mut piece).await {
        bytes.fetch_add(length as u64, Ordering::Relaxed);
    }
}
