//! A shelf in memory that can fail, and a small cluster to write about.

use std::collections::BTreeMap;
use std::mem;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::LinkId;
use reweave_common::moment::Moment;
use reweave_common::sample::{Counters, FlowReading};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::{Bytes as Count, Rate};

use crate::chronicle::{Chronicle, Rules};
use crate::entry::{Entry, Far};
use crate::kind::Kind;
use crate::past::{Past, Question, Window};
use crate::resolution::Resolution;
use crate::shelf::{Listed, Shelf, ShelfError};

/// 2026-11-20T14:00:00Z.
pub(super) const START_S: u64 = 1_795_183_200;

pub(super) fn second(second: u64) -> Moment {
    Moment::from_micros((START_S + second) * 1_000_000)
}

/// When it fails, counted in operations that change something.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) enum Fault {
    #[default]
    None,
    /// Nothing works from this one on.
    DeadBefore(usize),
    /// This one is done, and then nothing works.
    DeadAfter(usize),
    /// This one is done, and said to have failed; all others work.
    Unsure(usize),
    /// There is no room.
    Full,
    /// What is there cannot be read.
    Unreadable,
}

/// Files that outlive their writer.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk(pub(super) Arc<Mutex<State>>);

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) files: BTreeMap<String, Bytes>,
    /// Since a file was written in their folder: a write syncs the names in it, and a removal syncs none.
    removed: BTreeMap<String, Bytes>,
    pub(super) fault: Fault,
    pub(super) changes: usize,
}

fn refused(what: &'static str, file: &str) -> ShelfError {
    let file = file.to_owned();
    ShelfError::Silent { what, file }
}

fn folder_of(name: &str) -> Option<&str> {
    name.rsplit_once('/').map(|(folder, _)| folder)
}

impl Disk {
    pub(super) fn set(&self, fault: Fault) {
        let mut state = self.0.lock().unwrap();
        state.fault = fault;
        state.changes = 0;
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut State)) -> Result<(), ShelfError> {
        let mut state = self.0.lock().unwrap();
        let count = state.changes;
        state.changes += 1;
        let (done, report) = match state.fault {
            Fault::None | Fault::Unreadable => (true, true),
            Fault::Full => (false, false),
            Fault::Unsure(at) => (true, count != at),
            Fault::DeadBefore(at) => (count < at, count < at),
            Fault::DeadAfter(at) => (count <= at, count < at),
        };
        if done {
            change(&mut state);
        }
        report.then_some(()).ok_or_else(|| refused("change", name))
    }

    /// Every second of the files that were removed is there again, or each of the others.
    pub(super) fn lose_power(&self, first: usize) {
        let mut state = self.0.lock().unwrap();
        let removed = mem::take(&mut state.removed).into_iter();
        state.files.extend(removed.skip(first).step_by(2));
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().files.keys().cloned().collect()
    }
}

impl Shelf for Disk {
    fn put(&self, name: &str, content: Bytes) -> Result<(), ShelfError> {
        self.change(name, |state| {
            let folder = folder_of(name);
            state.removed.retain(|gone, _| folder_of(gone) != folder);
            let before = state.files.insert(name.to_owned(), content.clone());
            let same = before.is_none_or(|before| before == content);
            assert!(same, "{name} was written twice");
        })
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>, ShelfError> {
        let state = self.0.lock().unwrap();
        match state.fault {
            Fault::Unreadable => Err(refused("read", name)),
            _ => Ok(state.files.get(name).cloned()),
        }
    }

    fn list(&self, folder: Option<&str>) -> Result<Vec<Listed>, ShelfError> {
        let state = self.0.lock().unwrap();
        let inside =
            |name: &&String| folder.is_none_or(|folder| name.starts_with(&format!("{folder}/")));
        let names = state.files.keys().filter(inside);
        let listed = names.map(|name| Listed {
            name: name.clone(),
            bytes: state.files[name].len() as u64,
        });
        Ok(listed.collect())
    }

    fn remove(&self, name: &str) -> Result<(), ShelfError> {
        self.change(name, |state| {
            let gone = state.files.remove(name);
            state
                .removed
                .extend(gone.map(|content| (name.to_owned(), content)));
        })
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

/// What h0 sends to leaf0.
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
