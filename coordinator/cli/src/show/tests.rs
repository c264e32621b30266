//! Expected text output, word for word.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::time::Duration;

use reweave_common::bandwidth::{Bandwidth, Unclear};
use reweave_common::cause::{Class, Subject};
use reweave_common::circuit::CircuitSet;
use reweave_common::finding::Imbalance;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::hardware::Lack;
use reweave_common::member::{Member, Role};
use reweave_common::operator::{
    AgentState, AgentStatus, Alternative, Collision, CoordinatorState, CoordinatorStatus, Finding,
    Findings, FlowChange, FlowImbalance, FlowOutcome, FlowStatus, Hop, Iteration, IterationOutcome,
    JobStatus, LackStatus, LinkStatus, Loser, Mode, Move, NotSeen, OpenInvitation, OpticalStatus,
    Outcome, PairStatus, PathBandwidth, Phase, Pin, Plan, Prediction, ProbeCoverage, ProbeStatus,
    RdmaStatus, Record, RefusedPeer, Report, RunningChange, Status, Useless, UselessPin,
};
use reweave_common::plan::{Generation, LostBecause};
use reweave_common::probing::{ProbePart, ProbeTally, Summary};
use reweave_common::units::Rate;

use crate::Detail;
use crate::names::tests::{eight_hosts, flow};
use crate::page::Page;

fn to(from: &str, to: &str) -> Hop {
    Hop {
        from: from.to_owned(),
        to: to.to_owned(),
        link: format!("{from}-{to}"),
    }
}

pub(crate) fn mbps(mbps: u64) -> Rate {
    Rate::from_bits_per_s(mbps * 1_000_000)
}

fn flows() -> [FlowKey; 2] {
    [flow(0, 49152, 4), flow(1, 49152, 5)]
}

pub(crate) fn collision() -> Collision {
    let loser = |flow| Loser {
        flow,
        rate_bits_per_s: mbps(99),
        fair_rate_bits_per_s: mbps(198),
    };
    Collision {
        hop: to("leaf0", "spine0"),
        utilization: 0.993,
        losers: flows().map(loser).to_vec(),
        with_room: vec![to("leaf0", "spine1")],
        imbalance: Imbalance {
            fim_percent: 100.0,
            floor_percent: 0.0,
            weighted_percent: 99.6,
            max_over_mean: 2.0,
        },
    }
}

fn moved(flow: FlowKey) -> Move {
    Move {
        flow,
        from: to("leaf0", "spine0"),
        to: to("leaf0", "spine1"),
    }
}

pub(crate) fn plan() -> Plan {
    let prediction = |flow| Prediction {
        flow,
        before_bits_per_s: mbps(99),
        after_bits_per_s: mbps(198),
        low_bits_per_s: mbps(190),
        high_bits_per_s: mbps(200),
    };
    let [first, second] = flows();
    let lost = |moves, slowest, lost_because| Alternative {
        moves,
        slowest_after_bits_per_s: mbps(slowest),
        lost_because,
    };
    Plan {
        generation: Generation(4),
        parent: Generation(3),
        takes_back: None,
        pins: vec![Pin {
            flow: first,
            hop: to("leaf0", "spine1"),
        }],
        tables: BTreeMap::new(),
        circuits: BTreeMap::new(),
        seal: String::new(),
        hindered_by: vec![],
        touched: vec![],
        migration: None,
        base: None,
        changes: vec![],
        moves: vec![moved(first)],
        predictions: flows().map(prediction).to_vec(),
        iterations: vec![Iteration {
            job: "h0 and h4".to_owned(),
            before_ms: 240.0,
            after_ms: 140.0,
            low_ms: 130.5,
            high_ms: 151.0,
        }],
        report: Report {
            findings: vec![Finding::EcmpCollision(collision())],
            slowest_before_bits_per_s: mbps(99),
            slowest_after_bits_per_s: mbps(198),
            alternatives: vec![
                lost(vec![], 99, LostBecause::Slower),
                lost(
                    vec![moved(first), moved(second)],
                    198,
                    LostBecause::MoreMoves,
                ),
            ],
        },
    }
}

#[track_caller]
fn shows(lay_out: impl FnOnce(&mut Page), expected: &str) {
    let mut page = Page::default();
    lay_out(&mut page);
    assert_eq!(page.text, expected, "\n{}", page.text);
}

#[test]
fn parallel_links_are_distinguished() {
    assert_eq!(super::hop(&to("leaf0", "spine1")), "leaf0 > spine1");
    assert_eq!(super::hop(&to("rack.1", "spine.2")), "rack.1 > spine.2");
    let third = Hop {
        link: "spine1-leaf0.2".to_owned(),
        ..to("leaf0", "spine1")
    };
    assert_eq!(super::hop(&third), "leaf0 > spine1 .2");
}

#[test]
fn path_shows_all_links_both_ways() {
    let mut flow = status().flows[0].clone();
    let unseen = FlowStatus {
        flow: flows()[1],
        path: None,
        path_back: None,
        ..flow.clone()
    };
    flow.path_back = Some(vec![Hop {
        link: "leaf0-spine1.2".to_owned(),
        ..to("spine1", "leaf0")
    }]);
    let expected = concat!(
        "  flow          rate  over                         back over\n",
        "  h0 > h4  99.0 Mb/s  h0 > leaf0 > spine0 > leaf1  spine1 > leaf0 .2\n",
        "  h1 > h5  99.0 Mb/s  not known                    not known\n",
    );
    shows(
        |page| super::flows::paths(page, &[&flow, &unseen], &eight_hosts()),
        expected,
    );
}

#[test]
fn finding_is_shown() {
    let findings = Findings {
        generation: Generation(3),
        findings: vec![Finding::EcmpCollision(collision())],
        not_seen: NotSeen {
            nodes: vec!["spine1".to_owned()],
            ways_of: vec![flows()[0]],
            doubts: vec![],
        },
    };
    let job = |name: &str, hosts: [&str; 2]| JobStatus {
        job: name.to_owned(),
        hosts: hosts.map(str::to_owned).to_vec(),
        flows: 1,
        sending: 1,
        rate_bits_per_s: mbps(99),
        slowest_bits_per_s: None,
        iteration_ms: None,
        rest_share: None,
        seen_for_ms: 1000,
        promise: None,
    };
    let jobs = [job("train", ["h0", "h4"]), job("other", ["h6", "h7"])];
    let expected = "ECMP collision: leaf0 > spine0 (90 % sure)
  leaf0 > spine0 is 99 % full and shared by 2 flows, while leaf0 > spine1 has free capacity
  flow          gets   could get
  h0 > h4  99.0 Mb/s  198.0 Mb/s
  h1 > h5  99.0 Mb/s  198.0 Mb/s
  flow imbalance 100 % (floor 0 %), by rate 100 %; the fullest link carries 2.00 times the mean
  remedy: rebalance: reweave plan
  jobs hurt: train
incomplete data: spine1 does not report; the path of h0 > h4 is unknown
";
    shows(
        |page| super::findings(page, &findings, &eight_hosts(), &jobs),
        expected,
    );
}

/// Many gaps in one line would be unreadable.
#[test]
fn many_gaps_are_listed() {
    let left_out = (0..20).map(|nth| format!("left out: probe {nth} over h3>*>leaf1"));
    let gaps = NotSeen {
        nodes: vec!["spine1".to_owned()],
        ways_of: vec![],
        doubts: left_out.collect(),
    };
    let expected = "incomplete data, 21 gaps:
  spine1 does not report
  left out: probe 0 over h3 > … > leaf1
  left out: probe 1 over h3 > … > leaf1
  left out: probe 2 over h3 > … > leaf1
  left out: probe 3 over h3 > … > leaf1
  and 16 more; `--output json` has them
";
    shows(
        |page| super::not_seen(page, &gaps, &eight_hosts()),
        expected,
    );
}

#[test]
fn plan_shows_moves_reasons_alternatives() {
    let expected = "Plan 4, made for generation 3 of the routes
  h0 > h4 moves from leaf0 > spine0 to leaf0 > spine1

  flow           now        then           expected within        gain
  h0 > h4  99.0 Mb/s  198.0 Mb/s  190.0 Mb/s .. 200.0 Mb/s  2.00 times
  h1 > h5  99.0 Mb/s  198.0 Mb/s  190.0 Mb/s .. 200.0 Mb/s  2.00 times

  iterations of the job on       now      then       expected within
  h0 and h4                 240.0 ms  140.0 ms  130.5 ms .. 151.0 ms

Why
  leaf0 > spine0 is 99 % full and shared by 2 flows, while leaf0 > spine1 has free capacity
  the slowest flow goes from 99.0 Mb/s to 198.0 Mb/s

Why not
  no change: slowest flow 99.0 Mb/s
  move h0 > h4 and h1 > h5: no flow is faster, and more flows move

apply it with  reweave apply 4
";
    shows(
        |page| super::plan(page, Some(&plan()), &eight_hosts()),
        expected,
    );
    shows(
        |page| super::plan(page, None, &eight_hosts()),
        "no improvement found\n",
    );
}

#[test]
fn history_shows_author_plan_outcome() {
    let outcome = |flow, measured, change| FlowOutcome {
        flow,
        before_bits_per_s: Some(mbps(99)),
        predicted_bits_per_s: Some([mbps(190), mbps(200)]),
        measured_bits_per_s: measured,
        change,
    };
    let [first, second] = flows();
    let taken_back = Record {
        plan: plan(),
        proposed_by: "ada".to_owned(),
        approved_by: Some("policy".to_owned()),
        age_ms: 30_000,
        ended_age_ms: Some(20_000),
        outcome: Outcome::RolledBack {
            reasons: vec!["h0 > h4 was no longer seen".to_owned()],
            generation: Generation(5),
        },
        flows: vec![
            outcome(first, None, FlowChange::Vanished),
            outcome(second, Some(mbps(195)), FlowChange::Faster),
        ],
        iterations: vec![IterationOutcome {
            job: "h0 and h4".to_owned(),
            before_ms: 240.0,
            predicted_ms: [130.5, 151.0],
            measured_ms: Some(141.25),
        }],
    };
    let running = Record {
        approved_by: None,
        ended_age_ms: None,
        outcome: Outcome::Running,
        flows: vec![],
        iterations: vec![],
        ..taken_back.clone()
    };
    let expected = "Plan 4: under way
  made by ada, 30 s ago
  h0 > h4 moves from leaf0 > spine0 to leaf0 > spine1

Plan 4: rolled back; the old routes are generation 5 now
  made by ada, approved by policy, ended 20 s ago
  h0 > h4 moves from leaf0 > spine0 to leaf0 > spine1
  because h0 > h4 was no longer seen
  flow        before                  promised    measured        gain
  h0 > h4  99.0 Mb/s  190.0 Mb/s .. 200.0 Mb/s           -           -  gone
  h1 > h5  99.0 Mb/s  190.0 Mb/s .. 200.0 Mb/s  195.0 Mb/s  1.97 times  faster
  iterations of the job on    before              promised  measured
  h0 and h4                 240.0 ms  130.5 ms .. 151.0 ms  141.2 ms
";
    let records = [running, taken_back];
    shows(
        |page| super::history(page, &records, &eight_hosts()),
        expected,
    );
}

fn coordinator() -> CoordinatorStatus {
    CoordinatorStatus {
        number: 1,
        name: "c0".to_owned(),
        address: "10.0.0.1:7332".parse().unwrap(),
        state: CoordinatorState::Leads,
        votes: true,
        term: Some(4),
        heard_ms: None,
        behind: None,
        build: Some("0.1.0".to_owned()),
        protocol: Some("1.1".to_owned()),
        certificate_left_s: Some(60_000),
        signer_left_s: Some(2_000_000),
        clock_skew_ms: None,
    }
}

fn newcomer() -> CoordinatorStatus {
    CoordinatorStatus {
        number: 4,
        name: "c3".to_owned(),
        state: CoordinatorState::Learns,
        votes: false,
        heard_ms: Some(40),
        behind: Some(12),
        signer_left_s: None,
        clock_skew_ms: Some(-3_600_000),
        ..coordinator()
    }
}

#[test]
fn members_are_shown_with_progress() {
    let expected = "  number  name        address  state   votes  heard  behind
       1  c0    10.0.0.1:7332  leads   yes        -       -
       4  c3    10.0.0.1:7332  learns  no     0.0 s      12
";
    shows(
        |page| super::members(page, &[coordinator(), newcomer()]),
        expected,
    );
}

fn refused() -> RefusedPeer {
    RefusedPeer {
        from: "10.0.0.9".to_owned(),
        why: "it showed no certificate".to_owned(),
        times: 3,
        age_ms: 2_500,
    }
}

fn invitation() -> OpenInvitation {
    OpenInvitation {
        member: Member::new(Role::Agent, "h7"),
        by: "ann".to_owned(),
        expires_in_ms: 599_000,
    }
}

fn agent(
    node: &str,
    state: AgentState,
    age_ms: Option<u64>,
    generation: Option<Generation>,
) -> AgentStatus {
    AgentStatus {
        node: node.to_owned(),
        addresses: vec![],
        state,
        age_ms,
        generation,
        known_links: if age_ms.is_some() { 2 } else { 1 },
        links: 2,
        discarded_readings: 0,
        strays: None,
        build: None,
        protocol: None,
        certificate_left_s: age_ms.map(|_| 80_000),
        clock_skew_ms: age_ms.map(|age_ms| -(age_ms as i64)),
    }
}

pub(crate) fn status() -> Status {
    let link = |hop, up, rate| LinkStatus {
        hop,
        up,
        drained: false,
        rate_bits_per_s: rate,
        capacity_bits_per_s: mbps(200),
        spare_bits_per_s: up.then(|| mbps(200 - rate.mbps() as u64)),
        age_ms: 100,
    };
    Status {
        generation: Generation(3),
        mode: Mode::Auto,
        alarms: vec![
            "leaf1 holds rules that differ from its instruction; check its agent".to_owned(),
        ],
        waits_because: Some("h1 does not report".to_owned()),
        changes: vec![running_change()],
        agents: vec![
            agent("h0", AgentState::Up, Some(400), None),
            agent("h1", AgentState::Unseen, None, None),
            agent("leaf0", AgentState::Silent, Some(4000), Some(Generation(3))),
        ],
        links: vec![
            link(to("leaf0", "spine0"), true, mbps(198)),
            link(to("leaf0", "spine1"), true, mbps(0)),
            link(to("leaf1", "spine1"), false, mbps(0)),
        ],
        flows: vec![FlowStatus {
            flow: flows()[0],
            from: "h0".to_owned(),
            to: "h4".to_owned(),
            rate_bits_per_s: mbps(99),
            least_bits_per_s: mbps(98),
            most_bits_per_s: mbps(100),
            path: Some(vec![
                to("h0", "leaf0"),
                to("leaf0", "spine0"),
                to("spine0", "leaf1"),
            ]),
            path_back: Some(vec![
                to("h4", "leaf1"),
                to("leaf1", "spine1"),
                to("spine1", "leaf0"),
                to("leaf0", "h0"),
            ]),
            age_ms: 100,
        }],
        pins: vec![Pin {
            flow: flows()[0],
            hop: to("leaf0", "spine1"),
        }],
        useless_pins: vec![useless_pin()],
        flow_imbalance: Some(flow_imbalance()),
        warnings: vec!["agents connected but silent: leaf0".to_owned()],
        coordinators: vec![coordinator(), newcomer()],
        refused: vec![refused()],
        invitations: vec![invitation()],
        revoked: vec![Member::new(Role::Agent, "h3")],
        probes: probes(),
        bandwidths: bandwidths(),
        rdma: vec![over_rdma()],
        opticals: vec![],
        lacks: lacks(),
        maintenance: vec![],
        frozen: vec![],
    }
}

fn lacks() -> Vec<LackStatus> {
    vec![LackStatus {
        lack: Lack {
            measurement: "RDMA".to_owned(),
            because: "reweave-rdma is not installed".to_owned(),
            remedy: "install it".to_owned(),
        },
        nodes: (0..7).map(|number| format!("h{number}")).collect(),
    }]
}

fn over_rdma() -> RdmaStatus {
    RdmaStatus {
        from: "h0".to_owned(),
        to: "h4".to_owned(),
        ud_us: Some(3.26),
        rc_us: None,
        rate_bits_per_s: Some(mbps(196_000)),
        sent: 20,
        lost: 1,
        age_ms: 12_000,
    }
}

fn bandwidths() -> Vec<PathBandwidth> {
    let path = |port, over: Option<[&str; 3]>, bandwidth| PathBandwidth {
        from: "h0".to_owned(),
        to: "h4".to_owned(),
        flow: FlowKey {
            protocol: Protocol::Udp,
            source: SocketAddrV4::new([10, 0, 0, 0].into(), port),
            destination: SocketAddrV4::new([10, 0, 0, 4].into(), 7333),
        },
        bandwidth,
        over: over.map(|over| over.map(str::to_owned).to_vec()),
        age_ms: 12_000,
    };
    let known = Bandwidth::Known {
        rate: mbps(99),
        least: mbps(98),
        most: mbps(100),
        trains: 9,
    };
    let why = Unclear::Batched;
    vec![
        path(7432, Some(["leaf0", "spine1", "leaf1"]), known),
        path(7433, None, Bandwidth::Unknown { why, trains: 4 }),
    ]
}

fn probes() -> ProbeStatus {
    let summary = |lost| {
        let mut tally = ProbeTally {
            answered: 600 - lost,
            ..ProbeTally::default()
        };
        tally.lost.there = lost;
        for _ in 0..600 - lost {
            tally
                .times
                .record(ProbePart::Network, Duration::from_micros(120));
        }
        Summary::from(&tally)
    };
    ProbeStatus {
        pairs: 56,
        all: Some(summary(6)),
        worst: vec![PairStatus {
            from: "h0".to_owned(),
            to: "h4".to_owned(),
            summary: summary(0),
        }],
        coverage: Some(ProbeCoverage {
            directions: 48,
            wanted: 4,
            seldom: 9,
            seldom_hops: flow_imbalance().worst_over,
        }),
    }
}

fn running_change() -> RunningChange {
    RunningChange {
        generation: Generation(4),
        parent: Generation(3),
        phase: Phase::Applying,
        waiting_for: vec!["leaf0".to_owned()],
        reasons: vec![],
        stopped_by: None,
        age_ms: 900,
    }
}

fn flow_imbalance() -> FlowImbalance {
    FlowImbalance {
        mean_fim_percent: 50.0,
        worst_over: vec![to("leaf0", "spine0"), to("leaf0", "spine1")],
        worst: collision().imbalance,
    }
}

fn useless_pin() -> UselessPin {
    UselessPin {
        flow: flows()[0],
        hop: to("leaf0", "spine1"),
        because: Useless::WayDown {
            links: vec!["spine1-leaf1".to_owned()],
        },
    }
}

#[test]
fn unpinning_plan_is_shown() {
    let mut lifting = plan();
    lifting.moves.clear();
    lifting.predictions.clear();
    lifting.iterations.clear();
    lifting.report.findings = vec![Finding::UselessPin(useless_pin())];
    let expected = "Plan 4, made for generation 3 of the routes
  h0 > h4 is unpinned

Why
  h0 > h4 is pinned at leaf0 to spine1, and the path from there is blocked: spine1-leaf1 is down or drained

apply it with  reweave apply 4
";
    shows(
        |page| super::plan(page, Some(&lifting), &eight_hosts()),
        expected,
    );
}

const STATUS_TEXT: &str = "routes: generation 3 · mode: auto · agents: 1/3 up
alarm: leaf1 holds rules that differ from its instruction; check its agent
2 findings, the worst: lossy link: leaf0-spine1 from leaf0, 5041 of 5041 probes lost; see `reweave diagnose`
look at: agents connected but silent: leaf0
plan 4 is being applied, waiting for leaf0
no change in progress: h1 does not report

Agents
  1 up, 1 silent, 1 unseen; 5 of 6 ends of links known
  node   state   heard  links known  holds  clock off  certificate for
  h1     unseen      -       1 of 2      -          -                -
  leaf0  silent  4.0 s       2 of 2      3     -4.0 s             22 h

Not measured
  RDMA on h0, h1, h2, h3, h4 and 2 more: reweave-rdma is not installed

Links
  link            load                        rate          of        left  trouble
  leaf1 > spine1  down                      0 kb/s  200.0 Mb/s           -  down
  leaf0 > spine1  ····················      0 kb/s  200.0 Mb/s  200.0 Mb/s  lossy link
  leaf0 > spine0  ████████████████████  198.0 Mb/s  200.0 Mb/s    2.0 Mb/s  ECMP collision
  idle directions: 0

Flows
  flow          rate                   lately  over
  h0 > h4  99.0 Mb/s  98.0 Mb/s .. 100.0 Mb/s  leaf0 spine0, back leaf1 spine1 leaf0

Pins
  flow     goes
  h0 > h4  leaf0 > spine1
  h0 > h4 is pinned at leaf0 to spine1, and the path from there is blocked: spine1-leaf1 is down or drained

Flow imbalance
  mean 50 %; worst 100 % (floor 0 %) over leaf0 > spine0, leaf0 > spine1

Probes of the last minute
  hosts         probes  lost            loss  round trip     p99
  all 56 pairs     600     6  0.46 .. 2.16 %      120 us  120 us
  h0 > h4          600     0  0.00 .. 0.64 %      120 us  120 us
  9 of 48 directions of links are crossed by fewer than 4 flows of probes: leaf0 > spine0, leaf0 > spine1, ...

Bandwidth, by trains of packets in idle gaps
  hosts    over                    from port  bandwidth                                              95 %  trains  last
  h0 > h4  leaf0 > spine1 > leaf1       7432  99.0 Mb/s                           98.0 Mb/s .. 100.0 Mb/s       9  12 s
  h0 > h4  -                            7433  unknown: packets arrive in batches                        -       4  12 s

Over RDMA, the slowest first
  hosts    UD there and back  RC   writes at     lost  heard
  h0 > h4             3.3 us   -  196.0 Gb/s  1 of 20   12 s

Coordinators
  name  state   term  heard  build  clock off  certificate for  signer for
  c0    leads      4      -  0.1.0          -             16 h        23 d
  c3    learns     4  0.0 s  0.1.0    -60 min             16 h           -

Refused peers
  from      why                       times   last
  10.0.0.9  it showed no certificate      3  2.5 s

Join tokens
  for       made by  good for
  agent h7  ann         9 min

Revoked
  agent h3
";

/// Returns a collision, and a link that loses everything and so carries nothing.
fn found() -> Findings {
    let hop = to("leaf0", "spine1");
    let subject = Subject::Hop {
        from: hop.from,
        to: hop.to,
        link: hop.link,
    };
    let lost = "5041 of 5041 probes lost".to_owned();
    let lossy = Class::LossyLink.cause(subject, 1.0, lost);
    let collision = Finding::EcmpCollision(collision());
    Findings {
        generation: Generation(3),
        findings: vec![collision, Finding::Cause(lossy)],
        not_seen: NotSeen::default(),
    }
}

#[test]
fn status_shows_most_important_first() {
    shows(
        |page| {
            super::status(
                page,
                &status(),
                &found(),
                &eight_hosts(),
                Detail { all: false },
            );
        },
        STATUS_TEXT,
    );
}

#[test]
fn optical_switch_without_driver_is_shown() {
    let mut status = status();
    status.opticals = vec![OpticalStatus {
        optical: "ocs0".to_owned(),
        is_driven: false,
        circuits: CircuitSet::from_text("1-9,2-10").unwrap(),
    }];
    let mut page = Page::default();
    super::status(
        &mut page,
        &status,
        &found(),
        &eight_hosts(),
        Detail { all: false },
    );
    let expected = "
Optical switches
  switch  driver        circuits
  ocs0    is not there  1-9 2-10
";
    assert!(page.text.contains(expected), "{}", page.text);
}

/// In a cluster of thousands, healthy rows must not push trouble off the screen.
#[test]
fn large_status_shows_troubled_and_fastest() {
    let mut many = status();
    many.agents = vec![many.agents[0].clone(); 1000];
    many.agents[777] = AgentStatus {
        node: "h777".to_owned(),
        discarded_readings: 3,
        ..many.agents[0].clone()
    };
    let flow = |nth: u16| FlowStatus {
        rate_bits_per_s: mbps(u64::from(nth)),
        ..many.flows[0].clone()
    };
    many.flows = (0..500).map(flow).collect();
    many.lacks[0].nodes = (0..1000).map(|number| format!("h{number}")).collect();
    let lines = |all| {
        let mut page = Page::default();
        super::status(&mut page, &many, &found(), &eight_hosts(), Detail { all });
        page.text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let few = lines(false);
    assert!(few.len() < 86, "{}", few.join("\n"));
    let has = |lines: &[String], words: &str| lines.iter().any(|line| line.contains(words));
    assert!(has(&few, "1000 up; all ends of links known"));
    assert!(has(&few, "h777"));
    assert!(has(&few, "499.0 Mb/s") && !has(&few, "12.0 Mb/s"));
    assert!(has(&few, "and 480 more; `reweave status --all` shows them"));
    let all = lines(true);
    assert!(all.len() > 1500 && !has(&all, "more;"));
    let remedy = "    to enable it: install it";
    assert!(has(&all, remedy) && !has(&few, remedy));
    assert!(has(&few, "RDMA on h0, h1, h2, h3, h4 and 995 more: "));
    assert!(has(&all, ", h998, h999: "));
}
