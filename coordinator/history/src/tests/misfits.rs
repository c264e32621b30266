//! Files that are broken, or that another program put there.

use bytes::Bytes;

use super::scene::{Disk, chronicle, live, look, second};
use crate::chronicle::{Chronicle, Rules};
use crate::draft::Draft;
use crate::keeper::read;
use crate::kind::Kind;
use crate::past::{Past, Question};
use crate::place::{FileName, Place};
use crate::resolution::Resolution;
use crate::table::TableError;

fn written() -> Disk {
    let disk = Disk::default();
    let mut chronicle = chronicle(&disk, 1);
    live(&mut chronicle, 0..200);
    chronicle.close().unwrap();
    disk
}

fn first_of_links(disk: &Disk) -> String {
    let names = disk.names();
    names
        .into_iter()
        .find(|name| name.contains("kind=links/resolution=1s"))
        .unwrap()
}

#[test]
fn any_changed_byte_is_detected() {
    let disk = written();
    let name = first_of_links(&disk);
    let (place, file) = Place::parse(&name).unwrap();
    let whole = disk.contents()[&name].clone();
    for at in 0..whole.len() {
        let mut content = whole.to_vec();
        content[at] ^= 1 << (at % 8);
        let read = read(place, &file, content.into());
        assert!(matches!(read, Err(TableError::Changed)), "{at}");
    }
    for length in [0, 1, 4, whole.len() / 2, whole.len() - 1] {
        let read = read(place, &file, whole.slice(..length));
        assert!(matches!(read, Err(TableError::Changed)), "{length}");
    }
}

/// A foreign file may have a fitting name.
#[test]
fn invalid_table_is_refused() {
    let place = Place::of(Kind::Links, Resolution::Second, second(0));
    let flows = Draft::made(Kind::Flows, &[], vec![]).unwrap().content;
    for content in [
        Bytes::new(),
        Bytes::from_static(b"PAR1PAR1"),
        Bytes::from(vec![b'P'; 5000]),
        flows,
    ] {
        let file = FileName {
            merged: false,
            run: 9,
            number: 9,
            checksum: crc32fast::hash(&content),
        };
        assert!(read(place, &file, content).is_err());
    }
}

#[test]
fn broken_file_is_skipped_and_named() {
    let disk = written();
    let name = first_of_links(&disk);
    let rows = look(&disk, 0, 300, Resolution::Second).links.len();
    disk.insert(&name, b"torn");
    let window = look(&disk, 0, 300, Resolution::Second);
    assert!(window.links.len() < rows && !window.links.is_empty());
    assert_eq!(window.warnings.len(), 1);
    assert!(
        window.warnings[0].starts_with(&format!("{name} is left out: ")),
        "{:?}",
        window.warnings
    );
    // The file does not prevent the merge of others, and stays as evidence.
    let mut next = Chronicle::on(Box::new(disk.clone()), Rules::default(), 2).unwrap();
    (0..60).for_each(|minute| {
        next.advance(second(7200 + 60 * minute)).unwrap();
    });
    assert_eq!(next.take_report().broken, std::slice::from_ref(&name));
    assert!(disk.names().contains(&name));
    let merged = look(&disk, 0, 300, Resolution::Second);
    assert_eq!(merged.links, window.links);
}

#[test]
fn foreign_files_are_left_alone() {
    let disk = written();
    let strangers = [
        "README.txt",
        "kind=links/resolution=1s/day=2026-11-20/hour=14/notes.txt",
        "kind=links/resolution=1s/day=2026-11-20/hour=14/part-00.parquet",
        "kind=links/resolution=1s/day=2026-11-20/hour=99/part-0000000000000001-00000001-00000000.parquet",
        "kind=dogs/resolution=1s/day=2026-11-20/hour=14/part-0000000000000001-00000001-00000000.parquet",
    ];
    let before = look(&disk, 0, 300, Resolution::Second);
    for name in strangers {
        disk.insert(name, b"x");
    }
    let mut next = Chronicle::on(Box::new(disk.clone()), Rules::default(), 2).unwrap();
    assert_eq!(next.foreign().len(), strangers.len());
    // This run continues until all files of the history are too old.
    (5..10).for_each(|minute| {
        next.advance(second(60 * minute)).unwrap();
    });
    (0..200).for_each(|minute| {
        next.advance(second(500 * 86_400 + 60 * minute)).unwrap();
    });
    let mut left = disk.names();
    left.sort();
    let mut expected = strangers.map(str::to_owned);
    expected.sort();
    assert_eq!(left, expected);
    assert!(!before.links.is_empty());
}

#[test]
fn missing_folder_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none").display().to_string();
    assert!(Past::open(&missing).is_err());
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let inside = file.join("history").display().to_string();
    assert!(Chronicle::open(&inside, Rules::default(), 1).is_err());
    let ftp = Chronicle::open("ftp://host/folder", Rules::default(), 1)
        .err()
        .unwrap();
    assert!(
        ftp.to_string().contains("is not a supported location"),
        "{ftp}"
    );
}

#[test]
fn real_folder_works_as_store() {
    let folder = tempfile::tempdir().unwrap();
    let url = folder.path().join("history").display().to_string();
    let mut chronicle = Chronicle::open(&url, Rules::default(), 1).unwrap();
    live(&mut chronicle, 3300..4000);
    chronicle.close().unwrap();
    let past = Past::open(&url).unwrap();
    let question = Question {
        from: second(0),
        to: second(5000),
        resolution: Some(Resolution::Second),
        kinds: vec![Kind::Links, Kind::Agents],
    };
    let window = past.look(&question).unwrap();
    assert_eq!((window.links.len(), window.warnings.len()), (700, 0));
}
