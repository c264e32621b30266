//! `reweave audit verify`: checks that audit files are unmodified.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use reweave_link::chain::{ChainError, ChainVerifier};
use serde::Serialize;

use crate::error::CliError;
use crate::page::Page;
use crate::report::Report;
use crate::{Output, print_report};

/// Default audit folder of a coordinator.
const DEFAULT_AUDIT_PATH: &str = "/var/lib/reweave/coordinator/audit";

/// Verify the SHA-256 chain of a coordinator's audit files
///
/// Works without a coordinator. Exits with 1 if a line was changed, added or removed, or is no entry. The beginning of an
/// entry that a crash cut off is counted. A truncated end is detected only with --expect and a digest that was stored
/// elsewhere; `reweave --output json audit` prints digests. A coordinator that never led may have no entries.
#[derive(Debug, Args)]
pub(super) struct Verify {
    /// Folder with the audit files, or with a copy
    #[arg(default_value = DEFAULT_AUDIT_PATH)]
    folder: PathBuf,
    /// Digest of a line that the files must contain
    #[arg(long, value_name = "DIGEST")]
    expect: Option<String>,
}

#[derive(Debug, Serialize)]
struct Verified {
    folder: PathBuf,
    entries: u64,
    /// Of the first and the last entry, and the digest of the last; absent without entries.
    first: Option<u64>,
    last: Option<u64>,
    digest: Option<String>,
    /// Number of lines that a crash cut off.
    torn_lines: u64,
    /// Number of entries that the coordinator could not write.
    unwritten: u64,
}

impl Verify {
    pub(super) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        print_report(output, &self.verified()?)
    }

    fn verified(&self) -> Result<Verified, CliError> {
        let mut verifier = ChainVerifier::expecting(self.expect.clone());
        let files = files(&self.folder)?;
        for path in &files {
            follow(&mut verifier, path)?;
        }
        let folder = self.folder.clone();
        if files.is_empty() {
            return Err(CliError::NothingWritten { folder });
        }
        if !verifier.is_as_expected() {
            let digest = self.expect.clone().unwrap_or_default();
            return Err(CliError::NotAmong { folder, digest });
        }
        let range = verifier.range();
        Ok(Verified {
            folder,
            entries: verifier.entries(),
            first: range.map(|(first, ..)| first),
            last: range.map(|(_, last, _)| last),
            digest: range.map(|(.., digest)| digest.to_owned()),
            torn_lines: verifier.torn_lines(),
            unwritten: verifier.unwritten(),
        })
    }
}

impl Report for Verified {
    fn lay_out(&self, page: &mut Page) {
        let Self {
            entries,
            first,
            last,
            digest,
            torn_lines,
            unwritten,
            ..
        } = self;
        page.line(&match (first, last) {
            (Some(first), Some(last)) => {
                format!("{entries} entries, {first} to {last}, all intact")
            }
            _ => "no entries: this coordinator has received no request that is recorded".to_owned(),
        });
        if *torn_lines > 0 {
            page.line(&format!("{torn_lines} lines were cut off by a crash"));
        }
        if *unwritten > 0 {
            page.line(&format!("{unwritten} entries could not be written"));
        }
        if let Some(digest) = digest {
            page.line(&format!("digest of the last entry {digest}"));
        }
    }
}

/// Returns the audit files, oldest first.
fn files(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let failed = |source| CliError::Read {
        path: folder.to_owned(),
        source,
    };
    let entries = fs::read_dir(folder).map_err(failed)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let paths: Vec<_> = paths.collect::<io::Result<_>>().map_err(failed)?;
    let is_of_audit = |path: &PathBuf| path.extension().is_some_and(|it| it == "jsonl");
    let mut files: Vec<_> = paths.into_iter().filter(is_of_audit).collect();
    files.sort();
    Ok(files)
}

/// Verifies one file. A file is named after its first entry, so a cut beginning of the oldest file is detected.
fn follow(verifier: &mut ChainVerifier, path: &Path) -> Result<(), CliError> {
    let content = fs::read(path).map_err(|source| CliError::Read {
        path: path.to_owned(),
        source,
    })?;
    let broken = |line, source| CliError::BrokenChain {
        path: path.to_owned(),
        line,
        source,
    };
    let stem = path.file_stem().and_then(|it| it.to_str());
    let named = stem.and_then(|it| it.parse().ok());
    for (line, text) in (1..).zip(content.split(|byte| *byte == b'\n')) {
        let entries = verifier.entries();
        let checked = verifier.check_line(text);
        checked.map_err(|source| broken(line, source))?;
        let is_oldest = entries == 0 && verifier.entries() == 1;
        if let (true, Some(first), Some((found, ..))) = (is_oldest, named, verifier.range())
            && first < found
        {
            let last = found - 1;
            return Err(broken(line, ChainError::Missing { first, last }));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use reweave_link::chain::{ZERO_DIGEST, digest};
    use tempfile::TempDir;

    use super::*;

    /// Writes two files of three lines each.
    fn written() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        let mut after = ZERO_DIGEST.to_owned();
        for file in 0..2 {
            let mut text = String::new();
            for number in 3 * file + 1..=3 * file + 3 {
                let line = format!("{{\"number\":{number},\"prev_sha256\":\"{after}\"}}");
                after = digest(line.as_bytes());
                text += &(line + "\n");
            }
            let name = format!("{:03}.jsonl", 3 * file + 1);
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    fn verify(folder: &TempDir, expect: Option<&str>) -> Result<Verified, CliError> {
        let verify = Verify {
            folder: folder.path().to_owned(),
            expect: expect.map(str::to_owned),
        };
        verify.verified()
    }

    #[test]
    fn first_mismatching_line_is_named() {
        let folder = written();
        let whole = verify(&folder, None).unwrap();
        assert_eq!(
            (whole.entries, whole.first, whole.last),
            (6, Some(1), Some(6))
        );
        let second = folder.path().join("004.jsonl");
        let text = fs::read_to_string(&second).unwrap();
        let (first, rest) = text.split_once('\n').unwrap();
        fs::write(&second, rest).unwrap();
        let message = verify(&folder, None).unwrap_err().error_chain();
        assert!(
            message.contains("004.jsonl:1: entries 4 to 4 before it"),
            "{message}"
        );
        let changed = first.replace("\"number\":4", "\"number\":4, \"who\":\"eve\"");
        fs::write(&second, format!("{changed}\n{rest}")).unwrap();
        let message = verify(&folder, None).unwrap_err().error_chain();
        assert!(
            message.contains("004.jsonl:2: the line before it, of entry 4"),
            "{message}"
        );
    }

    #[test]
    fn oldest_file_starts_with_named_entry() {
        let folder = written();
        fs::remove_file(folder.path().join("001.jsonl")).unwrap();
        assert_eq!(verify(&folder, None).unwrap().first, Some(4));
        let oldest = folder.path().join("004.jsonl");
        let text = fs::read_to_string(&oldest).unwrap();
        let (_, rest) = text.split_once('\n').unwrap();
        fs::write(&oldest, rest).unwrap();
        let message = verify(&folder, None).unwrap_err().error_chain();
        assert!(message.contains("entries 4 to 4 before it"), "{message}");
    }

    #[test]
    fn lines_without_entry_are_named() {
        let folder = written();
        let last = folder.path().join("004.jsonl");
        let text = fs::read_to_string(&last).unwrap();
        fs::write(&last, format!("{text}{{\"number\":7,\"prev")).unwrap();
        let cut = verify(&folder, None).unwrap();
        assert_eq!((cut.entries, cut.torn_lines), (6, 1));
        for forged in ["all is well", "{\"number\":7,\"who\":\"eve\"}"] {
            fs::write(&last, format!("{text}{forged}\n")).unwrap();
            let error = verify(&folder, None).unwrap_err();
            assert_eq!(error.exit_code(), 1);
            let message = error.error_chain();
            assert!(message.contains("004.jsonl:4: it is no entry"), "{message}");
        }
        for name in ["001.jsonl", "004.jsonl"] {
            let file = folder.path().join(name);
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, text.replace("prev_sha256", "prev")).unwrap();
        }
        let error = verify(&folder, None).unwrap_err();
        assert_eq!(error.exit_code(), 1);
        let message = error.error_chain();
        let place = "001.jsonl:1: it is no entry: missing field `prev_sha256`";
        assert!(message.contains(place), "{message}");
    }

    /// A follower answers nothing.
    #[test]
    fn log_without_entries_is_intact() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("001.jsonl"), "").unwrap();
        let empty = verify(&folder, None).unwrap();
        assert_eq!(
            (empty.entries, empty.first, empty.digest.as_deref()),
            (0, None, None)
        );
        let mut page = Page::default();
        verify(&folder, None).unwrap().lay_out(&mut page);
        assert!(page.text.starts_with("no entries"), "{}", page.text);
        assert_eq!(
            verify(&folder, Some(ZERO_DIGEST)).unwrap_err().exit_code(),
            1
        );
    }

    #[test]
    fn missing_end_fails_external_digest() {
        let folder = written();
        let head = verify(&folder, None).unwrap().digest.unwrap();
        verify(&folder, Some(&head)).unwrap();
        fs::remove_file(folder.path().join("004.jsonl")).unwrap();
        verify(&folder, None).unwrap();
        let error = verify(&folder, Some(&head)).unwrap_err();
        assert_eq!(error.exit_code(), 1);
        fs::remove_file(folder.path().join("001.jsonl")).unwrap();
        assert_eq!(verify(&folder, None).unwrap_err().exit_code(), 2);
    }
}
