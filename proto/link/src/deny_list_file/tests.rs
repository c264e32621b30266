//! The lists that programs deny, if they start in one folder one after the other or at the same time.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::Duration;

use reweave_common::member::{Admission, Member, Role};
use tempfile::TempDir;

use super::format::{DenyListRecord, RecordAuthority};
use super::merge::MAX_DENIED_COORDINATORS;
use super::*;
use crate::pki::{Authority, Validity, files};

/// The folder of an operator of a cluster of this name.
fn home(cluster: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let authority = Authority::create(&home.path().join("ca"), cluster).unwrap();
    authority
        .issue(Role::Operator, "ann", Validity::day(), home.path())
        .unwrap();
    home
}

/// The file, as a program loads it that starts there.
fn started(home: &TempDir) -> DenyListFile {
    let identity = Identity::load(home.path()).unwrap();
    DenyListFile::load(home.path(), &identity).unwrap()
}

fn held(file: &DenyListFile) -> DenyLists {
    file.identity.denied().now().clone()
}

/// Takes over lists as from a coordinator.
fn learn(file: &DenyListFile, lists: DenyLists) -> Result<(), DenyListError> {
    file.learn(lists);
    file.save()
}

fn denying(up_to: u64, names: &[&str]) -> DenyList {
    let each = names.iter().map(|name| {
        let member = Member::new(Role::Coordinator, name);
        (member, Admission(up_to))
    });
    each.collect()
}

fn removing(as_of: u64, names: &[&str]) -> DenyLists {
    DenyLists {
        as_of: Admission(as_of),
        removed: denying(as_of, names),
        ..DenyLists::default()
    }
}

fn revoking(up_to: u64, names: &[&str]) -> DenyLists {
    DenyLists {
        revoked: denying(up_to, names),
        ..DenyLists::default()
    }
}

/// The latest plausible time, by the clock of the machine.
fn latest() -> Admission {
    merge::clock_at(SystemTime::now()).latest
}

#[test]
fn learned_removal_lasts_until_lifted() {
    let home = home("lab");
    learn(&started(&home), removing(7, &["c1"])).unwrap();
    assert_eq!(held(&started(&home)), removing(7, &["c1"]));
    let about = fs::metadata(started(&home).store.path()).unwrap();
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    learn(&started(&home), removing(9, &[])).unwrap();
    assert_eq!(held(&started(&home)), removing(9, &[]));
}

/// Both programs have read the file before one of them writes it. The other one then denies the lists that it finds
/// there.
#[test]
fn concurrent_program_lifts_no_removal() {
    let home = home("lab");
    let [late, early] = [(); 2].map(|()| started(&home));
    learn(&late, removing(9, &["c2"])).unwrap();
    learn(&early, removing(7, &["c1"])).unwrap();
    assert_eq!(held(&started(&home)), removing(9, &["c2"]));
    assert_eq!(held(&early), removing(9, &["c2"]));
}

/// Each program that starts learns of one more revocation. It waits for the lock for as long as the disk makes it.
#[test]
fn concurrent_writers_lose_no_revocation() {
    const ROUNDS: usize = 30;
    let home = home("lab");
    let learn_rounds = |writer: &str| {
        for round in 0..ROUNDS {
            let file = started(&home);
            let name = format!("{writer}{round}");
            file.learn(revoking(7, &[name.as_str()]));
            while let Err(error) = file.save() {
                assert!(matches!(error, DenyListError::Lock { .. }), "{error}");
            }
        }
    };
    thread::scope(|scope| {
        for writer in ["a", "b"] {
            scope.spawn(move || learn_rounds(writer));
        }
    });
    assert_eq!(held(&started(&home)).revoked.len(), 2 * ROUNDS);
}

#[test]
fn wait_for_folder_lock_ends() {
    let home = home("lab");
    let other = File::open(home.path()).unwrap();
    other.lock().unwrap();
    let refused = files::lock_within(home.path(), Duration::ZERO).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
    other.unlock().unwrap();
    files::lock_within(home.path(), Duration::ZERO).unwrap();
}

/// The folder cannot be written, as in a read-only home. Other sessions of this program have the list.
#[test]
fn unwritable_file_still_denies() {
    let home = home("lab");
    let file = started(&home);
    fs::remove_dir_all(home.path()).unwrap();
    learn(&file, removing(7, &["c1"])).unwrap_err();
    assert_eq!(held(&file), removing(7, &["c1"]));
}

/// The second notice has no news.
#[test]
fn next_notice_repeats_failed_write() {
    let home = home("lab");
    let file = started(&home);
    // A folder with the name of the draft prevents the write.
    let in_the_way = file.store.path().with_extension("json.new");
    fs::create_dir(&in_the_way).unwrap();
    let error = learn(&file, removing(7, &["c1"])).unwrap_err();
    assert!(error.to_string().ends_with("denied.json"), "{error}");
    fs::remove_dir(&in_the_way).unwrap();
    learn(&file, removing(7, &["c1"])).unwrap();
    assert_eq!(held(&started(&home)), removing(7, &["c1"]));
}

#[test]
fn other_clusters_file_is_ignored() {
    let [lab, prod] = ["lab", "prod"].map(home);
    learn(&started(&lab), removing(7, &["c1"])).unwrap();
    let [from, to] = [&lab, &prod].map(|home| started(home).store.path().to_owned());
    fs::copy(from, to).unwrap();
    assert_eq!(held(&started(&prod)), DenyLists::default());
    learn(&started(&prod), removing(5, &["c2"])).unwrap();
    assert_eq!(held(&started(&prod)), removing(5, &["c2"]));
}

/// No program that keeps the lists connects to other members.
#[test]
fn only_coordinators_are_kept() {
    let home = home("lab");
    let mut lists = revoking(7, &["c1"]);
    for role in [Role::Agent, Role::Driver, Role::Operator, Role::Viewer] {
        lists.revoked.deny(Member::new(role, "h0"), Admission(7));
    }
    let file = started(&home);
    learn(&file, lists).unwrap();
    for file in [file, started(&home)] {
        assert_eq!(held(&file), revoking(7, &["c1"]));
    }
}

/// A full list of either kind keeps nothing out of the other.
#[test]
fn deny_lists_are_bounded_apart() {
    let home = home("lab");
    let names: Vec<_> = (0..=MAX_DENIED_COORDINATORS)
        .map(|number| format!("c{number:062}"))
        .collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    // A time of 2023, with as many digits as the present time.
    let at = 1_700_000_000_000_000;
    let file = started(&home);
    learn(&file, removing(at, &names)).unwrap();
    assert_eq!(held(&file), DenyLists::default());
    learn(&file, revoking(at, &names[1..])).unwrap();
    learn(&file, revoking(at, &names[..1])).unwrap();
    learn(&file, removing(at, &names[1..])).unwrap();
    let most = DenyLists {
        revoked: denying(at, &names[1..]),
        ..removing(at, &names[1..])
    };
    for file in [file, started(&home)] {
        assert!(held(&file) == most, "not as many as are allowed");
    }
}

/// A list of a later time would lift no removal, and no later list would lift its own removals.
#[test]
fn lists_of_later_times_are_ignored() {
    let home = home("lab");
    learn(&started(&home), removing(u64::MAX, &["c1"])).unwrap();
    let mut early = removing(9, &["c1"]);
    early.as_of = Admission(8);
    learn(&started(&home), early).unwrap();
    assert_eq!(held(&started(&home)), DenyLists::default());
    learn(&started(&home), removing(7, &["c1"])).unwrap();
    assert_eq!(held(&started(&home)), removing(7, &["c1"]));
}

/// The revocation itself is accepted.
#[test]
fn revocation_of_later_time_is_limited() {
    let home = home("lab");
    let before = latest();
    learn(&started(&home), revoking(u64::MAX, &["c1"])).unwrap();
    let revoked = held(&started(&home)).revoked;
    let c1 = Member::new(Role::Coordinator, "c1");
    assert!(revoked.denies(&c1, before));
    assert!(!revoked.denies(&c1, Admission(latest().0 + 1)));
}

/// A coordinator invents a date that this clock allows, and is then removed.
#[test]
fn invented_date_blocks_no_removal() {
    let home = home("lab");
    let file = started(&home);
    let an_hour_us = 3_600_000_000;
    let invented = latest().0 - an_hour_us;
    let now = merge::clock_at(SystemTime::now()).now.0;
    learn(&file, removing(invented, &[])).unwrap();
    learn(&file, removing(now, &["c1"])).unwrap();
    learn(&file, removing(now + 1, &[])).unwrap();
    for file in [file, started(&home)] {
        assert_eq!(held(&file).removed, denying(now, &["c1"]));
    }
}

/// The file denies its members until a coordinator sends another list, and keeps no list out. With a clock that is
/// behind, a good file looks the same: until then its date stays.
#[test]
fn poisoned_file_yields_to_lists() {
    let home = home("lab");
    let file = started(&home);
    let poisoned = removing(u64::MAX, &["c1"]);
    let authority = RecordAuthority::of(&file.identity);
    let text = encode(&DenyListRecord::new(authority, &poisoned));
    fs::write(file.store.path(), text).unwrap();
    let file = started(&home);
    assert_eq!(held(&file), poisoned);
    learn(&file, revoking(5, &["c3"])).unwrap();
    assert_eq!(held(&file).as_of, poisoned.as_of);
    learn(&file, removing(7, &["c2"])).unwrap();
    let expected = DenyLists {
        revoked: denying(5, &["c3"]),
        ..removing(7, &["c2"])
    };
    for file in [file, started(&home)] {
        assert_eq!(held(&file), expected);
    }
}

/// The damaged file is not replaced.
#[test]
fn damaged_deny_list_file_is_named() {
    let home = home("lab");
    let file = started(&home);
    learn(&file, removing(7, &["c1"])).unwrap();
    let path = file.store.path().to_owned();
    let whole = fs::read_to_string(&path).unwrap();
    let identity = Identity::load(home.path()).unwrap();
    let refused = |text: &str| {
        fs::write(&path, text).unwrap();
        DenyListFile::load(home.path(), &identity).unwrap_err()
    };
    for length in 0..whole.len() {
        let error = refused(&whole[..length]).to_string();
        assert!(error.contains("denied.json is damaged"), "{error}");
    }
    for other in ["\"version\": 1", "\"version\": 3"] {
        let text = whole.replace("\"version\": 2", other);
        let error = refused(&text);
        let is_of_version = matches!(error, DenyListError::OtherVersion { .. });
        let words = error.to_string();
        let is_clear = words.contains("denied.json has format version") && words.contains("remove");
        assert!(is_of_version && is_clear, "{words}");
        learn(&file, removing(9, &["c2"])).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn unreadable_deny_list_file_is_named() {
    let home = home("lab");
    let file = started(&home);
    fs::create_dir(file.store.path()).unwrap();
    let error = DenyListFile::load(home.path(), &file.identity).unwrap_err();
    let words = error.to_string();
    let is_named = words.starts_with("cannot read") && words.ends_with("denied.json");
    assert!(is_named, "{words}");
}
