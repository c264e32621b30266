//! A switch whose routes FRR makes, configured by the agent: they are followed by packets, read back from the kernel,
//! replaced and never withdrawn; and what the user has configured stays.

use std::net::Ipv4Addr;
use std::time::Instant;

use nix::sys::signal::Signal;
use reweave_agent::agent::Agent;
use reweave_agent::netlink::RouteSocket;
use reweave_agent::role::Role;
use reweave_agent::switch::{RedisError, RoutesBy, Software, Switch, SwitchError, VtyshError};
use reweave_agent_core::probe::ProbeMark;
use reweave_common::error::error_chain;
use reweave_common::forwarding_state::{ForwardingState, RouteHop, RouteRule};
use reweave_common::hardware::Lack;
use reweave_common::instruction::{Install, InstallRefusal, Token};
use reweave_common::plan::Generation;
use reweave_common::sample::{HostReading, Reading};
use tempfile::TempDir;

use crate::fabric::{Fabric, host, ip_in, pin, spine_at, spine_of, wait_for, within};
use crate::frr::{FRR_STATE_PATH, Frr, tell, vtysh};
use crate::pins::moved_over;
use crate::routes::{Monitor, hop, route};
use crate::start::only;
use crate::tests;
use crate::traffic::Session;

tests! {
    packets_follow_frr_routes needs "vtysh",
    frr_replace_never_withdraws needs "vtysh",
    frr_takes_table_of_thousand_hosts needs "vtysh",
    refused_frr_route_changes_nothing needs "vtysh",
    hanging_daemon_times_out needs "vtysh",
    frr_pin_would_move_other_flows needs "vtysh",
    agent_follows_and_repairs_via_frr needs "vtysh",
}

const TRANSFER_BYTES: usize = 1 << 20;

pub(crate) fn by_frr() -> Software {
    Software {
        routes_by: RoutesBy::Frr,
        vty: Some(FRR_STATE_PATH.into()),
        config_db: None,
    }
}

pub(crate) fn of_routes(routes: &[RouteRule]) -> ForwardingState {
    ForwardingState {
        rules: vec![],
        routes: routes.to_vec(),
    }
}

/// Makes leaf 0 hold this; returns what it holds then.
pub(crate) fn hold(
    software: &Software,
    desired: &ForwardingState,
) -> Result<ForwardingState, SwitchError> {
    within("leaf0", || {
        let mut kernel = RouteSocket::open()?;
        let mut switch = Switch::new(software);
        switch.hold_all(&mut kernel, desired)?;
        Ok(switch.holding(&mut kernel)?.in_order())
    })
}

/// Makes leaf 0 hold this in the end; returns what it holds then. On a busy machine software may take longer than an
/// agent waits for it, which then tells it again, as this does.
pub(crate) fn taken(software: &Software, desired: &ForwardingState) -> ForwardingState {
    wait_for("the software to take it", || {
        match hold(software, desired) {
            Err(SwitchError::NotInTheKernel { .. }) => None,
            Err(error) if says_nothing(&error) => None,
            held => Some(held.expect("it can be had")),
        }
    })
}

/// Why leaf 0 cannot hold this, once the software says something.
pub(crate) fn refused_by(software: &Software, desired: &ForwardingState) -> String {
    wait_for("the software to say why", || {
        let error = hold(software, desired).expect_err("it cannot be had");
        (!says_nothing(&error)).then(|| error_chain(&error))
    })
}

/// The software, in the time that it has.
fn says_nothing(error: &SwitchError) -> bool {
    matches!(
        error,
        SwitchError::Frr(VtyshError::Hangs { .. }) | SwitchError::Sonic(RedisError::Line(_))
    )
}

fn configuration() -> String {
    let printed = vtysh(&["show running-config"]).stdout;
    String::from_utf8(printed).expect("text")
}

/// The main table's, of a host.
fn routes_to(number: usize) -> String {
    ip_in("leaf0", &["route", "show", &format!("{}/32", host(number))])
}

/// A way to a host of the other leaf that is the user's own, and others.
fn configure_user() {
    let [first, second] = [0, 1].map(|spine| spine_at(0, spine));
    tell(&[
        &format!("ip route {}/32 {second}", host(3)),
        &format!("ip route {}/32 {second} 20", host(2)),
        &format!("ip route 10.88.0.0/16 {first}"),
    ]);
    wait_for("FRR's own", || {
        routes_to(3).contains("proto static").then_some(())
    });
}

fn packets_follow_frr_routes() {
    let _fabric = Fabric::new();
    let _frr = Frr::start();
    configure_user();
    let before = configuration();
    let mut session = Session::new(0, 2);
    for spine in [0, 1, 0] {
        let wanted = of_routes(&[route(host(2), &[hop(spine, 1)])]);
        assert_eq!(taken(&by_frr(), &wanted), wanted);
        assert!(routes_to(2).contains("proto static"), "{}", routes_to(2));
        let moved = moved_over(|| session.transfer(TRANSFER_BYTES));
        let [by_route, by_other] = [moved[usize::from(spine)], moved[1 - usize::from(spine)]];
        assert!(
            by_route > TRANSFER_BYTES as u64 && by_other < 1000,
            "{moved:?}"
        );
    }
    let mut both = of_routes(&[route(host(2), &[hop(0, 1), hop(1, 1)])]);
    both.routes.insert(0, attached());
    assert_eq!(taken(&by_frr(), &both), both, "and both ways");
    let nothing = ForwardingState::default();
    assert_eq!(taken(&by_frr(), &nothing), nothing, "and drops them");
    assert_eq!(configuration(), before);
    // Of another distance, it was only hidden.
    wait_for("what is the user's own", || {
        let shown = routes_to(2);
        let by_user = format!("via {} dev up1", spine_at(0, 1));
        (shown.lines().count() == 1 && shown.contains(&by_user)).then_some(())
    });
}

fn frr_replace_never_withdraws() {
    let _fabric = Fabric::new();
    let _frr = Frr::start();
    never_withdrawn(&by_frr());
}

/// The host itself is the next hop then.
pub(crate) fn attached() -> RouteRule {
    let hop = RouteHop {
        interface: "swp1".to_owned(),
        next_hop: host(1),
        weight: 1,
    };
    route(host(1), &[hop])
}

/// Sends leaf 0 from table to table, and hears from its kernel that nothing that stays ever goes.
pub(crate) fn never_withdrawn(software: &Software) {
    let ways: [&[RouteHop]; 3] = [&[hop(0, 1)], &[hop(1, 1)], &[hop(0, 1), hop(1, 1)]];
    let table = |turn: usize| {
        let way = |at: usize| ways[(turn + at) % 3];
        of_routes(&[route(host(2), way(0)), route(host(3), way(1))])
    };
    taken(software, &table(0));
    let monitor = Monitor::start();
    for turn in 1..=12 {
        assert_eq!(taken(software, &table(turn)), table(turn));
    }
    let said = monitor.until_said("172.31.0.2");
    let of = |start: &str| said.iter().filter(|line| line.starts_with(start)).count();
    assert!(of("10.1.") >= 20, "{said:#?}");
    assert_eq!(of("Deleted 10.1."), 0, "{said:#?}");
}

/// Sent line by line, it would take FRR many seconds, each time; a machine that is busy for a moment makes it late
/// once.
fn frr_takes_table_of_thousand_hosts() {
    let _fabric = Fabric::new();
    let _frr = Frr::start();
    let table = |hops: &[RouteHop]| {
        let host = |number: u16| {
            let [high, low] = number.to_be_bytes();
            route(Ipv4Addr::new(10, 77, high, low), hops)
        };
        of_routes(&(0..1000).map(host).collect::<Vec<_>>())
    };
    let both = table(&[hop(0, 1), hop(1, 1)]);
    let tables = [both, table(&[hop(1, 1)]), ForwardingState::default()];
    let are_had = (0..5).any(|_| {
        let are_had = tables.iter().all(is_had_in_time);
        taken(&by_frr(), &ForwardingState::default());
        are_had
    });
    assert!(are_had, "each time FRR takes too long");
}

fn is_had_in_time(wanted: &ForwardingState) -> bool {
    let began = Instant::now();
    let held = hold(&by_frr(), wanted);
    println!("{} routes: {:?}", wanted.len(), began.elapsed());
    match held {
        Err(SwitchError::NotInTheKernel { .. }) => false,
        Err(error) if says_nothing(&error) => false,
        held => {
            assert_eq!(&held.expect("FRR takes it"), wanted);
            true
        }
    }
}

fn refused_frr_route_changes_nothing() {
    let _fabric = Fabric::new();
    let _frr = Frr::start();
    configure_user();
    let held = of_routes(&[route(host(2), &[hop(0, 1)])]);
    taken(&by_frr(), &held);
    let before = configuration();
    let refused = |routes: &[RouteRule]| refused_by(&by_frr(), &of_routes(routes));
    let version = String::from_utf8(vtysh(&["show version"]).stdout).expect("text");
    let version = version.split(" (").next().expect("a version");
    assert!(version.starts_with("FRRouting "), "{version}");
    let words = refused(&[route(host(2), &[hop(0, 3), hop(1, 1)])]);
    assert!(words.starts_with(version), "{words}");
    assert!(
        words.contains("it supports only routes without weights"),
        "{words}"
    );
    let words = refused(&[route(host(3), &[hop(0, 1)])]);
    assert!(words.contains("a foreign route to 10.1.1.1"), "{words}");
    let mut nowhere = hop(0, 1);
    nowhere.interface = "up7".into();
    assert_eq!(refused(&[route(host(2), &[nowhere])]), "no interface up7");
    // FRR takes it and keeps it to itself.
    let own = [
        "route",
        "add",
        "10.1.0.1/32",
        "via",
        "172.16.1.1",
        "metric",
        "0",
    ];
    taken(&by_frr(), &ForwardingState::default());
    ip_in("leaf0", &own);
    let words = refused(&[route(host(2), &[hop(0, 1)])]);
    assert!(
        words.contains("the kernel's route to 10.1.0.1 differs"),
        "{words}"
    );
    ip_in("leaf0", &["route", "del", "10.1.0.1/32", "proto", "boot"]);
    taken(&by_frr(), &held);
    assert_eq!(configuration(), before);
}

fn hanging_daemon_times_out() {
    let _fabric = Fabric::new();
    let _frr = Frr::start();
    let wanted = of_routes(&[route(host(2), &[hop(0, 1)])]);
    Frr::signal("staticd", Signal::SIGSTOP);
    let words = error_chain(&hold(&by_frr(), &wanted).expect_err("FRR does not answer"));
    assert!(words.contains("vtysh still runs after 2s"), "{words}");
    Frr::signal("staticd", Signal::SIGCONT);
    assert_eq!(taken(&by_frr(), &wanted), wanted, "it goes on");
}

/// Why pins are the kernel's own: FRR takes the ports of a rule, says that it is installed, and has left them
/// away.
fn frr_pin_would_move_other_flows() {
    let _fabric = Fabric::new();
    let _frr = Frr::start_with(&["zebra", "staticd", "pbrd"]);
    let spine = format!("set nexthop {} up0", spine_at(0, 0));
    let (from, to) = (format!("{}/32", host(0)), format!("{}/32", host(2)));
    tell(&[
        "pbr-map trap seq 1",
        &format!("match src-ip {from}"),
        &format!("match dst-ip {to}"),
        "match ip-protocol tcp",
        "match src-port 40000",
        "match dst-port 5001",
        &spine,
        "exit",
        "interface swp0",
        "pbr-policy trap",
    ]);
    let rule = wait_for("FRR's rule", || {
        let rules = ip_in("leaf0", &["rule"]);
        let ours = rules.lines().find(|line| line.contains("10.1.0.1"));
        ours.map(str::to_owned)
    });
    assert!(
        rule.contains("ipproto tcp") && !rule.contains("40000"),
        "{rule}"
    );
    // It hears a moment after the kernel has it.
    let shown = wait_for("what it says of that", || {
        let shown = String::from_utf8(vtysh(&["show pbr map trap"]).stdout).expect("text");
        shown.contains("Installed: yes").then_some(shown)
    });
    assert!(shown.contains("40000"), "{shown}");
}

pub(crate) fn install(generation: u64, holding: &ForwardingState) -> Install {
    Install {
        generation: Generation(generation),
        token: Token(generation),
        holding: holding.clone(),
    }
}

fn start(scratch: &TempDir) -> Agent {
    within("leaf0", || {
        Agent::start(Role::Switch, &by_frr(), scratch.path(), ProbeMark(7))
            .expect("the agent starts")
    })
}

/// What the agent answers, once the software is not later than it waits for it.
fn install_in_time(
    agent: &mut Agent,
    generations: &mut impl Iterator<Item = u64>,
    holding: &ForwardingState,
) -> Result<ForwardingState, InstallRefusal> {
    wait_for("an answer of the software", || {
        let generation = generations.next().expect("without end");
        let instruction = install(generation, holding);
        let outcome = only(within("leaf0", || agent.install(instruction))).outcome;
        let is_late =
            matches!(&outcome, Err(InstallRefusal::Kernel { error }) if speaks_of_lateness(error));
        (!is_late).then_some(outcome)
    })
}

/// Of software that took longer than it was waited for.
pub(crate) fn speaks_of_lateness(words: &str) -> bool {
    let late = ["still runs after", "it accepted the routes, but after"];
    late.iter().any(|late| words.contains(late))
}

/// What a sample says of what is held.
fn held_state(agent: &mut Agent) -> ForwardingState {
    let readings = within("leaf0", || agent.sample().readings).into_iter();
    let mut held = readings.filter_map(|reading| match reading {
        Reading::Holds { holding, .. } => Some(holding.in_order()),
        _ => None,
    });
    held.next().expect("a switch tells of what it holds")
}

/// The reason, as operators read it, why the agent cannot send routes to FRR.
fn lack(agent: &mut Agent) -> Option<Lack> {
    let readings = within("leaf0", || agent.sample().readings).into_iter();
    let mut lacks = readings.filter_map(|reading| match reading {
        Reading::Host(HostReading::Lack(lack)) => Some(lack),
        _ => None,
    });
    lacks.find(|lack| lack.measurement.starts_with("routes by"))
}

fn agent_follows_and_repairs_via_frr() {
    let _fabric = Fabric::new();
    let frr = Frr::start();
    configure_user();
    // Of an earlier life.
    let leftover = of_routes(&[route(host(2), &[hop(1, 1)])]);
    taken(&by_frr(), &leftover);
    let before = configuration();
    let scratch = tempfile::tempdir().expect("a folder");
    let mut agent = start(&scratch);
    assert!(configuration().len() < before.len(), "{}", configuration());
    let session = Session::new(0, 2);
    let mut wanted = of_routes(&[route(host(2), &[hop(0, 1)])]);
    wanted.rules = vec![pin(session.flow, 1)];
    let mut generations = 1..;
    assert_eq!(
        install_in_time(&mut agent, &mut generations, &wanted),
        Ok(wanted.clone())
    );
    assert_eq!(spine_of(&session.flow), 1);
    let heavy = of_routes(&[route(host(2), &[hop(0, 2), hop(1, 1)])]);
    let outcome = install_in_time(&mut agent, &mut generations, &heavy);
    assert!(
        matches!(outcome, Err(InstallRefusal::Kernel { .. })),
        "{outcome:?}"
    );
    assert_eq!(held_state(&mut agent), wanted);
    tell(&[&format!(
        "no ip route {}/32 {} up0 onlink",
        host(2),
        spine_at(0, 0)
    )]);
    // FRR goes its own way, of another distance, a little after it has answered.
    wait_for("what FRR does instead", || {
        routes_to(2).contains("dev up1").then_some(())
    });
    wait_for("what is put back", || {
        (held_state(&mut agent) == wanted).then_some(())
    });
    Frr::signal("zebra", Signal::SIGKILL);
    assert_eq!(held_state(&mut agent), wanted, "the kernel keeps it");
    drop(frr);
    // As it does when it starts.
    ip_in("leaf0", &["route", "del", "10.1.0.1/32"]);
    wait_for("what is amiss", || {
        lack(&mut agent).filter(|it| it.because.contains("failed to connect"))
    });
    let _frr = Frr::start();
    wait_for("what is sent again", || {
        (held_state(&mut agent) == wanted && lack(&mut agent).is_none()).then_some(())
    });
}
