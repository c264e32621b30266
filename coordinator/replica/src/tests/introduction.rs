//! Which coordinators may start without a log, and under which number.

use std::collections::BTreeMap;

use super::room::member;
use crate::{Answer, Beginning, FolderId, Founding, Member, MemberId, Members, Newcomer, Saved};

const OWN_FOLDER: FolderId = FolderId(11);

fn newcomer() -> Newcomer {
    Newcomer {
        founder: Some(MemberId(1)),
        folder: OWN_FOLDER,
        members: (1..=3).map(|id| (MemberId(id), member(id))).collect(),
    }
}

fn founding(id: u64) -> Answer {
    Answer::Founding {
        folder: FolderId(10 + id),
    }
}

fn answers(said: &[(u64, Answer)]) -> BTreeMap<MemberId, Answer> {
    said.iter()
        .map(|(id, answer)| (MemberId(*id), answer.clone()))
        .collect()
}

fn founded() -> Members {
    let all = answers(&[(2, founding(2)), (3, founding(3))]);
    let Beginning::Found(members) = newcomer().begin(&all) else {
        panic!("all are founders")
    };
    let folders: Vec<_> = members.values().map(|member| member.folder).collect();
    assert_eq!(folders, [11, 12, 13].map(|id| Some(FolderId(id))));
    let founding = Founding {
        members,
        state: Vec::new(),
    };
    let saved = Saved::founding(MemberId(2), Vec::new(), founding);
    let replica = crate::Replica::new(&saved, crate::Timing::default()).unwrap();
    replica.members().clone()
}

#[test]
fn founders_begin_once_all_are_known() {
    let newcomer = newcomer();
    assert_eq!(newcomer.begin(&answers(&[])), Beginning::Wait);
    assert_eq!(
        newcomer.begin(&answers(&[(2, founding(2))])),
        Beginning::Wait
    );
    founded();
}

#[test]
fn late_founder_joins_others() {
    let members = founded();
    let answer = Answer::of(&members, "c1", OWN_FOLDER);
    let said = answers(&[(2, answer), (3, founding(3))]);
    let id = MemberId(1);
    assert_eq!(newcomer().begin(&said), Beginning::Join { id, members });
}

/// Whichever of the others answers first, and whether those have lost theirs too.
#[test]
fn member_with_lost_folder_is_stranger() {
    let lost = Newcomer {
        folder: FolderId(99),
        ..newcomer()
    };
    let answer = Answer::of(&founded(), "c1", lost.folder);
    assert_eq!(answer, Answer::Stranger);
    for said in [
        answers(&[(2, answer.clone())]),
        answers(&[(2, answer.clone()), (3, answer.clone())]),
        answers(&[(2, founding(2)), (3, answer)]),
    ] {
        assert_eq!(lost.begin(&said), Beginning::Stranger);
    }
}

#[test]
fn newcomer_waits_until_folder_is_recorded() {
    let mut members = founded();
    let stranger = Newcomer {
        founder: None,
        folder: FolderId(99),
        ..newcomer()
    };
    let ask = |members: &Members| Answer::of(members, "c4", stranger.folder);
    assert_eq!(ask(&members), Answer::Unknown);
    let id = MemberId(4);
    members.of.insert(id, member(4));
    assert_eq!(ask(&members), Answer::Expected);
    assert_eq!(
        stranger.begin(&answers(&[(2, ask(&members))])),
        Beginning::Wait
    );
    let folder = Some(stranger.folder);
    members.of.insert(
        id,
        Member {
            folder,
            ..member(4)
        },
    );
    let said = answers(&[(2, ask(&members)), (3, Answer::Unknown)]);
    assert_eq!(stranger.begin(&said), Beginning::Join { id, members });
}

/// It was replaced, and one of the others has not applied that yet.
#[test]
fn expected_newcomer_is_no_stranger() {
    let said = answers(&[(2, Answer::Expected), (3, Answer::Stranger)]);
    assert_eq!(newcomer().begin(&said), Beginning::Wait);
}
