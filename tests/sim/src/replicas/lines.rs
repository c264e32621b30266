//! Connections between coordinators, one per pair and direction. Large messages are sent in parts, which the product
//! splits and joins: in order, large ones in parallel with urgent ones. A connection may be lost within a message.

use std::collections::{BTreeMap, VecDeque};

use reweave_common::moment::Moment;
use reweave_proto::message::PeerPart;
use reweave_proto::parts::{PartAssembler, cut, encode};
use reweave_replica::{Entry, EntryContent, Message};

use super::node::direction;
use crate::chance::Chance;

/// From the first coordinator to the second.
pub type Line = (u64, u64);

/// One channel of one connection.
#[derive(Debug, Clone, Copy)]
pub struct Lane {
    pub line: Line,
    /// The number of the connection.
    pub connection: u64,
    is_large: bool,
}

#[derive(Debug)]
pub struct Lines {
    /// A message with more bytes of entries is sent in parts.
    loose_bytes: usize,
    pub part_bytes: usize,
    connections: BTreeMap<Line, Connection>,
    /// Number of connections so far.
    opened: u64,
    /// The next snapshot is lost with its connection after this number of parts.
    pub lose_snapshot_after: Option<usize>,
    /// Letters of several parts that came.
    pub in_parts: u64,
    /// Letters of which some parts came, and the connection was lost before the last.
    pub cut_off: u64,
}

#[derive(Debug)]
struct Connection {
    number: u64,
    /// Urgent messages, and large ones.
    channels: [Stream; 2],
}

#[derive(Debug, Default)]
pub struct Stream {
    /// Messages in flight as a whole.
    letters: VecDeque<Message>,
    /// Parts in flight, in order.
    flights: VecDeque<Vec<PeerPart>>,
    /// When the last of them do.
    due: Moment,
    /// The connection is lost: nothing follows these messages.
    is_broken: bool,
    /// At the receiving end.
    joiner: PartAssembler,
    is_amid_letter: bool,
}

impl Lines {
    pub fn new(chance: &mut Chance) -> Self {
        Self {
            loose_bytes: *chance.one_of(&[0, 100, 1000]),
            part_bytes: *chance.one_of(&[20, 150, 1000]),
            connections: BTreeMap::new(),
            opened: 0,
            lose_snapshot_after: None,
            in_parts: 0,
            cut_off: 0,
        }
    }

    /// Whether it does not go at once, by itself.
    pub fn is_long(&self, message: &Message) -> bool {
        let bytes = |entry: &Entry| match &entry.content {
            EntryContent::Proposal(data) => data.len(),
            EntryContent::Membership { change, .. } => change.len(),
        };
        let entries_bytes: usize = message.entries.iter().map(bytes).sum();
        message.is_large() || entries_bytes > self.loose_bytes
    }

    pub fn cut(&self, message: &Message) -> Vec<PeerPart> {
        let letter = encode(message).expect("it is no longer than any letter");
        cut(&letter, self.part_bytes).collect()
    }

    /// Returns the stream of a message. Both ends restart after a lost connection.
    pub fn stream(&mut self, message: &Message) -> (Lane, &mut Stream) {
        let (line, is_large) = (direction(message), message.is_large());
        let found = self.connections.entry(line).or_insert_with(|| {
            self.opened += 1;
            Connection {
                number: self.opened,
                channels: <[Stream; 2]>::default(),
            }
        });
        let lane = Lane {
            line,
            connection: found.number,
            is_large,
        };
        (lane, &mut found.channels[usize::from(is_large)])
    }

    /// The next parts come. What is complete with them is what was sent.
    pub fn arrive(&mut self, lane: Lane) -> Option<Message> {
        let Lane { line, .. } = lane;
        let found = self.connections.get_mut(&line);
        let found = found.filter(|it| it.number == lane.connection)?;
        let stream = &mut found.channels[usize::from(lane.is_large)];
        let parts = stream.flights.pop_front()?;
        let mut joined = None;
        for part in &parts {
            self.in_parts += u64::from(part.is_last && stream.is_amid_letter);
            stream.is_amid_letter = !part.is_last;
            match stream.joiner.join::<Message>(part) {
                Ok(None) => {}
                Ok(Some(letter)) => {
                    let sent = stream.letters.pop_front();
                    assert_eq!(Some(&letter), sent.as_ref(), "{line:?}: joined, and sent");
                    joined = Some(letter);
                }
                Err(error) => panic!("{line:?}: what was sent is no letter: {error}"),
            }
        }
        let all_came = stream.flights.is_empty() && !stream.is_broken;
        assert!(
            !all_came || stream.letters.is_empty(),
            "{line:?}: all parts came, and no letter"
        );
        joined
    }

    /// Whether this connection is still there.
    pub fn holds(&self, line: Line, connection: u64) -> bool {
        let found = self.connections.get(&line);
        found.is_some_and(|it| it.number == connection)
    }

    /// Loses a connection with everything in flight, including parts of a message.
    pub fn lose(&mut self, line: Line) {
        if let Some(lost) = self.connections.remove(&line) {
            let cut_off = lost.channels.iter().filter(|it| it.is_amid_letter);
            self.cut_off += cut_off.count() as u64;
        }
    }

    /// Loses all connections from and to this coordinator.
    pub fn lose_all_of(&mut self, id: u64) {
        let lines = self.connections.keys();
        let lines = lines.filter(|(from, to)| [*from, *to].contains(&id));
        let lines: Vec<_> = lines.copied().collect();
        lines.into_iter().for_each(|line| self.lose(line));
    }
}

impl Stream {
    /// Delivers after the messages that are already in flight.
    pub fn push_parts(&mut self, parts: Vec<PeerPart>, due: Moment) -> Moment {
        self.due = self.due.max(due);
        self.flights.push_back(parts);
        self.due
    }

    /// Sends all parts of this message.
    pub fn push_whole(&mut self, letter: Message) {
        self.letters.push_back(letter);
    }

    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Gives the moment from which this may be noticed.
    pub fn break_off(&mut self) -> Moment {
        self.is_broken = true;
        self.due
    }
}
