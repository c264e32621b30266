//! A switch whose routes SONiC makes, configured by the agent through a real redis: what SONiC would hear of, and what
//! comes of that in a kernel. The part of SONiC that reads the table stands here in a few lines: it takes away before
//! it adds, as its own does, and configures a real FRR.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use reweave_agent::switch::{RoutesBy, Software};
use reweave_common::forwarding_state::{ForwardingState, RouteRule};
use reweave_common::lock::lock;

use crate::fabric::{Fabric, host, pin, some_flow, tool, wait_for};
use crate::frr::{Frr, tell};
use crate::frr_routes::{attached, never_withdrawn, of_routes, refused_by, taken};
use crate::routes::{hop, route};
use crate::tests;

tests! {
    kernel_follows_sonic_routes needs "redis-server",
    sonic_replace_never_withdraws needs "redis-server",
    foreign_sonic_entries_stay needs "redis-server",
    concurrent_sonic_write_is_kept needs "redis-server",
    missing_sonic_database_is_reported needs "redis-server",
}

const REDIS_SOCKET: &str = "/run/redis.sock";

fn by_sonic() -> Software {
    by_sonic_at(REDIS_SOCKET)
}

fn by_sonic_at(socket: &str) -> Software {
    Software {
        routes_by: RoutesBy::Sonic,
        vty: None,
        config_db: Some(socket.parse().expect("a path")),
    }
}

fn ask(words: &[&str]) -> Vec<String> {
    let own = ["-s", REDIS_SOCKET, "-n", "4", "--raw"];
    let printed = tool("redis-cli", &[&own, words].concat());
    printed.lines().map(str::to_owned).collect()
}

/// A database that publishes changes as SONiC's does, and its reader. Both stop when this is dropped.
struct Sonic {
    _frr: Frr,
    redis: Child,
    listener: Child,
    events: Arc<Mutex<Vec<String>>>,
    follower: Option<JoinHandle<()>>,
}

impl Sonic {
    fn start() -> Self {
        let frr = Frr::start();
        let mut redis = Command::new("redis-server");
        redis.args(["--port", "0", "--unixsocket", REDIS_SOCKET, "--save", ""]);
        redis.args(["--notify-keyspace-events", "AKE", "--dir", "/run"]);
        let redis = redis.stdout(Stdio::null()).spawn().expect("redis starts");
        wait_for("redis", || fs::exists(REDIS_SOCKET).ok()?.then_some(()));
        let mut listener = Command::new("redis-cli");
        listener.args([
            "-s",
            REDIS_SOCKET,
            "--raw",
            "psubscribe",
            "__keyspace@4__:STATIC_ROUTE|*",
        ]);
        let mut listener = listener.stdout(Stdio::piped()).spawn().expect("it listens");
        let heard = BufReader::new(listener.stdout.take().expect("piped"));
        let events = Arc::new(Mutex::new(vec![]));
        let noted = Arc::clone(&events);
        let mut lines = heard.lines().map_while(Result::ok);
        // That it is listening.
        lines.by_ref().take(3).for_each(drop);
        let follower = Some(thread::spawn(move || follow(&mut lines, &noted)));
        Self {
            _frr: frr,
            redis,
            listener,
            events,
            follower,
        }
    }

    fn events(&self) -> Vec<String> {
        lock(&self.events).clone()
    }
}

impl Drop for Sonic {
    fn drop(&mut self) {
        end(&mut self.listener);
        // It may have something left to do.
        let _ = self.follower.take().map(JoinHandle::join);
        end(&mut self.redis);
        let _ = fs::remove_file(REDIS_SOCKET);
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Each event is four lines: its kind, the pattern, the key, and what happened to that.
fn follow(lines: &mut impl Iterator<Item = String>, noted: &Mutex<Vec<String>>) {
    let mut configured: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    while let (Some(_), Some(_), Some(channel), Some(event)) =
        (lines.next(), lines.next(), lines.next(), lines.next())
    {
        let key = channel.trim_start_matches("__keyspace@4__:").to_owned();
        lock(noted).push(format!("{event} {key}"));
        let before = configured.remove(&key).unwrap_or_default();
        let after = lines_of(&key);
        let gone = before.difference(&after).map(|line| format!("no {line}"));
        let all: Vec<_> = gone.chain(after.difference(&before).cloned()).collect();
        // One after the other, as if SONiC were slow.
        all.iter().for_each(|line| tell(&[line]));
        configured.insert(key, after);
    }
}

fn lines_of(key: &str) -> BTreeSet<String> {
    let prefix = key.rsplit('|').next().expect("a prefix");
    let texts = ask(&["HGETALL", key]);
    let field = |name: &str| {
        let at = texts.iter().step_by(2).position(|it| it == name);
        at.map(|at| texts[2 * at + 1].clone()).unwrap_or_default()
    };
    let (gateways, interfaces) = (field("nexthop"), field("ifname"));
    let hops = gateways.split(',').zip(interfaces.split(','));
    hops.filter(|(gateway, _)| !gateway.is_empty())
        .map(|(gateway, interface)| {
            let gateway = gateway.trim_start_matches("0.0.0.0");
            format!("ip route {prefix} {gateway} {interface} tag 2")
        })
        .collect()
}

fn kernel_follows_sonic_routes() {
    let _fabric = Fabric::new();
    let sonic = Sonic::start();
    ask(&[
        "HSET",
        "STATIC_ROUTE|default|10.88.0.0/16",
        "nexthop",
        "172.16.0.1",
        "ifname",
        "up0",
    ]);
    let wanted = of_routes(&[
        attached(),
        route(host(2), &[hop(0, 1)]),
        route(host(3), &[hop(0, 1), hop(1, 1)]),
    ]);
    assert_eq!(taken(&by_sonic(), &wanted), wanted);
    assert_eq!(
        ask(&["HGET", "STATIC_ROUTE|default|10.1.1.1/32", "ifname"]),
        ["up0,up1"]
    );
    let heard = sonic.events().len();
    assert_eq!(taken(&by_sonic(), &wanted), wanted, "once more");
    assert_eq!(
        sonic.events().len(),
        heard,
        "what is there is not written again"
    );
    let nothing = ForwardingState::default();
    assert_eq!(taken(&by_sonic(), &nothing), nothing);
    assert_eq!(ask(&["KEYS", "*"]), ["STATIC_ROUTE|default|10.88.0.0/16"]);
}

fn sonic_replace_never_withdraws() {
    let _fabric = Fabric::new();
    let sonic = Sonic::start();
    never_withdrawn(&by_sonic());
    let gone: Vec<_> = sonic
        .events()
        .into_iter()
        .filter(|it| it.starts_with("del"))
        .collect();
    assert!(gone.is_empty(), "{gone:?}");
}

fn foreign_sonic_entries_stay() {
    let _fabric = Fabric::new();
    let _sonic = Sonic::start();
    for key in [
        "STATIC_ROUTE|default|10.1.0.1/32",
        "STATIC_ROUTE|10.1.0.1/32",
    ] {
        ask(&["HSET", key, "nexthop", "172.16.1.1", "ifname", "up1"]);
        let words = refused(&of_routes(&[route(host(2), &[hop(0, 1)])]));
        assert!(
            words.contains("a foreign route to 10.1.0.1") && words.ends_with(key),
            "{words}"
        );
        assert_eq!(ask(&["KEYS", "*"]), [key]);
        ask(&["DEL", key]);
    }
    let heavy: RouteRule = route(host(2), &[hop(0, 2), hop(1, 1)]);
    assert!(refused(&of_routes(&[heavy])).contains("without weights"));
    let pinned = ForwardingState::of_pins(vec![pin(some_flow(1), 0)]);
    assert!(
        refused(&pinned).contains("pins have no effect"),
        "{}",
        refused(&pinned)
    );
}

fn refused(desired: &ForwardingState) -> String {
    refused_by(&by_sonic(), desired)
}

/// Between the agent and the database: when the agent has read and is about to write, another client writes.
const PROXY_SOCKET: &str = "/run/between.sock";

fn concurrent_sonic_write_is_kept() {
    let _fabric = Fabric::new();
    let _sonic = Sonic::start();
    let theirs = "STATIC_ROUTE|default|10.1.0.1/32";
    let writes = move || {
        ask(&["HSET", theirs, "nexthop", "172.16.1.1", "ifname", "up1"]);
    };
    let writes = Mutex::new(Some(writes));
    let listener = UnixListener::bind(PROXY_SOCKET).expect("a socket");
    let serve = move || {
        for line in listener.incoming().map_while(Result::ok) {
            pass_on(line, || {
                if let Some(write) = lock(&writes).take() {
                    write();
                }
            });
        }
    };
    thread::spawn(serve);
    let wanted = of_routes(&[route(host(2), &[hop(0, 1)])]);
    let words = refused_by(&by_sonic_at(PROXY_SOCKET), &wanted);
    assert!(words.contains("a foreign route to 10.1.0.1"), "{words}");
    assert_eq!(ask(&["HGET", theirs, "ifname"]), ["up1"]);
    assert_eq!(ask(&["KEYS", "*"]), [theirs]);
    fs::remove_file(PROXY_SOCKET).expect("it is there");
}

/// Passes on all of one connection, with something done before the first transaction.
fn pass_on(mut agent: UnixStream, before_writing: impl Fn()) {
    let mut database = UnixStream::connect(REDIS_SOCKET).expect("it listens");
    let [mut answers, mut back] = [&database, &agent].map(|it| it.try_clone().expect("a line"));
    let answering = thread::spawn(move || io::copy(&mut answers, &mut back));
    let mut bytes = [0; 65_536];
    while let Ok(length @ 1..) = agent.read(&mut bytes) {
        if bytes[..length].windows(5).any(|it| it == b"MULTI") {
            before_writing();
        }
        database.write_all(&bytes[..length]).expect("it reads");
    }
    let _ = database.shutdown(Shutdown::Both);
    let _ = answering.join();
}

fn missing_sonic_database_is_reported() {
    let _fabric = Fabric::new();
    let words = refused(&of_routes(&[route(host(2), &[hop(0, 1)])]));
    assert!(
        words.contains("no database listens at /run/redis.sock"),
        "{words}"
    );
}
