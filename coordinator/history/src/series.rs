//! Time series: the subject of the rows of a table.

use std::fmt::{Display, Write};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;
use reweave_common::flow::FlowKey;

use crate::kind::Kind;

/// The separator between the parts of a name. It takes one byte, and no part contains it.
const PART_SEPARATOR: char = '\u{1f}';
const MAX_PART_BYTES: usize = 256;

/// A series with its name in rows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Series {
    pub(crate) kind: Kind,
    /// The values of the keys of its kind, one after the other.
    pub(crate) name: Arc<str>,
}

impl Series {
    /// Returns the values of its keys, one for each key of the kind.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &str> {
        parts(&self.name)
    }
}

pub(crate) fn name(parts: &[&dyn Display]) -> Arc<str> {
    let mut name = String::new();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            name.push(PART_SEPARATOR);
        }
        let start = name.len();
        // Writing to memory does not fail.
        let _ = write!(name, "{part}");
        name.truncate(name.floor_char_boundary(start + MAX_PART_BYTES));
        if name[start..].contains(PART_SEPARATOR) {
            let plain = name[start..].replace(PART_SEPARATOR, " ");
            name.replace_range(start.., &plain);
        }
    }
    name.into()
}

pub(crate) fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.split(PART_SEPARATOR)
}

/// A series with its name in entries. Flows are reported every second, so their text is made only for a new series.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Flow(Arc<str>, FlowKey),
    Named(Arc<str>),
}

impl Key {
    fn name(&self) -> Arc<str> {
        match self {
            Self::Named(name) => Arc::clone(name),
            Self::Flow(node, flow) => {
                name(&[node, &flow.protocol, &flow.source, &flow.destination])
            }
        }
    }
}

/// The series of one kind. Each has a number as long as it is reported. Numbers of forgotten series are reused, so that
/// numbers stay small.
#[derive(Debug, Default)]
pub(crate) struct Roll {
    /// The numbers by the hashes of their keys.
    numbers: HashTable<u32>,
    hasher: RandomState,
    /// The keys by number. None if the number is free.
    keys: Vec<Option<Key>>,
    names: Vec<Arc<str>>,
    /// The number that was requested after each number last time: most agents report the same series in the same order.
    after: Vec<u32>,
    last: u32,
    free: Vec<u32>,
    /// The numbers in the order of their names, without new ones.
    order: Vec<u32>,
    new: Vec<u32>,
}

impl Roll {
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(crate) fn number(&mut self, key: &Key) -> Option<u32> {
        let is_it = |number: &u32| self.keys[*number as usize].as_ref() == Some(key);
        let guess = self.after.get(self.last as usize);
        let number = match guess {
            Some(guess) if is_it(guess) => guess,
            _ => self.numbers.find(hash(&self.hasher, Some(key)), is_it)?,
        };
        let number = *number;
        self.follow(number);
        Some(number)
    }

    fn follow(&mut self, number: u32) {
        if let Some(after) = self.after.get_mut(self.last as usize) {
            *after = number;
        }
        self.last = number;
    }

    pub(crate) fn enroll(&mut self, key: Key) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| self.add());
        self.names[number as usize] = key.name();
        self.keys[number as usize] = Some(key);
        self.new.push(number);
        let hash = |number: &u32| hash(&self.hasher, self.keys[*number as usize].as_ref());
        self.numbers.insert_unique(hash(&number), number, hash);
        self.follow(number);
        number
    }

    fn add(&mut self) -> u32 {
        self.keys.push(None);
        self.names.push(Arc::default());
        self.after.push(0);
        self.keys.len() as u32 - 1
    }

    pub(crate) fn name(&self, number: u32) -> &Arc<str> {
        &self.names[number as usize]
    }

    /// Sorts new series into the order.
    pub(crate) fn sort(&mut self) {
        let mut new = std::mem::take(&mut self.new);
        if new.is_empty() {
            return;
        }
        let name = |number: &u32| &self.names[*number as usize];
        new.sort_by(|a, b| name(a).cmp(name(b)));
        let mut order = Vec::with_capacity(self.order.len() + new.len());
        let mut rest = &self.order[..];
        for number in &new {
            let before = rest.partition_point(|other| name(other) < name(number));
            order.extend_from_slice(&rest[..before]);
            order.push(*number);
            rest = &rest[before..];
        }
        order.extend_from_slice(rest);
        self.order = order;
    }

    /// Returns all numbers in the order of their names, as of the last [`Roll::sort`].
    pub(crate) fn order(&self) -> &[u32] {
        &self.order
    }

    /// Frees the numbers of silent series.
    pub(crate) fn forget(&mut self, is_silent: impl Fn(u32) -> bool) -> Vec<u32> {
        let silent = self.order.extract_if(.., |number| is_silent(*number));
        let silent: Vec<_> = silent.collect();
        for &number in &silent {
            let hash = hash(&self.hasher, self.keys[number as usize].as_ref());
            if let Ok(entry) = self.numbers.find_entry(hash, |&other| other == number) {
                entry.remove();
            }
            self.keys[number as usize] = None;
        }
        self.free.extend(&silent);
        silent
    }
}

fn hash(hasher: &RandomState, key: Option<&Key>) -> u64 {
    hasher.hash_one(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::Named(name.into())
    }

    fn of(names: &[&str]) -> (Roll, Vec<u32>) {
        let mut roll = Roll::default();
        let numbers = names.iter().map(|name| roll.enroll(key(name)));
        let numbers = numbers.collect();
        roll.sort();
        (roll, numbers)
    }

    fn in_order(roll: &Roll) -> Vec<&str> {
        let order = roll.order().iter();
        order.map(|&number| &**roll.name(number)).collect()
    }

    #[test]
    fn late_name_is_sorted_in() {
        let (mut roll, _) = of(&["d", "b"]);
        assert_eq!(in_order(&roll), ["b", "d"]);
        for name in ["e", "a", "c"] {
            roll.enroll(key(name));
        }
        roll.sort();
        assert_eq!(in_order(&roll), ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn series_found_in_any_order() {
        let names = ["a", "b", "c", "d"];
        let (mut roll, numbers) = of(&names);
        for start in 0..24 {
            for step in 0..4 {
                let index = (start * 5 + step * (start % 3 + 1)) % 4;
                assert_eq!(roll.number(&key(names[index])), Some(numbers[index]));
            }
            assert_eq!(roll.number(&key("e")), None);
        }
    }

    #[test]
    fn forgotten_number_is_reused() {
        let (mut roll, numbers) = of(&["a", "b", "c"]);
        // B follows A, and is then forgotten.
        assert_eq!(roll.number(&key("a")), Some(numbers[0]));
        assert_eq!(roll.forget(|number| number == numbers[1]), [numbers[1]]);
        assert_eq!(roll.number(&key("b")), None);
        assert_eq!((roll.len(), in_order(&roll)), (2, vec!["a", "c"]));
        assert_eq!(roll.enroll(key("0")), numbers[1]);
        roll.sort();
        assert_eq!(in_order(&roll), ["0", "a", "c"]);
        assert_eq!(roll.number(&key("0")), Some(numbers[1]));
    }
}
