//! Crashes and bit flips, at every byte.

use std::fs;
use std::path::PathBuf;

use reweave_common::moment::Moment;
use reweave_common::plan::Generation;
use reweave_core::{Author, Change};
use tempfile::TempDir;

use super::*;

struct Scratch {
    _folder: TempDir,
    path: PathBuf,
}

impl Scratch {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        Self {
            _folder: folder,
            path,
        }
    }

    fn open(&self) -> Result<Opened, LogError> {
        Log::open(&self.path, &ours())
    }

    /// The content of a log with these commands.
    fn written(&self, commands: &[Command]) -> Vec<u8> {
        let mut log = self.open().unwrap().log;
        commands
            .iter()
            .for_each(|command| log.append(command).unwrap());
        fs::read(&self.path).unwrap()
    }

    fn reopened(&self, content: &[u8]) -> Result<Opened, LogError> {
        fs::write(&self.path, content).unwrap();
        self.open()
    }
}

fn ours() -> Belonging {
    Belonging {
        cluster: "test".to_owned(),
        fabric: "kind = \"ideal\"\nhosts = 2\nnic_gbps = 1\n".to_owned(),
    }
}

fn command(number: u64) -> Command {
    Command {
        at: Moment::from_micros(number),
        change: Change::PlanApproved {
            generation: Generation(number),
            by: Author::Operator(format!("operator-{number}")),
        },
    }
}

fn commands() -> Vec<Command> {
    (1..=3).map(command).collect()
}

#[test]
fn what_was_appended_is_there_again() {
    let scratch = Scratch::new();
    scratch.written(&commands());
    let opened = scratch.open().unwrap();
    assert_eq!((opened.belonging, opened.commands), (ours(), commands()));
    let mut log = opened.log;
    log.append(&command(4)).unwrap();
    assert_eq!(scratch.open().unwrap().commands.len(), 4);
}

#[test]
fn an_entry_cut_short_anywhere_is_gone_and_nothing_else_is() {
    let scratch = Scratch::new();
    let content = scratch.written(&commands());
    let two = Scratch::new().written(&commands()[..2]).len();
    for length in two + 1..content.len() {
        let opened = scratch.reopened(&content[..length]).unwrap();
        assert_eq!(opened.commands, commands()[..2], "cut to {length}");
        assert_eq!(opened.torn_bytes, (length - two) as u64);
        let mut log = opened.log;
        log.append(&command(9)).unwrap();
        assert_eq!(scratch.open().unwrap().commands[2], command(9));
    }
}

#[test]
fn a_log_cut_short_at_its_beginning_begins_anew() {
    let scratch = Scratch::new();
    let begun = scratch.written(&[]);
    for length in 0..begun.len() {
        let opened = scratch.reopened(&begun[..length]).unwrap();
        assert_eq!((opened.belonging, opened.commands), (ours(), vec![]));
    }
}

#[test]
fn a_flipped_bit_anywhere_is_damage_and_the_file_is_named() {
    let scratch = Scratch::new();
    let content = scratch.written(&commands());
    for at in 0..content.len() {
        let mut flipped = content.clone();
        flipped[at] ^= 1 << (at % 8);
        let error = scratch.reopened(&flipped).unwrap_err();
        assert!(
            matches!(error, LogError::Damaged { .. }),
            "byte {at}: {error}"
        );
        assert!(error.to_string().contains(&*scratch.path.to_string_lossy()));
        assert_eq!(
            fs::read(&scratch.path).unwrap(),
            flipped,
            "it is left as it is"
        );
    }
}

/// A file may have grown on disk before its content came.
#[test]
fn sectors_that_were_never_written_are_no_damage() {
    let scratch = Scratch::new();
    let content = scratch.written(&commands());
    for unwritten in [1, 12, 600, 5000] {
        let grown = [content.as_slice(), &vec![0; unwritten]].concat();
        let opened = scratch.reopened(&grown).unwrap();
        assert_eq!(opened.commands, commands());
        assert_eq!(opened.torn_bytes, unwritten as u64);
    }
}

#[test]
fn the_middle_of_a_long_entry_that_was_never_written_is_no_damage() {
    let scratch = Scratch::new();
    let mut long = command(7);
    long.change = Change::PlanApproved {
        generation: Generation(7),
        by: Author::Operator("x".repeat(3000)),
    };
    let content = scratch.written(&[command(1), long]);
    let mut holed = content.clone();
    let sector = (content.len() / SECTOR - 1) * SECTOR;
    holed[sector..sector + SECTOR].fill(0);
    assert_eq!(scratch.reopened(&holed).unwrap().commands, [command(1)]);
}

const SECTOR: usize = 512;

#[test]
fn another_programs_file_is_left_alone() {
    let scratch = Scratch::new();
    let theirs = b"# My shopping list\nbread\n";
    let error = scratch.reopened(theirs).unwrap_err();
    assert!(matches!(error, LogError::Damaged { at: 0, .. }), "{error}");
    assert_eq!(fs::read(&scratch.path).unwrap(), theirs);
}
