//! The notices of coordinators by which an agent denies others, now and when it starts again.

use std::fs::File;
use std::future;
use std::pin::pin;

use reweave_common::member::{Admission, DenyList, DenyLists, Member, RemovedCoordinators};

use super::cluster::{Cluster, listen, session};
use crate::{DenyListFile, Identity, Role, Session};

/// An agent, and its sessions with two coordinators.
struct Notified {
    cluster: Cluster,
    agent: Identity,
    file: DenyListFile,
    to_c0: Session,
    to_c1: Session,
    /// The other ends of the sessions.
    _accepted: [Session; 2],
}

impl Notified {
    async fn new() -> Self {
        let cluster = Cluster::new("lab");
        let agent = cluster.agent();
        let file = DenyListFile::load(&cluster.dir("h0"), &agent).unwrap();
        let (mut first, _) = listen(&cluster.coordinator());
        let (mut second, _) = listen(&cluster.member(Role::Coordinator, "c1"));
        let (at_c0, to_c0) = session(&mut first, &agent).await;
        let (at_c1, to_c1) = session(&mut second, &agent).await;
        Self {
            cluster,
            agent,
            file,
            to_c0,
            to_c1,
            _accepted: [at_c0, at_c1],
        }
    }

    fn held(&self) -> DenyLists {
        self.agent.denied().now().clone()
    }

    #[track_caller]
    fn expect(&self, lists: &DenyLists) {
        assert_eq!(self.held(), *lists);
        let folder = self.cluster.dir("h0");
        let again = Identity::load(&folder).unwrap();
        DenyListFile::load(&folder, &again).unwrap();
        assert_eq!(*again.denied().now(), *lists, "after a restart");
    }
}

fn denying(name: &str, up_to: u64) -> DenyList {
    let mut list = DenyList::default();
    list.deny(Member::new(Role::Coordinator, name), Admission(up_to));
    list
}

fn revoking(revoked: DenyList) -> DenyLists {
    DenyLists {
        revoked,
        ..DenyLists::default()
    }
}

/// Makes lists of this time, with coordinators that were removed then.
fn removing(as_of: u64, names: &[&str]) -> DenyLists {
    let RemovedCoordinators { as_of, list } = removal(as_of, names);
    DenyLists {
        as_of,
        removed: list,
        ..DenyLists::default()
    }
}

fn removal(as_of: u64, names: &[&str]) -> RemovedCoordinators {
    let members = names
        .iter()
        .map(|name| Member::new(Role::Coordinator, name));
    RemovedCoordinators {
        as_of: Admission(as_of),
        list: members.map(|member| (member, Admission(as_of))).collect(),
    }
}

/// A deposed leader does not know about the removal.
#[tokio::test]
async fn older_list_readmits_no_coordinator() {
    let notified = Notified::new().await;
    let Notified {
        file, to_c0, to_c1, ..
    } = &notified;
    file.note_removed(to_c0, removal(9, &["c2"])).await;
    for older in [removal(8, &[]), removal(8, &["c3"])] {
        file.note_removed(to_c1, older).await;
        notified.expect(&removing(9, &["c2"]));
    }
    file.note_removed(to_c1, removal(10, &[])).await;
    notified.expect(&removing(10, &[]));
}

#[tokio::test]
async fn denied_coordinators_lists_are_ignored() {
    let notified = Notified::new().await;
    let Notified {
        file, to_c0, to_c1, ..
    } = &notified;
    let c1 = denying("c1", 20);
    file.note_revoked(to_c0, c1.clone()).await;
    let only_c1 = revoking(c1);
    file.note_removed(to_c1, removal(30, &["c0"])).await;
    notified.expect(&only_c1);
    file.note_revoked(to_c1, denying("c0", 30)).await;
    notified.expect(&only_c1);
    file.note_removed(to_c0, removal(30, &["c3"])).await;
    assert_eq!(notified.held().removed, removal(30, &["c3"]).list);
}

/// A coordinator that is revoked sends the list without itself.
#[tokio::test]
async fn later_lists_lift_no_revocation() {
    let notified = Notified::new().await;
    let Notified { file, to_c0, .. } = &notified;
    let mut revoked = denying("c2", 7);
    file.note_revoked(to_c0, revoked.clone()).await;
    let more = denying("c3", 9);
    file.note_revoked(to_c0, more.clone()).await;
    file.note_revoked(to_c0, DenyList::default()).await;
    revoked.add(more);
    notified.expect(&revoking(revoked));
}

/// An implausible list removes no coordinator. A later list would not lift its own removals.
#[tokio::test]
async fn implausible_removals_are_ignored() {
    let notified = Notified::new().await;
    let Notified { file, to_c0, .. } = &notified;
    let mut early = removal(9, &["c2"]);
    early.as_of = Admission(8);
    for wrong in [removal(u64::MAX, &["c2"]), early] {
        file.note_removed(to_c0, wrong).await;
        notified.expect(&DenyLists::default());
    }
}

/// Another program holds the lock of the folder, and the member has one thread.
#[tokio::test]
async fn notice_denies_before_it_is_written() {
    let notified = Notified::new().await;
    let Notified { file, to_c0, .. } = &notified;
    let other = File::open(notified.cluster.dir("h0")).unwrap();
    other.lock().unwrap();
    let mut noting = pin!(file.note_removed(to_c0, removal(9, &["c2"])));
    tokio::select! {
        biased;
        () = &mut noting => panic!("it keeps the thread until the lock is free"),
        () = future::ready(()) => {}
    }
    assert_eq!(notified.held(), removing(9, &["c2"]));
    other.unlock().unwrap();
    noting.await;
    // On a stalled machine the wait for the lock has ended, and this writes it.
    file.note_removed(to_c0, removal(9, &["c2"])).await;
    notified.expect(&removing(9, &["c2"]));
}
