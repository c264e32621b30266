//! A program in the kernel that counts each packet as it enters or leaves an interface.
//!
//! Its source is `agent/bpf/traffic.bpf.c`; the compiled object lies beside it and is part of this program. It goes
//! when this program ends. Only kernels before 6.6 may keep what a killed one has left behind, which is removed at
//! start.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use aya::maps::{Array, HashMap, IterableMap, MapData, MapError};
use aya::programs::tc::{TcError, qdisc_add_clsact, qdisc_detach_program};
use aya::programs::{ProgramError, SchedClassifier, TcAttachType};
use aya::util::KernelVersion;
use aya::{Ebpf, EbpfError as LoadError};
use reweave_agent_core::traffic::{Direction, FlowCount, PairCount, TrafficCounts};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::traffic::Volume;
use reweave_common::units::Bytes;
use thiserror::Error;

use super::{Wire, batch};

/// The kernel reads it in words.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static BPF_OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!("../../bpf/traffic.bpf.o"));

/// Each program, and where it is attached.
const BPF_PROGRAMS: [(&str, TcAttachType); 2] = [
    ("reweave_outward", TcAttachType::Egress),
    ("reweave_inward", TcAttachType::Ingress),
];

#[derive(Debug, Error)]
pub enum EbpfError {
    #[error("the kernel rejects the packet counter program")]
    Load {
        #[from]
        source: Box<LoadError>,
    },
    #[error("the packet counter program has no {name}")]
    Missing { name: &'static str },
    #[error("cannot start the packet counter program")]
    Start { source: ProgramError },
    #[error("cannot count the packets of {interface}")]
    Attach {
        interface: String,
        source: ProgramError,
    },
    #[error("cannot count the packets of {interface}")]
    Queue { interface: String, source: TcError },
    #[error("cannot read the packet counters")]
    Read { source: MapError },
}

/// The layouts of the program's `struct flow`, `struct pair` and `struct volume`.
type FlowBytes = [u8; 16];
type PairBytes = [u8; 12];
type VolumeWords = [u64; 4];

pub(super) struct EbpfCounter {
    bpf: Ebpf,
    attached: BTreeSet<Wire>,
}

impl EbpfCounter {
    pub(super) fn load() -> Result<Self, EbpfError> {
        let loaded = Ebpf::load(&BPF_OBJECT.0).map_err(Box::new);
        give_back_memory();
        let mut bpf = loaded?;
        for (name, _) in BPF_PROGRAMS {
            let loaded = program(&mut bpf, name)?.load();
            loaded.map_err(|source| EbpfError::Start { source })?;
        }
        Ok(Self {
            bpf,
            attached: BTreeSet::new(),
        })
    }

    /// What was counted since it was loaded, at these interfaces from now on.
    pub(super) fn read(&mut self, wires: &[Wire]) -> Result<TrafficCounts, EbpfError> {
        self.attached.retain(|wire| wires.contains(wire));
        for wire in wires {
            if self.attached.insert(wire.clone()) {
                self.attach(&wire.name)?;
            }
        }
        self.counted()
    }

    fn attach(&mut self, interface: &str) -> Result<(), EbpfError> {
        let attaches_by_itself = |it| it >= KernelVersion::new(6, 6, 0);
        if !KernelVersion::current().is_ok_and(attaches_by_itself) {
            prepare(interface)?;
        }
        for (name, place) in BPF_PROGRAMS {
            let attached = program(&mut self.bpf, name)?.attach(interface, place);
            attached.map_err(|source| EbpfError::Attach {
                interface: interface.to_owned(),
                source,
            })?;
        }
        Ok(())
    }

    fn counted(&self) -> Result<TrafficCounts, EbpfError> {
        let failed = |source| EbpfError::Read { source };
        let flows: Vec<(FlowBytes, VolumeWords)> = self.entries("flows")?;
        let pairs: Vec<(PairBytes, VolumeWords)> = self.entries("pairs")?;
        let unknown = self.bpf.map("unknown");
        let unknown = unknown.ok_or(EbpfError::Missing { name: "unknown" })?;
        let unknown: Array<&MapData, u64> = unknown.try_into().map_err(failed)?;
        let flows = flows.iter().filter_map(|(key, volume)| flow(key, *volume));
        let pairs = pairs.iter().filter_map(|(key, volume)| pair(key, *volume));
        Ok(TrafficCounts {
            flows: flows.collect(),
            pairs: pairs.collect(),
            unknown_packets: unknown.get(&0, 0).map_err(failed)?,
        })
    }

    /// What is counted while it is read may be missed until the next time.
    fn entries<K, V>(&self, name: &'static str) -> Result<Vec<(K, V)>, EbpfError>
    where
        K: aya::Pod + Default,
        V: aya::Pod + Default,
    {
        let map = self.bpf.map(name).ok_or(EbpfError::Missing { name })?;
        let map: HashMap<&MapData, K, V> = map
            .try_into()
            .map_err(|source| EbpfError::Read { source })?;
        let one_by_one = |_| map.iter().filter_map(Result::ok).collect();
        Ok(batch::entries(map.map()).unwrap_or_else(one_by_one))
    }
}

/// Loading reads all types of the kernel: tens of megabytes, which the allocator would keep.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "it only touches what is unused")]
fn give_back_memory() {
    unsafe { nix::libc::malloc_trim(0) };
}

/// Other allocators give back by themselves what they can.
#[cfg(not(target_env = "gnu"))]
fn give_back_memory() {}

fn program<'a>(
    bpf: &'a mut Ebpf,
    name: &'static str,
) -> Result<&'a mut SchedClassifier, EbpfError> {
    let program = bpf.program_mut(name).ok_or(EbpfError::Missing { name })?;
    program
        .try_into()
        .map_err(|source| EbpfError::Start { source })
}

/// Older kernels attach programs to a queue that has to be there.
fn prepare(interface: &str) -> Result<(), EbpfError> {
    for (name, place) in BPF_PROGRAMS {
        // A program is attached here only if an earlier process was killed.
        let _ = qdisc_detach_program(interface, place, name);
    }
    match qdisc_add_clsact(interface) {
        Err(TcError::AlreadyAttached) | Ok(()) => Ok(()),
        Err(source) => Err(EbpfError::Queue {
            interface: interface.to_owned(),
            source,
        }),
    }
}

/// See `decoders`.
pub(crate) fn read_entries(bytes: &[u8]) {
    let mut words = bytes.rchunks_exact(8);
    let mut word = || {
        words
            .next()
            .and_then(|it| it.try_into().ok())
            .map_or(0, u64::from_ne_bytes)
    };
    let volume = [word(), word(), word(), word()];
    if let Some(key) = bytes.first_chunk() {
        let _ = flow(key, volume);
    }
    if let Some(key) = bytes.first_chunk() {
        let _ = pair(key, volume);
    }
}

fn flow(key: &FlowBytes, volume: VolumeWords) -> Option<FlowCount> {
    let end = |address: usize, port: usize| {
        let port = u16::from_be_bytes([key[port], key[port + 1]]);
        SocketAddrV4::new(address_at(key, address), port)
    };
    let protocol = match key[12] {
        6 => Protocol::Tcp,
        17 => Protocol::Udp,
        _ => return None,
    };
    Some(FlowCount {
        flow: FlowKey {
            protocol,
            source: end(0, 8),
            destination: end(4, 10),
        },
        direction: direction(key[13].into())?,
        volume: read(volume),
        busy: Some(Duration::from_nanos(volume[2])),
    })
}

fn pair(key: &PairBytes, volume: VolumeWords) -> Option<PairCount> {
    Some(PairCount {
        source: address_at(key, 0),
        destination: address_at(key, 4),
        direction: direction(u32::from_ne_bytes([key[8], key[9], key[10], key[11]]))?,
        volume: read(volume),
    })
}

fn address_at(key: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(key[at], key[at + 1], key[at + 2], key[at + 3])
}

fn direction(number: u32) -> Option<Direction> {
    match number {
        0 => Some(Direction::Sent),
        1 => Some(Direction::Received),
        _ => None,
    }
}

fn read([bytes, packets, ..]: VolumeWords) -> Volume {
    Volume {
        bytes: Bytes::new(bytes),
        packets: Some(packets),
    }
}

#[cfg(test)]
mod tests {
    use ring::digest::{SHA256, digest};

    use super::*;

    #[test]
    fn ebpf_object_matches_its_source() {
        let source = include_bytes!("../../bpf/traffic.bpf.c");
        let digest = digest(&SHA256, source);
        let digest: String = digest
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let noted = include_str!("../../bpf/traffic.bpf.sha256");
        assert!(noted.starts_with(&digest), "run agent/bpf/compile.sh");
    }

    #[test]
    fn ebpf_keys_match_program_layout() {
        let key = [
            10, 0, 0, 1, 10, 0, 0, 2, 0x12, 0x34, 0x12, 0xb7, 17, 1, 0, 0,
        ];
        let read = flow(&key, [1500, 2, 7000, 99]).expect("UDP");
        assert_eq!(read.flow.to_string(), "udp 10.0.0.1:4660 > 10.0.0.2:4791");
        assert_eq!(read.direction, Direction::Received);
        assert_eq!(
            (read.volume.bytes.count(), read.volume.packets),
            (1500, Some(2))
        );
        assert_eq!(read.busy, Some(Duration::from_micros(7)));
        let mut other = key;
        other[12] = 1;
        assert_eq!(flow(&other, [0; 4]), None, "ICMP is no flow");
        other[13] = 9;
        assert_eq!(flow(&other, [0; 4]), None);
    }
}
