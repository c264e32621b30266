//! Samples the bytes over the links a hundred times a second while they carry more than background traffic, for the
//! iteration detector.
//!
//! A thread of its own reads the counter files, which stay open: this is far cheaper than asking the kernel for all
//! data of its interfaces. The ports of RDMA NICs are read, too. On a host that forwards, links also carry foreign
//! traffic; its own traffic is its TCP segments.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::prctl;
use reweave_agent_core::counter_delta;
use reweave_agent_core::counters::texts;
use reweave_agent_core::iteration_detector::ByteDelta;
use reweave_common::lock::lock;
use reweave_common::moment::Moment;
use reweave_common::units::Bytes;

use crate::clock;
use crate::packet_trains::SharedGate;

mod segments;

pub use segments::SegmentDelta;
use segments::Segments;

const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// While links are idle; new traffic is seen late by at most this interval.
const QUIET_SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// The tolerance of that interval, within it.
const QUIET_SAMPLE_TOLERANCE: Duration = Duration::from_millis(75);
/// The interval at which interfaces are listed again.
const RESCAN_INTERVAL: Duration = Duration::from_secs(2);
/// Samples that are not fetched are dropped.
const MAX_BEATS: usize = 4096;
/// The interval of RDMA ports: some NICs answer slowly.
const PORTS_INTERVAL: Duration = Duration::from_millis(100);
const INTERFACES_PATH: &str = "sys/class/net";
const RDMA_DEVICES_PATH: &str = "sys/class/infiniband";
const MAX_NUMBER_BYTES: usize = 24;

/// The samples since the last call.
#[derive(Default)]
pub struct WireSamples {
    pub wires: Vec<ByteDelta>,
    /// The traffic of a host that also forwards for others.
    pub own: Vec<SegmentDelta>,
}

/// Samples until it is dropped.
pub struct Sampler {
    heard: Arc<Mutex<WireSamples>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Samples all RDMA ports below `root`, and the interfaces for which `is_wire` holds; `gate` gets the growth at
    /// once. The host's own segments are sampled only if it `forwards`.
    pub fn start(
        root: &Path,
        is_wire: impl Fn(&str) -> bool + Send + 'static,
        forwards: bool,
        gate: SharedGate,
    ) -> std::io::Result<Self> {
        let heard = Arc::new(Mutex::new(WireSamples::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let (out, stopped) = (Arc::clone(&heard), Arc::clone(&stop));
        let own = forwards.then(|| Segments::open(root)).flatten();
        let root = root.to_owned();
        let thread = thread::Builder::new()
            .name("pulse".to_owned())
            .spawn(move || watch(&root, &is_wire, own, &gate, &out, &stopped))?;
        Ok(Self {
            heard,
            stop,
            thread: Some(thread),
        })
    }

    /// The samples since the last call.
    pub fn take(&self) -> WireSamples {
        std::mem::take(&mut lock(&self.heard))
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It ends within an interval, and has no result.
            let _ = thread.join();
        }
    }
}

fn watch(
    root: &Path,
    is_wire: &impl Fn(&str) -> bool,
    mut own: Option<Segments>,
    gate: &SharedGate,
    out: &Mutex<WireSamples>,
    stop: &AtomicBool,
) {
    let mut looked = None::<Moment>;
    let mut wires = Meters::new();
    let mut ports = Meters::new();
    let mut pace = SamplingPace::default();
    while !stop.load(Ordering::Relaxed) {
        if looked.is_none_or(|looked| clock::now().since(looked) >= RESCAN_INTERVAL) {
            looked = Some(clock::now());
            wires.look(interfaces(root), is_wire);
            ports.look(rdma_ports(root), |_| true);
        }
        pace.sleep(gate.is_quiet());
        let now = clock::now();
        note(wires.grown(now), !wires.is_empty(), gate, out);
        if let Some(spoken) = own.as_mut().and_then(|own| own.grown(now)) {
            keep(&mut lock(out).own, spoken);
        }
        if !ports.is_empty() && now.since(ports.read) >= PORTS_INTERVAL {
            note(ports.grown(now), true, gate, out);
        }
    }
}

/// The sleep time and its tolerance. Waking an idle processor costs more than reading the counters: while links are
/// idle, it is enough to wake up with other timers.
#[derive(Default)]
struct SamplingPace {
    is_quiet: bool,
}

impl SamplingPace {
    fn sleep(&mut self, is_quiet: bool) {
        if is_quiet != self.is_quiet {
            let slack = if is_quiet {
                QUIET_SAMPLE_TOLERANCE
            } else {
                Duration::ZERO
            };
            // Without the slack, the thread only wakes up by itself.
            let _ = prctl::set_timerslack(slack.as_nanos() as u64);
            self.is_quiet = is_quiet;
        }
        thread::sleep(if is_quiet {
            QUIET_SAMPLE_INTERVAL - QUIET_SAMPLE_TOLERANCE
        } else {
            SAMPLE_INTERVAL
        });
    }
}

/// The gate only gets the growth of visible links: whether others are idle is unknown.
fn note(growth: ByteDelta, is_seen: bool, gate: &SharedGate, out: &Mutex<WireSamples>) {
    if is_seen {
        gate.handle_growth(growth.from, growth.to, growth.sent + growth.received);
    }
    keep(&mut lock(out).wires, growth);
}

fn keep<T>(all: &mut Vec<T>, next: T) {
    if all.len() < MAX_BEATS {
        all.push(next);
    }
}

/// Where an interface or a port has its counters of sent and received, and in units of how many bytes.
struct CounterFiles {
    name: String,
    files: [PathBuf; 2],
    unit_bytes: u64,
}

fn interfaces(root: &Path) -> Vec<CounterFiles> {
    let all = named(&root.join(INTERFACES_PATH)).into_iter();
    let place = |name: String| {
        let folder = root.join(INTERFACES_PATH).join(&name).join("statistics");
        CounterFiles {
            files: ["tx_bytes", "rx_bytes"].map(|counter| folder.join(counter)),
            unit_bytes: 1,
            name,
        }
    };
    all.map(place).collect()
}

/// What they carry passes the kernel's interfaces by. They count in words of four bytes.
fn rdma_ports(root: &Path) -> Vec<CounterFiles> {
    let mut places = vec![];
    for device in named(&root.join(RDMA_DEVICES_PATH)) {
        let folder = root.join(RDMA_DEVICES_PATH).join(&device).join("ports");
        for port in named(&folder) {
            let counters = folder.join(&port).join("counters");
            places.push(CounterFiles {
                name: format!("{device}/{port}"),
                files: ["port_xmit_data", "port_rcv_data"].map(|counter| counters.join(counter)),
                unit_bytes: 4,
            });
        }
    }
    places
}

fn named(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.collect()
}

/// What is read together.
struct Meters {
    meters: Vec<Meter>,
    read: Moment,
}

struct Meter {
    name: String,
    counters: [CounterFile; 2],
    unit_bytes: u64,
}

struct CounterFile {
    file: File,
    last: u64,
}

impl Meters {
    fn new() -> Self {
        Self {
            meters: vec![],
            read: clock::now(),
        }
    }

    fn is_empty(&self) -> bool {
        self.meters.is_empty()
    }

    /// Takes in what is new and counts; what is known stays open, and is not asked about again.
    fn look(&mut self, places: Vec<CounterFiles>, counts: impl Fn(&str) -> bool) {
        for place in places {
            let is_known = self.meters.iter().any(|meter| meter.name == place.name);
            if !is_known && counts(&place.name) {
                self.meters.extend(Meter::open(place));
            }
        }
    }

    /// What all of them carried since the last call. Forgets the ones that are gone.
    fn grown(&mut self, to: Moment) -> ByteDelta {
        let mut growth = ByteDelta {
            from: std::mem::replace(&mut self.read, to),
            to,
            sent: Bytes::ZERO,
            received: Bytes::ZERO,
        };
        self.meters.retain_mut(|meter| {
            let grown = meter.grown();
            if let Some([sent, received]) = grown {
                growth.sent += sent;
                growth.received += received;
            }
            grown.is_some()
        });
        growth
    }
}

impl Meter {
    /// None of what does not count.
    fn open(place: CounterFiles) -> Option<Self> {
        let [sent, received] = place.files.map(|file| CounterFile::open(&file));
        Some(Self {
            name: place.name,
            counters: [sent?, received?],
            unit_bytes: place.unit_bytes,
        })
    }

    /// None when it is gone.
    fn grown(&mut self) -> Option<[Bytes; 2]> {
        let unit_bytes = self.unit_bytes;
        let [sent, received] = &mut self.counters;
        let units = [sent.grown()?, received.grown()?];
        Some(units.map(|units| Bytes::new(units.saturating_mul(unit_bytes))))
    }
}

impl CounterFile {
    fn open(file: &Path) -> Option<Self> {
        let mut counter = Self {
            file: File::open(file).ok()?,
            last: 0,
        };
        counter.grown()?;
        Some(counter)
    }

    /// None when what it counts is gone.
    fn grown(&mut self) -> Option<u64> {
        let mut text = [0; MAX_NUMBER_BYTES];
        let length = self.file.read_at(&mut text, 0).ok()?;
        let now = texts::number(std::str::from_utf8(&text[..length]).ok()?)?;
        let last = std::mem::replace(&mut self.last, now);
        // The traffic before a restart of the counter is unknown.
        Some(counter_delta::grown(last, now, None).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Instant;

    use super::*;

    #[test]
    fn rdma_counters_are_read_in_bytes() {
        let root = tempfile::tempdir().unwrap();
        let counters = root
            .path()
            .join(RDMA_DEVICES_PATH)
            .join("mlx5_0/ports/1/counters");
        fs::create_dir_all(&counters).unwrap();
        let files = ["port_xmit_data", "port_rcv_data"]
            .map(|name| fs::File::create(counters.join(name)).unwrap());
        // The file is overwritten in place, so that it always contains a number.
        let count = |numbers: [u64; 2]| {
            for (file, number) in files.iter().zip(numbers) {
                file.write_all_at(format!("{number:020}\n").as_bytes(), 0)
                    .unwrap();
            }
        };
        count([7, 100]);
        let gate = SharedGate::default();
        let pulse = Sampler::start(root.path(), |_| true, false, gate.clone()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while !gate.is_watched() {
            assert!(Instant::now() < deadline);
            thread::park_timeout(Duration::from_millis(2));
        }
        count([1_000_007, 350]);
        let mut sums = [0, 0];
        while sums != [4_000_000, 1000] {
            for growth in pulse.take().wires {
                assert!(growth.from < growth.to);
                sums[0] += growth.sent.count();
                sums[1] += growth.received.count();
            }
            assert!(Instant::now() < deadline, "{sums:?}");
            thread::park_timeout(Duration::from_millis(2));
        }
        assert!(gate.busiest().is_some(), "the gate has heard it");
    }
}
