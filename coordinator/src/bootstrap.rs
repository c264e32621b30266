//! Opens the data folder with its log: the existing one, or a new one that all other coordinators know of.

use std::collections::BTreeMap;

use reweave_core::{LATEST_MINOR, State};
use reweave_link::{Identity, Listener};
use reweave_replica::{Beginning, FolderId, Founding, Member, MemberId, Newcomer, Saved};

use crate::config::Config;
use crate::data::{Data, Folder};
use crate::error::CoordinatorError;
use crate::replication::Introduction;
use crate::run::endings;

/// The number of one that needs no others.
const SOLE_MEMBER: MemberId = MemberId(1);

/// No other coordinator runs on this data as long as the folder lives.
pub(crate) fn lock(config: &Config) -> Result<Folder, CoordinatorError> {
    Folder::lock(&config.data.value).map_err(|error| config.data.wrong(error))
}

/// None when the program was ended before there was a log.
pub(crate) async fn open(
    config: &Config,
    identity: &Identity,
    folder: Folder,
    listener: &mut Listener,
) -> Result<Option<Data>, CoordinatorError> {
    let unfit = |error| config.data.wrong(error);
    let mut belonging = config.belonging(identity);
    // What stands in a log counts.
    if folder.has_log().map_err(unfit)? {
        return folder.open(&belonging, None).map(Some).map_err(unfit);
    }
    belonging.folder = folder.draw_id().map_err(unfit)?;
    let new = New {
        config,
        identity,
        folder: belonging.folder,
    };
    let Some(saved) = new.begin(listener, belonging.encode()).await? else {
        return Ok(None);
    };
    folder
        .open(&belonging, Some(saved))
        .map(Some)
        .map_err(unfit)
}

/// A folder without a log.
struct New<'c> {
    config: &'c Config,
    identity: &'c Identity,
    folder: FolderId,
}

impl New<'_> {
    /// What to begin the log with.
    async fn begin(
        &self,
        listener: &mut Listener,
        head: Vec<u8>,
    ) -> Result<Option<Saved>, CoordinatorError> {
        if self.config.members.is_empty() {
            return Ok(Some(founded_alone(self.alone(), head)));
        }
        let own = self.own();
        let introduction = Introduction {
            newcomer: Newcomer {
                founder: own,
                folder: self.folder,
                members: self.config.members.clone(),
            },
            identity: self.identity,
        };
        let [mut terminated, mut interrupted] = endings()?;
        let beginning = tokio::select! {
            beginning = introduction.begin(listener) => beginning?,
            _ = terminated.recv() => return Ok(None),
            _ = interrupted.recv() => return Ok(None),
        };
        Ok(match (beginning, own) {
            (Beginning::Found(members), Some(own)) => Some(founded(own, members, head)),
            (Beginning::Join { id, members }, _) => Some(Saved::joining(id, head, members)),
            _ => None,
        })
    }

    /// The number that the file with the settings gives it, if that names it.
    fn own(&self) -> Option<MemberId> {
        let name = self.identity.member().name();
        let mut members = self.config.members.iter();
        let own = members.find(|(_, member)| member.name == name);
        own.map(|(&id, _)| id)
    }

    fn alone(&self) -> BTreeMap<MemberId, Member> {
        let member = Member {
            name: self.identity.member().name().to_owned(),
            address: self.config.listen.value,
            replaces: None,
            folder: Some(self.folder),
        };
        BTreeMap::from([(SOLE_MEMBER, member)])
    }
}

/// It knows that all coordinators read what it writes.
fn founded_alone(members: BTreeMap<MemberId, Member>, head: Vec<u8>) -> Saved {
    // Writing to memory does not fail.
    let state = State::founded(LATEST_MINOR).encode().unwrap_or_default();
    Saved::founding(SOLE_MEMBER, head, Founding { members, state })
}

/// The releases of the others are still unknown, and all begin with the same.
fn founded(own: MemberId, members: BTreeMap<MemberId, Member>, head: Vec<u8>) -> Saved {
    let founding = Founding {
        members,
        state: Vec::new(),
    };
    Saved::founding(own, head, founding)
}
