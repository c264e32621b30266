//! A hash chain of JSON lines: each has the digest of the one before, so the next line shows every change, insertion
//! and removal.
//!
//! ```text
//! {"number":1, ..., "prev_sha256":"0000..."}
//! {"number":2, ..., "prev_sha256":"<SHA-256 of the line before, without its end, as 64 hexadecimal digits>"}
//! ```
//! A process that may write the file may rewrite all of it. A digest that is kept elsewhere reveals that, and a
//! truncated end too.

use std::fmt::Write;

use serde::Deserialize;
use serde::de::IgnoredAny;
use thiserror::Error;

use crate::digest::sha256;

/// The previous digest in the first line.
pub const ZERO_DIGEST: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The digest of a line without its line end.
pub fn digest(line: &[u8]) -> String {
    let mut text = String::new();
    for byte in sha256(line).0 {
        // Writing to memory does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Fields of every line.
#[derive(Deserialize)]
struct ChainFields {
    number: u64,
    prev_sha256: String,
}

/// Every line begins so.
const LINE_START: &[u8] = b"{\"number\":";

/// Whether a crash cut the line off: the beginning of an entry was written, and perhaps zeros in place of the rest. A
/// coordinator ends such a line when it starts again.
fn is_cut_off(line: &[u8]) -> bool {
    let last = line.iter().rposition(|byte| *byte != 0);
    let written = &line[..last.map_or(0, |last| last + 1)];
    let begins = LINE_START.starts_with(written) || written.starts_with(LINE_START);
    begins && serde_json::from_slice::<IgnoredAny>(written).is_err_and(|error| error.is_eof())
}

/// How a line contradicts those before it, or that it is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChainError {
    #[error("it is no entry: {why}")]
    NoEntry { why: String },
    #[error("it is the first entry, but refers to an earlier one")]
    Preceded,
    #[error("entries {first} to {last} before it are gone")]
    Missing { first: u64, last: u64 },
    #[error("entry {number} comes again")]
    Duplicate { number: u64 },
    #[error("the line before it, of entry {before}, was changed")]
    DigestMismatch { before: u64 },
}

/// Checks lines from the oldest one on.
#[derive(Debug, Default)]
pub struct ChainVerifier {
    first: u64,
    /// The number and digest of the last line.
    last: Option<(u64, String)>,
    entries: u64,
    /// Lines that a crash cut off.
    torn_lines: u64,
    /// Entries that could not be written.
    unwritten: u64,
    /// A digest that was kept elsewhere.
    wanted: Option<String>,
    has_wanted: bool,
}

impl ChainVerifier {
    /// Makes a verifier with a digest that one of the lines must have.
    pub fn expecting(wanted: Option<String>) -> Self {
        Self {
            wanted,
            ..Self::default()
        }
    }

    pub fn check_line(&mut self, line: &[u8]) -> Result<(), ChainError> {
        if line.is_empty() {
            return Ok(());
        }
        let fields = match serde_json::from_slice::<ChainFields>(line) {
            Ok(fields) => fields,
            Err(_) if is_cut_off(line) => {
                self.torn_lines += 1;
                return Ok(());
            }
            Err(error) => {
                let why = error.to_string();
                return Err(ChainError::NoEntry { why });
            }
        };
        let number = fields.number;
        self.follows(number, &fields.prev_sha256)?;
        let digest = digest(line);
        self.has_wanted |= self.wanted.as_ref() == Some(&digest);
        self.entries += 1;
        self.last = Some((number, digest));
        Ok(())
    }

    /// A line follows the last one if its digest matches. Its number may skip entries that could not be written.
    fn follows(&mut self, number: u64, prev_sha256: &str) -> Result<(), ChainError> {
        let Some((last, digest)) = &self.last else {
            self.first = number;
            return if number == 1 && prev_sha256 != ZERO_DIGEST {
                Err(ChainError::Preceded)
            } else {
                Ok(())
            };
        };
        let next = last.saturating_add(1);
        if number < next {
            return Err(ChainError::Duplicate { number });
        }
        if digest == prev_sha256 {
            self.unwritten += number - next;
            return Ok(());
        }
        Err(match number - next {
            0 => ChainError::DigestMismatch { before: *last },
            _ => ChainError::Missing {
                first: next,
                last: number - 1,
            },
        })
    }

    pub fn entries(&self) -> u64 {
        self.entries
    }

    pub fn torn_lines(&self) -> u64 {
        self.torn_lines
    }

    pub fn unwritten(&self) -> u64 {
        self.unwritten
    }

    /// The numbers of the first and the last entry, and the digest of the last.
    pub fn range(&self) -> Option<(u64, u64, &str)> {
        let (last, digest) = self.last.as_ref()?;
        Some((self.first, *last, digest))
    }

    /// Whether a line had the expected digest, if there is one.
    pub fn is_as_expected(&self) -> bool {
        self.wanted.is_none() || self.has_wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: u64) -> Vec<String> {
        let mut after = ZERO_DIGEST.to_owned();
        let line = |number| {
            let line =
                format!("{{\"number\":{number},\"who\":\"ann\",\"prev_sha256\":\"{after}\"}}");
            after = digest(line.as_bytes());
            line
        };
        (1..=count).map(line).collect()
    }

    fn verified(lines: &[String]) -> Result<ChainVerifier, ChainError> {
        let mut verifier = ChainVerifier::default();
        lines
            .iter()
            .try_for_each(|line| verifier.check_line(line.as_bytes()))?;
        Ok(verifier)
    }

    /// The digest is the one that `sha256sum` prints.
    #[test]
    fn digest_matches_sha256sum() {
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest(b"abc"), known);
    }

    #[test]
    fn chain_detects_any_change() {
        let whole = lines(5);
        let verifier = verified(&whole).unwrap();
        let head = digest(whole[4].as_bytes());
        assert_eq!(
            (verifier.entries(), verifier.range()),
            (5, Some((1, 5, &*head)))
        );
        // Old files are removed in time.
        assert_eq!(verified(&whole[2..]).unwrap().range(), Some((3, 5, &*head)));
        for (at, number) in (0..4).zip(1..) {
            let mut changed = whole.clone();
            changed[at] = changed[at].replace("ann", "eve");
            let found = verified(&changed).unwrap_err();
            assert_eq!(found, ChainError::DigestMismatch { before: number });
        }
        let cut = whole[2].replace("\"number\":3", "\"number\":1");
        assert_eq!(verified(&[cut]).unwrap_err(), ChainError::Preceded);
        let mut without = whole.clone();
        without.drain(1..3);
        let gone = ChainError::Missing { first: 2, last: 3 };
        assert_eq!(verified(&without).unwrap_err(), gone);
        let mut twice = whole.clone();
        twice.insert(2, whole[1].clone());
        assert_eq!(
            verified(&twice).unwrap_err(),
            ChainError::Duplicate { number: 2 }
        );
        let mut torn = whole;
        torn.insert(3, "{\"number\":4,\"wh".to_owned());
        assert_eq!(verified(&torn).unwrap().torn_lines(), 1);
    }

    /// Any part of an entry may be on disk after a crash, and nothing else may.
    #[test]
    fn only_cut_entries_are_torn() {
        let line = lines(1).remove(0);
        for written in 1..line.len() {
            for rest in ["", "\0\0"] {
                let cut = format!("{}{rest}", &line[..written]);
                let verifier = verified(std::slice::from_ref(&cut)).unwrap();
                assert_eq!(
                    (verifier.torn_lines(), verifier.entries()),
                    (1, 0),
                    "{cut:?}"
                );
            }
        }
        assert_eq!(verified(&["\0\0".to_owned()]).unwrap().torn_lines(), 1);
        let stripped = line.replace("prev_sha256", "prev");
        for forged in [
            stripped.as_str(),
            "{\"number\":2}",
            "garbage",
            "{\"who\":\"eve",
            "\"x",
            "7",
        ] {
            let found = verified(&[forged.to_owned()]).unwrap_err();
            assert!(
                matches!(found, ChainError::NoEntry { .. }),
                "{forged}: {found}"
            );
        }
    }

    #[test]
    fn chain_detects_missing_end() {
        let whole = lines(5);
        let mut verifier = ChainVerifier::expecting(Some(digest(whole[4].as_bytes())));
        whole[..4]
            .iter()
            .for_each(|line| verifier.check_line(line.as_bytes()).unwrap());
        assert!(!verifier.is_as_expected());
        verifier.check_line(whole[4].as_bytes()).unwrap();
        assert!(verifier.is_as_expected());
    }
}
