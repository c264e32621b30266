//! Machines with known PCI trees.

mod recorded;

use super::*;
use crate::counters::texts;
use recorded::{HGX, NO_GPU, RecordedDevice, VIRTUAL, devices, shown};

/// The place of each NIC of a machine, in the order of its file.
fn places(machine: &str) -> Vec<String> {
    let devices = devices(machine);
    let gpus = devices.iter().filter_map(|device| gpu(device, &devices));
    let gpus = number_gpus(gpus.collect());
    let place = |device: &RecordedDevice<'_>| {
        let nic = function(device, &devices)?;
        Some(shown(&nic_place(device.value("net")?, &nic, &gpus)))
    };
    devices.iter().filter_map(place).collect()
}

fn gpu(
    device: &RecordedDevice<'_>,
    all: &[RecordedDevice<'_>],
) -> Option<(PciFunction, Option<u16>)> {
    let id = |key: &str| texts::pci_id(device.value(key)?);
    let minor = device.value("minor").and_then(|minor| minor.parse().ok());
    let gpu = is_gpu(id("class")?, id("vendor")).then_some(function(device, all)?)?;
    Some((gpu, minor))
}

fn function(device: &RecordedDevice<'_>, all: &[RecordedDevice<'_>]) -> Option<PciFunction> {
    let function = PciFunction::at(device.path.split('/'))?;
    let name = function.address.to_string();
    let own = all.iter().find(|it| it.name() == name)?;
    let numa = own.value("numa").and_then(|node| node.parse().ok());
    Some(PciFunction { numa, ..function })
}

/// A function at a path below /sys/devices.
fn at(path: &str, numa: Option<u16>) -> PciFunction {
    let function = PciFunction::at(path.split('/')).expect("a PCI function");
    PciFunction { numa, ..function }
}

/// A function without bridges.
fn on_bus(bus: u8) -> PciFunction {
    PciFunction {
        address: PciAddress::new(0, bus, 0),
        bridges: vec![],
        numa: None,
    }
}

#[test]
fn nearest_gpu_follows_pcie_tree() {
    let expected = [
        "rail0 0000:18:00.0 numa 0: 4 PIX 1",
        "rail1 0000:40:00.0 numa 0: 5 PIX 1",
        "rail2 0000:4f:00.0 numa 0: 6 PIX 1",
        "rail3 0000:5e:00.0 numa 0: 7 PIX 1",
        "rail4 0000:9a:00.0 numa 1: 0 PIX 1",
        "rail5 0000:c0:00.0 numa 1: 1 PIX 1",
        "rail6 0000:ce:00.0 numa 1: 2 PIX 1",
        "rail7 0000:dc:00.0 numa 1: 3 PIX 1",
        "store0 0000:29:00.0 numa 0: 4 PHB 2, 5 PHB 2, 6 PHB 2, 7 PHB 2",
        "store1 0000:aa:00.0 numa 1: 0 PHB 2, 1 PHB 2, 2 PHB 2, 3 PHB 2",
    ];
    assert_eq!(places(HGX), expected);
}

#[test]
fn gpu_without_bridge_by_numa() {
    let expected = [
        "ib0 0101:00:00.0 numa 0: 0 PHB 1, 1 PHB 1",
        "ib1 0102:00:00.0 numa 0: 0 PHB 1, 1 PHB 1",
        "ib2 0103:00:00.0 numa 1: 2 PHB 1, 3 PHB 1",
        "ib3 0104:00:00.0 numa 1: 2 PHB 1, 3 PHB 1",
        "eth0 0000:00:03.0 numa -: 0 SYS 2, 1 SYS 2, 2 SYS 2, 3 SYS 2",
    ];
    assert_eq!(places(VIRTUAL), expected);
}

#[test]
fn host_without_gpu_has_none() {
    let expected = ["eth0 0000:5e:00.0 numa 0: ", "usb0 0000:00:14.0 numa 0: "];
    assert_eq!(places(NO_GPU), expected);
}

#[test]
fn paths_rank_as_in_nccl() {
    let switch = "pci0000:00/0000:00:01.0/0000:01:00.0";
    let nic = at(&format!("{switch}/0000:02:00.0/0000:03:00.0"), Some(0));
    let below_other_switch = "0000:02:02.0/0000:05:00.0/0000:06:00.0/0000:07:00.0";
    let other_root_port = "pci0000:00/0000:00:02.0/0000:08:00.0";
    let ranked = [
        at(&format!("{switch}/0000:02:01.0/0000:04:00.0"), Some(0)),
        at(&format!("{switch}/{below_other_switch}"), Some(0)),
        at(other_root_port, Some(0)),
        at(other_root_port, None),
    ];
    let expected = [
        (PciPath::Pix, 1),
        (PciPath::Pxb, 2),
        (PciPath::Phb, 2),
        (PciPath::Sys, 3),
    ];
    assert_eq!(ranked.each_ref().map(|it| nic.path_to(it)), expected);
    assert_eq!(ranked.each_ref().map(|it| it.path_to(&nic)), expected);
    assert!(expected.is_sorted());
}

/// NCCL takes a root port for a part of the processor, unless it makes a pair with the bridge below.
#[test]
fn shared_root_port_is_no_switch() {
    let [one, other] = ["0", "1"].map(|function| {
        let path = format!("pci0000:00/0000:00:01.0/0000:01:00.{function}");
        at(&path, None)
    });
    assert_eq!(one.path_to(&other), (PciPath::Phb, 1));
}

#[test]
fn volume_management_device_begins_own_tree() {
    let disk = "pci0000:e2/0000:e2:00.5/pci10000:e0/10000:e0:03.0/10000:e1:00.0/nvme/nvme0";
    let disk = at(disk, None);
    assert_eq!(disk.address.to_string(), "10000:e1:00.0");
    let bridges: Vec<_> = disk.bridges.iter().map(ToString::to_string).collect();
    assert_eq!(bridges, ["10000:e0:03.0"]);
    assert_eq!(PciFunction::at("virtual/net/bond0".split('/')), None);
}

#[test]
fn unnumbered_gpu_gets_free_index() {
    let indices = |minors: [Option<u16>; 4]| {
        let found = [9, 3, 7, 5].map(on_bus).into_iter().zip(minors);
        let gpus = number_gpus(found.collect());
        assert!(gpus.is_sorted_by_key(|gpu| gpu.function.address));
        gpus.iter().map(|gpu| gpu.index).collect::<Vec<_>>()
    };
    assert_eq!(indices([None; 4]), [0, 1, 2, 3], "bus order");
    assert_eq!(indices([Some(0), None, None, Some(2)]), [1, 2, 3, 0]);
    assert_eq!(indices([Some(1); 4]), [1, 0, 2, 3], "the first has it");
}

#[test]
fn gpus_near_nic_are_bounded() {
    let found = (1..=100).map(|bus| (on_bus(bus), None));
    let gpus = number_gpus(found.collect());
    let place = nic_place("eth0", &on_bus(0), &gpus);
    assert_eq!(place.gpus.len(), NicPlace::MAX_GPUS);
}

#[test]
fn displays_of_baseboards_are_no_gpus() {
    for (class, vendor) in [(0x030200, None), (0x030000, Some(0x10de))] {
        assert!(is_gpu(class, vendor), "{class:x} {vendor:x?}");
    }
    for (class, vendor) in [
        (0x030000, Some(0x1a03)),
        (0x030000, None),
        (0x068000, Some(0x10de)),
        (0x020000, Some(0x15b3)),
        (u32::MAX, Some(0x10de)),
    ] {
        assert!(!is_gpu(class, vendor), "{class:x} {vendor:x?}");
    }
}
