//! The audit log over restarts, full files and losses of power.

use std::fs::{self, File};
use std::time::UNIX_EPOCH;

use reweave_sim_disk::{LossyFiles, ROOT};

use super::*;

fn known(name: &str) -> Who {
    Who::Known(name.to_owned())
}

fn note(audit: &Audit, name: &str, what: &str, outcome: Result<(), String>) {
    let written = audit.put(known(name), what, outcome);
    written.blocking_recv().unwrap();
}

fn entries_of(audit: &Audit) -> Vec<(u64, String, u64)> {
    let page = audit.page(None).into_iter();
    page.map(|it| (it.number, it.who, it.times)).collect()
}

#[test]
fn audit_survives_crash_within_line() {
    let data = tempfile::tempdir().unwrap();
    let audit = Audit::open(data.path()).unwrap();
    note(&audit, "ann", "one", Ok(()));
    note(&audit, "bob", "two", Err("no".to_owned()));
    let before = audit.page(None);
    assert_eq!(before[0].outcome, AuditOutcome::Refused);
    assert_eq!(before[0].why.as_deref(), Some("no"));
    let path = named(&data.path().join("audit"), 1);
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(b"{\"number\":3,\"at").unwrap();
    for _ in 0..2 {
        let again = Audit::open(data.path()).unwrap();
        assert_eq!(again.page(None), before);
    }
    let again = Audit::open(data.path()).unwrap();
    note(&again, "eve", "three", Ok(()));
    let again = Audit::open(data.path()).unwrap();
    let reports: Vec<_> = entries_of(&again)
        .into_iter()
        .map(|(number, who, _)| (number, who))
        .collect();
    let expected = [(3, "eve"), (2, "bob"), (1, "ann")];
    assert_eq!(
        reports,
        expected.map(|(number, who)| (number, who.to_owned()))
    );
    assert_eq!(again.page(Some(2)).len(), 1);
}

#[test]
fn strangers_fill_no_file() {
    let data = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(LocalFiles, &data.path().join("audit")).unwrap();
    let began = Instant::now();
    let mut come = |after_ms: u64, who: Who| {
        let now = began + Duration::from_millis(after_ms);
        journal
            .note(UNIX_EPOCH, now, who, "look".into(), Err("who?".to_owned()))
            .unwrap();
    };
    let stranger = || Who::Stranger("stranger".to_owned());
    for after_ms in 0..900 {
        come(after_ms, stranger());
    }
    come(950, known("ann"));
    come(1100, stranger());
    let times: Vec<_> = lock(&journal.kept).iter().map(|it| it.times).collect();
    assert_eq!(times, [1, 1, 900]);
}

#[test]
fn audit_files_and_lines_are_bounded() {
    let data = tempfile::tempdir().unwrap();
    let audit = Audit::open(data.path()).unwrap();
    let folder = data.path().join("audit");
    let long = "ä".repeat(MAX_TEXT_BYTES);
    for _ in 0..1500 {
        note(&audit, &long, &long, Err(long.clone()));
    }
    let sizes = files(&LocalFiles, &folder)
        .unwrap()
        .into_iter()
        .map(|it| fs::metadata(it).unwrap().len());
    let sizes: Vec<_> = sizes.collect();
    assert!(
        sizes.len() == 2 && sizes[0] < MAX_FILE_BYTES + 4000,
        "{sizes:?}"
    );
    let again = Audit::open(data.path()).unwrap();
    assert_eq!(again.page(None), audit.page(None));
    assert_eq!(again.page(None).len(), MAX_ENTRIES_PER_ANSWER);
    note(&again, "eve", "one more", Ok(()));
    let (number, head) = (1501, again.page(None)[0].digest.clone());
    assert_eq!(verified(&folder).range(), Some((1, number, &*head)));
}

#[test]
fn oldest_files_are_removed() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("audit");
    let mut journal = Journal::open(LocalFiles, &folder).unwrap();
    for _ in 0..MAX_FILES + 2 {
        journal.bytes = MAX_FILE_BYTES;
        let now = Instant::now();
        journal
            .note(UNIX_EPOCH, now, known("ann"), "look".into(), Ok(()))
            .unwrap();
    }
    let left = files(&LocalFiles, &folder).unwrap();
    assert_eq!((left.len(), &left[0]), (MAX_FILES, &named(&folder, 3)));
}

/// Checks the state after a crash between creating a file and writing its first line.
#[test]
fn empty_newest_file_continues_chain() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("audit");
    let audit = Audit::open(data.path()).unwrap();
    note(&audit, "ann", "one", Ok(()));
    File::create(named(&folder, 2)).unwrap();
    let again = Audit::open(data.path()).unwrap();
    note(&again, "bob", "two", Ok(()));
    let head = again.page(None)[0].digest.clone();
    assert_eq!(verified(&folder).range(), Some((1, 2, &*head)));
}

/// Over all files.
fn verified(folder: &Path) -> chain::ChainVerifier {
    let mut verifier = chain::ChainVerifier::default();
    for path in files(&LocalFiles, folder).unwrap() {
        let text = fs::read(path).unwrap();
        let mut lines = text.split(|byte| *byte == b'\n');
        lines
            .try_for_each(|line| verifier.check_line(line))
            .unwrap();
    }
    verifier
}

#[test]
fn unwritten_entry_breaks_no_chain() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("audit");
    let mut journal = Journal::open(LocalFiles, &folder).unwrap();
    let note = |journal: &mut Journal<LocalFiles>, what: &str| {
        let now = Instant::now();
        journal.note(UNIX_EPOCH, now, known("ann"), what.into(), Ok(()))
    };
    note(&mut journal, "one").unwrap();
    let file = File::open(&journal.path).unwrap();
    let writable = std::mem::replace(&mut journal.file, file);
    note(&mut journal, "two").unwrap_err();
    journal.file = writable;
    note(&mut journal, "three").unwrap();
    let kept = lock(&journal.kept);
    let numbers: Vec<_> = kept.iter().map(|it| it.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let text = fs::read(named(&folder, 1)).unwrap();
    let mut verifier = chain::ChainVerifier::default();
    let mut lines = text.split(|byte| *byte == b'\n');
    lines
        .try_for_each(|line| verifier.check_line(line))
        .unwrap();
    assert_eq!((verifier.entries(), verifier.unwritten()), (2, 1));
    let digests: Vec<_> = kept.iter().map(|it| it.digest.is_empty()).collect();
    assert_eq!(digests, [false, true, false]);
}

/// A loss of power would take it.
#[test]
fn unsynced_line_counts_as_unwritten() {
    let data = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(LocalFiles, &data.path().join("audit")).unwrap();
    // Takes whatever is written, and cannot be synced.
    journal.file = OpenOptions::new().append(true).open("/dev/null").unwrap();
    let now = Instant::now();
    let noted = journal.note(UNIX_EPOCH, now, known("ann"), "one".into(), Ok(()));
    noted.unwrap_err();
    let kept = lock(&journal.kept);
    assert_eq!((journal.bytes, kept[0].digest.as_str()), (0, ""));
}

const TEXTS: [&str; 3] = ["one", "two", "three"];

/// How many of the texts are confirmed before power is lost. The last of them is the first of another file.
fn confirmed(files: &LossyFiles, folder: &Path) -> usize {
    let Ok(mut journal) = Journal::open(files.clone(), folder) else {
        return 0;
    };
    let confirmed = TEXTS.iter().zip(1..).take_while(|(text, number)| {
        if *number == TEXTS.len() {
            journal.bytes = MAX_FILE_BYTES;
        }
        let now = Instant::now();
        let noted = journal.note(UNIX_EPOCH, now, known("ann"), (**text).into(), Ok(()));
        noted.is_ok()
    });
    confirmed.count()
}

/// What is in all files of this disk, and how many entries.
fn entries_on(files: &LossyFiles, folder: &Path) -> u64 {
    let mut verifier = chain::ChainVerifier::default();
    for path in super::files(files, folder).unwrap() {
        let text = files.read(&path).unwrap();
        let mut lines = text.split(|byte| *byte == b'\n');
        lines
            .try_for_each(|line| verifier.check_line(line))
            .unwrap();
    }
    verifier.entries()
}

/// Checks a failure at each operation, with each part of the unsynced data lost.
#[test]
fn confirmed_lines_survive_power_loss() {
    let folder = Path::new(ROOT).join("audit");
    for operation in 0.. {
        let mut always_confirmed = true;
        for kept_bytes in 0..256 {
            let files = LossyFiles::exact();
            files.die_at(operation + 1);
            let confirmed = confirmed(&files, &folder);
            always_confirmed &= confirmed == TEXTS.len();
            files.lose_power_but(kept_bytes);
            let mut journal = Journal::open(files.clone(), &folder).unwrap();
            let what: Vec<_> = lock(&journal.kept)
                .iter()
                .map(|it| it.what.clone())
                .collect();
            let of_operation = format!("operation {operation}, {kept_bytes} bytes: {what:?}");
            assert!(what.len() >= confirmed, "{of_operation}");
            assert!(what.iter().eq(&TEXTS[..what.len()]), "{of_operation}");
            let now = Instant::now();
            let later = journal.note(UNIX_EPOCH, now, known("ann"), "later".into(), Ok(()));
            later.unwrap();
            let entries = entries_on(&files, &folder);
            assert_eq!(entries, what.len() as u64 + 1, "{of_operation}");
        }
        if always_confirmed {
            assert!(operation > 8, "{operation} operations are too few");
            return;
        }
    }
}

/// Killed at each operation: all is as it was written, whether or not it was synced. Power is lost after the next process.
#[test]
fn killed_process_loses_no_names() {
    let folder = Path::new(ROOT).join("audit");
    for operation in 0.. {
        let files = LossyFiles::exact();
        files.die_at(operation + 1);
        let is_whole = confirmed(&files, &folder) == TEXTS.len();
        files.revive();
        let mut journal = Journal::open(files.clone(), &folder).unwrap();
        let now = Instant::now();
        let later = journal.note(UNIX_EPOCH, now, known("ann"), "later".into(), Ok(()));
        later.unwrap();
        // Names that were not synced are lost.
        files.lose_power_but(1);
        let again = Journal::open(files.clone(), &folder).unwrap();
        let is_kept = lock(&again.kept).iter().any(|it| it.what == "later");
        assert!(is_kept, "operation {operation}");
        if is_whole {
            assert!(operation > 8, "{operation} operations are too few");
            return;
        }
    }
}
