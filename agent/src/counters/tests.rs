//! Files of other machines: a host with an mlx5 NIC, and one with Soft-RoCE.

mod pci;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use reweave_agent_core::counters::HealthBook;
use reweave_common::hardware::Duplex;
use reweave_common::health::{Health, Signal};
use reweave_common::moment::Moment;
use reweave_common::units::Rate;
use tempfile::TempDir;

use super::*;
use crate::netlink::Priorities;

const ETH0_PATH: &str = "sys/class/net/eth0";
const RDMA_PORT_PATH: &str = "sys/class/infiniband/mlx5_0/ports/1";

/// Files as a ConnectX-6 at 200 Gb/s shows them, seated in a slot of half its width.
const MLX5_FILES: &[(&str, &str)] = &[
    ("sys/class/net/lo/type", "772\n"),
    ("sys/class/net/eth0/type", "1\n"),
    ("sys/class/net/eth0/ifindex", "4\n"),
    ("sys/class/net/eth0/carrier", "1\n"),
    ("sys/class/net/eth0/speed", "200000\n"),
    ("sys/class/net/eth0/duplex", "full\n"),
    ("sys/class/net/eth0/mtu", "9000\n"),
    ("sys/class/net/eth0/carrier_down_count", "3\n"),
    ("sys/class/net/eth0/statistics/tx_bytes", "81234567890123\n"),
    ("sys/class/net/eth0/statistics/rx_bytes", "71234567890123\n"),
    ("sys/class/net/eth0/statistics/rx_crc_errors", "17\n"),
    ("sys/class/net/eth0/statistics/rx_packets", "4000000000\n"),
    ("sys/class/net/eth0/statistics/tx_dropped", "0\n"),
    (
        "sys/class/net/eth0/device/current_link_speed",
        "16.0 GT/s PCIe\n",
    ),
    (
        "sys/class/net/eth0/device/max_link_speed",
        "16.0 GT/s PCIe\n",
    ),
    ("sys/class/net/eth0/device/current_link_width", "8\n"),
    ("sys/class/net/eth0/device/max_link_width", "16\n"),
    ("sys/class/net/eth0/device/numa_node", "1\n"),
    ("sys/class/infiniband/mlx5_0/device/net/eth0/mtu", "9000\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
    (
        "sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data",
        "1000\n",
    ),
    (
        "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data",
        "500\n",
    ),
    (
        "sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error",
        "0\n",
    ),
    (
        "sys/class/infiniband/mlx5_0/ports/1/counters/link_downed",
        "2\n",
    ),
    (
        "sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence",
        "12\n",
    ),
    (
        "sys/class/infiniband/mlx5_0/ports/1/hw_counters/lifespan",
        "10\n",
    ),
    (
        "proc/net/softnet_stat",
        "0000272d 00000002 00000001 0 0\n0 1 0 0 0\n",
    ),
    ("sys/devices/system/node/node0/cpulist", "0-63\n"),
    (
        "sys/devices/system/node/node0/meminfo",
        "Node 0 MemTotal: 1024 kB\n",
    ),
    (
        "ethtool/eth0",
        "NIC statistics:\n     rx_packets: 4000000000\n     rx_corrected_bits_phy: 5521\n     \
         rx_bits_phy: 99000000000000\n     rx_prio3_pause: 41\n     rx_prio3_pause_duration: 900\n     \
         tx_pause_storm_warning_events: 0\n     module_high_temp: 1\n",
    ),
];

const GARBAGE_TEXTS: &[&str] = &[
    "",
    "-1\n",
    "99999999999999999999999\n",
    "\u{fffd}\n:",
    "N/A (no cable)\n",
];

fn machine(files: &[(&str, &str)]) -> TempDir {
    let root = TempDir::new().expect("a folder");
    files
        .iter()
        .for_each(|(path, text)| put(root.path(), path, text));
    root
}

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a folder above")).expect("folders");
    fs::write(path, text).expect("a file");
}

fn read(root: &Path) -> Vec<Counts> {
    let mut reader = CounterReader::recorded(root);
    let interfaces = reader.tree().interfaces();
    reader.read(&interfaces, &BTreeMap::new())
}

fn signal(health: &[Health], place: &str, signal: Signal) -> Option<u64> {
    let health = health.iter().find(|it| it.place.to_string() == place)?;
    let found = health.signals.iter().find(|it| it.signal == signal)?;
    Some(found.total)
}

fn said(root: &Path) -> Vec<Health> {
    HealthBook::default().handle_counts(Moment::default(), &read(root))
}

#[test]
fn every_source_of_counters_is_read() {
    let root = machine(MLX5_FILES);
    let said = said(root.path());
    let of = |place, name| signal(&said, place, name);
    assert_eq!(of("eth0", Signal::FrameErrors), Some(17));
    assert_eq!(of("eth0", Signal::CorrectedBits), Some(5521));
    assert_eq!(of("eth0", Signal::Pauses(3)), Some(41));
    assert_eq!(of("eth0", Signal::PausedMicros(3)), Some(900));
    assert_eq!(of("eth0", Signal::LinkDowns), Some(3));
    assert_eq!(of("eth0", Signal::HotModule), Some(1));
    assert_eq!(
        of("eth0", Signal::PauseStormWarnings),
        None,
        "never counted"
    );
    assert_eq!(of("mlx5_0/1", Signal::LinkDowns), Some(2));
    assert_eq!(of("mlx5_0/1", Signal::OutOfSequence), Some(12));
    assert_eq!(of("host", Signal::SoftirqDrops), Some(3));
    assert_eq!(of("host", Signal::SoftirqSqueezes), Some(1));
    assert_eq!(of("lo", Signal::LinkDowns), None, "loopback is no wire");
}

#[test]
fn queue_drops_come_from_qdisc() {
    let root = machine(MLX5_FILES);
    let drops = BTreeMap::from([("eth0".to_owned(), 9)]);
    let counts = CounterReader::recorded(root.path()).read(&["eth0".to_owned()], &drops);
    let said = HealthBook::default().handle_counts(Moment::default(), &counts);
    assert_eq!(signal(&said, "eth0", Signal::QueueDrops), Some(9));
}

#[test]
fn rdma_port_counts_four_byte_words() {
    let root = machine(MLX5_FILES);
    let reader = CounterReader::recorded(root.path());
    let [port] = &reader.ports()[..] else {
        panic!("there is one port");
    };
    assert_eq!((port.interface.as_str(), port.up), ("mlx5_0/1", true));
    assert_eq!([port.sent.count(), port.received.count()], [4000, 2000]);
    let tree = Tree::new(root.path());
    let carried = ["eth0", "eth1"].map(|it| ports::carried_over(&tree, it).count());
    assert_eq!(carried, [6_000, 0], "words of four bytes");
}

#[test]
fn nic_in_narrow_slot_is_recognized() {
    let root = machine(MLX5_FILES);
    let driver = root.path().join(ETH0_PATH).join("device/driver");
    symlink("../../../bus/pci/drivers/mlx5_core", driver).expect("a link");
    let nic = NicReader::recorded(&Tree::new(root.path())).read("eth0");
    let pcie = nic.pcie.expect("it has a bus");
    assert!(pcie.is_degraded());
    assert_eq!(pcie.now.to_string(), "16 GT/s x8");
    assert_eq!(nic.speed.map(Rate::gbps), Some(200.0));
    assert_eq!(
        (nic.duplex, nic.mtu_bytes),
        (Some(Duplex::Full), Some(9000))
    );
    assert_eq!(
        (nic.numa_node, nic.rdma.as_deref()),
        (Some(1), Some("mlx5_0"))
    );
    assert_eq!(nic.driver.as_deref(), Some("mlx5_core"));
}

#[test]
fn recorded_machine_has_its_interfaces() {
    let root = machine(MLX5_FILES);
    let [eth0] = &CounterReader::recorded(root.path()).recorded_links()[..] else {
        panic!("there is one wire");
    };
    assert_eq!(eth0.up, Some(true));
    assert_eq!(eth0.sent.map(Bytes::count), Some(81_234_567_890_123));
}

#[test]
fn recorded_links_keep_missing_unknown() {
    let root = machine(&[
        ("sys/class/net/eth0/type", "1\n"),
        ("sys/class/net/eth0/statistics/rx_bytes", "7\n"),
    ]);
    let expected = RecordedLink {
        interface: "eth0".to_owned(),
        up: None,
        sent: None,
        received: Some(Bytes::new(7)),
        dropped_packets: None,
    };
    assert_eq!(
        CounterReader::recorded(root.path()).recorded_links(),
        [expected]
    );
}

#[test]
fn soft_rdma_device_names_interface() {
    let root = machine(&[
        ("sys/class/infiniband/rxe0/parent", "eth7\n"),
        ("sys/class/infiniband/rxe0/ports/1/state", "1: DOWN\n"),
        (
            "sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_seq_err",
            "4\n",
        ),
        ("sys/class/net/eth7/type", "1\n"),
    ]);
    let nic = NicReader::recorded(&Tree::new(root.path())).read("eth7");
    assert_eq!(nic.rdma.as_deref(), Some("rxe0"));
    assert_eq!(
        signal(&said(root.path()), "rxe0/1", Signal::SequenceNaks),
        Some(4)
    );
}

#[test]
fn empty_machine_reports_nothing() {
    let root = machine(&[]);
    assert_eq!(read(root.path()), []);
    let nic = NicReader::recorded(&Tree::new(root.path())).read("eth0");
    assert_eq!((nic.speed, nic.pcie, nic.driver), (None, None, None));
}

/// What a NIC's firmware, a torn read or a strange kernel may leave in any of the files.
#[test]
fn garbage_file_is_no_counter() {
    let root = machine(MLX5_FILES);
    let tree = Tree::new(root.path());
    let mut reader = MachineReader::recorded(&tree);
    for (garbled, text) in MLX5_FILES {
        for garbage in GARBAGE_TEXTS {
            put(root.path(), garbled, garbage);
            let _ = (read(root.path()), NicReader::recorded(&tree).read("eth0"));
            let _ = (reader.read(), CounterReader::recorded(root.path()).ports());
        }
        put(root.path(), garbled, text);
    }
    put(
        root.path(),
        &format!("{RDMA_PORT_PATH}/hw_counters/out_of_sequence"),
        "N/A\n",
    );
    assert_eq!(
        signal(&said(root.path()), "mlx5_0/1", Signal::OutOfSequence),
        None
    );
}

#[test]
fn numa_nodes_have_processors_and_memory() {
    let root = machine(MLX5_FILES);
    let machine = MachineReader::recorded(&Tree::new(root.path())).read();
    let machine = machine.expect("this is a machine");
    let [node] = &machine.numa_nodes[..] else {
        panic!("there is one node");
    };
    assert_eq!(
        (node.node, node.cpus, node.memory.count()),
        (0, 64, 1 << 20)
    );
    assert!(machine.cpus > 0 && machine.memory > machine.memory_available);
}

const SETTINGS_FILES: &[(&str, &str)] = &[
    ("proc/sys/net/ipv4/tcp_ecn", "1\n"),
    ("proc/sys/net/ipv4/tcp_congestion_control", "dctcp\n"),
    (
        "sys/class/infiniband/mlx5_0/tc/1/traffic_class",
        "Global tclass=106\n",
    ),
    (
        "sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos",
        "106\n",
    ),
    (
        "sys/class/infiniband/mlx5_0/ports/1/gids/0",
        "fe80:0000:0000:0000:0202:c9ff:fe00:0001\n",
    ),
    (
        "sys/class/infiniband/mlx5_0/ports/1/gids/2",
        "0000:0000:0000:0000:0000:ffff:0a00:0001\n",
    ),
    (
        "sys/class/infiniband/mlx5_0/ports/1/gids/3",
        "0000:0000:0000:0000:0000:ffff:0a00:0001\n",
    ),
    (
        "sys/class/infiniband/mlx5_0/ports/1/gids/10",
        "0000:0000:0000:0000:0000:ffff:0a00:0002\n",
    ),
    (
        "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/0",
        "RoCE v2\n",
    ),
    (
        "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/2",
        "IB/RoCE v1\n",
    ),
    (
        "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/3",
        "RoCE v2\n",
    ),
    (
        "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/10",
        "RoCE v2\n",
    ),
];

#[test]
fn nic_and_kernel_settings_are_read() {
    let mut files = [MLX5_FILES, SETTINGS_FILES].concat();
    let priorities: Vec<_> = (0..8)
        .map(|it| format!("sys/class/net/eth0/ecn/roce_np/enable/{it}"))
        .collect();
    let enabled = priorities.iter().enumerate();
    files.extend(enabled.map(|(nth, path)| (&path[..], if nth == 3 { "1\n" } else { "0\n" })));
    let root = machine(&files);
    let machine = MachineReader::recorded(&Tree::new(root.path())).read();
    let settings = machine.expect("this is a machine").settings;
    let settings: Vec<_> = settings
        .iter()
        .map(|it| [&it.name[..], &it.value])
        .collect();
    let expected = [
        ["TCP ECN", "1"],
        ["TCP congestion control", "dctcp"],
        ["ECN of RoCE receivers", "00010000"],
        ["RoCE traffic class", "Global tclass=106"],
        ["RoCE type of service", "106"],
        ["GID index of RoCE v2", "3"],
    ];
    assert_eq!(settings, expected);
}

#[test]
fn absent_setting_files_give_none() {
    let root = machine(MLX5_FILES);
    let machine = MachineReader::recorded(&Tree::new(root.path())).read();
    assert_eq!(machine.expect("this is a machine").settings, []);
}

/// Ports that are set otherwise than each other stand side by side.
#[test]
fn priorities_merge_differing_ports() {
    let root = machine(&[]);
    let pause = |only: usize| Some(std::array::from_fn(|priority| priority == only));
    let values = [
        Priorities {
            paused: pause(3),
            of_dscps: vec![(26, 3), (48, 6)],
        },
        Priorities::default(),
        Priorities {
            paused: pause(4),
            ..Priorities::default()
        },
    ];
    let settings = settings::read(&Tree::new(root.path()), &values);
    let settings: Vec<_> = settings
        .iter()
        .map(|it| [&it.name[..], &it.value])
        .collect();
    let expected = [
        ["PFC by priority", "00001000, 00010000"],
        ["priorities of DSCPs", "26:3 48:6"],
    ];
    assert_eq!(settings, expected);
}
