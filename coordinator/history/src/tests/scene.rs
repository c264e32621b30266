//! A folder in memory that can fail and lose power, and a small cluster as the subject.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::LinkId;
use reweave_common::moment::Moment;
use reweave_common::sample::{Counters, FlowReading};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::{Bytes as Count, Rate};
use reweave_sim_disk::chance::Chance;
use reweave_sim_disk::{LossyFiles, ROOT};

use crate::chronicle::{Chronicle, Rules};
use crate::entry::{Entry, Far};
use crate::folder::Folder;
use crate::kind::Kind;
use crate::past::{Past, Question, Window};
use crate::resolution::Resolution;
use crate::shelf::{Listed, Shelf, ShelfError};

/// The time 2026-11-20T14:00:00Z.
pub(super) const START_S: u64 = 1_795_183_200;

pub(super) fn second(second: u64) -> Moment {
    Moment::from_micros((START_S + second) * 1_000_000)
}

/// The fault of a disk, and its time in operations that change something.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) enum Fault {
    #[default]
    None,
    /// All operations fail from this one on.
    DeadBefore(usize),
    /// This operation succeeds, and all later ones fail.
    DeadAfter(usize),
    /// This operation succeeds but reports a failure. All others work.
    Unsure(usize),
    /// The disk is full.
    Full,
    /// Files cannot be read.
    Unreadable,
}

/// The unsynced names that survive a loss of power.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Unsynced {
    /// Some survive, chosen by this seed.
    Drawn(u64),
    Lost,
    Kept,
}

/// Files that outlive their writer. The faults are those of any store, for whole files. Tests with [`Folder`] cover
/// faults within a file.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    files: LossyFiles,
    folder: Arc<Folder<LossyFiles>>,
    unsynced: Unsynced,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    fault: Fault,
    changes: usize,
}

impl Default for Disk {
    fn default() -> Self {
        Self::leaving(Unsynced::Drawn(0))
    }
}

fn refused(what: &'static str, file: &str) -> ShelfError {
    let file = file.to_owned();
    ShelfError::Silent { what, file }
}

impl Disk {
    pub(super) fn leaving(unsynced: Unsynced) -> Self {
        let files = match unsynced {
            Unsynced::Drawn(seed) => LossyFiles::new(Chance::of(seed)),
            Unsynced::Lost | Unsynced::Kept => LossyFiles::exact(),
        };
        Self {
            unsynced,
            ..Self::on(&files).unwrap()
        }
    }

    /// Opens a shelf, and creates its folder if it is missing, as a starting coordinator does.
    pub(super) fn on(files: &LossyFiles) -> Result<Self, ShelfError> {
        let folder = Folder::at(files.clone(), &Path::new(ROOT).join("history"));
        folder.make()?;
        Ok(Self {
            files: files.clone(),
            folder: Arc::new(folder),
            unsynced: Unsynced::Lost,
            state: Arc::default(),
        })
    }

    pub(super) fn set(&self, fault: Fault) {
        let mut state = self.state.lock().unwrap();
        state.fault = fault;
        state.changes = 0;
    }

    /// Returns the number of changes since the fault was set.
    pub(super) fn changes(&self) -> usize {
        self.state.lock().unwrap().changes
    }

    /// Returns whether a change is done, and whether it reports success.
    fn begin_change(&self) -> (bool, bool) {
        let mut state = self.state.lock().unwrap();
        let count = state.changes;
        state.changes += 1;
        match state.fault {
            Fault::None | Fault::Unreadable => (true, true),
            Fault::Full => (false, false),
            Fault::Unsure(at) => (true, count != at),
            Fault::DeadBefore(at) => (count < at, count < at),
            Fault::DeadAfter(at) => (count <= at, count < at),
        }
    }

    /// Loses power. A write syncs the names in its folder, and a removal syncs none: removed files may be there again.
    pub(super) fn lose_power(&self) {
        if self.unsynced == Unsynced::Kept {
            self.files.lose_power_after_all();
        } else {
            self.files.lose_power();
        }
    }

    pub(super) fn names(&self) -> Vec<String> {
        let listed = self.folder.list(None).unwrap().into_iter();
        let mut names: Vec<_> = listed.map(|file| file.name).collect();
        names.sort();
        names
    }

    /// Returns all files by name, whatever the fault is.
    pub(super) fn contents(&self) -> BTreeMap<String, Bytes> {
        let listed = self.folder.list(None).unwrap().into_iter();
        let contents = listed.map(|file| {
            let content = self.folder.get(&file.name).unwrap();
            (file.name, content.unwrap())
        });
        contents.collect()
    }

    /// Adds a file as another program does.
    pub(super) fn insert(&self, name: &str, content: &'static [u8]) {
        let content = Bytes::from_static(content);
        self.folder.put(name, content).unwrap();
    }

    /// Removes all files whose names have this part.
    pub(super) fn remove_all(&self, part: &str) {
        let names = self.names().into_iter();
        for name in names.filter(|name| name.contains(part)) {
            self.folder.remove(&name).unwrap();
        }
    }
}

impl Shelf for Disk {
    fn put(&self, name: &str, content: Bytes) -> Result<(), ShelfError> {
        let (done, report) = self.begin_change();
        if done {
            let before = self.folder.get(name)?;
            let same = before.is_none_or(|before| before == content);
            assert!(same, "{name} was written twice");
            self.folder.put(name, content)?;
        }
        report.then_some(()).ok_or_else(|| refused("change", name))
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>, ShelfError> {
        if self.state.lock().unwrap().fault == Fault::Unreadable {
            return Err(refused("read", name));
        }
        self.folder.get(name)
    }

    fn list(&self, folder: Option<&str>) -> Result<Vec<Listed>, ShelfError> {
        self.folder.list(folder)
    }

    fn remove(&self, name: &str) -> Result<(), ShelfError> {
        let (done, report) = self.begin_change();
        if done {
            self.folder.remove(name)?;
        }
        report.then_some(()).ok_or_else(|| refused("change", name))
    }
}

pub(super) fn chronicle(disk: &Disk, run: u64) -> Chronicle {
    Chronicle::on(Box::new(disk.clone()), Rules::default(), run).unwrap()
}

pub(super) fn look(disk: &Disk, from: u64, to: u64, resolution: Resolution) -> Window {
    let past = Past::on(Box::new(disk.clone()));
    let question = Question {
        from: second(from),
        to: second(to),
        resolution: Some(resolution),
        kinds: Kind::ALL.into(),
    };
    past.look(&question).unwrap()
}

pub(super) fn flow(port: u16) -> FlowKey {
    let end = |last, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, last), port);
    FlowKey {
        protocol: Protocol::Tcp,
        source: end(1, port),
        destination: end(2, 5001),
    }
}

/// Makes an entry of the link from h0 to leaf0.
pub(super) fn link(rate: u64) -> Entry {
    let far = Far {
        node: "leaf0",
        link: LinkId::from_index(0),
    };
    let counters = Counters {
        interface: "eth0".to_owned(),
        up: true,
        sent: Count::new(rate),
        received: Count::new(0),
        dropped_packets: 0,
        send_rate: Some(Rate::from_bits_per_s(rate)),
        receive_rate: None,
    };
    Entry::link("h0", Some(far), &counters)
}

pub(super) fn flowing(sent: u64, rate: Option<u64>) -> Entry {
    of_flow(49152, sent, rate)
}

pub(super) fn flowing_from(port: u16, sent: u64) -> Entry {
    of_flow(port, sent, None)
}

fn of_flow(port: u16, sent: u64, rate: Option<u64>) -> Entry {
    let reading = FlowReading {
        flow: flow(port),
        bytes: Count::new(sent),
        rate: rate.map(Rate::from_bits_per_s),
        rtt: Some(TimeSpan::from_micros(20)),
        retransmits: Some(3),
    };
    Entry::flow(
        &"h0".into(),
        Some(&"h1".into()),
        Some("h0/0 leaf0/1".into()),
        &reading,
    )
}

/// Records one link and one flow every second. Some tests expect failures.
pub(super) fn live(chronicle: &mut Chronicle, seconds: std::ops::Range<u64>) -> usize {
    let mut failures = 0;
    for at in seconds {
        failures += usize::from(chronicle.advance(second(at)).is_err());
        chronicle.observe(second(at), &link(at));
        chronicle.observe(second(at), &flowing(at * 1000, Some(8000)));
    }
    failures
}
