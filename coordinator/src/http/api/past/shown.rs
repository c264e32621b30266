//! One moment of the history, in the format of the present state.

use std::time::Duration;

use reweave_common::fabric::Fabric;
use reweave_common::flow::FlowKey;
use reweave_common::moment::Moment;
use reweave_common::operator::{Hop, Matrix, hops};
use reweave_common::plan::Generation;
use reweave_common::snapshot::{self, FlowState, LinkState};
use reweave_common::units::Rate;
use reweave_history::{Event, Kind, Past, PastError, Question, Resolution, Seen, Window, written};
use serde::Serialize;
use utoipa::ToSchema;

/// Kinds of records that hold measurements.
const MEASUREMENT_KINDS: [Kind; 4] = [Kind::Agents, Kind::Links, Kind::Flows, Kind::Probes];
const DECISION_KINDS: [Kind; 2] = [Kind::Changes, Kind::Findings];
/// Decisions of this time before the moment are included.
const RECENT_SPAN: Duration = Duration::from_mins(10);
const MAX_EVENTS: usize = 100;
/// The end of a period is exclusive: this much more includes the moment itself.
const MIN_SPAN: Duration = Duration::from_micros(1);

/// State of the cluster at one moment.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Was {
    at: String,
    /// Start of the period that the data cover; it ends at the moment.
    from: String,
    /// 1s, 10s or 5min.
    resolution: &'static str,
    links: Vec<LinkThen>,
    flows: Vec<FlowThen>,
    matrix: Matrix,
    agents: Vec<AgentThen>,
    /// Events shortly before, latest first.
    events: Vec<EventThen>,
    /// Data that are missing.
    missing: Vec<String>,
}

/// One direction of a link.
#[derive(Debug, Serialize, ToSchema)]
struct LinkThen {
    hop: Hop,
    up: bool,
    rate_bits_per_s: Rate,
    capacity_bits_per_s: Rate,
    age_ms: u64,
}

#[derive(Debug, Serialize, ToSchema)]
struct FlowThen {
    flow: FlowKey,
    from: String,
    to: String,
    rate_bits_per_s: Rate,
    least_bits_per_s: Rate,
    most_bits_per_s: Rate,
    /// Absent if a hop is unknown.
    path: Option<Vec<Hop>>,
    age_ms: u64,
}

#[derive(Debug, Serialize, ToSchema)]
struct AgentThen {
    node: String,
    /// Share of the period in which the agent was connected.
    connected_share: f64,
}

#[derive(Debug, Serialize, ToSchema)]
struct EventThen {
    at: String,
    what: String,
    /// Node or hop; empty if there is none.
    place: String,
    generation: Option<Generation>,
}

/// Returns the state at the finest resolution with records; nothing if there are none.
pub(super) fn was(past: &Past, fabric: &Fabric, at: Moment) -> Result<Option<Was>, PastError> {
    for resolution in Resolution::ALL {
        let question = Question {
            from: before(at, reach(resolution)),
            to: at + MIN_SPAN,
            resolution: Some(resolution),
            kinds: MEASUREMENT_KINDS.into(),
        };
        let window = match past.look(&question) {
            // A coarser resolution has fewer records.
            Err(PastError::TooMuch { .. }) if resolution != Resolution::FiveMinutes => continue,
            window => window?,
        };
        if !window.links.is_empty() || !window.agents.is_empty() {
            let decided = decided(past, at)?;
            return Ok(Some(Was::new(fabric, &question, &window, &decided)));
        }
    }
    Ok(None)
}

/// Returns how far back records are searched. Agents report twice a second, and probe each other every few seconds.
fn reach(resolution: Resolution) -> Duration {
    match resolution {
        Resolution::Second => Duration::from_secs(5),
        Resolution::TenSeconds | Resolution::FiveMinutes => resolution.width(),
    }
}

fn decided(past: &Past, at: Moment) -> Result<Window, PastError> {
    past.look(&Question {
        from: before(at, RECENT_SPAN),
        to: at + MIN_SPAN,
        resolution: None,
        kinds: DECISION_KINDS.into(),
    })
}

fn before(at: Moment, by: Duration) -> Moment {
    let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
    Moment::from_micros(at.as_micros().saturating_sub(by))
}

impl Was {
    fn new(fabric: &Fabric, question: &Question, window: &Window, decided: &Window) -> Self {
        let at = question.to;
        let links = window.links_on(fabric, at).into_iter();
        let flows = window.flows_on(fabric, at).into_iter();
        Self {
            at: written(before(at, MIN_SPAN)),
            from: written(question.from),
            resolution: window.resolution.name(),
            links: links
                .map(|(hop, state)| LinkThen::new(fabric, hop, &state))
                .collect(),
            flows: flows.map(|state| FlowThen::new(fabric, &state)).collect(),
            matrix: window.matrix_on(fabric),
            agents: agents(window),
            events: events(decided),
            missing: [&window.warnings[..], &decided.warnings[..]].concat(),
        }
    }
}

impl LinkThen {
    fn new(fabric: &Fabric, hop: snapshot::Hop, state: &LinkState) -> Self {
        Self {
            hop: Hop::named(hop, fabric),
            up: state.up,
            rate_bits_per_s: state.rate,
            capacity_bits_per_s: fabric.link(hop.link).rate,
            age_ms: millis(state.age),
        }
    }
}

impl FlowThen {
    fn new(fabric: &Fabric, state: &FlowState) -> Self {
        let [least, most] = state.rate_range;
        Self {
            flow: state.flow,
            from: fabric.name(state.from).to_owned(),
            to: fabric.name(state.to).to_owned(),
            rate_bits_per_s: state.rate,
            least_bits_per_s: least,
            most_bits_per_s: most,
            path: state.path.as_deref().map(|path| hops(path, fabric)),
            age_ms: millis(state.age),
        }
    }
}

fn millis(age: Duration) -> u64 {
    u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the agents by their last record, disconnected ones first.
fn agents(window: &Window) -> Vec<AgentThen> {
    let mut agents: Vec<AgentThen> = Vec::new();
    for seen in &window.agents {
        let agent = AgentThen {
            node: seen.what.node.clone(),
            connected_share: seen.what.connected.map_or(0.0, |figures| figures.mean),
        };
        match agents.last_mut().filter(|last| last.node == agent.node) {
            Some(last) => *last = agent,
            None => agents.push(agent),
        }
    }
    agents.sort_by(|a, b| a.connected_share.total_cmp(&b.connected_share));
    agents
}

fn events(decided: &Window) -> Vec<EventThen> {
    let mut events: Vec<&Seen<Event>> = decided.changes.iter().chain(&decided.findings).collect();
    events.sort_by_key(|seen| std::cmp::Reverse(seen.at));
    let reports = events.iter().take(MAX_EVENTS).map(|seen| EventThen {
        at: written(seen.at),
        what: seen.what.what.clone(),
        place: seen.what.place.clone(),
        generation: seen.what.generation,
    });
    reports.collect()
}
