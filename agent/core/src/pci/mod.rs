//! The nearest GPUs of a NIC, by NCCL's rule (`ncclTopoGetXmlFromSys` and `ncclTopoSetPaths`).
//!
//! sysfs shows a function below all bridges above it, such as
//! `pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0`: a root port, the upstream and the downstream port
//! of a switch, and the function. NCCL climbs two bridges at a time and takes each pair for one switch. What is left
//! above, a root port or nothing, belongs to the processor, and its NUMA node counts.
//!
//! NCCL also merges Broadcom switches that show two levels. Here such a switch counts as several.

use std::collections::BTreeSet;

use reweave_common::pci::{NearGpu, NicPlace, PciAddress, PciPath};

/// `PCI_CLASS_DISPLAY_VGA`
const DISPLAY_VGA: u32 = 0x0300;
/// `PCI_CLASS_DISPLAY_3D`
const DISPLAY_3D: u32 = 0x0302;
/// `PCI_VENDOR_ID_NVIDIA` and `PCI_VENDOR_ID_ATI`
const GPU_VENDORS: [u32; 2] = [0x10de, 0x1002];

/// A PCI function and its place in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PciFunction {
    pub address: PciAddress,
    /// The bridges above it, the nearest first.
    pub bridges: Vec<PciAddress>,
    pub numa: Option<u16>,
}

/// A GPU of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostGpu {
    pub function: PciFunction,
    pub index: u16,
}

impl PciFunction {
    /// The function that a device belongs to, by the folders on its path in /sys, outermost first. Its NUMA node is not
    /// known by that. `None` if no folder is a PCI function's.
    pub fn at<'f>(folders: impl IntoIterator<Item = &'f str>) -> Option<Self> {
        let mut branch: Vec<PciAddress> = vec![];
        let mut is_broken = false;
        for folder in folders {
            match folder.parse::<PciAddress>() {
                Ok(address) => {
                    // Below a folder of another kind another tree begins, as of a volume management device.
                    if is_broken {
                        branch.clear();
                    }
                    branch.push(address);
                    is_broken = false;
                }
                Err(_) => is_broken = true,
            }
        }
        let address = branch.pop()?;
        branch.reverse();
        Some(Self {
            address,
            bridges: branch,
            numa: None,
        })
    }

    /// The upstream ports of the switches above it, the nearest first.
    fn switches(&self) -> Vec<PciAddress> {
        self.bridges.iter().skip(1).step_by(2).copied().collect()
    }

    /// The path to another function, and how many switches and NUMA nodes it passes.
    fn path_to(&self, other: &Self) -> (PciPath, usize) {
        let [ours, theirs] = [self, other].map(Self::switches);
        let shared = ours.iter().zip(0..).find_map(|(switch, up)| {
            let down = theirs.iter().position(|it| it == switch)?;
            Some([up, down])
        });
        match shared {
            Some([0, 0]) => (PciPath::Pix, 1),
            Some([up, down]) => (PciPath::Pxb, up + 1 + down),
            None if self.numa == other.numa => (PciPath::Phb, ours.len() + 1 + theirs.len()),
            None => (PciPath::Sys, ours.len() + 2 + theirs.len()),
        }
    }
}

/// Whether a function computes, by its class code and its vendor. VGA controllers of baseboards and hypervisors only
/// draw.
pub fn is_gpu(class: u32, vendor: Option<u32>) -> bool {
    match class >> 8 {
        DISPLAY_3D => true,
        DISPLAY_VGA => vendor.is_some_and(|it| GPU_VENDORS.contains(&it)),
        _ => false,
    }
}

/// Numbers GPUs as their driver does. One without a number of its own gets the lowest that is free, in bus order.
pub fn number_gpus(mut found: Vec<(PciFunction, Option<u16>)>) -> Vec<HostGpu> {
    found.sort_by_key(|(function, _)| function.address);
    let mut taken = BTreeSet::new();
    for (_, number) in &mut found {
        *number = number.filter(|it| taken.insert(*it));
    }
    let mut free = (0..=u16::MAX).filter(|it| !taken.contains(it));
    let numbered = found.into_iter().filter_map(|(function, number)| {
        let index = number.or_else(|| free.next())?;
        Some(HostGpu { function, index })
    });
    numbered.collect()
}

/// The place of a NIC, with the GPUs that have the nearest kind of path to it.
pub fn nic_place(interface: &str, nic: &PciFunction, gpus: &[HostGpu]) -> NicPlace {
    let mut gpus: Vec<_> = gpus.iter().map(|gpu| near(nic, gpu)).collect();
    gpus.sort_by_key(|gpu| (gpu.path, gpu.hops, gpu.pci));
    let nearest = gpus.first().map(|gpu| gpu.path);
    gpus.retain(|gpu| Some(gpu.path) == nearest);
    gpus.truncate(NicPlace::MAX_GPUS);
    NicPlace {
        interface: interface.to_owned(),
        pci: nic.address,
        numa: nic.numa,
        gpus,
    }
}

fn near(nic: &PciFunction, gpu: &HostGpu) -> NearGpu {
    let (path, hops) = nic.path_to(&gpu.function);
    NearGpu {
        pci: gpu.function.address,
        index: gpu.index,
        path,
        hops: u8::try_from(hops).unwrap_or(u8::MAX),
    }
}

#[cfg(test)]
mod tests;
