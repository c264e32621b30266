//! Trains over a real fabric: who may send them, when they go, and that nothing answers with more
//! than it was asked with.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::thread;
use std::time::Duration;

use reweave_agent::clock;
use reweave_agent::packet_trains::{SharedGate, TrainError, TrainSender, TrainThread};
use reweave_agent::preflight::{PressError, press};
use reweave_agent::probing::{Engine, ProbeThread};
use reweave_agent_core::packet_trains::{
    HEADER_BYTES, PAGE_BYTES, Train, TrainMessage, TrainRefusal, TrainShape,
};
use reweave_agent_core::preflight::{PreflightRefusal as PressRefusal, Press};
use reweave_common::bandwidth::BandwidthReading;
use reweave_common::flow::FlowKey;
use reweave_common::moment::Moment;
use reweave_common::periodicity::{IterationPeriod, Periodicity};
use reweave_common::probing::{PROBE_PORT, ProbeList};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::{Bytes, Percent, Rate};

use crate::commands::{agent, json_of};
use crate::fabric::{Fabric, host, ip_in, kernel_counter, wait_for, within};
use crate::probing::{list, probe};
use crate::tests;
use crate::timed::timed_value;

tests! {
    unknown_train_sender_gets_no_amplification,
    busy_host_takes_no_train,
    response_comes_from_asked_address,
    training_host_is_not_pressed,
}

const TRAIN_SHAPE: TrainShape = TrainShape {
    packets: 64,
    bytes: 1472,
};
const BEAT_PERIOD: Duration = Duration::from_secs(4);
const NO_DEADLINE: Moment = Moment::from_micros(u64::MAX);

/// A job that computes half of the time.
fn training(next_gap: Moment) -> Periodicity {
    Periodicity::Found(IterationPeriod {
        period: BEAT_PERIOD.into(),
        gap: (BEAT_PERIOD / 2).into(),
        sent: Bytes::new(1),
        received: Bytes::ZERO,
        shape: None,
        confidence_percent: Percent::of(0.99),
        iterations: 20,
        since: Moment::default(),
        next_gap,
    })
}

/// A host that takes trains of h0 whenever `open` says so.
fn taking(open: impl Fn(Moment) -> Option<Moment> + Send + 'static) -> ProbeThread {
    within("h2", || {
        let mut engine = Engine::new(7, Duration::ZERO);
        engine.answer_on(PROBE_PORT).expect("the port is free");
        engine.take_trains(open);
        engine.handle_roster([host(0)]);
        ProbeThread::start(engine)
    })
}

fn sender(number: usize) -> TrainSender {
    sender_of(number, probe(number, 2, 7432))
}

fn sender_of(number: usize, flow: FlowKey) -> TrainSender {
    within(&format!("h{number}"), || {
        TrainSender::open(&flow, 1).expect("the port is free")
    })
}

/// Leaf 0 sends to both spines at this rate.
fn shape(rate: &str) {
    for up in ["up0", "up1"] {
        within("leaf0", || {
            let words = [
                "qdisc", "replace", "dev", up, "root", "tbf", "rate", rate, "burst", "20000",
                "limit", "4000000",
            ];
            crate::fabric::tool("tc", &words);
        });
    }
}

fn response_comes_from_asked_address() {
    let _fabric = Fabric::new();
    let another = Ipv4Addr::new(10, 1, 200, 1);
    let [words, gateway] = [another.to_string(), host(2).to_string()];
    ip_in("h2", &["address", "add", &words, "dev", "eth0"]);
    ip_in("leaf1", &["route", "add", &words, "via", &gateway]);
    let _taking = taking(|_| Some(NO_DEADLINE));
    let mut flow = probe(0, 2, 7432);
    flow.destination.set_ip(another);
    let crossing = wait_for("a train", || {
        sender_of(0, flow).send(TRAIN_SHAPE, || true).ok()
    });
    assert_eq!(crossing.arrived_ns.len(), 64);
}

fn unknown_train_sender_gets_no_amplification() {
    let _fabric = Fabric::new();
    let taking = taking(|_| Some(NO_DEADLINE));
    let stranger = sender(1).send(TRAIN_SHAPE, || true);
    assert!(
        matches!(stranger, Err(TrainError::Silent { .. })),
        "{stranger:?}"
    );
    let mut friend = sender(0);
    // On a busy machine an answer may come too late to be heard.
    let crossing = wait_for("a train", || match friend.send(TRAIN_SHAPE, || true) {
        Err(TrainError::Silent { .. }) => None,
        sent => Some(sent.expect("it goes")),
    });
    assert_eq!((crossing.packets, crossing.arrived_ns.len()), (64, 64));
    // A host that guesses what to ask gets nothing for a short question, and as much for a long one.
    let train = Train {
        session: 9,
        number: 1,
    };
    let asks = within("h0", || UdpSocket::bind((host(0), 7432 + 1)).expect("bind"));
    asks.set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a timeout");
    asks.connect((host(2), PROBE_PORT)).expect("connect");
    let mut answer = [0; 4096];
    let key = wait_for("the grant", || {
        asks.send(&TrainMessage::Ask(TRAIN_SHAPE).to_bytes(train))
            .ok()?;
        let length = asks.recv(&mut answer).ok()?;
        assert!(length <= HEADER_BYTES);
        match TrainMessage::read(&answer[..length])?.1 {
            TrainMessage::Grant { key } => Some(key),
            _ => None,
        }
    });
    let fetch = TrainMessage::Fetch { key, page: 0 }.to_bytes(train);
    asks.send(&fetch[..HEADER_BYTES]).expect("it goes");
    wait_for("the short question counts as none", || {
        (taking.strays().answering.foreign >= 1).then_some(())
    });
    // A host that has asked more than once is granted more than once, and hears all of it first.
    let length = wait_for("the page", || {
        asks.send(&fetch).ok()?;
        let length = asks.recv(&mut answer).ok()?;
        assert!(length <= fetch.len());
        let (_, heard) = TrainMessage::read(&answer[..length])?;
        matches!(heard, TrainMessage::Arrivals { .. }).then_some(length)
    });
    assert_eq!((length, fetch.len()), (PAGE_BYTES, PAGE_BYTES));
}

fn busy_host_takes_no_train() {
    let _fabric = Fabric::new();
    let _taking = taking(|_| None);
    let mut sender = sender(0);
    // On a busy machine the answer may come too late to be heard.
    let (sent, refused) = wait_for("an answer", || {
        let before = datagrams_sent();
        let refused = sender.send(TRAIN_SHAPE, || true);
        let unheard = matches!(refused, Err(TrainError::Silent { .. }));
        (!unheard).then(|| (datagrams_sent() - before, refused))
    });
    let busy = |it: &TrainError| {
        matches!(
            it,
            TrainError::Unwilling {
                refusal: TrainRefusal::Busy,
                ..
            }
        )
    };
    assert!(refused.as_ref().is_err_and(busy), "{refused:?}");
    assert_eq!(sent, 1, "the question, and no train");
}

fn datagrams_sent() -> u64 {
    kernel_counter("h0", "Udp", "OutDatagrams")
}

/// What a thread of trains does by a gate that is moved by hand.
struct Hand {
    gate: SharedGate,
    trains: TrainThread,
}

impl Hand {
    fn new() -> Self {
        let gate = SharedGate::default();
        let trains = within("h0", || TrainThread::start(gate.clone(), 3));
        Self { gate, trains }
    }

    fn list(&self, valid_for: Duration) {
        let flows: [FlowKey; 2] = [probe(0, 2, 7400), probe(0, 2, 7401)];
        self.trains.handle_list(ProbeList {
            valid_for: valid_for.into(),
            most_rate: Rate::from_bits_per_s(100_000_000),
            trains_every: Some(TimeSpan::from_secs(1)),
            ..list(flows, &[])
        });
    }

    /// The wires rest, or do not, in the midst of a gap or a burst of a job.
    fn hear(&self, rests: bool) {
        let now = clock::now();
        let from = Moment::from_micros(now.as_micros() - 10_000);
        let bytes = if rests { 0 } else { 1_000_000 };
        self.gate.handle_growth(from, now, Bytes::new(bytes));
        // A quarter into the gap, or a quarter before it.
        let ahead = if rests {
            BEAT_PERIOD * 3 / 4
        } else {
            BEAT_PERIOD / 4
        };
        self.gate.handle_rhythm(now, training(now + ahead));
    }

    /// Holds the wires so for a time, and hands over what came of trains.
    fn hold(&self, rests: bool, for_ms: u64) -> Vec<BandwidthReading> {
        let end = clock::now() + Duration::from_millis(for_ms);
        let mut readings = vec![];
        while clock::now() < end {
            self.hear(rests);
            thread::park_timeout(Duration::from_millis(5));
            readings.extend(self.trains.poll_readings());
        }
        readings
    }
}

pub(crate) fn timed_trains_keep_to_gaps() {
    let _fabric = Fabric::new();
    let _taking = taking(|_| Some(NO_DEADLINE));
    let sent = || {
        let hand = Hand::new();
        let sent = |during: &dyn Fn()| {
            let before = datagrams_sent();
            during();
            datagrams_sent() - before
        };
        let unlisted = sent(&|| drop(hand.hold(true, 500)));
        hand.list(Duration::from_secs(3600));
        let beside_a_job = sent(&|| drop(hand.hold(false, 3000)));
        let mut readings = wait_for("trains in the gap", || {
            let readings = hand.hold(true, 100);
            (!readings.is_empty()).then_some(readings)
        });
        readings.extend(hand.hold(true, 1500));
        let port = |it: &BandwidthReading| it.flow.source.port();
        assert!(readings.iter().all(|it| [7432, 7433].contains(&port(it))));
        hand.hold(false, 500);
        let after_the_gap = sent(&|| drop(hand.hold(false, 2000)));
        hand.list(Duration::from_millis(1));
        hand.hold(true, 300);
        let run_out = sent(&|| drop(hand.hold(true, 2500)));
        [unlisted, beside_a_job, after_the_gap, run_out]
    };
    let what = "sent without a list, beside a job, after the gap, by an old list";
    timed_value(what, sent, |sent| *sent == [0; 4]);
}

pub(crate) fn bandwidth_test_reports_its_cost() {
    let _fabric = Fabric::new();
    shape("100mbit");
    let _taking = taking(|_| Some(NO_DEADLINE));
    let seconds = 2_u32;
    let seconds_text = seconds.to_string();
    let asked = [
        "pre-flight",
        "10.1.0.1",
        "--seconds",
        &seconds_text,
        "--force",
    ];
    let before = sent_bytes();
    let refused = agent("h0", &asked);
    let words = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(words.contains(" from eth0 to 10.1.0.1 for 2 s"), "{words}");
    assert!(words.contains("10.0.0.0 "), "the leaf is named: {words}");
    assert!(words.contains("--yes"), "{words}");
    assert!(sent_bytes() - before < 100_000, "nothing was sent");
    // The kernel counts the same bytes, with headers and what was sent again; the streams may use both shaped spines.
    let before = sent_bytes();
    let measured = json_of("h0", &[&asked[..], &["--yes"]].concat());
    let sent_bits_per_s = 8.0 * (sent_bytes() - before) as f64 / f64::from(seconds);
    let rate = measured["hosts"][0]["rate_bits_per_s"].as_f64();
    let rate = rate.expect("a rate");
    println!("{rate} bits per second, the kernel sent {sent_bits_per_s}");
    assert!(rate < 2.05 * 100e6, "{measured}");
    assert!(
        (0.7..1.02).contains(&(rate / sent_bits_per_s)),
        "{measured}"
    );
}

fn sent_bytes() -> u64 {
    kernel_counter("h0", "IpExt", "OutOctets")
}

fn training_host_is_not_pressed() {
    let _fabric = Fabric::new();
    let (_thread, door) = within("h2", || {
        let mut engine = Engine::new(7, Duration::ZERO);
        engine.answer_on(PROBE_PORT).expect("the port is free");
        engine.handle_roster([host(0)]);
        let door = engine.door();
        (ProbeThread::start(engine), door)
    });
    let to = SocketAddrV4::new(host(2), PROBE_PORT);
    let asked = Press {
        seconds: 1,
        streams: 1,
        force: false,
    };
    // On a busy machine the answer may come too late to be heard.
    let pressed = |asked| {
        wait_for("an answer", || match within("h0", || press(to, asked)) {
            Err(PressError::Silent { .. }) => None,
            pressed => Some(pressed),
        })
    };
    assert!(pressed(asked).is_ok_and(|it| it.received > Bytes::ZERO));
    door.handle_rhythm(clock::now(), training(clock::now()));
    let refused = pressed(asked);
    let trains = |it: &PressError| {
        matches!(
            it,
            PressError::Unwilling {
                refusal: PressRefusal::Training,
                ..
            }
        )
    };
    assert!(refused.as_ref().is_err_and(trains), "{refused:?}");
    let force = Press {
        force: true,
        ..asked
    };
    assert!(pressed(force).is_ok());
    let stranger = within("h1", || press(to, force));
    assert!(
        matches!(stranger, Err(PressError::Silent { .. })),
        "{stranger:?}"
    );
}
