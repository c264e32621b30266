//! Whenever a run ends, all visible files are complete, no row is there twice, and the next run continues.

use std::collections::BTreeSet;

use bytes::Bytes;
use reweave_sim_disk::LossyFiles;

use super::scene::{Disk, Fault, Unsynced, chronicle, link, live, look, second};
use crate::chronicle::{Chronicle, Rules};
use crate::draft::{Draft, Made};
use crate::keeper::{Keeper, MAX_UNSAVED_BYTES, read};
use crate::kind::Kind;
use crate::place::Place;
use crate::resolution::Resolution;
use crate::retention::Retention;

/// The first second of the tests: shortly before the end of an hour, whose files are merged two minutes later.
const FIRST_SECOND: u64 = 3480;
const LAST_SECOND: u64 = 3970;

fn all_are_whole(disk: &Disk) {
    for (name, content) in disk.contents() {
        let (place, file) = Place::parse(&name).unwrap();
        read(place, &file, content).unwrap();
    }
}

/// Returns the seconds in the history. Each second appears once and has one reading.
fn seconds(disk: &Disk) -> BTreeSet<u64> {
    let window = look(disk, 0, 100_000, Resolution::Second);
    assert_eq!(window.warnings, [""; 0]);
    let mut all = BTreeSet::new();
    for row in window.links {
        assert_eq!(row.readings, 1, "counted twice at {:?}", row.at);
        let at = row.at.as_micros() / 1_000_000 - super::scene::START_S;
        assert_eq!(row.what.send_bits_per_s.unwrap().min, at);
        assert!(all.insert(at));
    }
    all
}

/// Returns the number of changes of a run without a fault.
fn changes() -> usize {
    let disk = Disk::default();
    live(&mut chronicle(&disk, 1), FIRST_SECOND..LAST_SECOND);
    disk.changes()
}

#[test]
fn crash_leaves_whole_files_without_duplicates() {
    let all = changes();
    assert!(all > 30, "{all} changes are few");
    for at in 0..all {
        for fault in [Fault::DeadBefore(at), Fault::DeadAfter(at)] {
            let disk = Disk::default();
            disk.set(fault);
            live(&mut chronicle(&disk, 1), FIRST_SECOND..LAST_SECOND);
            all_are_whole(&disk);
            let before = seconds(&disk);
            let unbroken: BTreeSet<_> = (FIRST_SECOND..).take(before.len()).collect();
            assert_eq!(before, unbroken, "{fault:?} took what was there");
            disk.set(Fault::None);
            let mut next = chronicle(&disk, 2);
            live(&mut next, LAST_SECOND..LAST_SECOND + 130);
            next.close().unwrap();
            all_are_whole(&disk);
            let after = seconds(&disk);
            assert!(before.is_subset(&after), "{fault:?} lost what was there");
            let rest: BTreeSet<_> = (LAST_SECOND..LAST_SECOND + 130).collect();
            assert!(
                rest.is_subset(&after),
                "{fault:?}: the next run did not go on"
            );
        }
    }
}

/// Counts rows as other programs do, which ignore that a file replaces others.
fn rows_of_all_files(disk: &Disk) -> usize {
    let files = disk.contents().into_iter();
    let links = files.filter(|(name, _)| name.contains("kind=links/resolution=1s"));
    let rows = links.map(|(name, content)| {
        let (place, file) = Place::parse(&name).unwrap();
        read(place, &file, content).unwrap().rows.len()
    });
    rows.sum()
}

/// Makes a disk on which a merged file was written, and the files that it replaces are still there.
fn interrupted_merge() -> Disk {
    let puts = changes_until_merge();
    let disk = Disk::default();
    disk.set(Fault::DeadAfter(puts));
    live(&mut chronicle(&disk, 1), FIRST_SECOND..LAST_SECOND);
    let doubled = rows_of_all_files(&disk);
    let seen = seconds(&disk).len();
    assert!(
        doubled > seen,
        "{doubled} rows, {seen} seconds: this is not the moment meant"
    );
    disk.set(Fault::None);
    disk
}

#[test]
fn interrupted_merge_is_finished_later() {
    let disk = interrupted_merge();
    let mut next = chronicle(&disk, 2);
    (0..40).for_each(|minute| {
        next.advance(second(LAST_SECOND + 60 * minute)).unwrap();
    });
    assert_eq!(rows_of_all_files(&disk), seconds(&disk).len());
}

#[test]
fn failed_merge_cleanup_is_repeated() {
    for fault in [Fault::Unreadable, Fault::Full] {
        let disk = interrupted_merge();
        let mut keeper = Keeper::open(Box::new(disk.clone()), Retention::default(), 2).unwrap();
        disk.set(fault);
        keeper.tend(second(LAST_SECOND)).unwrap_err();
        disk.set(Fault::None);
        (0..10).for_each(|_| {
            keeper.tend(second(LAST_SECOND)).unwrap();
        });
        let seen = seconds(&disk).len();
        assert_eq!(rows_of_all_files(&disk), seen, "{fault:?}");
    }
}

/// All written files are there. Of the files that they replace, some have come back, or all, or none.
#[test]
fn power_loss_keeps_each_row_once() {
    let outcomes = [
        Unsynced::Drawn(0),
        Unsynced::Drawn(1),
        Unsynced::Lost,
        Unsynced::Kept,
    ];
    for at in 0..changes() {
        for unsynced in outcomes {
            let disk = Disk::leaving(unsynced);
            disk.set(Fault::DeadAfter(at));
            live(&mut chronicle(&disk, 1), FIRST_SECOND..LAST_SECOND);
            let before = seconds(&disk);
            disk.set(Fault::None);
            disk.lose_power();
            all_are_whole(&disk);
            assert_eq!(seconds(&disk), before, "change {at}, {unsynced:?}");
            let mut next = chronicle(&disk, 2);
            (0..40).for_each(|minute| {
                next.advance(second(LAST_SECOND + 60 * minute)).unwrap();
            });
            assert_eq!(seconds(&disk), before, "change {at}, {unsynced:?}, later");
            let rows = rows_of_all_files(&disk);
            assert_eq!(rows, before.len(), "change {at}, {unsynced:?}");
        }
    }
}

/// Records one reading a minute up to the end of an hour, and goes on until the files of that hour are merged. Returns the
/// seconds of the rows that are confirmed.
fn confirmed(files: &LossyFiles) -> BTreeSet<u64> {
    let mut observed = BTreeSet::new();
    let mut confirmed = BTreeSet::new();
    let Ok(disk) = Disk::on(files) else {
        return confirmed;
    };
    let mut chronicle = chronicle(&disk, 1);
    for at in (3420..=3720).step_by(60) {
        if matches!(chronicle.advance(second(at)), Ok(true)) {
            confirmed.clone_from(&observed);
        }
        if at < 3600 {
            chronicle.observe(second(at), &link(at));
            observed.insert(at);
        }
    }
    confirmed
}

/// Power is lost during each operation of the disk: while folders are created, and files written, renamed, merged and
/// removed.
#[test]
fn power_loss_amid_write_keeps_confirmed() {
    let losses: [fn(&LossyFiles); 3] = [
        LossyFiles::lose_power,
        LossyFiles::lose_power_after_all,
        |files| files.lose_power_but(100),
    ];
    for operation in 1.. {
        let mut is_over = true;
        for (lose_power, nth) in losses.into_iter().zip(0..) {
            let files = LossyFiles::exact();
            files.die_at(operation);
            let confirmed = confirmed(&files);
            is_over &= !files.is_dead();
            lose_power(&files);
            let of_operation = format!("operation {operation}, loss {nth}");
            let disk = Disk::on(&files).unwrap();
            all_are_whole(&disk);
            let found = seconds(&disk);
            assert!(confirmed.is_subset(&found), "{of_operation}: {found:?}");
            assert!(!is_over || confirmed.len() == 3, "{of_operation}");
            let mut next = chronicle(&disk, 2);
            (0..10).for_each(|minute| {
                next.advance(second(LAST_SECOND + 60 * minute)).unwrap();
            });
            assert_eq!(seconds(&disk), found, "{of_operation}, later");
            assert_eq!(rows_of_all_files(&disk), found.len(), "{of_operation}");
        }
        if is_over {
            assert!(operation > 50, "{operation} operations are too few");
            return;
        }
    }
}

/// Counts the changes up to the first merge of links. The first file that names replaced files shows it.
fn changes_until_merge() -> usize {
    (0..changes())
        .find(|&at| {
            let disk = Disk::default();
            disk.set(Fault::DeadAfter(at));
            live(&mut chronicle(&disk, 1), FIRST_SECOND..LAST_SECOND);
            disk.names()
                .iter()
                .any(|name| name.contains("kind=links/resolution=1s") && name.contains("merged-"))
        })
        .unwrap()
}

#[test]
fn unavailable_store_is_waited_for() {
    let disk = Disk::default();
    let mut chronicle = chronicle(&disk, 1);
    live(&mut chronicle, 0..100);
    disk.set(Fault::Full);
    let failures = live(&mut chronicle, 100..400);
    assert!(failures > 0);
    disk.set(Fault::None);
    live(&mut chronicle, 400..500);
    chronicle.close().unwrap();
    assert_eq!(chronicle.take_report().lost_rows, 0);
    assert_eq!(seconds(&disk), (0..500).collect());
}

/// Only waiting files count: written files take no room from them.
#[test]
fn written_files_free_their_room() {
    let disk = Disk::default();
    let mut keeper = Keeper::open(Box::new(disk.clone()), Retention::default(), 1).unwrap();
    let place = Place::of(Kind::Links, Resolution::Second, second(0));
    let content = Bytes::from(vec![0u8; MAX_UNSAVED_BYTES / 4]);
    let made = || Made {
        content: content.clone(),
        rows: 1,
    };
    assert_eq!(keeper.take(place, made()), 0);
    keeper.save().unwrap();
    disk.set(Fault::Full);
    let lost = [(); 5].map(|()| keeper.take(place, made()));
    assert_eq!(lost, [0, 0, 0, 0, 1]);
}

/// Each attempt may take as long as the timeout of the shelf.
#[test]
fn failed_store_retries_once_per_minute() {
    let disk = Disk::default();
    disk.set(Fault::Full);
    let mut keeper = Keeper::open(Box::new(disk.clone()), Retention::default(), 1).unwrap();
    let place = Place::of(Kind::Links, Resolution::Second, second(0));
    let mut offer = || {
        let made = Draft::made(Kind::Links, &[], vec![]).unwrap();
        assert_eq!(keeper.take(place, made), 0);
        let _ = keeper.save_unless_failing();
        disk.changes()
    };
    assert_eq!([offer(), offer(), offer()], [1, 1, 1]);
    assert!(keeper.save().is_err());
    disk.set(Fault::None);
    keeper.save().unwrap();
    assert_eq!(disk.names().len(), 3);
}

/// All rows of the merged files are in memory at once.
#[test]
fn large_files_are_not_merged() {
    let disk = Disk::default();
    let mut keeper = Keeper::open(Box::new(disk.clone()), Retention::default(), 1).unwrap();
    let place = Place::of(Kind::Links, Resolution::Second, second(0));
    for rows in [1, 100_000, 60_000, 60_000, 60_000, 100_000] {
        let Made { content, .. } = Draft::made(Kind::Links, &[], vec![]).unwrap();
        keeper.take(place, Made { content, rows });
    }
    keeper.save().unwrap();
    let mut merged = || keeper.tend(second(7200)).unwrap().merged;
    assert_eq!(
        merged(),
        3 + 2,
        "three at once, and what they became with the fourth"
    );
    assert_eq!(merged(), 0);
    assert_eq!(disk.names().len(), 3);
}

#[test]
fn old_rows_expire_files_stay_few() {
    let disk = Disk::default();
    let rules = Rules {
        retention: Retention {
            second: std::time::Duration::from_hours(2),
            ..Retention::default()
        },
        ..Rules::default()
    };
    let mut chronicle = Chronicle::on(Box::new(disk.clone()), rules, 1).unwrap();
    live(&mut chronicle, 0..5 * 3600);
    chronicle.close().unwrap();
    let seen = seconds(&disk);
    assert!(
        seen.first()
            .is_some_and(|first| (3600..=2 * 3600).contains(first)),
        "{:?}",
        seen.first()
    );
    assert!(seen.contains(&(5 * 3600 - 1)));
    let hour = |hour| {
        move |name: &&String| {
            name.contains(&format!(
                "kind=links/resolution=1s/day=2026-11-20/hour={hour}"
            ))
        }
    };
    let names = disk.names();
    assert_eq!(names.iter().filter(hour(14)).count(), 0);
    assert_eq!(names.iter().filter(hour(17)).count(), 1, "{names:#?}");
    let tens = look(&disk, 0, 100_000, Resolution::TenSeconds).links.len();
    assert_eq!(tens, 5 * 360);
}

/// A store has taken a file, and its answer is lost.
#[test]
fn unconfirmed_write_is_not_repeated() {
    for at in 0..changes() {
        let disk = Disk::default();
        disk.set(Fault::Unsure(at));
        let mut chronicle = chronicle(&disk, 1);
        live(&mut chronicle, FIRST_SECOND..LAST_SECOND);
        (0..5).for_each(|minute| {
            chronicle
                .advance(second(LAST_SECOND + 60 * minute))
                .unwrap();
        });
        chronicle.close().unwrap();
        assert_eq!(
            seconds(&disk),
            (FIRST_SECOND..LAST_SECOND).collect(),
            "{at}"
        );
        assert_eq!(rows_of_all_files(&disk), seconds(&disk).len(), "{at}");
    }
}
