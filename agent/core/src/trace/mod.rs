//! Traces the paths of flows: TTL-limited probes that are routed like the flow, one to each router of the path.
//! Silent routers stay unknown; nothing is guessed.
//!
//! The number of routers comes from the receiver's agent, which sees packets like the flow's own now and then (see
//! `arrival`). If no agent sees them, it comes from that agent's report about other probes from here, or else from
//! echoes to the receiver's host (see `distance`). Then the last hop is unconfirmed, and a flow on a longer path is
//! traced only to the length of theirs. If a flow's host has no agent, or is unreachable, and answers no echo, the
//! path is traced as far as routers answer echoes.

mod arrival;
mod distance;
mod question;
mod router_pacing;
mod spread;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::moment::Moment;
use reweave_common::sample::TracedPath;

use crate::latency::TTL;
use crate::path_confirmation::PathConfirmation;
use crate::probe::{Probe, ProbeAim, TraceAnswer, TraceEvent};
use arrival::Arrival;
use distance::{Distance, DistanceOutcome};
use question::Question;
use router_pacing::{RouterHop, RouterPacing};

pub use spread::{Fork, MultipathTrace};

/// Each flow is traced this often.
const TRACE_INTERVAL: Duration = Duration::from_secs(1);
/// Between two questions what has arrived.
const ARRIVAL_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceResult {
    Path(TracedPath),
    /// This host answers no echo, so no flow to it can be traced to its end.
    Deaf(Ipv4Addr),
}

/// A request to a flow's receiver about its arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrivalQuestion {
    pub flow: FlowKey,
    /// Goes first, all the way.
    pub probe: Option<Probe>,
}

impl TraceResult {
    fn deaf(&self) -> Option<Ipv4Addr> {
        match self {
            Self::Deaf(host) => Some(*host),
            Self::Path(_) => None,
        }
    }
}

#[derive(Debug, Default)]
pub struct Tracer {
    flows: BTreeMap<FlowKey, FlowTrace>,
    /// Those among them that are forgotten once they have been traced.
    once: BTreeSet<FlowKey>,
    distances: BTreeMap<Ipv4Addr, Distance>,
    pace: RouterPacing,
    last_id: u16,
    /// When the next question what has arrived may be asked.
    arrival_at: Moment,
    found: VecDeque<TraceResult>,
}

type Routers = Vec<Option<Ipv4Addr>>;

#[derive(Debug)]
struct FlowTrace {
    due: Moment,
    /// While the trace was under way.
    asked_again: bool,
    known: Option<Routers>,
    /// The last trace showed another way than the one before, perhaps a mixture of both.
    doubtful: bool,
    trace: Option<Vec<Question<Ipv4Addr>>>,
    /// The trace ends before the receiver.
    is_cut_short: bool,
    arrival: Arrival,
}

/// The progress of a flow's trace.
#[derive(Debug, Clone, Copy)]
enum TraceReach {
    /// This many routers lie before its receiver.
    Receiver(u8),
    /// There are more than these, or the receiver is silent.
    OutOfSight(u8),
}

/// A question that could be asked.
struct PendingQuestion {
    /// When it may be asked, and since when it waits: who waited longest goes first.
    at: Moment,
    since: Moment,
    aim: ProbeAim,
    whom: RouterHop,
}

impl Tracer {
    /// Its packets have numbers from here on; drawn at random, so that they are not those of a tracer before.
    pub fn numbered_from(id: u16) -> Self {
        Self {
            last_id: id,
            ..Self::default()
        }
    }

    /// Traces these flows from now on, and no others; all of them at once and then every second. A
    /// trace that is under way is finished first, so that asking often does not keep it from it.
    pub fn watch(&mut self, now: Moment, flows: &[FlowKey]) {
        let flows: BTreeSet<_> = flows.iter().copied().collect();
        self.once.retain(|flow| !flows.contains(flow));
        let once = &self.once;
        self.flows
            .retain(|flow, _| flows.contains(flow) || once.contains(flow));
        self.forget_hosts();
        for flow in flows {
            let watched = self.begin_with(now, flow);
            watched.due = now;
            watched.asked_again = watched.trace.is_some();
        }
    }

    /// Traces an unwatched flow, and forgets it then. Its receiver is not asked.
    pub fn trace_once(&mut self, now: Moment, flow: FlowKey) {
        if !self.flows.contains_key(&flow) {
            self.once.insert(flow);
            self.begin_with(now, flow).arrival.rest(now);
        }
    }

    fn begin_with(&mut self, now: Moment, flow: FlowKey) -> &mut FlowTrace {
        let distance = self.distances.entry(*flow.destination.ip());
        distance.or_insert_with(|| Distance::new(now));
        let watched = self.flows.entry(flow);
        watched.or_insert_with(|| FlowTrace::new(now))
    }

    fn forget_hosts(&mut self) {
        let hosts: BTreeSet<_> = self.flows.keys().map(|it| *it.destination.ip()).collect();
        self.distances.retain(|host, _| hosts.contains(host));
    }

    /// What was to be traced once and has been, or cannot be.
    fn forget_traced(&mut self) {
        let deaf: BTreeSet<_> = self.found.iter().filter_map(TraceResult::deaf).collect();
        let flows = &self.flows;
        let is_over = |flow: &FlowKey| {
            let traced = flows.get(flow).is_none_or(|it| it.known.is_some());
            traced || deaf.contains(flow.destination.ip())
        };
        let over: Vec<_> = self.once.extract_if(.., is_over).collect();
        if !over.is_empty() {
            self.flows.retain(|flow, _| !over.contains(flow));
            self.forget_hosts();
        }
    }

    /// A probe that should be sent now.
    pub fn poll_probe(&mut self, now: Moment) -> Option<Probe> {
        self.advance(now);
        let next = self.asks().min_by_key(|ask| (ask.at, ask.since))?;
        (next.at <= now).then(|| self.ask(now, &next))
    }

    pub fn handle_answer(&mut self, now: Moment, answer: &TraceAnswer) {
        let asked = match answer.aim {
            ProbeAim::Hop(flow) => self.handle_hop(&flow, answer),
            ProbeAim::Distance(host) => self.handle_echo(host, answer),
        };
        if let Some(whom) = asked {
            self.pace.handle_answered(now, whom, answer.from);
        }
        self.advance(now);
    }

    /// What the receiver's agent should be asked now.
    pub fn poll_arrival(&mut self, now: Moment) -> Option<ArrivalQuestion> {
        if now < self.arrival_at {
            return None;
        }
        let mut flows = self.flows.iter_mut();
        let due =
            |(flow, watched): (&FlowKey, &mut FlowTrace)| Some((*flow, watched.arrival.poll(now)?));
        let (flow, is_looked_for) = flows.find_map(due)?;
        self.arrival_at = now + ARRIVAL_INTERVAL;
        let id = self.next_id();
        let probe = is_looked_for.then_some(Probe {
            aim: ProbeAim::Hop(flow),
            ttl: TTL,
            id,
        });
        Some(ArrivalQuestion { flow, probe })
    }

    /// The receiver's agent says what it has seen of this very flow.
    pub fn handle_sight(&mut self, now: Moment, flow: &FlowKey, sight: PathConfirmation) {
        if let Some(watched) = self.flows.get_mut(flow) {
            watched.arrival.handle_sight(now, sight);
        }
        if let PathConfirmation::Past(routers) = sight {
            self.handle_distance(now, *flow.destination.ip(), routers);
        }
        self.advance(now);
    }

    /// Whether nothing more is to be asked, for now, of what has arrived of a flow.
    pub fn is_arrival_settled(&self, flow: &FlowKey) -> bool {
        let watched = self.flows.get(flow);
        watched.is_none_or(|watched| watched.arrival.is_settled())
    }

    /// The agent on this host says how many routers a probe from here has passed.
    pub fn handle_distance(&mut self, now: Moment, host: Ipv4Addr, routers: u8) {
        if let Some(distance) = self.distances.get_mut(&host) {
            distance.handle_report(now, routers);
        }
    }

    pub fn poll_found(&mut self) -> Option<TraceResult> {
        self.found.pop_front()
    }

    /// When [`Self::poll_probe`] has to be called at the latest.
    pub fn next_due(&self) -> Option<Moment> {
        let asks = self.asks().map(|ask| ask.at);
        let searches = self.distances.values().filter_map(Distance::next_search);
        let begins = self.flows.iter().filter_map(|(flow, watched)| {
            let traceable = self.reach(flow).is_some();
            (traceable && watched.trace.is_none()).then_some(watched.due)
        });
        let arrivals = self.flows.values().map(|watched| watched.arrival.due());
        let arrivals = arrivals.min().map(|due| due.max(self.arrival_at));
        asks.chain(searches)
            .chain(begins)
            .chain(self.deadlines())
            .chain(arrivals)
            .min()
    }

    fn deadlines(&self) -> impl Iterator<Item = Moment> {
        let hops = self.flows.values().flat_map(|watched| &watched.trace);
        let hops = hops.flatten().filter_map(Question::deadline);
        let echoes = self.distances.values().filter_map(Distance::peek);
        hops.chain(echoes.filter_map(|(_, question)| question.deadline()))
    }

    fn reach(&self, flow: &FlowKey) -> Option<TraceReach> {
        let distance = self.distances.get(flow.destination.ip())?;
        self.flows.get(flow)?.reach(distance)
    }

    /// Every question that wants to be asked, and when it may be.
    fn asks(&self) -> impl Iterator<Item = PendingQuestion> {
        let echoes = self.distances.iter().filter_map(|(&host, distance)| {
            let (ttl, question) = distance.peek()?;
            let whom = RouterHop { router: None, ttl };
            Some((ProbeAim::Distance(host), whom, question.due()?))
        });
        let hops = self.flows.iter().flat_map(|(&flow, watched)| {
            let due = watched.open_hops();
            due.map(move |(ttl, since)| (ProbeAim::Hop(flow), watched.whom(ttl), since))
        });
        echoes
            .chain(hops)
            .map(|(aim, whom, since)| PendingQuestion {
                at: since.max(self.pace.free_at(whom)),
                since,
                aim,
                whom,
            })
    }

    fn ask(&mut self, now: Moment, ask: &PendingQuestion) -> Probe {
        let id = self.next_id();
        self.pace.handle_asked(now, ask.whom);
        match ask.aim {
            ProbeAim::Hop(flow) => {
                if let Some(question) = self.hop(&flow, ask.whom.ttl) {
                    question.ask(now, id);
                }
            }
            ProbeAim::Distance(host) => {
                let distance = self.distances.get_mut(&host);
                if let Some((_, question)) = distance.and_then(Distance::question) {
                    question.ask(now, id);
                }
            }
        }
        Probe {
            aim: ask.aim,
            ttl: ask.whom.ttl,
            id,
        }
    }

    fn next_id(&mut self) -> u16 {
        self.last_id = self.last_id % u16::MAX + 1;
        self.last_id
    }

    fn hop(&mut self, flow: &FlowKey, ttl: u8) -> Option<&mut Question<Ipv4Addr>> {
        let trace = self.flows.get_mut(flow)?.trace.as_mut()?;
        trace.get_mut(usize::from(ttl.checked_sub(1)?))
    }

    /// Handles an answer. Returns the router that was asked if it is the one that answered.
    fn handle_hop(&mut self, flow: &FlowKey, answer: &TraceAnswer) -> Option<RouterHop> {
        let watched = self.flows.get_mut(flow)?;
        let mut hops = watched.trace.iter_mut().flatten();
        let index = hops.position(|hop| hop.answer(answer.id, answer.from))?;
        Some(watched.whom(index as u8 + 1))
    }

    fn handle_echo(&mut self, host: Ipv4Addr, answer: &TraceAnswer) -> Option<RouterHop> {
        let (ttl, question) = self.distances.get_mut(&host)?.question()?;
        let answered = question.answer(answer.id, answer.event);
        (answered && answer.event == TraceEvent::Expired).then_some(RouterHop { router: None, ttl })
    }

    /// Does all that time and answers allow: gives up, ends, begins.
    fn advance(&mut self, now: Moment) {
        self.lose_patience(now);
        for (&host, distance) in &mut self.distances {
            if distance.handle_time(now) == Some(DistanceOutcome::Deaf) {
                self.found.push_back(TraceResult::Deaf(host));
            }
        }
        for (&flow, watched) in &mut self.flows {
            let Some(distance) = self.distances.get_mut(flow.destination.ip()) else {
                continue;
            };
            if let Some(routers) = watched.end(now) {
                if routers.last() == Some(&None) && !watched.is_cut_short {
                    distance.doubt(now);
                }
                self.found.extend(watched.judge(now, flow, routers));
            }
            if let Some(reach) = watched.reach(distance) {
                watched.begin(now, reach);
            }
        }
        self.forget_traced();
    }

    fn lose_patience(&mut self, now: Moment) {
        for watched in self.flows.values_mut() {
            for whom in watched.lose_patience(now) {
                self.pace.handle_silence(now, whom);
            }
        }
        for distance in self.distances.values_mut() {
            if let Some((_, question)) = distance.question() {
                question.handle_time(now);
            }
        }
    }
}

impl FlowTrace {
    fn new(now: Moment) -> Self {
        Self {
            due: Moment::default(),
            asked_again: false,
            known: None,
            doubtful: false,
            trace: None,
            is_cut_short: false,
            arrival: Arrival::new(now),
        }
    }

    fn open_hops(&self) -> impl Iterator<Item = (u8, Moment)> {
        let hops = (1..).zip(self.trace.iter().flatten());
        hops.filter_map(|(ttl, question)| Some((ttl, question.due()?)))
    }

    /// What is known of its way's length.
    fn reach(&self, distance: &Distance) -> Option<TraceReach> {
        let routers = self.arrival.routers().or(distance.routers());
        let all = routers.map(TraceReach::Receiver);
        all.or_else(|| distance.heard().map(TraceReach::OutOfSight))
    }

    fn begin(&mut self, now: Moment, reach: TraceReach) {
        let (TraceReach::Receiver(routers) | TraceReach::OutOfSight(routers)) = reach;
        if self.trace.is_none() && self.due <= now {
            let questions = (1..=routers).map(|ttl| match self.last(ttl) {
                Some(None) => Question::without_hope(now),
                _ => Question::new(now),
            });
            self.trace = Some(questions.collect());
            self.is_cut_short = matches!(reach, TraceReach::OutOfSight(_));
        }
    }

    /// The router at this hop in the last reported trace.
    fn last(&self, ttl: u8) -> Option<Option<Ipv4Addr>> {
        let known = self.known.as_ref()?;
        known.get(usize::from(ttl) - 1).copied()
    }

    /// The router that is asked at this hop, if one answered there before.
    fn whom(&self, ttl: u8) -> RouterHop {
        let router = self.last(ttl).flatten();
        RouterHop { router, ttl }
    }

    /// The routers that answered before and did not answer this time.
    fn lose_patience(&mut self, now: Moment) -> Vec<RouterHop> {
        let hops = (1..).zip(self.trace.iter_mut().flatten());
        let lost = hops.filter_map(|(ttl, question)| question.handle_time(now).then_some(ttl));
        let lost: Vec<u8> = lost.collect();
        let lost = lost.into_iter().map(|ttl| self.whom(ttl));
        lost.filter(|whom| whom.router.is_some()).collect()
    }

    /// What the trace has shown, if it is over.
    fn end(&mut self, now: Moment) -> Option<Routers> {
        let over = |trace: &mut Vec<_>| trace.iter().all(Question::is_settled);
        let trace = self.trace.take_if(over)?;
        let again = std::mem::take(&mut self.asked_again);
        self.due = if again { now } else { now + TRACE_INTERVAL };
        let routers = trace.into_iter().map(|question| match question {
            Question::Answered(router) => Some(router),
            _ => None,
        });
        let beyond = self.is_cut_short.then_some(None);
        Some(routers.chain(beyond).collect())
    }

    /// A path that contradicts the last one is traced a second time before it is reported.
    fn judge(&mut self, now: Moment, flow: FlowKey, routers: Routers) -> Option<TraceResult> {
        let known = self.known.as_ref();
        let news = known.is_some_and(|known| contradicts(&routers, known));
        if news && !self.doubtful {
            self.doubtful = true;
            self.due = now;
            // What was seen of it went another way.
            self.arrival.doubt(now);
            return None;
        }
        let confirmed = self.arrival.confirms(routers.len());
        self.doubtful = false;
        self.known = Some(routers.clone());
        Some(TraceResult::Path(TracedPath {
            flow,
            routers,
            confirmed,
        }))
    }
}

/// Whether a router that was known is another one now, or silent. One that was silent and speaks
/// contradicts nothing.
fn contradicts(routers: &Routers, known: &Routers) -> bool {
    let pairs = || routers.iter().zip(known);
    routers.len() != known.len() || pairs().any(|(now, before)| before.is_some() && now != before)
}

#[cfg(test)]
mod tests;
