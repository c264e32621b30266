//! Whether the kernel of this machine chooses next hops as the model says: routes in a network
//! namespace of its own, and what `ip route get` says of them.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test asks the kernel; the room itself does not"
)]

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::process::Command;

use libtest_mimic::{Arguments, Trial};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_repair::paths::linux::{HashPolicy, LinuxHash};

const HASH_SEED: u32 = 987_654_321;
const SOURCE_PORTS: std::ops::Range<u16> = 20_000..20_064;

fn main() {
    let known = Path::new("/proc/sys/net/ipv4/fib_multipath_hash_seed").exists();
    let able = known
        && Command::new("unshare")
            .args(["-n", "ip", "link"])
            .output()
            .is_ok_and(|it| it.status.success());
    let policies = [
        ("addresses", HashPolicy::Addresses, 0),
        ("ports", HashPolicy::Ports, 1),
        ("fields", HashPolicy::Fields, 3),
    ];
    let trials = policies.into_iter().flat_map(|(name, policy, number)| {
        [[1, 1, 1, 1], [1, 2, 3, 10]].map(|weights| {
            let test = move || {
                compare(policy, number, weights);
                Ok(())
            };
            let name = format!("linux_{name}_hash_with_weights_{weights:?}");
            Trial::test(name, test).with_ignored_flag(!able)
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

fn compare(policy: HashPolicy, number: u32, weights: [u32; 4]) {
    let said = Command::new("unshare")
        .args(["-n", "bash", "-ec", &script(number, weights)])
        .output()
        .expect("unshare ran before");
    assert!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    let text = String::from_utf8(said.stdout).expect("ip speaks UTF-8");
    let chosen = text
        .lines()
        .filter_map(|line| line.split(" dev u").nth(1)?.chars().next());
    let chosen: String = chosen.collect();
    let hash = LinuxHash {
        policy,
        seed: HASH_SEED,
    };
    let expected = flows().map(|flow| hash.choose(&flow, &weights).map(|place| place.to_string()));
    assert_eq!(chosen, expected.flatten().collect::<String>());
}

/// Returns flows of both protocols to several hosts.
fn flows() -> impl Iterator<Item = FlowKey> {
    SOURCE_PORTS.map(|port| FlowKey {
        protocol: if port % 2 == 0 {
            Protocol::Udp
        } else {
            Protocol::Tcp
        },
        source: SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, 7), port),
        destination: SocketAddrV4::new(Ipv4Addr::new(10, 1, 0, (port % 200) as u8 + 1), 4791),
    })
}

fn script(policy: u32, weights: [u32; 4]) -> String {
    let mut script =
        "ip link add a0 type veth peer name a1\nip link set a0 up\nip link set a1 up\n\
                      ip addr add 10.9.0.1/24 dev a0\n"
            .to_owned();
    let mut hops = String::new();
    for (nth, weight) in weights.iter().enumerate() {
        script += &format!(
            "ip link add u{nth} type veth peer name v{nth}\nip link set u{nth} up\n\
             ip link set v{nth} up\nip addr add 10.8.{nth}.1/24 dev u{nth}\n"
        );
        hops += &format!(" nexthop via 10.8.{nth}.2 dev u{nth} weight {weight}");
    }
    script += &format!(
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 \
         net.ipv4.conf.a0.rp_filter=0 net.ipv4.fib_multipath_hash_policy={policy} \
         net.ipv4.fib_multipath_hash_fields=0x37 net.ipv4.fib_multipath_hash_seed={HASH_SEED}\n\
         ip route add 10.1.0.0/16{hops}\n"
    );
    for flow in flows() {
        let (to, port) = (flow.destination.ip(), flow.source.port());
        let protocol = flow.protocol;
        script += &format!(
            "ip route get {to} from 10.9.0.7 iif a0 ipproto {protocol} sport {port} dport 4791\n"
        );
    }
    script
}
