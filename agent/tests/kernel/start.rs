//! How an agent starts, what it follows and what it refuses, on a leaf.

use std::net::Ipv4Addr;
use std::time::Instant;

use reweave_agent::agent::Agent;
use reweave_agent::error::AgentError;
use reweave_agent::role::Role;
use reweave_agent::switch::Software;
use reweave_agent_core::probe::ProbeMark;
use reweave_common::forwarding_state::{ForwardingState, RouteHop, RouteRule};
use reweave_common::instruction::{Ack, Install, InstallRefusal, Token};
use reweave_common::plan::Generation;
use reweave_common::sample::{PinRule, Reading};
use tempfile::TempDir;

use crate::fabric::{Fabric, host, ip_in, leaf_of, pin, some_flow, spine_of, wait_for, within};
use crate::pins::{hold, moved_over, tables};
use crate::routes::{hop, route};
use crate::tests;
use crate::traffic::{Datagrams, Session};

tests! {
    only_leftovers_are_cleared,
    restart_keeps_state_in_force,
    kernel_decides_role,
    instruction_is_followed_and_acknowledged,
    older_and_contradicting_instructions_are_refused,
    kernel_refusal_keeps_old_pins,
    dead_pin_is_lifted_until_recovery,
    install_leaves_out_dead_interface,
    removed_pins_are_restored,
}

fn start(node: &str, role: Role, scratch: &TempDir) -> Result<Agent, AgentError> {
    let software = Software::default();
    within(node, || {
        Agent::start(role, &software, scratch.path(), ProbeMark(7))
    })
}

fn start_leaf(scratch: &TempDir) -> Agent {
    start("leaf0", Role::Switch, scratch).expect("the agent starts")
}

fn install(generation: u64, token: u64, rules: &[PinRule]) -> Install {
    Install {
        generation: Generation(generation),
        token: Token(token),
        holding: ForwardingState::of_pins(rules.to_vec()),
    }
}

pub(crate) fn only(acks: Vec<Ack>) -> Ack {
    <[Ack; 1]>::try_from(acks)
        .map(|[ack]| ack)
        .expect("one answer")
}

/// What a sample says of pins and routes.
fn held(agent: &mut Agent) -> (u64, ForwardingState) {
    let reports = agent
        .sample()
        .readings
        .into_iter()
        .find_map(|reading| match reading {
            Reading::Holds {
                generation,
                holding,
            } => Some((generation.0, holding)),
            _ => None,
        });
    reports.expect("a switch tells of its pins")
}

fn pinned(agent: &mut Agent) -> (u64, Vec<PinRule>) {
    let (generation, holding) = held(agent);
    (generation, holding.rules)
}

fn only_leftovers_are_cleared() {
    let _fabric = Fabric::new();
    let foreign = [
        "rule", "add", "from", "10.9.9.9", "lookup", "77", "protocol", "99", "priority", "21300",
    ];
    ip_in("leaf0", &foreign);
    ip_in(
        "leaf0",
        &[
            "route",
            "add",
            "10.7.0.0/16",
            "via",
            "172.16.0.1",
            "table",
            "21305",
            "protocol",
            "99",
        ],
    );
    let foreign = tables();
    // Pins of an earlier life, one without its table, one that is no pin, and a lone route.
    hold(&[pin(some_flow(1), 0), pin(some_flow(2), 1)]).expect("the kernel takes them");
    ip_in("leaf0", &["route", "flush", "table", "21301"]);
    ip_in(
        "leaf0",
        &[
            "rule", "add", "from", "10.0.0.1", "lookup", "21300", "protocol", "213",
        ],
    );
    ip_in(
        "leaf0",
        &[
            "route",
            "add",
            "10.8.0.0/16",
            "via",
            "172.16.0.1",
            "protocol",
            "213",
        ],
    );
    let scratch = tempfile::tempdir().expect("a folder");
    let mut agent = start_leaf(&scratch);
    assert_eq!(tables(), foreign);
    assert_eq!(pinned(&mut agent), (0, vec![]));
}

fn restart_keeps_state_in_force() {
    let _fabric = Fabric::new();
    let scratch = tempfile::tempdir().expect("a folder");
    let datagrams = Datagrams::start(0, 2);
    let rule = pin(datagrams.flow, 1 - spine_of(&datagrams.flow));
    let mut agent = start_leaf(&scratch);
    let rules = [rule.clone()];
    assert!(only(agent.install(install(4, 40, &rules))).outcome.is_ok());
    for _ in 0..20 {
        drop(agent);
        agent = start_leaf(&scratch);
        assert_eq!(pinned(&mut agent), (4, rules.to_vec()));
    }
    drop(agent);
    // Packets stay on the pinned path while no coordinator is there, and after a reboot cleared the
    // kernel.
    let other = usize::from(rule.interface == "up0");
    assert!(moved_over(|| Session::new(1, 3).transfer(1000))[other] < 100_000);
    hold(&[]).expect("the kernel drops it");
    let mut agent = start_leaf(&scratch);
    assert_eq!(pinned(&mut agent), (4, rules.to_vec()));
    let older = only(agent.install(install(3, 41, &[])));
    assert_eq!(
        older.outcome,
        Err(InstallRefusal::Older {
            held: Generation(4),
            token: Token(40),
        })
    );
    let (sent, arrived) = datagrams.finish();
    assert_eq!(arrived, sent);
}

fn kernel_decides_role() {
    let _fabric = Fabric::new();
    let role = |node| within(node, Role::detect).expect("the kernel tells");
    assert_eq!((role("h0"), role("leaf0")), (Role::Host, Role::Switch));
    let scratch = tempfile::tempdir().expect("a folder");
    let mut agent = start("h0", Role::Host, &scratch).expect("the agent starts");
    let ack = only(agent.install(install(1, 1, &[pin(some_flow(1), 0)])));
    assert_eq!(
        ack.outcome,
        Err(InstallRefusal::NotASwitch),
        "it pins no flows"
    );
    let hops = vec![RouteHop {
        interface: "eth0".to_owned(),
        next_hop: leaf_of(0),
        weight: 1,
    }];
    let destination = host(2);
    let routes = vec![RouteRule { destination, hops }];
    let mut instruction = install(2, 2, &[]);
    instruction.holding.routes = routes;
    let ack = only(agent.install(instruction.clone()));
    assert_eq!(
        ack.outcome,
        Ok(instruction.holding),
        "and holds routes of its own"
    );
}

fn instruction_is_followed_and_acknowledged() {
    let _fabric = Fabric::new();
    let scratch = tempfile::tempdir().expect("a folder");
    let mut agent = start_leaf(&scratch);
    let rules: Vec<_> = (0..16)
        .map(|port| pin(some_flow(40_000 + port), (port % 2) as u8))
        .collect();
    let mut took = vec![];
    for generation in 1..=20 {
        // Every second time all flows change sides.
        let turned = |rule: &PinRule| {
            pin(
                rule.flow,
                u8::from((rule.interface == "up0") == (generation % 2 == 0)),
            )
        };
        let rules: Vec<_> = rules.iter().map(turned).collect();
        let begun = Instant::now();
        let ack = only(agent.install(install(generation, generation, &rules)));
        took.push(begun.elapsed());
        assert_eq!(
            ack,
            Ack {
                generation: Generation(generation),
                token: Token(generation),
                outcome: Ok(ForwardingState::of_pins(rules.clone())),
            }
        );
        assert_eq!(pinned(&mut agent), (generation, rules));
    }
    took.sort();
    eprintln!(
        "16 pins installed, read back and noted in {:?} (median), {:?} (most)",
        took[10], took[19]
    );
}

fn older_and_contradicting_instructions_are_refused() {
    let _fabric = Fabric::new();
    let scratch = tempfile::tempdir().expect("a folder");
    let mut agent = start_leaf(&scratch);
    let rules = [pin(some_flow(1), 0)];
    let first = only(agent.install(install(5, 50, &rules)));
    let (held, token) = (Generation(5), Token(50));
    let older = Err(InstallRefusal::Older { held, token });
    let mut outcome = |install| only(agent.install(install)).outcome;
    assert_eq!(outcome(install(4, 60, &[])), older);
    assert_eq!(outcome(install(6, 49, &[])), older);
    assert_eq!(
        outcome(install(5, 51, &[])),
        Err(InstallRefusal::DifferentContent { held, token })
    );
    assert_eq!(outcome(install(5, 50, &rules)), first.outcome);
    assert_eq!(pinned(&mut agent), (5, rules.to_vec()));
}

fn kernel_refusal_keeps_old_pins() {
    let _fabric = Fabric::new();
    let scratch = tempfile::tempdir().expect("a folder");
    let mut agent = start_leaf(&scratch);
    let old = [pin(some_flow(1), 0), pin(some_flow(2), 1)];
    assert!(only(agent.install(install(1, 1, &old))).outcome.is_ok());
    let before = tables();
    let mut unreachable = pin(some_flow(9), 1);
    unreachable.next_hop = "192.0.2.1".parse().expect("an address");
    let mut nowhere = pin(some_flow(9), 1);
    nowhere.interface = "eth7".into();
    for (generation, bad, why) in [
        (2, unreachable, "invalid gateway"),
        (3, nowhere, "no interface eth7"),
    ] {
        // One that can be had comes first, so that there is something to undo.
        let rules = [pin(some_flow(1), 1), bad];
        let ack = only(agent.install(install(generation, generation, &rules)));
        let Err(InstallRefusal::Kernel { error }) = ack.outcome else {
            panic!("{ack:?}");
        };
        assert!(error.contains(why), "{error}");
        assert_eq!(tables(), before);
        assert_eq!(pinned(&mut agent), (1, old.to_vec()));
    }
}

fn dead_pin_is_lifted_until_recovery() {
    let _fabric = Fabric::new();
    let scratch = tempfile::tempdir().expect("a folder");
    let mut agent = start_leaf(&scratch);
    let rules = [pin(some_flow(1), 0), pin(some_flow(2), 1)];
    assert!(only(agent.install(install(1, 1, &rules))).outcome.is_ok());
    for dies in [("leaf0", "up0"), ("spine0", "down0")] {
        ip_in(dies.0, &["link", "set", dies.1, "down"]);
        wait_for("the pin to be lifted", || {
            (pinned(&mut agent).1 == rules[1..]).then_some(())
        });
        // The kernel takes a dead next hop out of a route a moment after it
        // tells that the link is dead.
        wait_for("the routes that are left to be followed", || {
            (spine_of(&some_flow(1)) == 1).then_some(())
        });
        ip_in(dies.0, &["link", "set", dies.1, "up"]);
        wait_for("the pin to come back", || {
            (pinned(&mut agent).1 == rules).then_some(())
        });
        assert_eq!(spine_of(&some_flow(1)), 0);
    }
}

/// The rest is installed, and what is missing once the interface is up. A refused instruction restores as much.
fn install_leaves_out_dead_interface() {
    let _fabric = Fabric::new();
    let scratch = tempfile::tempdir().expect("a folder");
    let mut agent = start_leaf(&scratch);
    let before = [pin(some_flow(1), 0), pin(some_flow(2), 1)];
    assert!(only(agent.install(install(1, 1, &before))).outcome.is_ok());
    ip_in("leaf0", &["link", "set", "up1", "down"]);
    let [both, lone] = [1, 2].map(|last| Ipv4Addr::new(10, 77, 0, last));
    let whole = ForwardingState {
        rules: vec![pin(some_flow(2), 1), pin(some_flow(3), 0)],
        routes: vec![
            route(both, &[hop(0, 1), hop(1, 1)]),
            route(lone, &[hop(1, 1)]),
        ],
    }
    .in_order();
    let part = ForwardingState {
        rules: vec![pin(some_flow(3), 0)],
        routes: vec![route(both, &[hop(0, 1)])],
    };
    let follows = Install {
        holding: whole.clone(),
        ..install(2, 2, &[])
    };
    let ack = only(agent.install(follows));
    assert_eq!(ack.outcome.as_ref(), Ok(&whole));
    assert_eq!(held(&mut agent), (2, part.clone()));
    let mut nowhere = pin(some_flow(9), 0);
    nowhere.interface = "eth7".into();
    let ack = only(agent.install(install(3, 3, &[nowhere])));
    assert!(
        matches!(&ack.outcome, Err(InstallRefusal::Kernel { .. })),
        "{ack:?}"
    );
    assert_eq!(held(&mut agent), (2, part));
    ip_in("leaf0", &["link", "set", "up1", "up"]);
    wait_for("all to be held", || {
        held(&mut agent).1.is_same_as(&whole).then_some(())
    });
}

fn removed_pins_are_restored() {
    let _fabric = Fabric::new();
    let scratch = tempfile::tempdir().expect("a folder");
    let mut agent = start_leaf(&scratch);
    let rules = [pin(some_flow(1), 0), pin(some_flow(2), 1)];
    assert!(only(agent.install(install(1, 1, &rules))).outcome.is_ok());
    let whole = tables();
    let ours = ["rule", "del", "priority", "21300"];
    for harm in [&ours[..], &["route", "flush", "table", "21301"]] {
        ip_in("leaf0", harm);
        assert_ne!(tables(), whole);
        assert_eq!(pinned(&mut agent), (1, rules.to_vec()));
        wait_for("all to be whole again", || {
            (tables().len() == whole.len()).then_some(())
        });
    }
}
