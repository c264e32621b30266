//! The tracer on a small network under a virtual clock. Leaves and spines are simulated as far as a tracer sees them:
//! they forward by a table, answer when a TTL runs out, or do not.

use std::net::SocketAddrV4;

use reweave_common::flow::Protocol;

use super::*;

const RECEIVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const ANSWER_DELAY: Duration = Duration::from_millis(2);

fn router(tier: u8, number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 1, tier, number)
}

fn flow(port: u16) -> FlowKey {
    FlowKey {
        protocol: Protocol::Tcp,
        source: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), port),
        destination: SocketAddrV4::new(RECEIVER_ADDRESS, 5001),
    }
}

fn at(ms: u64) -> Moment {
    Moment::from_micros(ms * 1000)
}

/// Source leaf, one of the spines, destination leaf. Each answers with the address of the interface
/// that the probe came in by, so the last one's tells the spine too.
struct Network {
    now: Moment,
    spine_of: BTreeMap<FlowKey, u8>,
    silent: BTreeSet<Ipv4Addr>,
    /// The least time between two answers of one router, after a burst of six, as Linux has it.
    answer_gap: Option<Duration>,
    tokens: BTreeMap<Ipv4Addr, (Duration, Moment)>,
    receiver_echoes: bool,
    flying: Vec<(Moment, TraceAnswer)>,
    sent: Vec<(Moment, Probe)>,
    /// Whether there is an agent on the receiver that looks for packets.
    receiver_looks: bool,
    /// The flows whose packets reached the receiver.
    arrived: BTreeSet<FlowKey>,
}

impl Network {
    fn new() -> Self {
        Self {
            now: at(0),
            spine_of: BTreeMap::new(),
            silent: BTreeSet::new(),
            answer_gap: None,
            tokens: BTreeMap::new(),
            receiver_echoes: true,
            flying: vec![],
            sent: vec![],
            receiver_looks: false,
            arrived: BTreeSet::new(),
        }
    }

    fn way(&self, aim: ProbeAim) -> [Ipv4Addr; 3] {
        let spine = match aim {
            ProbeAim::Hop(flow) => self.spine_of.get(&flow).copied().unwrap_or_default(),
            _ => 3,
        };
        [router(0, 0), router(1, spine), router(2, spine)]
    }

    fn carry(&mut self, probe: Probe) {
        self.sent.push((self.now, probe));
        let way = self.way(probe.aim);
        let (from, event) = match way.get(usize::from(probe.ttl) - 1) {
            Some(&router) if !self.answers(router) => return,
            Some(&router) => (router, TraceEvent::Expired),
            None => {
                let echo = matches!(probe.aim, ProbeAim::Distance(_));
                assert!(echo, "{probe:?} reaches the receiver");
                if !self.receiver_echoes {
                    return;
                }
                (RECEIVER_ADDRESS, TraceEvent::Echoed)
            }
        };
        let Probe { aim, id, .. } = probe;
        let answer = TraceAnswer {
            aim,
            id,
            from,
            event,
        };
        self.flying.push((self.now + ANSWER_DELAY, answer));
    }

    fn answers(&mut self, router: Ipv4Addr) -> bool {
        if self.silent.contains(&router) {
            return false;
        }
        let Some(gap) = self.answer_gap else {
            return true;
        };
        let (tokens, since) = self.tokens.entry(router).or_insert((6 * gap, self.now));
        *tokens = (*tokens + self.now.since(*since)).min(6 * gap);
        *since = self.now;
        let may = *tokens >= gap;
        if may {
            *tokens -= gap;
        }
        may
    }

    /// Lets the tracer and the network play until `end`; returns what was found, when.
    fn play(&mut self, tracer: &mut Tracer, end: Moment) -> Vec<(Moment, TraceResult)> {
        let mut found = vec![];
        while self.now < end {
            while let Some(asked) = tracer.poll_arrival(self.now) {
                self.answer_for_receiver(tracer, &asked);
            }
            while let Some(probe) = tracer.poll_probe(self.now) {
                self.carry(probe);
            }
            let news = std::iter::from_fn(|| tracer.poll_found());
            found.extend(news.map(|news| (self.now, news)));
            self.step(tracer, end);
        }
        found
    }

    fn answer_for_receiver(&mut self, tracer: &mut Tracer, asked: &ArrivalQuestion) {
        if let Some(probe) = asked.probe {
            assert_eq!((probe.aim, probe.ttl), (ProbeAim::Hop(asked.flow), TTL));
            self.arrived.insert(asked.flow);
        }
        let sight = if self.arrived.contains(&asked.flow) {
            PathConfirmation::Past(3)
        } else {
            PathConfirmation::Nothing
        };
        if self.receiver_looks {
            tracer.handle_sight(self.now, &asked.flow, sight);
        }
    }

    fn step(&mut self, tracer: &mut Tracer, end: Moment) {
        let next_answer = self.flying.iter().map(|(at, _)| *at).min();
        let due = tracer.next_due();
        assert!(
            due.is_none_or(|due| due > self.now),
            "the tracer asks for the past"
        );
        self.now = [next_answer, due]
            .into_iter()
            .flatten()
            .fold(end, Moment::min);
        let arrived = self.flying.extract_if(.., |(at, _)| *at <= self.now);
        for (_, answer) in arrived.collect::<Vec<_>>() {
            tracer.handle_answer(self.now, &answer);
        }
    }
}

/// A tracer that watches flows on the network.
struct Scene {
    network: Network,
    tracer: Tracer,
}

impl Scene {
    fn watching(flows: &[FlowKey]) -> Self {
        let (network, tracer) = (Network::new(), Tracer::default());
        let mut scene = Self { network, tracer };
        scene.watch(flows);
        scene
    }

    /// Watches these flows from now on.
    fn watch(&mut self, flows: &[FlowKey]) {
        self.tracer.watch(self.network.now, flows);
    }

    fn play(&mut self, end_ms: u64) -> Vec<(Moment, TraceResult)> {
        self.network.play(&mut self.tracer, at(end_ms))
    }

    /// How many probes of a kind were sent.
    fn sent(&self, kind: impl Fn(&Probe) -> bool) -> usize {
        let probes = self.network.sent.iter().map(|(_, probe)| probe);
        probes.filter(|probe| kind(probe)).count()
    }
}

fn paths(found: &[(Moment, TraceResult)]) -> Vec<&TracedPath> {
    let paths = found.iter().filter_map(|(_, found)| match found {
        TraceResult::Path(path) => Some(path),
        TraceResult::Deaf(_) => None,
    });
    paths.collect()
}

fn through(spine: u8) -> Routers {
    vec![
        Some(router(0, 0)),
        Some(router(1, spine)),
        Some(router(2, spine)),
    ]
}

#[test]
fn sixteen_flows_are_traced_in_200ms() {
    let flows: Vec<_> = (0..16).map(|port| flow(40_000 + port)).collect();
    let mut scene = Scene::watching(&flows);
    for (number, flow) in (0..).zip(&flows) {
        scene.network.spine_of.insert(*flow, number % 4);
    }
    let found = scene.play(200);
    let paths = paths(&found);
    assert_eq!(paths.len(), 16);
    for path in paths {
        assert_eq!(path.routers, through(scene.network.spine_of[&path.flow]));
    }
    let of_flows = scene.sent(|probe| matches!(probe.aim, ProbeAim::Hop(_)));
    assert_eq!(of_flows, 16 * 3, "one per router and flow");
}

#[test]
fn router_probes_keep_minimum_gap() {
    let mut scene = Scene::watching(&[flow(1), flow(2), flow(3)]);
    scene.play(900);
    let to_leaf = scene
        .network
        .sent
        .iter()
        .filter(|(_, probe)| probe.ttl == 1);
    let times: Vec<_> = to_leaf.map(|(at, _)| *at).collect();
    assert_eq!(times.len(), 4);
    let gaps = times.windows(2).map(|pair| pair[1].since(pair[0]));
    assert!(gaps.min() >= Some(Duration::from_millis(5)), "{times:?}");
}

#[test]
fn flow_is_retraced_every_second() {
    let mut scene = Scene::watching(&[flow(1)]);
    let found = scene.play(3500);
    assert_eq!(paths(&found).len(), 4);
    scene.watch(&[flow(1)]);
    let found = scene.play(3510);
    assert_eq!(paths(&found).len(), 1);
    scene.watch(&[]);
    assert_eq!(scene.play(9000), []);
    assert_eq!(scene.tracer.next_due(), None);
}

#[test]
fn silent_router_gets_three_tries() {
    let mut scene = Scene::watching(&[flow(1)]);
    scene.network.silent.insert(router(1, 0));
    let found = scene.play(1500);
    let expected = vec![Some(router(0, 0)), None, Some(router(2, 0))];
    assert_eq!(paths(&found)[0].routers, expected);
    let to_spine = scene.sent(|probe| probe.aim == ProbeAim::Hop(flow(1)) && probe.ttl == 2);
    assert_eq!(to_spine, 3);
}

#[test]
fn lost_answer_costs_only_retry() {
    let mut scene = Scene::watching(&[flow(1)]);
    scene.network.silent.insert(router(1, 0));
    assert_eq!(scene.play(200), []);
    scene.network.silent.clear();
    let found = scene.play(400);
    assert_eq!(paths(&found)[0].routers, through(0));
}

#[test]
fn new_path_needs_two_equal_traces() {
    let mut scene = Scene::watching(&[flow(1)]);
    scene.play(500);
    scene.network.spine_of.insert(flow(1), 2);
    let sent_before = scene.network.sent.len();
    scene.watch(&[flow(1)]);
    let found = scene.play(550);
    let found_paths: Vec<_> = paths(&found)
        .iter()
        .map(|path| path.routers.clone())
        .collect();
    assert_eq!(found_paths, [through(2)]);
    assert_eq!(
        scene.network.sent.len() - sent_before,
        6,
        "two traces of three routers"
    );
}

#[test]
fn path_change_during_trace_is_discarded() {
    let mut scene = Scene::watching(&[flow(1)]);
    scene.play(500);
    // The old spine falls silent, so that the question to it is asked again when there is a new
    // one; the leaf behind it has answered by then.
    scene.network.silent.insert(router(1, 0));
    scene.watch(&[flow(1)]);
    scene.play(600);
    scene.network.silent.clear();
    scene.network.spine_of.insert(flow(1), 1);
    let found = scene.play(1000);
    let found_paths: Vec<_> = paths(&found).iter().map(|path| &path.routers).collect();
    assert_eq!(found_paths, [&through(1)]);
}

#[test]
fn rate_limited_router_is_asked_slowly() {
    let flows: Vec<_> = (0..16).map(|port| flow(40_000 + port)).collect();
    let mut scene = Scene::watching(&flows);
    scene.network.answer_gap = Some(Duration::from_secs(1));
    let found = scene.play(60_000);
    let known: BTreeSet<_> = paths(&found)
        .iter()
        .filter(|path| path.routers == through(0))
        .map(|path| path.flow)
        .collect();
    assert_eq!(known.len(), 16, "in a minute each flow was traced in full");
    let late = scene
        .network
        .sent
        .iter()
        .filter(|(at, probe)| probe.ttl == 1 && at.as_micros() > 30_000_000);
    let per_second = late.count() / 30;
    assert!(
        per_second <= 2,
        "{per_second} probes a second to a router that answers one"
    );
}

/// And nothing goes further.
#[test]
fn trace_stops_without_echo_from_host() {
    let mut scene = Scene::watching(&[flow(1)]);
    scene.network.receiver_echoes = false;
    let found = scene.play(10_000);
    assert_eq!(found[0].1, TraceResult::Deaf(RECEIVER_ADDRESS));
    let deaf = found.iter().filter(|it| it.1 == found[0].1);
    assert_eq!(deaf.count(), 1);
    let beginning = [through(0), vec![None]].concat();
    let traced = paths(&found);
    assert!(traced.len() > 1, "{traced:?}");
    assert!(
        traced
            .iter()
            .all(|it| it.routers == beginning && !it.confirmed)
    );
    scene.network.receiver_echoes = true;
    let found = scene.play(75_000);
    let last = paths(&found).pop().expect("it is traced on");
    assert_eq!(last.routers, through(0), "it is tried again later");
}

/// Checks a path that ends at a router: no hop behind it answers.
#[test]
fn lost_flow_is_traced_to_loss() {
    let mut scene = Scene::watching(&[flow(1)]);
    scene.network.receiver_echoes = false;
    scene
        .network
        .silent
        .extend([0, 3].map(|spine| router(2, spine)));
    let found = scene.play(10_000);
    let traced = paths(&found);
    let beginning = vec![Some(router(0, 0)), Some(router(1, 0)), None];
    assert!(!traced.is_empty());
    assert!(
        traced.iter().all(|it| it.routers == beginning),
        "{traced:?}"
    );
    // No router answers at all.
    let mut scene = Scene::watching(&[flow(1)]);
    scene.network.receiver_echoes = false;
    scene
        .network
        .silent
        .extend([router(0, 0), router(1, 3), router(2, 3)]);
    assert_eq!(paths(&scene.play(10_000)), [] as [&TracedPath; 0]);
}

#[test]
fn duplicate_and_late_answers_are_ignored() {
    let mut scene = Scene::watching(&[flow(1)]);
    scene.play(500);
    let (_, probe) = *scene.network.sent.last().expect("a probe was sent");
    let Probe { aim, id, .. } = probe;
    let stray = TraceAnswer {
        aim,
        id,
        from: router(7, 7),
        event: TraceEvent::Expired,
    };
    scene.tracer.handle_answer(at(500), &stray);
    let found = scene.play(1500);
    assert_eq!(paths(&found)[0].routers, through(0));
}

#[test]
fn receiver_distance_replaces_echo() {
    let mut scene = Scene::watching(&[flow(1)]);
    scene.network.receiver_echoes = false;
    scene.tracer.handle_distance(at(0), RECEIVER_ADDRESS, 3);
    scene.tracer.handle_distance(at(0), router(7, 7), 9);
    let found = scene.play(500);
    let found_paths = paths(&found);
    assert_eq!(found_paths[0].routers, through(0));
    assert!(!found_paths[0].confirmed, "it spoke of another flow");
    let echoes = scene.sent(|probe| matches!(probe.aim, ProbeAim::Distance(_)));
    assert_eq!(echoes, 0);
}

#[test]
fn flow_packet_confirms_last_hop() {
    let mut scene = Scene::watching(&[flow(1), flow(2)]);
    scene.network.receiver_looks = true;
    let found = scene.play(2_500);
    for flow in [flow(1), flow(2)] {
        let last = paths(&found).into_iter().rfind(|path| path.flow == flow);
        assert!(last.unwrap().confirmed, "{flow}");
    }
    scene.network.receiver_looks = false;
    let found = scene.play(62_500);
    let last = *paths(&found).last().unwrap();
    assert!(!last.confirmed, "the agent has been silent for too long");
}

#[test]
fn probes_stop_short_of_unwatched_receiver() {
    let mut scene = Scene::watching(&[flow(1)]);
    scene.play(130_000);
    assert!(scene.network.arrived.is_empty());
}

#[test]
fn old_confirmation_excludes_new_path() {
    let mut scene = Scene::watching(&[flow(1)]);
    scene.network.receiver_looks = true;
    scene.play(1_500);
    scene.network.receiver_looks = false;
    scene.network.spine_of.insert(flow(1), 2);
    let found = scene.play(4_500);
    let moved = paths(&found)
        .into_iter()
        .filter(|it| it.routers == through(2));
    let moved: Vec<_> = moved.collect();
    assert!(!moved.is_empty() && moved.iter().all(|path| !path.confirmed));
}

#[test]
fn longer_path_is_traced_to_end() {
    let mut scene = Scene::watching(&[flow(1)]);
    scene.tracer.handle_distance(at(0), RECEIVER_ADDRESS, 2);
    scene
        .tracer
        .handle_sight(at(0), &flow(1), PathConfirmation::Past(3));
    scene.tracer.handle_distance(at(0), RECEIVER_ADDRESS, 2);
    let found = scene.play(500);
    let found_paths = paths(&found);
    assert_eq!(
        (&found_paths[0].routers, found_paths[0].confirmed),
        (&through(0), true)
    );
}

#[test]
fn one_shot_trace_is_forgotten() {
    let mut scene = Scene::watching(&[flow(1)]);
    scene.network.receiver_looks = true;
    scene.network.spine_of.insert(flow(2), 2);
    scene.tracer.trace_once(at(0), flow(2));
    scene.watch(&[flow(1)]);
    let found = scene.play(3_500);
    let of = |it: FlowKey| {
        paths(&found)
            .into_iter()
            .filter(move |path| path.flow == it)
    };
    let once: Vec<_> = of(flow(2)).collect();
    assert_eq!(once.len(), 1);
    assert_eq!(once[0].routers, through(2));
    assert_eq!(of(flow(1)).count(), 4, "the other one is watched on");
    assert!(!scene.network.arrived.contains(&flow(2)));
    scene.watch(&[]);
    assert_eq!(scene.play(9_000), []);
    assert_eq!(scene.tracer.next_due(), None);
}

#[test]
fn one_shot_trace_ends_without_echo() {
    let mut scene = Scene::watching(&[]);
    scene.network.receiver_echoes = false;
    scene.tracer.trace_once(at(0), flow(1));
    let found = scene.play(20_000);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(scene.tracer.next_due(), None);
}

#[test]
fn slow_router_does_not_delay_peers() {
    let flows: Vec<_> = (0..8).map(flow).collect();
    let mut scene = Scene::watching(&flows);
    for (number, flow) in (0..).zip(&flows) {
        scene.network.spine_of.insert(*flow, number % 2);
    }
    scene.play(900);
    scene.network.silent.insert(router(1, 1));
    scene.play(3_500);
    let begun = scene.network.sent.len();
    scene.watch(&flows);
    scene.play(3_600);
    let sent = &scene.network.sent[begun..];
    let to_the_other = sent.iter().filter(|(_, probe)| {
        let of_flow = |flow: FlowKey| scene.network.spine_of[&flow] == 0;
        probe.ttl == 2 && matches!(probe.aim, ProbeAim::Hop(flow) if of_flow(flow))
    });
    assert_eq!(
        to_the_other.count(),
        4,
        "all of them, within a tenth of a second"
    );
}

#[test]
fn neighbour_path_has_no_router() {
    let mut tracer = Tracer::default();
    tracer.watch(at(0), &[flow(1)]);
    let probe = tracer.poll_probe(at(0)).expect("an echo");
    let Probe { aim, id, .. } = probe;
    let answer = TraceAnswer {
        aim,
        id,
        from: RECEIVER_ADDRESS,
        event: TraceEvent::Echoed,
    };
    tracer.handle_answer(at(1), &answer);
    tracer.poll_probe(at(1));
    let path = TracedPath {
        flow: flow(1),
        routers: vec![],
        confirmed: false,
    };
    assert_eq!(tracer.poll_found(), Some(TraceResult::Path(path)));
}

#[test]
fn silent_router_does_not_delay_others() {
    let flows: Vec<_> = (0..8).map(flow).collect();
    let mut scene = Scene::watching(&flows);
    scene.network.silent.insert(router(1, 1));
    for (number, flow) in (0..).zip(&flows) {
        scene.network.spine_of.insert(*flow, number % 2);
    }
    let found = scene.play(20_000);
    for flow in flows.iter().step_by(2) {
        let traced = paths(&found)
            .iter()
            .filter(|path| path.flow == *flow)
            .count();
        assert!(traced >= 15, "{flow} was traced {traced} times in 20 s");
    }
}

#[test]
fn frequent_requests_let_traces_finish() {
    let mut scene = Scene::watching(&[]);
    scene.network.silent.insert(router(1, 0));
    let mut found = vec![];
    for turn in 1..=200 {
        scene.watch(&[flow(1), flow(2)]);
        found.extend(scene.play(10 * turn));
    }
    let traced = paths(&found);
    for flow in [flow(1), flow(2)] {
        assert!(traced.iter().any(|path| path.flow == flow), "{flow}");
    }
}

#[test]
fn request_during_trace_runs_afterwards() {
    let mut scene = Scene::watching(&[flow(1)]);
    scene.play(500);
    scene.network.silent.insert(router(1, 0));
    scene.watch(&[flow(1)]);
    scene.play(600);
    scene.watch(&[flow(1)]);
    scene.network.silent.clear();
    let found = scene.play(900);
    assert_eq!(paths(&found).len(), 2, "{found:?}");
}

#[test]
fn recovered_router_is_asked_fast_again() {
    let flows: Vec<_> = (0..16).map(flow).collect();
    let mut scene = Scene::watching(&flows);
    scene.play(1_000);
    scene.network.silent.insert(router(2, 0));
    scene.play(4_000);
    scene.network.silent.clear();
    scene.play(60_000);
    let asked = scene.network.sent.iter();
    let asked = asked.filter(|(at, probe)| probe.ttl == 3 && *at >= self::at(55_000));
    let asked: Vec<_> = asked.map(|(at, _)| *at).collect();
    let least = asked.windows(2).map(|pair| pair[1].since(pair[0])).min();
    assert!(least <= Some(Duration::from_millis(100)), "{least:?}");
}
