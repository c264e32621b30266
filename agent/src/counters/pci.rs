//! Where NICs and GPUs sit, from /sys, and the numbers of GPUs from NVIDIA's driver.

use std::ffi::OsStr;

use reweave_agent_core::counters::texts;
use reweave_agent_core::pci::{HostGpu, PciFunction, is_gpu, nic_place, number_gpus};
use reweave_common::pci::NicPlace;

use super::Tree;

const PCI_DEVICES_PATH: &str = "sys/bus/pci/devices";
const NVIDIA_GPUS_PATH: &str = "proc/driver/nvidia/gpus";

/// The places of these interfaces, without those that belong to no PCI function.
pub fn nic_places(tree: &Tree, interfaces: &[String]) -> Vec<NicPlace> {
    let gpus = gpus(tree);
    let place = |interface: &String| {
        let nic = function(tree, &format!("sys/class/net/{interface}/device"))?;
        Some(nic_place(interface, &nic, &gpus))
    };
    interfaces.iter().filter_map(place).collect()
}

fn gpus(tree: &Tree) -> Vec<HostGpu> {
    let names = tree.names(PCI_DEVICES_PATH).into_iter();
    number_gpus(names.filter_map(|name| gpu(tree, &name)).collect())
}

/// A GPU with its driver's number, if this function is one.
fn gpu(tree: &Tree, name: &str) -> Option<(PciFunction, Option<u16>)> {
    let folder = format!("{PCI_DEVICES_PATH}/{name}");
    let id = |file: &str| texts::pci_id(&tree.text(&format!("{folder}/{file}"))?);
    if !is_gpu(id("class")?, id("vendor")) {
        return None;
    }
    let gpu = function(tree, &folder)?;
    let information = format!("{NVIDIA_GPUS_PATH}/{}/information", gpu.address);
    let information = tree.text(&information).unwrap_or_default();
    Some((gpu, texts::device_minor(&information)))
}

/// The PCI function that a device in this folder belongs to.
fn function(tree: &Tree, folder: &str) -> Option<PciFunction> {
    let path = tree.real_path(folder)?;
    let function = PciFunction::at(path.iter().filter_map(OsStr::to_str))?;
    let numa = tree.number(&format!(
        "{PCI_DEVICES_PATH}/{}/numa_node",
        function.address
    ));
    // -1, where the machine has but one, is no number here.
    let numa = numa.and_then(|node| u16::try_from(node).ok());
    Some(PciFunction { numa, ..function })
}
