//! How the cluster is doing.

use reweave_common::bandwidth::Bandwidth;
use std::collections::BTreeMap;

use reweave_common::operator::{
    AgentState, AgentStatus, FlowImbalance, FlowStatus, Hop, LinkStatus, Mode, PairStatus,
    PathBandwidth, Phase, ProbeStatus, RdmaStatus, RunningChange, Status,
};
use reweave_common::probing::Summary;

use super::{hop, peers};
use crate::Detail;
use crate::names::Names;
use crate::page::{Ink, Page, age};

const BAR_CELLS: usize = 20;
/// More would hide the rest; `--output json` has them.
const WORST_PAIRS: usize = 5;
/// The same for flows and pins; `--all` shows them.
const MOST_ROWS: usize = 20;
/// Full enough to hold its flows back.
const FULL: f64 = 0.9;

pub(crate) fn status(page: &mut Page, status: &Status, names: &Names, detail: Detail) {
    head(page, status);
    agents(page, &status.agents, detail);
    links(page, &status.links);
    flows(page, &status.flows, names, detail);
    pins(page, status, names, detail);
    if let Some(found) = &status.flow_imbalance {
        imbalance(page, found);
    }
    probes(page, &status.probes);
    bandwidths(page, &status.bandwidths);
    rdma(page, &status.rdma);
    peers::coordinators(page, &status.coordinators);
    peers::refused(page, &status.refused);
    peers::invitations(page, &status.invitations);
    peers::revoked(page, &status.revoked);
}

fn head(page: &mut Page, status: &Status) {
    let up = status.agents.iter();
    let up = up.filter(|agent| agent.state == AgentState::Up).count();
    let mode = match status.mode {
        Mode::Manual => "changes are made when an operator says so",
        Mode::Auto => "changes are made by policy",
    };
    let agents = status.agents.len();
    page.line(&format!(
        "generation {} of the routes is in force; {mode}; {up} of {agents} agents report",
        status.generation
    ));
    for alarm in &status.alarms {
        let alarm = page.ink(Ink::Red, &format!("alarm: {alarm}"));
        page.line(&alarm);
    }
    for warning in &status.warnings {
        let warning = page.ink(Ink::Yellow, &format!("look at: {warning}"));
        page.line(&warning);
    }
    if let Some(change) = &status.change {
        let change = page.ink(Ink::Yellow, &phase(change));
        page.line(&change);
    }
    if let Some(why) = &status.waits_because {
        page.line(&format!("nothing is changed just now: {why}"));
    }
}

/// What is happening to a plan just now.
pub(crate) fn phase(change: &RunningChange) -> String {
    let RunningChange {
        generation,
        waiting_for,
        ..
    } = change;
    let waits = match waiting_for.as_slice() {
        [] => String::new(),
        nodes => format!(", waiting for {}", nodes.join(", ")),
    };
    let what = match change.phase {
        Phase::Proposed => format!("is on offer; `reweave apply {generation}` carries it out"),
        Phase::Approved => "is approved and about to begin".to_owned(),
        Phase::Applying => format!("is being applied{waits}"),
        Phase::Verifying => "is applied and being measured".to_owned(),
        Phase::RollingBack => format!("is being taken back{waits}"),
        Phase::Held => format!("could not be taken back for sure{waits}"),
    };
    format!("plan {generation} {what}")
}

/// How many there are of each state, and those that a person may want to look at.
fn agents(page: &mut Page, agents: &[AgentStatus], detail: Detail) {
    page.heading("Agents");
    page.line(&format!("  {}", states(page, agents)));
    let shown = agents.iter().filter(|it| detail.all || it.is_in_trouble());
    let shown: Vec<_> = shown.collect();
    if !shown.is_empty() {
        agent_table(page, &shown);
    }
    for agent in agents.iter().filter(|agent| agent.discarded_readings > 0) {
        page.line(&format!(
            "  of what {} said, {} readings were not believed: not its own, or too many",
            agent.node, agent.discarded_readings
        ));
    }
}

fn states(page: &Page, agents: &[AgentStatus]) -> String {
    let mut counts = BTreeMap::<AgentState, usize>::new();
    for agent in agents {
        *counts.entry(agent.state).or_default() += 1;
    }
    let counts = counts.into_iter();
    let counts: Vec<_> = counts
        .map(|(it, count)| format!("{count} {}", state(page, it)))
        .collect();
    let known: usize = agents.iter().map(|agent| agent.known_links).sum();
    let links: usize = agents.iter().map(|agent| agent.links).sum();
    let ends = match known == links {
        true => "all ends of links known".to_owned(),
        false => format!("{known} of {links} ends of links known"),
    };
    format!("{}; {ends}", counts.join(", "))
}

fn agent_table(page: &mut Page, agents: &[&AgentStatus]) {
    let row = |agent: &&AgentStatus| {
        [
            agent.node.clone(),
            state(page, agent.state),
            agent.age_ms.map_or_else(dash, age),
            format!("{} of {}", agent.known_links, agent.links),
            agent.generation.map_or_else(dash, |held| held.to_string()),
            agent.clock_skew_ms.map_or_else(dash, skew),
            agent.certificate_left_s.map_or_else(dash, peers::seconds),
        ]
    };
    let rows: Vec<_> = agents.iter().map(row).collect();
    let headings = [
        "node",
        "state",
        "heard",
        "links known",
        "holds",
        "clock off",
        "certificate for",
    ];
    page.table(headings, rows);
}

fn state(page: &Page, state: AgentState) -> String {
    match state {
        AgentState::Up => page.ink(Ink::Green, "up"),
        AgentState::Silent => page.ink(Ink::Yellow, "silent"),
        AgentState::Down => page.ink(Ink::Red, "down"),
        AgentState::Unseen => page.ink(Ink::Grey, "unseen"),
    }
}

pub(super) fn dash() -> String {
    "-".to_owned()
}

pub(super) fn skew(skew_ms: i64) -> String {
    let sign = if skew_ms <= -100 { "-" } else { "" };
    format!("{sign}{}", age(skew_ms.unsigned_abs()))
}

/// Those that carry nothing are left out.
fn links(page: &mut Page, links: &[LinkStatus]) {
    let matters = |link: &&LinkStatus| !link.up || load(link) >= 0.01;
    let busy: Vec<_> = links.iter().filter(matters).collect();
    let idle = links.len() - busy.len();
    page.heading("Links");
    if !busy.is_empty() {
        let rows: Vec<_> = busy.iter().map(|link| link_row(page, link)).collect();
        page.table(["link", "load", "rate", "of", "left"], rows);
    }
    page.line(&format!("  idle directions: {idle}"));
}

fn load(link: &LinkStatus) -> f64 {
    let capacity = link.capacity_bits_per_s.bits_per_s().max(1);
    link.rate_bits_per_s.bits_per_s() as f64 / capacity as f64
}

fn link_row(page: &Page, link: &LinkStatus) -> [String; 5] {
    let rate = link.rate_bits_per_s.to_string();
    let load = load(link);
    let filled = ((load * BAR_CELLS as f64).round() as usize).min(BAR_CELLS);
    let ink = if load >= FULL { Ink::Red } else { Ink::Green };
    let bar = page.ink(ink, &"█".repeat(filled));
    let rest = page.ink(Ink::Grey, &"·".repeat(BAR_CELLS - filled));
    let bar = match link.up {
        true => bar + &rest,
        false => page.ink(Ink::Red, "down"),
    };
    [
        hop(&link.hop),
        bar,
        rate,
        link.capacity_bits_per_s.to_string(),
        link.spare_bits_per_s.map_or_else(dash, |it| it.to_string()),
    ]
}

/// The fastest first.
fn flows(page: &mut Page, flows: &[FlowStatus], names: &Names, detail: Detail) {
    page.heading("Flows");
    if flows.is_empty() {
        return page.line("  nobody sends much");
    }
    let names = names.flows(flows.iter().map(|flow| flow.flow));
    let row = |flow: &FlowStatus| {
        [
            names.name(&flow.flow),
            flow.rate_bits_per_s.to_string(),
            format!("{} .. {}", flow.least_bits_per_s, flow.most_bits_per_s),
            flow.path
                .as_deref()
                .map_or_else(|| "not known".to_owned(), |path| both_ways(path, flow)),
        ]
    };
    let mut fastest: Vec<_> = flows.iter().collect();
    fastest.sort_by_key(|flow| std::cmp::Reverse(flow.rate_bits_per_s));
    let rows = fastest.into_iter().map(row).take(most_rows(detail));
    page.table(["flow", "rate", "lately", "over"], rows);
    more(page, flows.len(), detail);
}

fn most_rows(Detail { all }: Detail) -> usize {
    if all { usize::MAX } else { MOST_ROWS }
}

fn more(page: &mut Page, rows: usize, detail: Detail) {
    let more = rows.saturating_sub(most_rows(detail));
    if more > 0 {
        page.line(&format!(
            "  and {more} more; `reweave status --all` shows them"
        ));
    }
}

/// The switches on the way there, and those on the way back where it takes other links.
fn both_ways(path: &[Hop], flow: &FlowStatus) -> String {
    let there = way(path);
    let links = path.iter().map(|hop| &hop.link);
    match &flow.path_back {
        Some(back) if !back.iter().rev().map(|hop| &hop.link).eq(links) => {
            format!("{there}, back {}", way(back))
        }
        _ => there,
    }
}

/// The switches on the way.
fn way(path: &[Hop]) -> String {
    let inner = path.iter().skip(1);
    let inner: Vec<_> = inner.map(|hop| hop.from.as_str()).collect();
    inner.join(" ")
}

fn pins(page: &mut Page, status: &Status, names: &Names, detail: Detail) {
    if status.pins.is_empty() {
        return;
    }
    page.heading("Pins");
    let names = names.flows(status.pins.iter().map(|pin| pin.flow));
    let rows = status.pins.iter().take(most_rows(detail));
    let rows = rows.map(|pin| [names.name(&pin.flow), hop(&pin.hop)]);
    page.table(["flow", "goes"], rows);
    more(page, status.pins.len(), detail);
    for useless in &status.useless_pins {
        page.line(&names.named(&format!("  {useless}")));
    }
}

fn imbalance(page: &mut Page, found: &FlowImbalance) {
    let over: Vec<_> = found.worst_over.iter().map(hop).collect();
    page.heading("Flow imbalance");
    page.line(&format!(
        "  mean {:.0} %; at worst {:.0} % (the best possible is {:.0} %) over {}",
        found.mean_fim_percent,
        found.worst.fim_percent,
        found.worst.floor_percent,
        over.join(", ")
    ));
}

/// All pairs of hosts in one row, and then the worst.
fn probes(page: &mut Page, probes: &ProbeStatus) {
    let Some(all) = &probes.all else {
        return;
    };
    page.heading("Probes of the last minute");
    let all = probe_row(page, format!("all {} pairs", probes.pairs), all);
    let worst = probes.worst.iter().take(WORST_PAIRS);
    let row = |it: &PairStatus| probe_row(page, format!("{} > {}", it.from, it.to), &it.summary);
    let rows: Vec<_> = [all].into_iter().chain(worst.map(row)).collect();
    page.table(
        ["hosts", "probes", "lost", "loss", "round trip", "p99"],
        rows,
    );
}

/// The slowest.
fn bandwidths(page: &mut Page, paths: &[PathBandwidth]) {
    if paths.is_empty() {
        return;
    }
    page.heading("Bandwidth, by trains of packets in idle gaps");
    let rows = paths.iter().take(WORST_PAIRS).map(bandwidth_row);
    let headings = ["hosts", "from port", "bandwidth", "95 %", "trains", "last"];
    page.table(headings, rows);
}

fn bandwidth_row(it: &PathBandwidth) -> [String; 6] {
    let (bandwidth, bounds, trains) = match it.bandwidth {
        Bandwidth::Known {
            rate,
            least,
            most,
            trains,
        } => (rate.to_string(), format!("{least} .. {most}"), trains),
        Bandwidth::AtLeast { rate, trains } => (format!("at least {rate}"), dash(), trains),
        Bandwidth::Unknown { why, trains } => (format!("unknown: {why}"), dash(), trains),
    };
    [
        format!("{} > {}", it.from, it.to),
        it.flow.source.port().to_string(),
        bandwidth,
        bounds,
        trains.to_string(),
        age(it.age_ms),
    ]
}

fn rdma(page: &mut Page, pairs: &[RdmaStatus]) {
    if pairs.is_empty() {
        return;
    }
    page.heading("Over RDMA, the slowest first");
    let micros = |micros: Option<f64>| micros.map_or_else(dash, |it| format!("{it:.1} us"));
    let row = |it: &RdmaStatus| {
        let lost = format!("{} of {}", it.lost, it.sent);
        [
            format!("{} > {}", it.from, it.to),
            micros(it.ud_us),
            micros(it.rc_us),
            it.rate_bits_per_s
                .map_or_else(dash, |rate| rate.to_string()),
            if it.lost > 0 {
                page.ink(Ink::Red, &lost)
            } else {
                lost
            },
            age(it.age_ms),
        ]
    };
    let rows: Vec<_> = pairs.iter().take(WORST_PAIRS).map(row).collect();
    page.table(
        [
            "hosts",
            "UD there and back",
            "RC",
            "writes at",
            "lost",
            "heard",
        ],
        rows,
    );
}

fn probe_row(page: &Page, hosts: String, it: &Summary) -> [String; 6] {
    let loss = it.loss.map_or_else(dash, |loss| {
        let [least, most] = [loss.least, loss.most].map(|share| share * 100.0);
        let words = format!("{least:.2} .. {most:.2} %");
        if it.lost > 0 {
            page.ink(Ink::Red, &words)
        } else {
            words
        }
    });
    let micros = |micros: Option<f64>| micros.map_or_else(dash, |it| format!("{it:.0} us"));
    [
        hosts,
        it.sent.to_string(),
        it.lost.to_string(),
        loss,
        micros(it.network_us.map(|it| it.median)),
        micros(it.network_us.map(|it| it.p99)),
    ]
}
