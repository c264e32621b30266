//! The audit log: who requested what, with which result. Each entry is a line of JSON in a file beside the log; the
//! newest are in memory. A coordinator records the requests that it received itself, refused ones included. Lines
//! form a [`chain`], so a change leaves a trace.
//!
//! A thread of its own writes and syncs each line: a request is answered after its line is on disk, and the event loop waits
//! for no disk.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use reweave_common::error::error_chain;
use reweave_common::lock::lock;
use reweave_common::operator::{AuditOutcome, Audited, Refused, Response};
use reweave_files::{FileHandle, FileSystem, LocalFiles};
use reweave_link::chain::{self, ChainVerifier, ZERO_DIGEST};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::oneshot;

/// Entries in memory; files have the older ones.
const MAX_RETAINED_ENTRIES: usize = 4096;
/// This many fit into one answer, each cut where it is long.
const MAX_ENTRIES_PER_ANSWER: usize = 200;
const MAX_TEXT_BYTES: usize = 1000;
const MAX_FILE_BYTES: u64 = 4 << 20;
const MAX_FILES: usize = 64;
/// At most one unauthenticated client is recorded in this time.
const STRANGER_AUDIT_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Error)]
#[error("cannot {what} the audit log {}", path.display())]
pub(crate) struct AuditError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl AuditError {
    pub(crate) fn is_bad_input(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotADirectory
    }
}

/// Whether it can be written down there, as far as that is seen without a line. Changes nothing.
pub(crate) fn look(data: &Path) -> Result<(), AuditError> {
    let folder = folder_in(data);
    if !folder.exists() {
        return Ok(());
    }
    let Some(newest) = files(&LocalFiles, &folder)?.pop() else {
        return Ok(());
    };
    let opened = OpenOptions::new().read(true).append(true).open(&newest);
    opened.map(drop).map_err(failed("open", &newest))
}

fn folder_in(data: &Path) -> PathBuf {
    data.join("audit")
}

/// The author of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Who {
    Known(String),
    /// No member of the cluster.
    Stranger(String),
}

/// The subject of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuditSubject {
    pub(crate) what: String,
    /// The seal of the plan that the record is about.
    pub(crate) seal: Option<String>,
}

impl From<String> for AuditSubject {
    fn from(what: String) -> Self {
        Self { what, seal: None }
    }
}

impl From<&str> for AuditSubject {
    fn from(what: &str) -> Self {
        what.to_owned().into()
    }
}

/// Returns None where no outcome is worth a line.
pub(crate) fn outcome(decides: bool, response: &Response) -> Option<Result<(), String>> {
    match response {
        // It is asked again where it belongs.
        Response::Refused(Refused::NotLeading { .. }) => None,
        Response::Refused(refused) => {
            let of_rights = matches!(refused, Refused::NotAllowed { .. } | Refused::NoVisitor);
            (decides || of_rights).then(|| Err(refused.to_string()))
        }
        _ => decides.then_some(Ok(())),
    }
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Audit {
    kept: Arc<Mutex<VecDeque<Audited>>>,
    tasks: mpsc::Sender<Task>,
}

/// Tasks for the thread that writes.
#[derive(Debug)]
enum Task {
    Write(Box<Entry>),
    /// Answers once all earlier lines are on disk.
    Flush(oneshot::Sender<()>),
}

#[derive(Debug)]
struct Entry {
    at: SystemTime,
    now: Instant,
    who: Who,
    asked: AuditSubject,
    outcome: Result<(), String>,
    done: oneshot::Sender<()>,
}

impl Audit {
    /// Opens the audit log in its own folder below `data`.
    pub(crate) fn open(data: &Path) -> Result<Self, AuditError> {
        let folder = folder_in(data);
        let journal = Journal::open(LocalFiles, &folder)?;
        if let Some(damage) = damage(data)? {
            tracing::warn!(
                "the audit log was changed: {damage}; `reweave audit verify {}` checks the whole log",
                folder.display()
            );
        }
        let kept = Arc::clone(&journal.kept);
        let (tasks, waiting) = mpsc::channel();
        let writing = thread::Builder::new().name("audit".to_owned());
        let writing = writing.spawn(move || write_lines(journal, &waiting));
        writing.map(drop).map_err(failed("write", &folder))?;
        Ok(Self { kept, tasks })
    }

    /// Returns when the line survives a loss of power. One that cannot be written is in memory alone.
    pub(crate) async fn note(
        &self,
        who: Who,
        asked: impl Into<AuditSubject>,
        outcome: Result<(), String>,
    ) {
        // The thread ends after all who could wait for it.
        let _ = self.put(who, asked, outcome).await;
    }

    /// Waits for nothing. What comes of it is received when the line is on disk.
    pub(crate) fn put(
        &self,
        who: Who,
        asked: impl Into<AuditSubject>,
        outcome: Result<(), String>,
    ) -> oneshot::Receiver<()> {
        let (done, written) = oneshot::channel();
        let entry = Entry {
            at: SystemTime::now(),
            now: Instant::now(),
            who,
            asked: asked.into(),
            outcome,
            done,
        };
        let _ = self.tasks.send(Task::Write(Box::new(entry)));
        written
    }

    /// Returns when all lines so far are on disk.
    pub(crate) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let _ = self.tasks.send(Task::Flush(done));
        let _ = flushed.await;
    }

    /// The newest first.
    pub(crate) fn page(&self, before: Option<u64>) -> Vec<Audited> {
        let kept = lock(&self.kept);
        let older = |it: &&Audited| before.is_none_or(|before| it.number < before);
        let newest = kept.iter().rev().filter(older);
        newest.take(MAX_ENTRIES_PER_ANSWER).cloned().collect()
    }
}

/// Writes lines until the last [`Audit`] is dropped.
fn write_lines(mut journal: Journal<LocalFiles>, tasks: &mpsc::Receiver<Task>) {
    for task in tasks {
        let done = match task {
            Task::Flush(done) => done,
            Task::Write(entry) => {
                let Entry {
                    at,
                    now,
                    who,
                    asked,
                    outcome,
                    done,
                } = *entry;
                if let Err(error) = journal.note(at, now, who, asked, outcome) {
                    tracing::error!("{}", error_chain(&error));
                }
                done
            }
        };
        // Some callers do not wait for it.
        let _ = done.send(());
    }
}

/// A record as it is written to the file.
#[derive(Debug, Serialize, Deserialize)]
struct AuditLine {
    number: u64,
    at: String,
    who: String,
    what: String,
    outcome: AuditOutcome,
    why: Option<String>,
    times: u64,
    seal: Option<String>,
    prev_sha256: String,
}

impl AuditLine {
    fn audited(self, digest: String) -> Audited {
        Audited {
            number: self.number,
            at: self.at,
            who: self.who,
            what: self.what,
            outcome: self.outcome,
            why: self.why,
            times: self.times,
            seal: self.seal,
            digest,
        }
    }
}

/// The files that a start reads: two hold more than is kept, and one may be new.
fn newest(paths: &[PathBuf]) -> &[PathBuf] {
    &paths[paths.len().saturating_sub(2)..]
}

/// Returns the first line of the newest files that does not follow those before it, and why.
pub(crate) fn damage(data: &Path) -> Result<Option<String>, AuditError> {
    let folder = folder_in(data);
    if !folder.exists() {
        return Ok(None);
    }
    let mut verifier = ChainVerifier::default();
    for path in newest(&files(&LocalFiles, &folder)?) {
        let text = LocalFiles.read(path).map_err(failed("read", path))?;
        for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            if let Err(error) = verifier.check_line(line) {
                return Ok(Some(format!("{}:{number}: {error}", path.display())));
            }
        }
    }
    Ok(None)
}

#[derive(Debug)]
struct Journal<F: FileSystem> {
    files: F,
    folder: PathBuf,
    path: PathBuf,
    file: F::File,
    bytes: u64,
    next: u64,
    /// The digest of the last line.
    head: String,
    /// The last line was written in part.
    is_torn: bool,
    /// Locked for as long as memory takes, and never while the disk is written.
    kept: Arc<Mutex<VecDeque<Audited>>>,
    strangers: Option<Instant>,
    /// Unauthenticated clients that were not recorded since.
    left_out: u64,
}

impl<F: FileSystem> Journal<F> {
    fn open(files: F, folder: &Path) -> Result<Self, AuditError> {
        make_folder(&files, folder)?;
        let paths = self::files(&files, folder)?;
        let mut kept = VecDeque::new();
        for path in newest(&paths) {
            kept.extend(read(&files, path)?);
        }
        kept.drain(..kept.len().saturating_sub(MAX_RETAINED_ENTRIES));
        let last = kept.back();
        let next = last.map_or(1, |last: &Audited| last.number + 1);
        let head = last.map_or_else(|| ZERO_DIGEST.to_owned(), |last| last.digest.clone());
        let path = paths.last().cloned().unwrap_or_else(|| named(folder, next));
        let (file, bytes) = append_to(&files, &path)?;
        Ok(Self {
            files,
            folder: folder.to_owned(),
            path,
            file,
            bytes,
            next,
            head,
            is_torn: false,
            kept: Arc::new(Mutex::new(kept)),
            strangers: None,
            left_out: 0,
        })
    }

    fn note(
        &mut self,
        at: SystemTime,
        now: Instant,
        who: Who,
        asked: AuditSubject,
        outcome: Result<(), String>,
    ) -> Result<(), AuditError> {
        let (who, times) = match who {
            Who::Known(who) => (who, 1),
            Who::Stranger(_) if self.is_too_soon(now) => {
                self.left_out += 1;
                return Ok(());
            }
            Who::Stranger(who) => {
                self.strangers = Some(now);
                (who, 1 + std::mem::take(&mut self.left_out))
            }
        };
        let line = AuditLine {
            number: self.next,
            at: humantime::format_rfc3339_millis(at).to_string(),
            who: cut(who),
            what: cut(asked.what),
            outcome: outcome
                .as_ref()
                .map_or(AuditOutcome::Refused, |()| AuditOutcome::Done),
            why: outcome.err().map(cut),
            times,
            seal: asked.seal,
            prev_sha256: self.head.clone(),
        };
        self.next += 1;
        let text = serde_json::to_string(&line).map_err(io::Error::from);
        let text = text.map_err(failed("write", &self.path))?;
        let written = self.write(line.number, &text);
        // What is not on disk is followed by nothing.
        let digest = match &written {
            Ok(()) => chain::digest(text.as_bytes()),
            Err(_) => String::new(),
        };
        if written.is_ok() {
            self.head.clone_from(&digest);
        }
        let is_first_of_file = self.path == named(&self.folder, line.number);
        self.keep(line.audited(digest));
        written?;
        if is_first_of_file {
            self.remove_oldest()?;
        }
        Ok(())
    }

    fn keep(&self, entry: Audited) {
        let mut kept = lock(&self.kept);
        if kept.len() >= MAX_RETAINED_ENTRIES {
            kept.pop_front();
        }
        kept.push_back(entry);
    }

    fn is_too_soon(&self, now: Instant) -> bool {
        let since = self
            .strangers
            .map(|last| now.saturating_duration_since(last));
        since.is_some_and(|since| since < STRANGER_AUDIT_INTERVAL)
    }

    fn write(&mut self, number: u64, text: &str) -> Result<(), AuditError> {
        if self.bytes >= MAX_FILE_BYTES {
            self.path = named(&self.folder, number);
            (self.file, self.bytes) = append_to(&self.files, &self.path)?;
            self.is_torn = false;
        }
        let begins = if self.is_torn { "\n" } else { "" };
        let line = format!("{begins}{text}\n");
        let written = self.file.write_all(line.as_bytes());
        // The client gets its answer next, and a loss of power must not lose the record of an answered request.
        let written = written.and_then(|()| self.file.sync_data());
        self.is_torn = written.is_err();
        match &written {
            Ok(()) => self.bytes += line.len() as u64,
            // A part of it, or what may be lost.
            Err(_) => drop(self.file.truncate(self.bytes)),
        }
        written.map_err(failed("write", &self.path))
    }

    fn remove_oldest(&self) -> Result<(), AuditError> {
        let paths = files(&self.files, &self.folder)?;
        let old = paths.len().saturating_sub(MAX_FILES);
        let mut old = paths[..old].iter();
        old.try_for_each(|path| self.files.remove(path).map_err(failed("remove", path)))
    }
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        text.push('…');
    }
    text
}

/// The file's name is the number of its first line, so that files sort by age.
fn named(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("{first:020}.jsonl"))
}

fn make_folder(files: &impl FileSystem, folder: &Path) -> Result<(), AuditError> {
    match files.list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = files.make_folder(folder);
            made.map_err(failed("make", folder))?;
            sync_entry(files, folder)
        }
        // A killed process may have left an empty folder.
        Ok(inside) if inside.is_empty() => sync_entry(files, folder),
        other => other.map(drop).map_err(failed("read", folder)),
    }
}

/// The oldest first.
fn files(files: &impl FileSystem, folder: &Path) -> Result<Vec<PathBuf>, AuditError> {
    let paths = files.list(folder).map_err(failed("read", folder))?;
    let is_ours = |path: &PathBuf| path.extension().is_some_and(|it| it == "jsonl");
    let mut ours: Vec<_> = paths.into_iter().filter(is_ours).collect();
    ours.sort();
    Ok(ours)
}

/// A line that was never completed is no entry.
fn read(files: &impl FileSystem, path: &Path) -> Result<Vec<Audited>, AuditError> {
    let text = files.read(path).map_err(failed("read", path))?;
    let lines = text.split(|byte| *byte == b'\n');
    let entry = |line: &[u8]| {
        let found: AuditLine = serde_json::from_slice(line).ok()?;
        Some(found.audited(chain::digest(line)))
    };
    Ok(lines.filter_map(entry).collect())
}

/// What a crash cut off ends its line here.
fn append_to<F: FileSystem>(files: &F, path: &Path) -> Result<(F::File, u64), AuditError> {
    let text = match files.read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        read => Some(read.map_err(failed("read", path))?),
    };
    let mut file = files.append(path).map_err(failed("open", path))?;
    let bytes = file.length().map_err(failed("read", path))?;
    let last = text.as_deref().and_then(<[u8]>::last);
    if last.is_some_and(|last| *last != b'\n') {
        file.write_all(b"\n").map_err(failed("write", path))?;
    }
    // An empty one may come from a process that was killed before its name was synced.
    if text.is_none_or(|text| text.is_empty()) {
        sync_entry(files, path)?;
    }
    Ok((file, bytes))
}

/// The name of what was just made is an entry of its folder, which has to reach the disk too.
fn sync_entry(files: &impl FileSystem, path: &Path) -> Result<(), AuditError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    files.sync_folder(folder).map_err(failed("sync", path))
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AuditError {
    let path = path.to_owned();
    move |source| AuditError { what, path, source }
}

#[cfg(test)]
mod tests;
