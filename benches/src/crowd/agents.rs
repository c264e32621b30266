//! All simulated agents, in this process.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use reweave_agent::session::{AgentEvent, AgentUplink};
use reweave_common::time_span::TimeSpan;
use reweave_link::uplink::Certificate;
use reweave_link::{Dialer, Role};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::members::Members;
use crate::reports;

const REPORT_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) connected: AtomicUsize,
    /// Total number of sessions.
    pub(crate) sessions: AtomicU64,
    pub(crate) commands: AtomicU64,
    pub(crate) lost: AtomicU64,
}

pub(crate) struct Crowd {
    pub(crate) counts: Arc<Counts>,
    /// The agents end when this is dropped.
    _agents: JoinSet<()>,
}

impl Crowd {
    /// Must be called inside a runtime.
    pub(crate) fn of(members: &Members, count: usize) -> Self {
        let counts = Arc::<Counts>::default();
        let mut agents = JoinSet::new();
        for host in 0..count {
            let folder = members.agent(host);
            let certificate = Certificate::load(&folder, Role::Agent);
            let certificate = certificate.expect("it was issued");
            let dialer = Dialer::new(
                certificate.identity(),
                members.addresses.clone(),
                Role::Coordinator,
            );
            let dialer = dialer.expect("there is an address");
            let dialer = dialer.sending_from(home(host));
            let agent = live(host, count, dialer, certificate, Arc::clone(&counts));
            agents.spawn(agent);
        }
        Self {
            counts,
            _agents: agents,
        }
    }
}

/// Returns an address of its own for each host, because sessions per address are limited.
fn home(host: usize) -> IpAddr {
    Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 0).to_bits() + host as u32 + 1).into()
}

/// Reports every second, at a random phase, and at once after connecting.
async fn live(
    host: usize,
    hosts: usize,
    dialer: Dialer,
    certificate: Certificate,
    counts: Arc<Counts>,
) {
    let mut uplink = AgentUplink::start(dialer, certificate);
    let begin = Instant::now()
        + TimeSpan::new(REPORT_INTERVAL)
            .scaled(host as f64 / hosts as f64)
            .get();
    let mut ticks = interval_at(begin, REPORT_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut second = 0;
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                second += 1;
                uplink.send_measured(reports::sample(host, hosts, second));
            }
            event = uplink.next() => match event {
                Some(AgentEvent::Connected) => {
                    counts.connected.fetch_add(1, Ordering::Relaxed);
                    counts.sessions.fetch_add(1, Ordering::Relaxed);
                    uplink.send_measured(reports::sample(host, hosts, second));
                }
                Some(AgentEvent::Instructed(_)) => drop(counts.commands.fetch_add(1, Ordering::Relaxed)),
                Some(AgentEvent::Lost) => {
                    counts.connected.fetch_sub(1, Ordering::Relaxed);
                    counts.lost.fetch_add(1, Ordering::Relaxed);
                }
                None => return,
            },
        }
    }
}
