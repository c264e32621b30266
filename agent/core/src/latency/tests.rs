//! A prober and a responder with a simulated network between them, and clocks that can be set.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::moment::Moment;
use reweave_common::probing::{ProbeList, ProbePart, ProbeTally, Routers, Stamped, Unsent};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Rate;

use super::packet::{PACKET_BYTES, Packet};
use super::{Clocks, MAX_RATE, Prober, ReceivedPacket, Responder, Stamp, Strays, TTL, Unsendable};

const PROBER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const RESPONDER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
const NS_PER_MS: u64 = 1_000_000;
/// The delay between the program and the link, in both directions.
const STACK_DELAY_NS: u64 = 20_000;
const READ_DELAY_NS: u64 = 70_000;

fn flow(port: u16) -> FlowKey {
    FlowKey {
        protocol: Protocol::Udp,
        source: SocketAddrV4::new(PROBER_ADDRESS, port),
        destination: SocketAddrV4::new(RESPONDER_ADDRESS, 7333),
    }
}

fn list(ports: &[u16]) -> ProbeList {
    ProbeList {
        flows: ports.iter().map(|port| flow(*port)).collect(),
        period: TimeSpan::from_millis(100),
        most_rate: MAX_RATE,
        roster: vec![],
        valid_for: TimeSpan::from_secs(3600),
        trains_every: None,
    }
}

/// The fate of a packet.
#[derive(Debug, Clone, Copy)]
enum PacketFate {
    Takes(u64),
    Twice(u64),
    Lost,
}

/// The fates of the n-th probe and its answer.
type PathFates = fn(u64) -> [PacketFate; 2];

struct World {
    prober: Prober,
    responder: Responder,
    ways: PathFates,
    now_ns: u64,
    /// How far each host's wall clock is from its steady one.
    offset_ns: [u64; 2],
    sent: u64,
    /// Longer packets are dropped.
    longest: usize,
    flying: Vec<(u64, Event)>,
    /// The stall of the prober's host (0) and of the responder's (1).
    stall_ns: [[u64; 2]; 2],
    /// Whether the kernel reports when answers leave.
    stamps_answers: bool,
    /// Whether it reports that only after everything that arrived is answered.
    stamps_late: bool,
    unstamped: Vec<([u8; PACKET_BYTES], Stamp)>,
}

enum Event {
    /// `bytes`, by the flow, sent as the n-th, and when they reached the host.
    Probe(FlowKey, [u8; PACKET_BYTES], u64, u64),
    Answer(FlowKey, [u8; PACKET_BYTES]),
}

impl World {
    fn new(ways: PathFates) -> Self {
        let mut responder = Responder::default();
        responder.handle_roster(Moment::default(), [PROBER_ADDRESS], Duration::ZERO);
        Self {
            prober: Prober::new(7, Duration::ZERO),
            responder,
            ways,
            now_ns: 5 * NS_PER_MS,
            offset_ns: [1_700_000_000 * 1000 * NS_PER_MS, 99_000 * NS_PER_MS],
            sent: 0,
            longest: usize::MAX,
            flying: vec![],
            stall_ns: [[0; 2]; 2],
            stamps_answers: true,
            stamps_late: false,
            unstamped: vec![],
        }
    }

    fn clocks(&self, host: usize, ahead_ns: u64) -> Clocks {
        let steady_ns = self.now_ns + ahead_ns;
        Clocks {
            steady_ns,
            wall_ns: steady_ns + self.offset_ns[host],
        }
    }

    fn stamp(&self, host: usize, ahead_ns: u64) -> Stamp {
        Stamp {
            kernel_ns: Some(self.clocks(host, ahead_ns).wall_ns),
            hardware_ns: None,
        }
    }

    fn moment(&self) -> Moment {
        Moment::from_micros(self.now_ns / 1000)
    }

    /// Runs for this long, and returns the results of the probes.
    fn play(&mut self, ms: u64) -> ProbeTally {
        let end = self.now_ns + ms * NS_PER_MS;
        let mut tally = ProbeTally::default();
        while self.now_ns < end {
            let [from, until] = self.stall_ns[0];
            if (from..until).contains(&self.now_ns) {
                self.now_ns = until;
            }
            self.send();
            self.deliver();
            self.prober.handle_time(&self.clocks(0, 0));
            for reading in self.prober.poll_readings() {
                tally.merge(&reading.tally);
            }
            let due = self.prober.next_due().map(|due| due.as_micros() * 1000);
            let next = self.flying.iter().map(|(at, _)| *at).chain(due).min();
            let next = next.unwrap_or(end).max(self.now_ns + 1000);
            self.now_ns = next.min(self.now_ns + 50 * NS_PER_MS).min(end);
        }
        tally
    }

    fn send(&mut self) {
        while let Some(probe) = self.prober.poll_probe(self.moment(), self.clocks(0, 0)) {
            self.sent += 1;
            self.prober.handle_left(
                [PROBER_ADDRESS, RESPONDER_ADDRESS],
                &probe.bytes,
                self.stamp(0, STACK_DELAY_NS),
            );
            let event = |after_ns| {
                let at = self.now_ns + STACK_DELAY_NS + after_ns;
                (at, Event::Probe(probe.flow, probe.bytes, self.sent, at))
            };
            let [there, _] = (self.ways)(self.sent);
            let copies = match there {
                _ if probe.length > self.longest => vec![],
                PacketFate::Lost => vec![],
                PacketFate::Takes(ns) => vec![event(ns)],
                PacketFate::Twice(ns) => vec![event(ns), event(ns + 1000)],
            };
            self.flying.extend(copies);
        }
    }

    fn deliver(&mut self) {
        let now = self.now_ns;
        let mut arrived: Vec<_> = self.flying.extract_if(.., |(at, _)| *at <= now).collect();
        arrived.sort_by_key(|(at, _)| *at);
        let [from, until] = self.stall_ns[1];
        for (_, event) in arrived {
            match event {
                Event::Probe(..) if (from..until).contains(&now) => {
                    self.flying.push((until, event));
                }
                Event::Probe(flow, bytes, nth, at) => self.answer(flow, &bytes, nth, at),
                Event::Answer(flow, bytes) => {
                    let packet = self.arrival(0, &flow, &bytes, true);
                    self.prober.handle_packet(&packet);
                }
            }
        }
        self.stamp_answers();
    }

    fn stamp_answers(&mut self) {
        for (answer, stamp) in std::mem::take(&mut self.unstamped) {
            let now = self.clocks(1, READ_DELAY_NS + STACK_DELAY_NS + 1000);
            self.responder
                .handle_left(PROBER_ADDRESS, &answer, stamp, &now);
        }
    }

    fn arrival<'p>(
        &self,
        host: usize,
        flow: &FlowKey,
        bytes: &'p [u8],
        back: bool,
    ) -> ReceivedPacket<'p> {
        let (from, to) = if back {
            (flow.destination, flow.source)
        } else {
            (flow.source, flow.destination)
        };
        ReceivedPacket {
            from,
            to,
            bytes,
            ttl: if back { TTL - 4 } else { TTL - 3 },
            stamp: self.stamp(host, 0),
            read: self.clocks(host, READ_DELAY_NS),
        }
    }

    fn answer(&mut self, flow: FlowKey, bytes: &[u8], nth: u64, at_ns: u64) {
        let mut packet = self.arrival(1, &flow, bytes, false);
        packet.stamp.kernel_ns = Some(at_ns + self.offset_ns[1]);
        let Some(answer) = self.responder.handle_packet(&packet) else {
            return;
        };
        let held = READ_DELAY_NS + STACK_DELAY_NS;
        if self.stamps_answers {
            self.unstamped.push((answer, self.stamp(1, held)));
        }
        if !self.stamps_late {
            self.stamp_answers();
        }
        if let PacketFate::Takes(ns) = (self.ways)(nth)[1] {
            let at = self.now_ns + held + ns;
            self.flying.push((at, Event::Answer(flow, answer)));
        }
    }
}

fn is_about(duration: Option<Duration>, expected_ns: u64) -> bool {
    let nanos = duration.map_or(0.0, |it| it.as_nanos() as f64);
    (nanos / expected_ns as f64 - 1.0).abs() < 0.01
}

#[test]
fn probe_time_is_split_by_stage() {
    let mut world = World::new(|_| {
        [
            PacketFate::Takes(3 * NS_PER_MS),
            PacketFate::Takes(5 * NS_PER_MS),
        ]
    });
    world.prober.handle_list(world.moment(), &list(&[1, 2, 3]));
    let tally = world.play(10_000);
    assert!((240..300).contains(&tally.answered), "{tally:?}");
    assert_eq!(
        (tally.lost.count(), tally.untimed, tally.reordered),
        (0, 0, 0)
    );
    for share in [0.0, 0.5, 1.0] {
        assert!(is_about(tally.network().quantile(share), 8 * NS_PER_MS));
        assert!(is_about(
            tally.times.of(ProbePart::Responder).quantile(share),
            READ_DELAY_NS + STACK_DELAY_NS
        ));
        assert!(is_about(
            tally.times.of(ProbePart::Prober).quantile(share),
            READ_DELAY_NS + STACK_DELAY_NS
        ));
    }
    assert_eq!(
        tally.times.of(ProbePart::Jitter).quantile(1.0),
        Some(Duration::ZERO)
    );
    let kernel = tally.network().count();
    assert!(
        (0..=33).contains(&(kernel - u64::from(tally.answered))),
        "a second's"
    );
    let all = Stamped {
        kernel: kernel.try_into().unwrap(),
        ..Stamped::default()
    };
    assert_eq!(tally.stamped, all);
    assert_eq!(tally.routers, Some(Routers { there: 3, back: 4 }));
}

#[test]
fn unstamped_departure_uses_program_clock() {
    let mut world = World::new(|_| {
        [
            PacketFate::Takes(3 * NS_PER_MS),
            PacketFate::Takes(5 * NS_PER_MS),
        ]
    });
    world.stamps_answers = false;
    world.prober.handle_list(world.moment(), &list(&[1]));
    let tally = world.play(3_000);
    assert!(is_about(
        tally.network().median(),
        8 * NS_PER_MS + STACK_DELAY_NS
    ));
    assert_eq!(
        [tally.stamped.kernel, tally.stamped.program].map(u64::from),
        [0, tally.network().count()]
    );
}

#[test]
fn consecutive_responses_are_all_timed() {
    // All probes of a period arrive at once.
    let mut world = World::new(|nth| {
        [
            PacketFate::Takes((20 - nth % 20) * NS_PER_MS),
            PacketFate::Takes(NS_PER_MS),
        ]
    });
    world.stamps_late = true;
    let mut list = list(&[1]);
    list.period = TimeSpan::from_millis(1);
    world.prober.handle_list(world.moment(), &list);
    let tally = world.play(2_000);
    assert!(tally.answered > 700);
    assert!(tally.stamped.program <= 40, "{:?}", tally.stamped);
}

#[test]
fn losses_are_split_by_direction() {
    let mut world = World::new(|nth| {
        let on = PacketFate::Takes(NS_PER_MS);
        match nth % 100 {
            7 | 8 | 50 => [PacketFate::Lost, on],
            20 => [on, PacketFate::Lost],
            _ => [on, on],
        }
    });
    world
        .prober
        .handle_list(world.moment(), &list(&[1, 2, 3, 4]));
    let tally = world.play(100_000);
    let hundreds = u32::try_from(tally.sent() / 100).unwrap();
    assert!(hundreds >= 39);
    assert!(
        tally.lost.there.abs_diff(3 * hundreds) <= 3,
        "{:?}",
        tally.lost
    );
    assert!(tally.lost.back.abs_diff(hundreds) <= 1, "{:?}", tally.lost);
    assert_eq!(tally.lost.somewhere, 0);
    let loss = tally.loss().unwrap();
    assert!(loss.least < 0.04 && 0.04 < loss.most, "{loss:?}");
    assert_eq!(tally.untimed, 0);
}

#[test]
fn silent_peer_hides_loss_direction() {
    let mut world = World::new(|nth| match nth {
        ..=50 => [PacketFate::Takes(NS_PER_MS), PacketFate::Takes(NS_PER_MS)],
        _ => [PacketFate::Takes(NS_PER_MS), PacketFate::Lost],
    });
    world.prober.handle_list(world.moment(), &list(&[1]));
    let tally = world.play(9_500);
    assert_eq!(
        (tally.answered, tally.lost.count()),
        (50, 0),
        "it may be stalled"
    );
    let tally = world.play(5_000);
    assert_eq!((tally.lost.there, tally.lost.back), (0, 0));
    assert!(tally.lost.somewhere >= 35, "{:?}", tally.lost);
}

/// Three seconds, from 2 s on.
const STALL_RANGE_NS: [u64; 2] = [2_000 * NS_PER_MS, 5_000 * NS_PER_MS];

#[test]
fn stalled_prober_reports_no_loss() {
    let mut world = World::new(|_| {
        [
            PacketFate::Takes(400 * NS_PER_MS),
            PacketFate::Takes(NS_PER_MS),
        ]
    });
    world.stall_ns[0] = STALL_RANGE_NS;
    world.prober.handle_list(world.moment(), &list(&[1]));
    let tally = world.play(10_000);
    assert_eq!(tally.lost.count(), 0);
    assert!((2..=12).contains(&tally.stalled), "{tally:?}");
    let decided = u64::from(tally.stalled) + tally.sent();
    assert!(world.sent - decided <= 12, "{tally:?} of {}", world.sent);
}

/// Its answers arrive after the prober's timeout.
#[test]
fn stalled_responder_is_not_network_loss() {
    let mut world = World::new(|nth| match nth {
        // One is lost in the responder's receive buffer, one in the network.
        30 | 70 => [PacketFate::Lost, PacketFate::Takes(NS_PER_MS)],
        _ => [PacketFate::Takes(NS_PER_MS), PacketFate::Takes(NS_PER_MS)],
    });
    world.stall_ns[1] = STALL_RANGE_NS;
    world.prober.handle_list(world.moment(), &list(&[1]));
    let tally = world.play(10_000);
    assert_eq!((tally.lost.there, tally.lost.count()), (1, 1), "{tally:?}");
    assert!((18..=32).contains(&tally.stalled), "{tally:?}");
    let longest = tally.times.of(ProbePart::Responder).quantile(1.0);
    assert!(longest > Some(Duration::from_millis(2_500)), "{longest:?}");
    let longest = tally.network().quantile(1.0);
    assert!(longest < Some(Duration::from_millis(3)), "{longest:?}");
}

/// The network delays the answer, without a stall at either host.
#[test]
fn answer_delayed_by_network_is_lost() {
    let mut world = World::new(|nth| match nth % 50 {
        7 => [
            PacketFate::Takes(NS_PER_MS),
            PacketFate::Takes(1_200 * NS_PER_MS),
        ],
        _ => [PacketFate::Takes(NS_PER_MS), PacketFate::Takes(NS_PER_MS)],
    });
    world.prober.handle_list(world.moment(), &list(&[1]));
    let tally = world.play(20_000);
    assert_eq!((tally.lost.count(), tally.stalled), (4, 0), "{tally:?}");
    assert_eq!(world.prober.strays().late, 4);
}

#[test]
fn reordered_and_duplicate_answers_are_counted() {
    let mut world = World::new(|nth| match nth % 10 {
        3 => [
            PacketFate::Takes(250 * NS_PER_MS),
            PacketFate::Takes(NS_PER_MS),
        ],
        6 => [PacketFate::Twice(NS_PER_MS), PacketFate::Takes(NS_PER_MS)],
        _ => [PacketFate::Takes(NS_PER_MS), PacketFate::Takes(NS_PER_MS)],
    });
    world.prober.handle_list(world.moment(), &list(&[1]));
    let tally = world.play(30_000);
    let tens = tally.answered / 10;
    assert_eq!(tally.lost.count(), 0);
    assert!(tally.reordered.abs_diff(tens) <= 1, "{}", tally.reordered);
    assert!(tally.duplicated.abs_diff(tens) <= 1, "{}", tally.duplicated);
    assert!(tally.times.of(ProbePart::Jitter).quantile(1.0) > Some(Duration::from_millis(200)));
}

#[test]
fn flows_do_not_overtake_one_another() {
    // Different latencies of paths are no reordering.
    let mut world = World::new(|nth| match nth % 2 {
        0 => [
            PacketFate::Takes(300 * NS_PER_MS),
            PacketFate::Takes(NS_PER_MS),
        ],
        _ => [PacketFate::Takes(NS_PER_MS), PacketFate::Takes(NS_PER_MS)],
    });
    let mut list = list(&[1]);
    list.period = TimeSpan::from_millis(400);
    list.flows.push(flow(2));
    world.prober.handle_list(world.moment(), &list);
    let tally = world.play(20_000);
    assert_eq!((tally.reordered, tally.lost.count()), (0, 0));
}

#[test]
fn clock_step_keeps_latency_valid() {
    for host in [0, 1] {
        for step in [3600 * 1000 * NS_PER_MS, 2 * NS_PER_MS, 200_000] {
            for back in [false, true] {
                let mut world = World::new(|_| {
                    [
                        PacketFate::Takes(3 * NS_PER_MS),
                        PacketFate::Takes(5 * NS_PER_MS),
                    ]
                });
                world.prober.handle_list(world.moment(), &list(&[1, 2]));
                let mut tally = world.play(1_000);
                for _ in 0..20 {
                    let offset = &mut world.offset_ns[host];
                    *offset = if back {
                        *offset - step.min(*offset / 50)
                    } else {
                        *offset + step
                    };
                    tally.merge(&world.play(337));
                }
                assert_eq!(tally.lost.count(), 0);
                assert!(tally.untimed > 0, "host {host}, {step} ns, back {back}");
                assert!(tally.untimed < tally.answered / 2);
                for share in [0.0, 1.0] {
                    assert!(
                        is_about(tally.network().quantile(share), 8 * NS_PER_MS),
                        "{tally:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn closed_port_counts_no_loss() {
    let mut world = World::new(|_| [PacketFate::Lost, PacketFate::Lost]);
    world.prober.handle_list(world.moment(), &list(&[1]));
    let mut tally = ProbeTally::default();
    // Like a kernel, the host refuses one probe in ten.
    for turn in 0..50 {
        while let Some(probe) = world.prober.poll_probe(world.moment(), world.clocks(0, 0)) {
            if turn % 10 == 0 {
                world
                    .prober
                    .handle_refused([PROBER_ADDRESS, RESPONDER_ADDRESS], &probe.bytes);
            }
        }
        tally.merge(&world.play(1));
        world.now_ns += 99 * NS_PER_MS;
    }
    tally.merge(&world.play(900));
    assert_eq!(tally.lost.count(), 0, "{tally:?}");
    assert!(tally.refused >= 35, "{tally:?}");
    assert_eq!(tally.loss(), None);
}

#[test]
fn unsent_probe_is_not_lost() {
    let mut world = World::new(|_| [PacketFate::Lost, PacketFate::Lost]);
    world.prober.handle_list(world.moment(), &list(&[1]));
    world.now_ns += 100 * NS_PER_MS;
    let probe = world
        .prober
        .poll_probe(world.moment(), world.clocks(0, 0))
        .unwrap();
    world.prober.handle_unsent(&probe, Unsendable::Forbidden);
    let tally = world.prober.poll_readings().remove(0).tally;
    let unsent = Unsent {
        forbidden: 1,
        ..Unsent::default()
    };
    assert_eq!((tally.unsent, tally.sent()), (unsent, 0));
    assert!(!world.prober.awaits(1));
    world.prober.handle_list(world.moment(), &list(&[]));
    assert!(!world.prober.is_settled());
    world.play(1_100);
    assert!(world.prober.is_settled());
}

#[test]
fn responder_answers_roster_until_expiry() {
    let mut world = World::new(|_| [PacketFate::Takes(NS_PER_MS), PacketFate::Takes(NS_PER_MS)]);
    let now = world.moment();
    world
        .responder
        .handle_roster(now, [RESPONDER_ADDRESS], Duration::ZERO);
    world.prober.handle_list(world.moment(), &list(&[1]));
    let tally = world.play(3_000);
    assert_eq!(tally.answered, 0);
    let foreign = world.responder.strays().foreign;
    assert!((25..35).contains(&foreign), "{foreign}");
    let probe = Packet::read(&[0; PACKET_BYTES]);
    assert_eq!(probe, None);
    for bytes in [&[][..], b"hello", &[0xff; 1500]] {
        let packet = world.arrival(1, &flow(1), bytes, false);
        assert_eq!(world.responder.handle_packet(&packet), None);
    }
    assert_eq!(world.responder.strays().malformed, 3);
}

#[test]
fn answers_awaited_after_list_change() {
    let mut world = World::new(|_| {
        [
            PacketFate::Takes(200 * NS_PER_MS),
            PacketFate::Takes(200 * NS_PER_MS),
        ]
    });
    world.prober.handle_list(world.moment(), &list(&[1]));
    let mut tally = world.play(300);
    assert!(world.prober.awaits(1) && !world.prober.awaits(2));
    world.prober.handle_list(world.moment(), &list(&[]));
    assert!(world.prober.awaits(1));
    tally.merge(&world.play(1_500));
    assert!(!world.prober.awaits(1));
    assert_eq!(
        (tally.lost.count(), u64::from(tally.answered)),
        (0, world.sent)
    );
}

#[test]
fn removed_prober_keeps_grace_period() {
    let mut world = World::new(|_| [PacketFate::Takes(NS_PER_MS), PacketFate::Takes(NS_PER_MS)]);
    world.prober.handle_list(world.moment(), &list(&[1]));
    let now = world.moment();
    let grace = Duration::from_secs(5);
    world
        .responder
        .handle_roster(now, [RESPONDER_ADDRESS], grace);
    // A later stall does not extend it.
    world.play(2_000);
    let now = world.moment();
    world
        .responder
        .handle_roster(now, [RESPONDER_ADDRESS], grace);
    world.play(2_000);
    assert_eq!(world.responder.strays().foreign, 0);
    let tally = world.play(8_000);
    assert!(tally.lost.count() > 0 && tally.answered > 0, "{tally:?}");
    assert!(world.responder.strays().foreign > 20);
}

#[test]
fn forged_and_late_answers_are_counted() {
    let mut world = World::new(|nth| match nth {
        5 => [
            PacketFate::Takes(3_000 * NS_PER_MS),
            PacketFate::Takes(NS_PER_MS),
        ],
        _ => [PacketFate::Takes(NS_PER_MS), PacketFate::Takes(NS_PER_MS)],
    });
    world.prober.handle_list(world.moment(), &list(&[1]));
    let mut tally = world.play(5_000);
    assert_eq!(
        world.prober.strays(),
        Strays {
            late: 1,
            ..Strays::default()
        }
    );
    assert_eq!(tally.lost.count(), 1);
    // Packets of another session, another port and another host, and one that was never requested.
    let mut others = World::new(|_| [PacketFate::Takes(NS_PER_MS), PacketFate::Takes(NS_PER_MS)]);
    others.prober = Prober::new(8, Duration::ZERO);
    let probe = |world: &mut World| {
        world.prober.handle_list(world.moment(), &list(&[1]));
        world.now_ns += 200 * NS_PER_MS;
        let probe = world
            .prober
            .poll_probe(world.moment(), world.clocks(0, 0))
            .unwrap();
        let packet = world.arrival(1, &flow(1), &probe.bytes, false);
        world.responder.handle_packet(&packet).unwrap()
    };
    let foreign = probe(&mut others);
    let own = probe(&mut world);
    let mut never = own;
    never[12..16].copy_from_slice(&9_999_u32.to_be_bytes());
    let mut stranger = flow(1);
    stranger.destination.set_ip(Ipv4Addr::new(10, 0, 7, 7));
    let before = world.prober.strays();
    for (flow, bytes) in [
        (flow(1), foreign),
        (flow(2), own),
        (stranger, own),
        (flow(1), never),
    ] {
        let packet = world.arrival(0, &flow, &bytes, true);
        world.prober.handle_packet(&packet);
    }
    assert_eq!(world.prober.strays().foreign - before.foreign, 4);
    tally = ProbeTally::default();
    for reading in world.prober.poll_readings() {
        tally.merge(&reading.tally);
    }
    assert_eq!((tally.duplicated, tally.answered), (0, 0));
}

#[test]
fn remembered_probers_are_bounded() {
    let mut responder = Responder::default();
    responder.handle_roster(Moment::default(), [PROBER_ADDRESS], Duration::ZERO);
    let world = World::new(|_| [PacketFate::Lost, PacketFate::Lost]);
    for session in 0..20_000 {
        let mut probe = [0; PACKET_BYTES];
        probe[..5].copy_from_slice(b"RwP1\x01");
        probe[8..12].copy_from_slice(&u32::to_be_bytes(session));
        let packet = world.arrival(1, &flow(1), &probe, false);
        assert!(responder.handle_packet(&packet).is_some());
    }
    assert!(format!("{responder:?}").matches("newest").count() <= 8);
}

#[test]
fn excessive_probe_list_is_capped() {
    let mut prober = Prober::new(1, Duration::ZERO);
    let mut list = list(&[1]);
    list.period = TimeSpan::ZERO;
    list.most_rate = Rate::from_bits_per_s(u64::MAX);
    list.valid_for = TimeSpan::MAX;
    prober.handle_list(Moment::from_micros(1), &list);
    let world = World::new(|_| [PacketFate::Lost, PacketFate::Lost]);
    let probes = (0..1000).filter(|micros| {
        let now = Moment::from_micros(*micros);
        prober.poll_probe(now, world.clocks(0, 0)).is_some()
    });
    assert!(probes.count() <= 70, "10 Mb/s, and 5 ms ahead");
}

/// A prober whose interface supports 9000 bytes, over a network that supports this many, for twenty seconds.
fn with_large(longest: usize, ways: PathFates) -> ProbeTally {
    let mut world = World::new(ways);
    world.longest = longest;
    world.prober.handle_mtus([(PROBER_ADDRESS, 9000)].into());
    world
        .prober
        .handle_list(world.moment(), &list(&[7000, 7001]));
    world.play(20_000)
}

#[test]
fn large_probes_are_counted_separately() {
    let takes = |_| [PacketFate::Takes(NS_PER_MS), PacketFate::Takes(NS_PER_MS)];
    let wide = with_large(usize::MAX, takes);
    assert!((20..=60).contains(&wide.large.arrived), "{wide:?}");
    assert_eq!((wide.large.lost, wide.lost.count()), (0, 0));
    let narrow = with_large(1500, takes);
    assert!((20..=60).contains(&narrow.large.lost), "{narrow:?}");
    assert_eq!((narrow.large.arrived, narrow.lost.count()), (0, 0));
    assert_eq!(narrow.answered, wide.answered);
    assert_eq!(
        (wide.reordered, wide.untimed),
        (0, 0),
        "only small ones are timed"
    );
}

/// A probe whose answer is lost has arrived.
#[test]
fn lost_answer_counts_large_probe_arrived() {
    let tally = with_large(usize::MAX, |nth| match nth % 3 {
        0 => [PacketFate::Takes(NS_PER_MS), PacketFate::Lost],
        _ => [PacketFate::Takes(NS_PER_MS), PacketFate::Takes(NS_PER_MS)],
    });
    assert!(
        tally.large.arrived >= 20 && tally.lost.back > 50,
        "{tally:?}"
    );
    assert_eq!((tally.large.lost, tally.lost.there), (0, 0));
}

#[test]
fn unknown_mtu_sends_no_large_probe() {
    let mut world = World::new(|_| [PacketFate::Takes(NS_PER_MS), PacketFate::Takes(NS_PER_MS)]);
    world.prober.handle_list(world.moment(), &list(&[7000]));
    assert_eq!(world.play(20_000).large.sent(), 0);
}
