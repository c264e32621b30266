//! Routes in a kernel: what is asked for is held, read back and followed by packets, what changes is
//! replaced and never withdrawn, and nothing of it is left when it should go.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use reweave_agent::netlink::{RouteError, RouteSocket};
use reweave_common::error::error_chain;
use reweave_common::forwarding_state::{RouteHop, RouteRule};

use crate::fabric::{Fabric, TEST_TIMEOUT, host, ip_in, leaf_at, pin, some_flow, spine_at, within};
use crate::pins::{self, moved_over};
use crate::tests;
use crate::traffic::Session;

tests! {
    routes_read_back_as_requested,
    packets_follow_routes,
    kept_route_is_replaced_not_withdrawn,
    drain_is_one_group_change,
    removing_last_route_leaves_nothing,
    impossible_route_is_explained,
    leftovers_are_removed_foreign_routes_stay,
    taken_nexthop_ids_are_avoided,
    many_new_nexthops_are_held,
    pins_and_routes_do_not_meet,
}

pub(crate) fn hop(spine: u8, weight: u32) -> RouteHop {
    RouteHop {
        interface: format!("up{spine}"),
        next_hop: spine_at(0, spine),
        weight,
    }
}

pub(crate) fn route(destination: Ipv4Addr, hops: &[RouteHop]) -> RouteRule {
    RouteRule {
        destination,
        hops: hops.to_vec(),
    }
}

/// Makes leaf 0 hold these routes; returns what it holds then.
pub(crate) fn hold(routes: &[RouteRule]) -> Result<Vec<RouteRule>, RouteError> {
    within("leaf0", || {
        let mut route = RouteSocket::open()?;
        route.hold_routes(routes)?;
        let held = route.routes()?;
        assert!(held.is_tidy(), "{held:?}");
        Ok(held.rules())
    })
}

fn routes_read_back_as_requested() {
    let _fabric = Fabric::new();
    let mut routes: Vec<_> = (0..200)
        .map(|last| {
            let heavy = hop(last % 2, 200);
            let light = hop(1 - last % 2, 1 + u32::from(last) % 3);
            let mut hops = vec![heavy, light];
            hops.sort();
            route(Ipv4Addr::new(10, 77, 0, last), &hops)
        })
        .collect();
    assert_eq!(hold(&routes).expect("the kernel takes them"), routes);
    let listed = ip_in("leaf0", &["nexthop", "list"]);
    let groups = listed.lines().filter(|line| line.contains("group"));
    assert_eq!(groups.count(), 6, "{listed}");
    let resilient = listed
        .lines()
        .filter(|line| line.contains("type resilient"));
    assert_eq!(resilient.count(), 6, "{listed}");
    routes.truncate(3);
    assert_eq!(hold(&routes).expect("the kernel drops the others"), routes);
}

fn packets_follow_routes() {
    let _fabric = Fabric::new();
    let mut session = Session::new(0, 2);
    for spine in [0, 1, 0] {
        hold(&[route(host(2), &[hop(spine, 1)])]).expect("the kernel takes it");
        let moved = moved_over(|| session.transfer(TRANSFER_BYTES));
        let [by_route, by_other] = [moved[usize::from(spine)], moved[1 - usize::from(spine)]];
        assert!(by_route > TRANSFER_BYTES as u64, "{moved:?}");
        assert!(by_other < 1000, "{moved:?}");
    }
}

const TRANSFER_BYTES: usize = 4 << 20;

/// What the kernel of leaf 0 says of its routes and next hops as they change.
pub(crate) struct Monitor {
    child: Child,
    lines: Receiver<String>,
}

impl Monitor {
    pub(crate) fn start() -> Self {
        let mut ip = Command::new("ip");
        ip.args(["-n", "leaf0", "-o", "monitor", "nexthop", "route"]);
        let mut child = ip.stdout(Stdio::piped()).spawn().expect("ip starts");
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let (tell, lines) = channel();
        thread::spawn(move || {
            output
                .lines()
                .map_while(Result::ok)
                .try_for_each(|it| tell.send(it))
        });
        let monitor = Self { child, lines };
        monitor.until_said("172.31.0.1");
        monitor
    }

    /// All that was said before a change to a route of this name; makes that change until it is
    /// heard, as it is unknown when the monitor listens.
    pub(crate) fn until_said(&self, name: &str) -> Vec<String> {
        let mut said = vec![];
        let deadline = std::time::Instant::now() + TEST_TIMEOUT;
        let pause = std::time::Duration::from_millis(50);
        while std::time::Instant::now() < deadline {
            ip_in("leaf0", &["route", "replace", "unreachable", name]);
            ip_in("leaf0", &["route", "del", "unreachable", name]);
            while let Ok(line) = self.lines.recv_timeout(pause) {
                if line.contains(name) {
                    return said;
                }
                if !line.contains("172.31.0.1") {
                    said.push(line);
                }
            }
        }
        panic!("the monitor says nothing of {name}");
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn kept_route_is_replaced_not_withdrawn() {
    let _fabric = Fabric::new();
    let both = [hop(0, 1), hop(1, 1)];
    let [a, b, c] = [1, 2, 3].map(|last| Ipv4Addr::new(10, 77, 0, last));
    let tables = [
        vec![route(a, &both), route(b, &both), route(c, &both)],
        vec![route(a, &both[..1]), route(b, &both[1..]), route(c, &both)],
        vec![
            route(a, &both[1..]),
            route(b, &both[..1]),
            route(c, &both[1..]),
        ],
        vec![route(a, &both), route(b, &both[1..]), route(c, &both[..1])],
        vec![
            route(a, &both[..1]),
            route(b, &both[..1]),
            route(c, &both[..1]),
        ],
    ];
    hold(&tables[0]).expect("the kernel takes them");
    let monitor = Monitor::start();
    for table in tables.iter().cycle().skip(1).take(20) {
        assert_eq!(&hold(table).expect("the kernel takes them"), table);
    }
    let said = monitor.until_said("172.31.0.2");
    assert!(said.len() >= 20, "{said:#?}");
    let withdrawn: Vec<_> = said
        .iter()
        .filter(|line| line.starts_with("Deleted 10.77."))
        .collect();
    assert!(withdrawn.is_empty(), "{withdrawn:#?} of {said:#?}");
}

fn drain_is_one_group_change() {
    let _fabric = Fabric::new();
    let table = |hops: &[RouteHop]| -> Vec<_> {
        (0..100)
            .map(|last| route(Ipv4Addr::new(10, 77, 0, last), hops))
            .collect()
    };
    // Otherwise the kernel also announces each route when the group under it changes.
    let only_asked = "/proc/sys/net/ipv4/nexthop_compat_mode";
    within("leaf0", || fs::write(only_asked, "0")).expect("it can be set");
    hold(&table(&[hop(0, 1), hop(1, 1)])).expect("the kernel takes them");
    let monitor = Monitor::start();
    hold(&table(&[hop(1, 1)])).expect("the kernel takes them");
    let said = monitor.until_said("172.31.0.2");
    let of_routes = said.iter().filter(|line| line.contains("10.77."));
    assert_eq!(of_routes.count(), 0, "{said:#?}");
    let flips = said.iter().filter(|line| line.contains(" group "));
    assert_eq!(flips.count(), 1, "{said:#?}");
}

fn everything() -> String {
    pins::tables() + &ip_in("leaf0", &["nexthop", "list"])
}

fn removing_last_route_leaves_nothing() {
    let _fabric = Fabric::new();
    let nothing = everything();
    hold(&[route(host(2), &[hop(0, 1)]), route(host(3), &[hop(1, 1)])]).expect("it takes them");
    assert_ne!(everything(), nothing);
    assert_eq!(hold(&[]).expect("and drops them"), []);
    assert_eq!(everything(), nothing);
}

fn impossible_route_is_explained() {
    let _fabric = Fabric::new();
    let refused = |hops: &[RouteHop]| {
        error_chain(&hold(&[route(host(2), hops)]).expect_err("the kernel cannot take it"))
    };
    let mut nowhere = hop(0, 1);
    nowhere.interface = "up7".into();
    assert_eq!(refused(&[nowhere]), "no interface up7");
    assert_eq!(refused(&[]), "the route to 10.1.0.1 has no hop");
    assert!(refused(&[hop(0, 256)]).contains("weight 256"));
    let mut strange = hop(0, 1);
    strange.next_hop = leaf_at(0, 0);
    let words = refused(&[strange]);
    assert!(
        words.starts_with("next hop 172.16.0.0 over up0: "),
        "{words}"
    );
    let twice = [route(host(2), &[hop(0, 1)]), route(host(2), &[hop(1, 1)])];
    let words = error_chain(&hold(&twice).expect_err("one destination has one route"));
    assert_eq!(words, "10.1.0.1 is routed twice");
    ip_in("leaf0", &["link", "set", "up1", "down"]);
    assert_eq!(refused(&[hop(1, 1)]), "interface up1 is down");
    assert_eq!(hold(&[]).expect("nothing is left"), []);
}

fn leftovers_are_removed_foreign_routes_stay() {
    let _fabric = Fabric::new();
    let spine = spine_at(0, 0).to_string();
    let own = ["proto", "213"];
    let by = ["via", &spine, "dev", "up0"];
    let ip = |words: &[&[&str]]| ip_in("leaf0", &words.concat());
    ip(&[&["nexthop", "add", "id", "5"], &by]);
    ip(&[&["nexthop", "add", "id", "6", "group", "5"]]);
    ip(&[&["route", "add", "10.88.0.1", "nhid", "6", "proto", "99"]]);
    let others = everything();
    ip(&[&["nexthop", "add", "id", "213000004"], &by, &own]);
    ip(&[
        &["nexthop", "add", "id", "213100009", "group", "213000004"],
        &own,
    ]);
    ip(&[&["nexthop", "add", "id", "77"], &by, &own]);
    ip(&[
        &[
            "route",
            "add",
            "10.77.0.1",
            "nhid",
            "213100009",
            "table",
            "22300",
        ],
        &own,
    ]);
    ip(&[&["route", "add", "10.77.0.2", "table", "22300"], &by, &own]);
    ip(&[&[
        "rule", "add", "lookup", "22300", "pref", "21301", "protocol", "213",
    ]]);
    let wanted = [route(host(2), &[hop(1, 1)])];
    assert_eq!(hold(&wanted).expect("the kernel takes it"), wanted);
    assert_eq!(hold(&[]).expect("and drops it"), []);
    assert_eq!(everything(), others);
}

fn taken_nexthop_ids_are_avoided() {
    let _fabric = Fabric::new();
    let spine = spine_at(0, 0).to_string();
    for id in ["213000000", "213000001", "213100000"] {
        ip_in(
            "leaf0",
            &["nexthop", "add", "id", id, "via", &spine, "dev", "up0"],
        );
    }
    let others = everything();
    let wanted = [route(host(2), &[hop(0, 1), hop(1, 2)])];
    assert_eq!(hold(&wanted).expect("the kernel takes it"), wanted);
    assert_eq!(hold(&[]).expect("and drops it"), []);
    assert_eq!(everything(), others);
}

/// More than a number that is taken twice is tried again for.
fn many_new_nexthops_are_held() {
    let _fabric = Fabric::new();
    let new = |last| RouteHop {
        next_hop: Ipv4Addr::new(10, 88, 0, last),
        ..hop(0, 1)
    };
    let hops: Vec<_> = (1..=8).map(new).collect();
    let wanted = [route(host(2), &hops)];
    assert_eq!(hold(&wanted).expect("the kernel takes it"), wanted);
    assert_eq!(hold(&[]).expect("and drops it"), []);
}

fn pins_and_routes_do_not_meet() {
    let _fabric = Fabric::new();
    let (routes, pins) = ([route(host(2), &[hop(0, 1)])], [pin(some_flow(1), 1)]);
    hold(&routes).expect("the kernel takes it");
    assert_eq!(pins::hold(&pins).expect("and this"), pins);
    assert_eq!(hold(&routes).expect("and keeps both"), routes);
    assert_eq!(pins::hold(&[]).expect("drops one"), []);
    assert_eq!(hold(&routes).expect("keeps the other"), routes);
}
