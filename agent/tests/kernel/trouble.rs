//! What a kernel answers when it has no room for its answers, and when another owner has what should be made: the agent
//! looks again and goes on, or says no and why, and never believes what is not so.

use std::fs;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use nix::sys::signal::Signal;
use nix::sys::socket::{MsgFlags, send, setsockopt, sockopt};
use reweave_agent::netlink::RouteSocket;
use reweave_common::error::error_chain;
use reweave_common::forwarding_state::RouteRule;
use reweave_common::instruction::InstallRefusal;

use crate::fabric::{Fabric, TEST_TIMEOUT, feed, host, ip_in, pin, some_flow, spine_at, within};
use crate::frr_routes::{install, of_routes};
use crate::pins;
use crate::routes::{hold, hop, route};
use crate::serving::{
    at_the_coordinator, instruct as answered, plug_in, spare_is_up, spare_learns,
};
use crate::tests;

tests! {
    truncated_dump_is_repeated,
    changes_succeed_despite_full_socket,
    overrun_event_socket_triggers_reread,
    foreign_route_before_ours_is_refused,
    foreign_table_is_left_alone,
    stray_rule_gets_no_route,
    refused_change_keeps_previous_state,
}

/// Asks for interface 1 under a number that no reader waits for.
const STRAY_REQUEST: [u8; 32] = {
    let mut bytes = [0; 32];
    let (length, get_link, request, index) = (0, 4, 6, 20);
    bytes[length] = 32;
    bytes[get_link] = 18;
    bytes[request] = 1;
    bytes[index] = 1;
    bytes
};

/// As few answers as a socket may have waiting.
fn leave_no_room(socket: BorrowedFd<'_>) {
    setsockopt(&socket, sockopt::RcvBuf, &1).expect("there are smaller ones");
}

fn ask_in_vain(socket: BorrowedFd<'_>) {
    let sent = send(socket.as_raw_fd(), &STRAY_REQUEST, MsgFlags::empty());
    sent.expect("the kernel takes the question");
}

/// The inodes of the netlink sockets of the calling thread's network that lacked room for something.
fn overrun() -> Vec<u64> {
    let listed = fs::read_to_string("/proc/thread-self/net/netlink").expect("sockets are listed");
    let sockets = listed.lines().skip(1).map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        [8, 9].map(|word| words[word].parse::<u64>().expect("a number"))
    });
    let sockets = sockets.filter(|[drops, _]| *drops > 0);
    sockets.map(|[_, inode]| inode).collect()
}

/// A closed socket counts for no other: it is listed until the last process that was forked meanwhile has lost it.
fn lacked_room(socket: BorrowedFd<'_>) -> bool {
    let file = fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd()));
    overrun().contains(&file.expect("it is open").ino())
}

fn truncated_dump_is_repeated() {
    let _fabric = Fabric::new();
    let (routes, pins) = ([route(host(2), &[hop(0, 1)])], [pin(some_flow(1), 1)]);
    hold(&routes).expect("the kernel takes it");
    pins::hold(&pins).expect("and this");
    within("leaf0", || {
        let crowded = || {
            let socket = RouteSocket::open().expect("netlink");
            leave_no_room(socket.as_fd());
            (0..9).for_each(|_| ask_in_vain(socket.as_fd()));
            assert!(
                lacked_room(socket.as_fd()),
                "there was room for all answers"
            );
            socket
        };
        assert_eq!(crowded().links().expect("they are listed").len(), 5);
        assert_eq!(crowded().routes().expect("and these").rules(), routes);
        assert_eq!(crowded().pins().expect("and these").pins(), pins);
        let mut socket = crowded();
        socket.hold_routes(&[]).expect("what shall go goes");
        assert_eq!(socket.routes().expect("they are listed").rules(), []);
    });
}

/// Asks in vain until it is asked to end.
fn crowd(socket: &OwnedFd, begins_after: usize, ends: &AtomicBool) {
    (0..begins_after).for_each(|_| std::hint::spin_loop());
    while !ends.load(Ordering::Relaxed) {
        ask_in_vain(socket.as_fd());
    }
}

fn table(turn: u8) -> Vec<RouteRule> {
    let hosts = 0..20;
    let to = |last| route(Ipv4Addr::new(10, 77, 0, last), &[hop((last + turn) % 2, 1)]);
    hosts.map(to).collect()
}

/// Changes all there is on a socket that others ask in vain; the number of sockets that had no room then.
fn change_in_a_crowd(turn: u8) -> usize {
    let pins = [pin(some_flow(1 + u16::from(turn)), turn % 2)];
    let mut socket = RouteSocket::open().expect("netlink");
    leave_no_room(socket.as_fd());
    let crowded = socket.as_fd().try_clone_to_owned();
    let (crowded, ends) = (crowded.expect("a number"), AtomicBool::new(false));
    let held = thread::scope(|scope| {
        scope.spawn(|| crowd(&crowded, usize::from(turn) * 1_000, &ends));
        let held = socket.hold_routes(&table(turn));
        let pinned = socket.hold(&pins);
        ends.store(true, Ordering::Relaxed);
        (
            held.map_err(|it| error_chain(&it)),
            pinned.map_err(|it| error_chain(&it)),
        )
    });
    assert_eq!(held, (Ok(()), Ok(())), "turn {turn}");
    let short = usize::from(lacked_room(crowded.as_fd()));
    let mut fresh = RouteSocket::open().expect("netlink");
    assert_eq!(fresh.routes().expect("listed").rules(), table(turn));
    assert_eq!(pins::held(), pins);
    short
}

/// How often there is no room depends on the machine: changes are made until it was so often enough.
fn changes_succeed_despite_full_socket() {
    let _fabric = Fabric::new();
    within("leaf0", || {
        let (mut turns, mut short) = (0, 0);
        let deadline = Instant::now() + TEST_TIMEOUT;
        while turns < 60 || short < 10 {
            let is_late = Instant::now() > deadline;
            assert!(!is_late, "of {turns} sockets {short} had no room");
            short += change_in_a_crowd((turns % 60) as u8);
            turns += 1;
        }
        eprintln!("of {turns} sockets {short} had no room for an answer");
    });
}

/// More than a socket has room for.
const BURST_CHANGES: usize = 2000;

/// Reports are a minute apart.
fn overrun_event_socket_triggers_reread() {
    let _fabric = Fabric::new();
    plug_in("h0");
    at_the_coordinator(async |mut stage| {
        let agent = stage.start_at("h0", "60000");
        let link = stage.session("h0").await;
        assert!(spare_is_up(&link).await);
        for up in [false, true] {
            let before = within("h0", overrun).len();
            agent.signal(Signal::SIGSTOP);
            let mtus =
                (0..BURST_CHANGES).map(|turn| format!("link set lo mtu {}\n", 1500 + turn % 2));
            let last = if up { "up" } else { "down" };
            let turn = format!("link set spare1 {last}\n");
            let script: String = mtus.chain([turn]).collect();
            feed("h0", "ip", &["-batch", "-"], &script);
            assert!(
                up || within("h0", overrun).len() > before,
                "there was room for all"
            );
            spare_learns(&link, up, || agent.signal(Signal::SIGCONT)).await;
        }
    });
}

/// Where the kernel says that something is there already, or would put one in the place of another.
fn foreign_route_before_ours_is_refused() {
    let _fabric = Fabric::new();
    let both = |spine| [2, 3].map(|number| route(host(number), &[hop(spine, 1)]));
    let of_host_3 = |spine| [route(host(3), &[hop(spine, 1)])];
    assert_eq!(hold(&both(0)).expect("the kernel takes them"), both(0));
    let (to, spine) = (host(2).to_string(), spine_at(0, 1).to_string());
    let theirs = ["via", &spine, "dev", "up1", "table", "22300", "proto", "99"];
    let ip = |verb: &str| ip_in("leaf0", &[&["route", verb, &to][..], &theirs].concat());
    ip("prepend");
    within("leaf0", || {
        let mut socket = RouteSocket::open().expect("netlink");
        let held = |socket: &mut RouteSocket| socket.routes().expect("listed").rules();
        assert_eq!(held(&mut socket), of_host_3(0), "packets follow theirs");
        let words = "routing protocol 99 has a route to 10.1.0.1 in table 22300, before any of \
                     Reweave's; its owner must remove it";
        let refused = socket
            .hold_routes(&both(1))
            .expect_err("theirs is in the way");
        assert_eq!(error_chain(&refused), words);
        assert_eq!(held(&mut socket), of_host_3(0), "nothing was changed");
        let desired = of_routes(&both(1));
        let links = socket.links().expect("listed");
        for mended in [true, false] {
            let kept = socket.keep(&desired, &links).expect("as far as it goes");
            assert_eq!(
                (kept.mended, &kept.holding.routes[..]),
                (mended, &of_host_3(1)[..])
            );
            assert_eq!(
                kept.in_the_way.map(|it| error_chain(&it)).as_deref(),
                Some(words)
            );
        }
    });
    assert_ne!(ip("show"), "", "theirs stays");
    ip("del");
    assert_eq!(hold(&both(1)).expect("nothing is in the way"), both(1));
    assert_eq!(hold(&[]).expect("nothing is left"), []);
}

fn foreign_table_is_left_alone() {
    let _fabric = Fabric::new();
    let spine = spine_at(0, 0).to_string();
    let by = ["via", &spine, "dev", "up0", "proto", "99"];
    ip_in(
        "leaf0",
        &[&["route", "add", "default", "table", "21300"][..], &by].concat(),
    );
    let others = pins::tables();
    let wanted = [pin(some_flow(1), 0), pin(some_flow(2), 1)];
    assert_eq!(pins::hold(&wanted).expect("there are more tables"), wanted);
    let rules = ip_in("leaf0", &["rule"]);
    assert!(!rules.contains("lookup 21300 "), "{rules}");
    assert_eq!(pins::hold(&[]).expect("nothing is left"), []);
    assert_eq!(pins::tables(), others);
}

/// A route in the table that it leads to would send packets of other flows that way.
fn stray_rule_gets_no_route() {
    let _fabric = Fabric::new();
    let from = host(0).to_string();
    let stray = ["priority", "90", "from", &from, "lookup", "21300"];
    let own = ["protocol", "213"];
    ip_in("leaf0", &[&["rule", "add"][..], &stray, &own].concat());
    let wanted = [pin(some_flow(1), 0)];
    assert_eq!(pins::hold(&wanted).expect("there are more tables"), wanted);
    let rules = ip_in("leaf0", &["rule"]);
    assert!(!rules.contains("lookup 21300 "), "{rules}");
    assert_eq!(pins::hold(&[]).expect("nothing is left"), []);
}

fn refused_change_keeps_previous_state() {
    let _fabric = Fabric::new();
    // The line to the coordinator, on host 3, stays as it is.
    let unknown_host = Ipv4Addr::new(10, 77, 0, 1);
    let before = [route(unknown_host, &[hop(0, 1)])];
    let after = [
        route(host(2), &[hop(0, 1)]),
        route(unknown_host, &[hop(1, 1)]),
    ];
    let install = |generation, routes: &[RouteRule]| install(generation, &of_routes(routes));
    let held = || {
        within("leaf0", || {
            RouteSocket::open().and_then(|mut it| it.holding())
        })
    };
    let held = || held().expect("listed").routes;
    let (to, spine) = (host(2).to_string(), spine_at(0, 1).to_string());
    let theirs = ["via", &spine, "table", "22300", "proto", "99"];
    let ip = |verb: &str| ip_in("leaf0", &[&["route", verb, &to][..], &theirs].concat());
    at_the_coordinator(async |mut stage| {
        let _leaf = stage.start("leaf0");
        let link = stage.session("leaf0").await;
        assert!(answered(&link, install(1, &before)).await.outcome.is_ok());
        ip("add");
        let refused = answered(&link, install(2, &after)).await.outcome;
        let Err(InstallRefusal::Kernel { error }) = refused else {
            panic!("not refused: {refused:?}");
        };
        assert!(
            error.starts_with("routing protocol 99 has a route to 10.1.0.1"),
            "{error}"
        );
        assert_eq!(held(), before);
        assert_ne!(ip("show"), "", "theirs stays");
        ip("del");
        assert!(answered(&link, install(3, &after)).await.outcome.is_ok());
        assert_eq!(held(), after);
    });
}
