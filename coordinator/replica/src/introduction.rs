//! How a coordinator without a log starts: as one of the founders, or as a new member of a running cluster.
//!
//! A lost log looks like one that never existed, but the other members know: they have recorded the folder of each
//! member number. A coordinator that has lost its folder is unknown to them, and neither votes nor acknowledges under
//! its old number.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::change::{Member, Members, Welcome};
use crate::wire::{FolderId, MemberId};

/// Another coordinator's answer to a coordinator without a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It has no log either, and this is its folder.
    Founding { folder: FolderId },
    /// That folder belongs to this number.
    Member { id: MemberId, members: Members },
    /// A member of that name is being added; its folder is being recorded.
    Expected,
    /// No member has that name.
    Unknown,
    /// The number of that name belongs to another folder.
    Stranger,
}

/// A coordinator without a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newcomer {
    /// The number that it was given as a founder, if any.
    pub founder: Option<MemberId>,
    pub folder: FolderId,
    /// The configured members, including itself if it is a founder.
    pub members: BTreeMap<MemberId, Member>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beginning {
    /// No coordinator has a log: all founders start with the same list of members.
    Found(BTreeMap<MemberId, Member>),
    Join {
        id: MemberId,
        members: Members,
    },
    /// Not enough answers yet.
    Wait,
    Stranger,
}

impl Answer {
    /// The answer of a coordinator that has a log.
    pub fn of(members: &Members, name: &str, folder: FolderId) -> Self {
        match members.welcome(name, folder) {
            Welcome::Member(id) => Self::Member {
                id,
                members: members.clone(),
            },
            Welcome::Expected(_) => Self::Expected,
            Welcome::Unknown => Self::Unknown,
            Welcome::Stranger => Self::Stranger,
        }
    }
}

impl Newcomer {
    /// The decision by the last answer of each coordinator. One member is enough to recognize a folder; only all
    /// founders together prove that there is no log.
    pub fn begin(&self, answers: &BTreeMap<MemberId, Answer>) -> Beginning {
        let joins = answers.values().find_map(|answer| match answer {
            Answer::Member { id, members } => Some((*id, members.clone())),
            _ => None,
        });
        if let Some((id, members)) = joins {
            return Beginning::Join { id, members };
        }
        let said = |answer: &Answer| answers.values().any(|said| said == answer);
        if !said(&Answer::Expected) && said(&Answer::Stranger) {
            return Beginning::Stranger;
        }
        self.found(answers)
            .map_or(Beginning::Wait, Beginning::Found)
    }

    fn found(&self, answers: &BTreeMap<MemberId, Answer>) -> Option<BTreeMap<MemberId, Member>> {
        let own = self.founder?;
        let members = self.members.iter().map(|(&id, member)| {
            let folder = match answers.get(&id) {
                _ if id == own => self.folder,
                Some(Answer::Founding { folder }) => *folder,
                _ => return None,
            };
            let folder = Some(folder);
            Some((
                id,
                Member {
                    folder,
                    ..member.clone()
                },
            ))
        });
        members.collect()
    }
}
