//! A coordinator that was removed while it was away, and that is added again.

use std::fs;
use std::process::Command;

use super::Trio;

/// A coordinator that does not lead, stopped and then removed.
fn remove_one(trio: &mut Trio) -> usize {
    let (leader, _) = trio.leader_after(0);
    trio.come_to_be([1, 2, 3]);
    let gone = (leader + 1) % 3;
    trio.kill(gone);
    let out = trio.changed(&["remove", &format!("c{gone}")]);
    assert!(out.status.success(), "{out:?}");
    gone
}

/// Adds it again, under the number 4.
fn add_again(trio: &Trio, gone: usize) {
    let name = format!("c{gone}");
    let back = trio.changed(&["add", &name, &trio.addresses[gone]]);
    assert!(back.status.success(), "{back:?}");
}

/// Once the member that was added again votes, under the number 4.
fn expect_back(trio: &Trio, gone: usize) {
    let kept = (1..=3).filter(|&number| number != gone as u64 + 1);
    let expected: Vec<_> = kept.chain([4]).collect();
    trio.come_to_be(expected.try_into().expect("three"));
}

/// It was away when it was removed. Its log does not say so, and the others do.
#[test]
fn removed_coordinator_learns_it_and_ends() {
    let mut trio = Trio::started();
    let gone = remove_one(&mut trio);
    trio.start(gone);
    assert_eq!(trio.ends(gone), Some(1));
    let said = trio.said(gone);
    assert!(
        said.contains("this coordinator was removed from the cluster"),
        "{said}"
    );
    let remedy = format!("cluster member add c{gone} ADDRESS:PORT");
    let mut check = Command::new(trio.programs.coordinator());
    check.args(["check", "--config"]);
    check.arg(trio.path(&format!("c{gone}.toml")));
    let checked = check.output().expect("it was built");
    assert_eq!(checked.status.code(), Some(2), "{checked:?}");
    let why = String::from_utf8_lossy(&checked.stderr);
    assert!(why.contains(&remedy), "{why}");
    trio.start(gone);
    assert_eq!(trio.ends(gone), Some(2), "it needs no other to know");
}

/// It belongs to the number that was removed, and an empty one gets the new number.
#[test]
fn old_folder_gets_no_new_number() {
    let mut trio = Trio::started();
    let gone = remove_one(&mut trio);
    add_again(&trio, gone);
    trio.start(gone);
    assert_eq!(trio.ends(gone), Some(1));
    fs::remove_dir_all(trio.path(&format!("data{gone}"))).expect("it was there");
    trio.start(gone);
    expect_back(&trio, gone);
}

/// The settings of a new member name the coordinators of some time before.
#[test]
fn newcomer_need_not_know_the_leader() {
    let mut trio = Trio::started();
    let gone = remove_one(&mut trio);
    let (leader, _) = trio.leader_after(0);
    let id = leader + 1;
    let address = &trio.addresses[leader];
    let table = format!("[[member]]\nid = {id}\nname = \"c{leader}\"\naddress = \"{address}\"\n");
    let settings = trio.settings(gone);
    assert!(settings.contains(&table), "{settings}");
    let settings = settings.replace(&table, "");
    fs::write(trio.path(&format!("c{gone}.toml")), settings).expect("there is room");
    fs::remove_dir_all(trio.path(&format!("data{gone}"))).expect("it was there");
    add_again(&trio, gone);
    trio.start(gone);
    expect_back(&trio, gone);
}
