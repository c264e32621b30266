//! How many bytes the wires carry, a hundred times a second while they carry more than chatter: what
//! rhythms are heard in.
//!
//! A thread of its own reads the counters' files, which stay open; that costs far less than asking
//! the kernel for all that it knows of its interfaces.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use reweave_agent_core::counters::texts;
use reweave_common::lock::lock;
use reweave_common::moment::Moment;
use reweave_common::units::Bytes;

use crate::clock;
use crate::trains::SharedGate;

const STEP: Duration = Duration::from_millis(10);
/// While the wires are quiet; whatever begins then is heard this much later once.
const QUIET_STEP: Duration = Duration::from_millis(40);
/// Interfaces are looked for again so often.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// What nobody fetches is of no use later.
const MOST_BEATS: usize = 4096;
const INTERFACES: &str = "/sys/class/net";
const NUMBER_BYTES: usize = 24;

/// What all wires carried from one moment to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    pub from: Moment,
    pub to: Moment,
    pub sent: Bytes,
    pub received: Bytes,
}

/// Reads until it is dropped.
pub struct Pulse {
    growths: Arc<Mutex<Vec<Growth>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pulse {
    /// Of the interfaces for which `is_wire` holds; `gate` hears of it at once.
    pub fn start(
        is_wire: impl Fn(&str) -> bool + Send + 'static,
        gate: SharedGate,
    ) -> std::io::Result<Self> {
        let growths = Arc::new(Mutex::new(vec![]));
        let stop = Arc::new(AtomicBool::new(false));
        let (out, stopped) = (Arc::clone(&growths), Arc::clone(&stop));
        let thread = thread::Builder::new()
            .name("pulse".to_owned())
            .spawn(move || watch(&is_wire, &gate, &out, &stopped))?;
        Ok(Self {
            growths,
            stop,
            thread: Some(thread),
        })
    }

    /// What was read since this was last asked.
    pub fn take(&self) -> Vec<Growth> {
        std::mem::take(&mut lock(&self.growths))
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It ends within a step, and has nothing to say.
            let _ = thread.join();
        }
    }
}

fn watch(
    is_wire: &impl Fn(&str) -> bool,
    gate: &SharedGate,
    out: &Mutex<Vec<Growth>>,
    stop: &AtomicBool,
) {
    let mut wires = vec![];
    let (mut from, mut looked) = (clock::now(), None::<Moment>);
    while !stop.load(Ordering::Relaxed) {
        if looked.is_none_or(|looked| from.since(looked) >= LOOK_EVERY) {
            looked = Some(from);
            look(is_wire, &mut wires);
        }
        let step = if gate.is_quiet() { QUIET_STEP } else { STEP };
        thread::sleep(step);
        let to = clock::now();
        let [sent, received] = grown(&mut wires);
        // Of wires that cannot be seen nobody knows whether they rest.
        if !wires.is_empty() {
            gate.handle_growth(from, to, sent + received);
        }
        let growth = Growth {
            from,
            to,
            sent,
            received,
        };
        from = to;
        let mut growths = lock(out);
        if growths.len() < MOST_BEATS {
            growths.push(growth);
        }
    }
}

/// An interface with its counters of sent and received bytes.
struct Wire {
    name: String,
    counters: [Counter; 2],
}

struct Counter {
    file: File,
    last: u64,
}

impl Counter {
    fn open(interface: &str, name: &str) -> Option<Self> {
        let path = format!("{INTERFACES}/{interface}/statistics/{name}");
        let mut counter = Self {
            file: File::open(path).ok()?,
            last: 0,
        };
        counter.grown()?;
        Some(counter)
    }

    /// None when the interface is gone.
    fn grown(&mut self) -> Option<u64> {
        let mut text = [0; NUMBER_BYTES];
        let length = self.file.read_at(&mut text, 0).ok()?;
        let now = texts::number(std::str::from_utf8(&text[..length]).ok()?)?;
        let last = std::mem::replace(&mut self.last, now);
        Some(now.saturating_sub(last))
    }
}

/// Takes in what is new; what is known stays open.
fn look(is_wire: &impl Fn(&str) -> bool, wires: &mut Vec<Wire>) {
    let entries = std::fs::read_dir(Path::new(INTERFACES));
    let entries = entries.into_iter().flatten().filter_map(Result::ok);
    for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
        if wires.iter().any(|wire| wire.name == name) || !is_wire(&name) {
            continue;
        }
        let counters = ["tx_bytes", "rx_bytes"].map(|counter| Counter::open(&name, counter));
        if let [Some(sent), Some(received)] = counters {
            let counters = [sent, received];
            wires.push(Wire { name, counters });
        }
    }
}

/// What all of them carried since this was last asked; forgets those that are gone.
fn grown(wires: &mut Vec<Wire>) -> [Bytes; 2] {
    let mut sums = [Bytes::ZERO; 2];
    wires.retain_mut(|wire| {
        let [sent, received] = &mut wire.counters;
        let grown = sent.grown().zip(received.grown());
        if let Some((sent, received)) = grown {
            sums[0] += Bytes::new(sent);
            sums[1] += Bytes::new(received);
        }
        grown.is_some()
    });
    sums
}
