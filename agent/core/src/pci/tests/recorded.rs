//! PCI devices of machines, as files beside this one list them: the path of each in /sys, and what its files say. Tests of
//! the agent make folders of the same files.

use std::collections::BTreeMap;

use reweave_common::pci::{NearGpu, NicPlace};

pub(crate) const HGX: &str = include_str!("machines/hgx.txt");
pub(crate) const VIRTUAL: &str = include_str!("machines/virtual.txt");
pub(crate) const NO_GPU: &str = include_str!("machines/no-gpu.txt");

/// A device, and the values of `class`, `vendor` and `numa`, the interface `net` and the driver's number `minor`.
pub(crate) struct RecordedDevice<'m> {
    pub(crate) path: &'m str,
    values: BTreeMap<&'m str, &'m str>,
}

impl RecordedDevice<'_> {
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.values.get(key).copied()
    }

    /// The last folder of its path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

pub(crate) fn devices(machine: &str) -> Vec<RecordedDevice<'_>> {
    let lines = machine.lines().filter(|line| !line.starts_with('#'));
    lines.map(device).collect()
}

fn device(line: &str) -> RecordedDevice<'_> {
    let mut words = line.split_whitespace();
    let path = words.next().expect("a path");
    let values = words.map(|word| word.split_once('=').expect("a key and its value"));
    RecordedDevice {
        path,
        values: values.collect(),
    }
}

/// `rail0 0000:18:00.0 numa 0: 4 PIX 1`: the interface, where it sits, and index, path and hops of each GPU.
pub(crate) fn shown(place: &NicPlace) -> String {
    let NicPlace {
        interface,
        pci,
        numa,
        gpus,
    } = place;
    let gpu = |it: &NearGpu| format!("{} {} {}", it.index, it.path, it.hops);
    let gpus: Vec<_> = gpus.iter().map(gpu).collect();
    let numa = numa.map_or_else(|| "-".to_owned(), |node| node.to_string());
    format!("{interface} {pci} numa {numa}: {}", gpus.join(", "))
}
