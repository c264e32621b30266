//! `/metrics`, in the text format of Prometheus.

mod deeds;
mod evenness;
mod log;
mod page;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use reweave_common::member::Role;
use reweave_common::operator::{
    AgentState, AgentStatus, CoordinatorStatus, LinkStatus, Mode, OpticalStatus, Status,
};
use reweave_common::probing::PortStrays;

use crate::counters::{Ending, EventCounters};
use crate::intake::Counts;
use crate::local_health::LocalHealth;
use crate::sessions::{ADMITTED_ROLES, Reason};
use crate::webhooks::DeliveryCounters;
pub(super) use log::Log;
use page::{Kind, Page, bytes_per_s, count};
pub(super) use work::Work;

/// The inputs of a coordinator's metrics.
#[derive(Default)]
pub(super) struct Sight<'s> {
    pub(super) leads: bool,
    /// None if another coordinator leads, or while the core is busy.
    pub(super) status: Option<&'s Status>,
    pub(super) work: Option<&'s Work>,
    /// None before the log is read.
    pub(super) log: Option<Log<'s>>,
    pub(super) disk_is_full: bool,
    pub(super) counts: Counts,
    /// The open sessions, by role.
    pub(super) sessions: BTreeMap<Role, usize>,
    pub(super) local_health: LocalHealth,
    pub(super) endings: EventCounters<Ending>,
    pub(super) deliveries: Arc<[DeliveryCounters]>,
}

/// Writes each family with help, type and samples.
pub(super) fn text(sight: &Sight<'_>) -> String {
    let mut page = Page::default();
    build(&mut page);
    let leads = u8::from(sight.leads);
    let help = "Whether this coordinator is the leader.";
    page.single(Kind::Gauge, "reweave_leads", help, leads);
    let help = "Whether the disk of the log is full.";
    let full = u8::from(sight.disk_is_full);
    page.single(Kind::Gauge, "reweave_disk_full", help, full);
    local_health(&mut page, &sight.local_health);
    intake(&mut page, &sight.counts);
    sessions(&mut page, &sight.sessions);
    deeds::endings(&mut page, &sight.endings);
    deeds::deliveries(&mut page, &sight.deliveries);
    if let Some(log) = &sight.log {
        log.write(&mut page);
    }
    if let Some(status) = sight.status {
        routes(&mut page, status);
        agents(&mut page, status);
        links(&mut page, status);
        opticals(&mut page, &status.opticals);
        flows(&mut page, status);
        members(&mut page, status);
    }
    if let Some(work) = sight.work {
        work.write(&mut page);
    }
    page.0
}

fn build(page: &mut Page) {
    let name = "reweave_build_info";
    page.family(Kind::Gauge, name, "The release of this coordinator.");
    page.sample(name, &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
}

fn routes(page: &mut Page, status: &Status) {
    use Kind::Gauge;
    let generation = status.generation.0 as f64;
    let help = "Generation of the routes in force.";
    page.single(Gauge, "reweave_route_generation", help, generation);
    let help = "Flows that are pinned to a path.";
    page.single(Gauge, "reweave_pins", help, count(status.pins.len()));
    let help = "Plans on offer and in progress.";
    page.single(Gauge, "reweave_changes", help, count(status.changes.len()));
    let auto = u8::from(status.mode == Mode::Auto);
    let help = "Whether the mode is auto.";
    page.single(Gauge, "reweave_mode_auto", help, auto);
    let help = "Alarms.";
    page.single(Gauge, "reweave_alarms", help, count(status.alarms.len()));
    let help = "Warnings.";
    page.single(
        Gauge,
        "reweave_warnings",
        help,
        count(status.warnings.len()),
    );
}

fn agents(page: &mut Page, status: &Status) {
    let name = "reweave_agents";
    page.family(Kind::Gauge, name, "Agents by state.");
    for (state, label) in [
        (AgentState::Up, "up"),
        (AgentState::Silent, "silent"),
        (AgentState::Down, "down"),
        (AgentState::Unseen, "unseen"),
    ] {
        let agents = status.agents.iter().filter(|agent| agent.state == state);
        page.sample(name, &[("state", label)], count(agents.count()));
    }
    let each = |page: &mut Page, name: &str, help: &str, value: AgentValue| {
        page.family(Kind::Gauge, name, help);
        for agent in &status.agents {
            if let Some(value) = value(agent) {
                page.sample(name, &[("node", &agent.node)], value);
            }
        }
    };
    let help = "Time since the agent last reported.";
    each(page, "reweave_agent_report_age_seconds", help, |agent| {
        Some(agent.age_ms? as f64 / 1e3)
    });
    let help = "Clock offset of the agent to the coordinator; positive is ahead.";
    each(page, "reweave_agent_clock_skew_seconds", help, |agent| {
        Some(agent.clock_skew_ms? as f64 / 1e3)
    });
    let help = "Remaining validity of the agent's certificate.";
    each(
        page,
        "reweave_agent_certificate_left_seconds",
        help,
        |agent| Some(agent.certificate_left_s? as f64),
    );
    let name = "reweave_agent_discarded_readings_total";
    page.family(Kind::Counter, name, "Rejected readings of an agent.");
    for agent in &status.agents {
        let discarded = agent.discarded_readings as f64;
        page.sample(name, &[("node", &agent.node)], discarded);
    }
    strays(page, &status.agents);
}

fn strays(page: &mut Page, agents: &[AgentStatus]) {
    let name = "reweave_agent_stray_packets_total";
    let help = "Invalid packets on the probe ports of an agent.";
    page.family(Kind::Counter, name, help);
    for agent in agents {
        let Some(PortStrays { asking, answering }) = agent.strays else {
            continue;
        };
        for (port, it) in [("asking", asking), ("answering", answering)] {
            let kinds = [
                ("malformed", it.malformed),
                ("foreign", it.foreign),
                ("late", it.late),
            ];
            for (kind, packets) in kinds {
                let labels = [("node", &*agent.node), ("port", port), ("kind", kind)];
                page.sample(name, &labels, packets as f64);
            }
        }
    }
}

type AgentValue = fn(&AgentStatus) -> Option<f64>;

fn links(page: &mut Page, status: &Status) {
    let each = |page: &mut Page, name: &str, help: &str, value: fn(&LinkStatus) -> f64| {
        page.family(Kind::Gauge, name, help);
        for link in &status.links {
            let hop = &link.hop;
            let labels = [("link", &*hop.link), ("from", &*hop.from), ("to", &*hop.to)];
            page.sample(name, &labels, value(link));
        }
    };
    let help = "Whether the link is up, as this end reports.";
    each(page, "reweave_link_up", help, |link| {
        f64::from(u8::from(link.up))
    });
    let help = "Load of this direction of the link.";
    each(page, "reweave_link_rate_bytes_per_second", help, |link| {
        bytes_per_s(link.rate_bits_per_s)
    });
    let help = "Capacity of this direction of the link.";
    each(
        page,
        "reweave_link_capacity_bytes_per_second",
        help,
        |link| bytes_per_s(link.capacity_bits_per_s),
    );
    let help = "Time since this direction of the link was last reported.";
    each(page, "reweave_link_report_age_seconds", help, |link| {
        link.age_ms as f64 / 1e3
    });
}

fn opticals(page: &mut Page, opticals: &[OpticalStatus]) {
    let name = "reweave_optical_driven";
    let help = "Whether the driver of the optical switch is connected.";
    page.family(Kind::Gauge, name, help);
    for one in opticals {
        let driven = f64::from(u8::from(one.is_driven));
        page.sample(name, &[("optical", &one.optical)], driven);
    }
    let name = "reweave_optical_circuits";
    page.family(Kind::Gauge, name, "Circuits of the optical switch.");
    for one in opticals {
        let circuits = count(one.circuits.len());
        page.sample(name, &[("optical", &one.optical)], circuits);
    }
}

fn flows(page: &mut Page, status: &Status) {
    let flows = &status.flows;
    let help = "Active flows.";
    page.single(Kind::Gauge, "reweave_flows", help, count(flows.len()));
    let unknown = flows.iter().filter(|flow| flow.path.is_none()).count();
    let help = "Flows with unknown path.";
    page.single(
        Kind::Gauge,
        "reweave_flows_without_path",
        help,
        count(unknown),
    );
}

fn local_health(page: &mut Page, health: &LocalHealth) {
    let help = "Whether the history cannot be written.";
    let failing = u8::from(health.history().is_some());
    page.single(Kind::Gauge, "reweave_history_failing", help, failing);
    let help = "Offset of the log's time to this machine's clock; positive is ahead.";
    let ahead = health.ahead().as_secs_f64();
    page.single(Kind::Gauge, "reweave_clock_ahead_seconds", help, ahead);
}

fn intake(page: &mut Page, counts: &Counts) {
    use Kind::Counter;
    let name = "reweave_refused_peers_total";
    page.family(Counter, name, "Refused peers, by reason.");
    for reason in Reason::ALL {
        let refused = counts.refused_for(reason) as f64;
        page.sample(name, &[("reason", reason.name())], refused);
    }
    let help = "Agent reports dropped because the queue was full.";
    page.single(
        Counter,
        "reweave_shed_reports_total",
        help,
        counts.shed as f64,
    );
}

fn sessions(page: &mut Page, sessions: &BTreeMap<Role, usize>) {
    let name = "reweave_sessions";
    page.family(Kind::Gauge, name, "Sessions, by role.");
    for role in ADMITTED_ROLES {
        let of_role = sessions.get(&role).copied().unwrap_or_default();
        page.sample(name, &[("role", role.as_str())], count(of_role));
    }
}

fn members(page: &mut Page, status: &Status) {
    use Kind::Gauge;
    let help = "Unused join tokens.";
    let open = count(status.invitations.len());
    page.single(Gauge, "reweave_join_tokens", help, open);
    let help = "Revoked members.";
    page.single(
        Gauge,
        "reweave_revoked_members",
        help,
        count(status.revoked.len()),
    );
    let name = "reweave_coordinator_certificate_left_seconds";
    let help = "Remaining validity of a coordinator's certificate.";
    page.family(Gauge, name, help);
    validity(page, name, &status.coordinators, |one| {
        one.certificate_left_s
    });
    let name = "reweave_coordinator_signer_left_seconds";
    let help = "Remaining validity of the signer by which a coordinator certifies members.";
    page.family(Gauge, name, help);
    validity(page, name, &status.coordinators, |one| one.signer_left_s);
}

/// Writes the validity of the certificates of all coordinators for which it is known.
fn validity(
    page: &mut Page,
    name: &str,
    coordinators: &[CoordinatorStatus],
    left_s: fn(&CoordinatorStatus) -> Option<u64>,
) {
    for coordinator in coordinators {
        if let Some(left) = left_s(coordinator) {
            let number = coordinator.number.to_string();
            let labels = [("coordinator", &*coordinator.name), ("number", &number)];
            page.sample(name, &labels, left as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::circuit::CircuitSet;
    use reweave_common::probing::Strays;

    use super::*;

    fn agent(node: &str, strays: Option<PortStrays>) -> AgentStatus {
        AgentStatus {
            node: node.to_owned(),
            addresses: vec![],
            state: AgentState::Up,
            age_ms: None,
            generation: None,
            known_links: 0,
            links: 0,
            discarded_readings: 0,
            strays,
            build: None,
            protocol: None,
            certificate_left_s: None,
            clock_skew_ms: None,
        }
    }

    /// A circuit that the device has lost is missing.
    #[test]
    fn optical_metrics_count_circuits() {
        let optical = OpticalStatus {
            optical: "ocs0".to_owned(),
            is_driven: true,
            circuits: CircuitSet::from_text("2-3,4-5").unwrap(),
        };
        let mut page = Page::default();
        super::opticals(&mut page, &[optical]);
        let samples = page.0.lines().filter(|line| !line.starts_with('#'));
        let expected = [
            "reweave_optical_driven{optical=\"ocs0\"} 1",
            "reweave_optical_circuits{optical=\"ocs0\"} 2",
        ];
        assert_eq!(samples.collect::<Vec<_>>(), expected);
    }

    /// An agent that has not reported the counter has no series: zero would be a claim.
    #[test]
    fn stray_packet_metrics_have_labels() {
        let kinds = |malformed, foreign, late| Strays {
            malformed,
            foreign,
            late,
        };
        let strays = PortStrays {
            asking: kinds(1, 2, 3),
            answering: kinds(4, 5, 6),
        };
        let mut page = Page::default();
        super::strays(&mut page, &[agent("h0", Some(strays)), agent("h1", None)]);
        let sample = |port: &str, kind: &str, packets: u8| {
            format!(
                "reweave_agent_stray_packets_total{{node=\"h0\",port=\"{port}\",kind=\"{kind}\"}} {packets}"
            )
        };
        let samples = page.0.lines().filter(|line| !line.starts_with('#'));
        let expected = [
            sample("asking", "malformed", 1),
            sample("asking", "foreign", 2),
            sample("asking", "late", 3),
            sample("answering", "malformed", 4),
            sample("answering", "foreign", 5),
            sample("answering", "late", 6),
        ];
        assert_eq!(samples.collect::<Vec<_>>(), expected);
    }
}
