//! The PCI trees of other machines, as the kernel shows them.

#[path = "../../../core/src/pci/tests/recorded.rs"]
mod recorded;

use super::*;
use recorded::{HGX, NO_GPU, RecordedDevice, VIRTUAL, devices, shown};

fn sysfs(machine: &str) -> TempDir {
    let root = TempDir::new().expect("a folder");
    devices(machine)
        .iter()
        .for_each(|device| put_device(root.path(), device));
    root
}

/// Puts a device where the kernel has it, and links to it where the kernel has those.
fn put_device(root: &Path, device: &RecordedDevice<'_>) {
    let folder = device.path.trim_start_matches('/');
    for (key, file) in [
        ("class", "class"),
        ("vendor", "vendor"),
        ("numa", "numa_node"),
    ] {
        if let Some(value) = device.value(key) {
            put(root, &format!("{folder}/{file}"), &format!("{value}\n"));
        }
    }
    if device.value("class").is_some() {
        let name = device.name();
        let to = format!("../../../../{folder}");
        link(root, &format!("sys/bus/pci/devices/{name}"), &to);
    }
    if let Some(minor) = device.value("minor") {
        let information = format!("proc/driver/nvidia/gpus/{}/information", device.name());
        let text = format!("Model: \t\t NVIDIA H100 80GB HBM3\nDevice Minor: \t {minor}\n");
        put(root, &information, &text);
    }
    if let Some(net) = device.value("net") {
        let own = format!("{folder}/net/{net}");
        put(root, &format!("{own}/type"), "1\n");
        link(root, &format!("{own}/device"), "../..");
        link(
            root,
            &format!("sys/class/net/{net}"),
            &format!("../../../{own}"),
        );
    }
}

fn link(root: &Path, path: &str, to: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a folder above")).expect("folders");
    symlink(to, path).expect("a link");
}

fn remove(root: &Path, path: &str) {
    fs::remove_file(root.join(path)).expect("it was there");
}

/// The places of all interfaces, in the order of their names.
fn places(root: &Path) -> Vec<String> {
    let tree = Tree::new(root);
    let places = nic_places(&tree, &tree.interfaces());
    places.iter().map(shown).collect()
}

#[test]
fn nic_places_are_read_from_sysfs() {
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
    assert_eq!(places(sysfs(HGX).path()), expected);
}

#[test]
fn virtual_nic_sits_at_its_function() {
    let places = places(sysfs(VIRTUAL).path());
    let expected = "eth0 0000:00:03.0 numa -: 0 SYS 2, 1 SYS 2, 2 SYS 2, 3 SYS 2";
    assert_eq!(places[0], expected);
    assert_eq!(places[3], "ib2 0103:00:00.0 numa 1: 2 PHB 1, 3 PHB 1");
    assert_eq!(places.len(), 5);
}

/// Each fault costs what it concerns, and nothing else.
#[test]
fn broken_sysfs_is_left_out() {
    let expected = ["eth0 0000:5e:00.0 numa 0: ", "usb0 0000:00:14.0 numa 0: "];
    let machine = sysfs(NO_GPU);
    let root = machine.path();
    // An interface without a device, one whose device is a circle of links, and one whose device is another machine's.
    put(root, "sys/class/net/bond0/type", "1\n");
    put(root, "sys/class/net/circle/type", "1\n");
    link(root, "sys/class/net/circle/device", "device");
    let elsewhere = sysfs(HGX);
    put(root, "sys/class/net/leak/type", "1\n");
    let device = elsewhere.path().join("sys/class/net/rail0/device");
    let device = device.canonicalize().expect("it is there");
    link(root, "sys/class/net/leak/device", &device.to_string_lossy());
    // GPUs that are a circle of links, a file, a folder without a class, a class alone, and what is no function.
    let pci = "sys/bus/pci/devices";
    link(root, &format!("{pci}/0000:01:00.0"), "0000:01:00.0");
    put(root, &format!("{pci}/0000:02:00.0"), "0x030200\n");
    put(root, &format!("{pci}/0000:04:00.0/vendor"), "0x10de\n");
    for garbage in GARBAGE_TEXTS {
        put(root, &format!("{pci}/0000:05:00.0/class"), garbage);
        assert_eq!(places(root), expected, "{garbage:?}");
    }
    put(root, &format!("{pci}/garbage/class"), "0x030200\n");
    assert_eq!(places(root), expected);
    // A GPU whose driver says nothing of use still counts.
    put(root, &format!("{pci}/0000:06:00.0/class"), "0x030200\n");
    let information = "proc/driver/nvidia/gpus/0000:06:00.0/information";
    for garbage in GARBAGE_TEXTS {
        put(root, information, garbage);
        assert_eq!(places(root)[0], "eth0 0000:5e:00.0 numa 0: 0 SYS 2");
    }
    // Without the file of its node, a NIC's node is unknown, as that of this GPU is.
    remove(root, &format!("{pci}/0000:5e:00.0/numa_node"));
    assert_eq!(places(root)[0], "eth0 0000:5e:00.0 numa -: 0 PHB 1");
}
