//! Settings that should be equal on all hosts of a cluster: congestion control of TCP and of RDMA over Ethernet, and
//! the treatment of priorities.
//!
//! A setting without a file or an answer of the kernel or driver is left out.

use std::collections::BTreeSet;

use reweave_agent_core::counters::texts;
use reweave_common::hardware::Setting;

use super::Tree;
use crate::netlink::Priorities;

const TCP_SYSCTL_PATH: &str = "proc/sys/net/ipv4";
const INTERFACES_PATH: &str = "sys/class/net";
const RDMA_DEVICES_PATH: &str = "sys/class/infiniband";
/// Where the traffic class of rdma_cm's connections is set.
const RDMA_CM_PATH: &str = "sys/kernel/config/rdma_cm";

/// `priorities` is what drivers report of priorities, interface by interface.
pub(super) fn read(tree: &Tree, report: &[Priorities]) -> Vec<Setting> {
    let one = |path: String| tree.text(&path).into_iter().collect();
    let settings = [
        ("TCP ECN", one(format!("{TCP_SYSCTL_PATH}/tcp_ecn"))),
        (
            "TCP congestion control",
            one(format!("{TCP_SYSCTL_PATH}/tcp_congestion_control")),
        ),
        ("ECN of RoCE receivers", priorities(tree, "roce_np")),
        ("ECN of RoCE senders", priorities(tree, "roce_rp")),
        ("PFC by priority", paused(report)),
        ("priorities of DSCPs", of_dscps(report)),
        ("RoCE traffic class", traffic_classes(tree)),
        ("RoCE type of service", of_ports(tree, type_of_service)),
        ("GID index of RoCE v2", of_ports(tree, gid_index)),
    ];
    let setting = |(name, values): (&str, Vec<String>)| {
        let values: BTreeSet<_> = values.iter().map(|it| it.trim().to_owned()).collect();
        let values: Vec<_> = values.into_iter().collect();
        (!values.is_empty()).then(|| Setting {
            name: name.to_owned(),
            value: values.join(", "),
        })
    };
    settings.into_iter().filter_map(setting).collect()
}

/// One digit for each of the eight priorities, as `mlx5` has them for each interface.
fn priorities(tree: &Tree, role: &str) -> Vec<String> {
    let of = |interface: String| {
        let folder = format!("{INTERFACES_PATH}/{interface}/ecn/{role}/enable");
        let digits = (0..8).map(|priority| tree.text(&format!("{folder}/{priority}")));
        let digits: Option<Vec<_>> = digits.collect();
        Some(digits?.iter().map(|digit| digit.trim()).collect())
    };
    tree.interfaces().into_iter().filter_map(of).collect()
}

/// The same digits for those that are paused by themselves.
fn paused(priorities: &[Priorities]) -> Vec<String> {
    let paused = priorities.iter().filter_map(|it| it.paused);
    let digits = |paused: [bool; 8]| paused.map(|it| if it { '1' } else { '0' });
    paused.map(|it| digits(it).into_iter().collect()).collect()
}

fn of_dscps(priorities: &[Priorities]) -> Vec<String> {
    let priorities = priorities.iter().filter(|it| !it.of_dscps.is_empty());
    let pair = |(dscp, priority): &(u16, u8)| format!("{dscp}:{priority}");
    let pairs = |it: &Priorities| it.of_dscps.iter().map(pair).collect::<Vec<_>>().join(" ");
    priorities.map(pairs).collect()
}

fn traffic_classes(tree: &Tree) -> Vec<String> {
    let devices = tree.names(RDMA_DEVICES_PATH).into_iter();
    let texts =
        devices.filter_map(|it| tree.text(&format!("{RDMA_DEVICES_PATH}/{it}/tc/1/traffic_class")));
    texts.collect()
}

/// Of each port of each RDMA device, by its number.
fn of_ports(tree: &Tree, value: impl Fn(&Tree, &str, &str) -> Option<String>) -> Vec<String> {
    let mut values = vec![];
    for device in tree.names(RDMA_DEVICES_PATH) {
        for port in tree.names(&format!("{RDMA_DEVICES_PATH}/{device}/ports")) {
            values.extend(value(tree, &device, &port));
        }
    }
    values
}

fn type_of_service(tree: &Tree, device: &str, port: &str) -> Option<String> {
    tree.text(&format!(
        "{RDMA_CM_PATH}/{device}/ports/{port}/default_roce_tos"
    ))
}

/// The first that is of RoCE v2 and of an IPv4 address: users pass it to programs by hand.
fn gid_index(tree: &Tree, device: &str, port: &str) -> Option<String> {
    let folder = format!("{RDMA_DEVICES_PATH}/{device}/ports/{port}");
    let indices = tree.names(&format!("{folder}/gids"));
    let mut indices: Vec<u32> = indices.iter().filter_map(|it| it.parse().ok()).collect();
    indices.sort_unstable();
    indices
        .iter()
        .find(|index| is_roce_v2_of_ipv4(tree, &folder, **index))
        .map(u32::to_string)
}

fn is_roce_v2_of_ipv4(tree: &Tree, folder: &str, index: u32) -> bool {
    let kind = tree.text(&format!("{folder}/gid_attrs/types/{index}"));
    let gid = tree.text(&format!("{folder}/gids/{index}"));
    kind.is_some_and(|kind| kind.trim() == "RoCE v2")
        && gid.is_some_and(|gid| texts::is_of_ipv4(&gid))
}
