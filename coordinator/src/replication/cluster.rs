//! The coordinators and their leader, for clients that look for one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use reweave_proto::message::{CoordinatorAddress, MAX_COORDINATORS};
use reweave_replica::{Member, MemberId, Members, Standing};

/// All known coordinators. They come from the settings file and from the log, and the log has priority.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Directory {
    own: MemberId,
    members: Members,
    /// Members to come: the replica hears them already.
    pending_members: BTreeMap<MemberId, Member>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cluster {
    pub(crate) standing: Standing,
    /// Whether the disk of this coordinator is full.
    pub(crate) disk_is_full: bool,
    pub(crate) directory: Directory,
}

impl Directory {
    pub(crate) fn new(own: MemberId, configured: &BTreeMap<MemberId, Member>) -> Self {
        let members = Members {
            of: configured.clone(),
            ..Members::default()
        };
        Self {
            own,
            members,
            pending_members: BTreeMap::new(),
        }
    }

    /// Takes over the list of members; removed ones are forgotten.
    pub(crate) fn learn(&mut self, members: &Members) {
        if !members.of.is_empty() {
            self.members.clone_from(members);
        }
    }

    pub(crate) fn set_pending_members(&mut self, pending_members: BTreeMap<MemberId, Member>) {
        self.pending_members = pending_members;
    }

    /// The number of this coordinator.
    pub(crate) fn own(&self) -> MemberId {
        self.own
    }

    pub(crate) fn members(&self) -> &Members {
        &self.members
    }

    /// Whether a member of this number and name is to come.
    pub(crate) fn is_pending(&self, id: MemberId, name: &str) -> bool {
        let pending_members = self.pending_members.get(&id);
        pending_members.is_some_and(|member| member.name == name)
    }

    /// Whether a member has this name, or one to come.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        let mut pending_members = self.pending_members.values();
        self.members.named(name).next().is_some()
            || pending_members.any(|member| member.name == name)
    }

    /// All members but this one, including the future ones.
    pub(crate) fn peers(&self) -> impl Iterator<Item = (MemberId, &Member)> {
        let known = &self.members.of;
        let to_come = self.pending_members.iter();
        let to_come = to_come.filter(move |(id, _)| !known.contains_key(*id));
        let all = known.iter().chain(to_come);
        let all = all.map(|(&id, member)| (id, member));
        all.filter(|(id, _)| *id != self.own)
    }

    /// Where members find them all, this one too. One that listens everywhere says nothing by that.
    pub(crate) fn seats(&self) -> Vec<CoordinatorAddress> {
        let can_be_reached =
            |it: &&Member| it.address.port() != 0 && !it.address.ip().is_unspecified();
        let seat = |member: &Member| CoordinatorAddress {
            name: member.name.clone(),
            address: member.address,
        };
        let members = self.members.of.values().filter(can_be_reached);
        members.map(seat).take(MAX_COORDINATORS).collect()
    }

    /// Where they are.
    pub(crate) fn hosts(&self) -> BTreeSet<IpAddr> {
        let of = self.peers().map(|(_, member)| member.address.ip());
        of.map(|host| host.to_canonical()).collect()
    }

    pub(crate) fn address(&self, id: MemberId) -> Option<SocketAddr> {
        let known = self.members.of.get(&id);
        let member = known.or_else(|| self.pending_members.get(&id));
        member.map(|member| member.address)
    }
}

impl Cluster {
    /// Before anything was heard.
    pub(crate) fn unknown(directory: Directory) -> Self {
        Self {
            standing: Standing::Follows { leader: None },
            disk_is_full: false,
            directory,
        }
    }

    pub(crate) fn leads(&self) -> bool {
        matches!(self.standing, Standing::Leads { .. })
    }

    pub(crate) fn is_led_by(&self, name: &str) -> bool {
        let Standing::Follows {
            leader: Some(leader),
        } = self.standing
        else {
            return false;
        };
        let leader = self.directory.members.of.get(&leader);
        leader.is_some_and(|leader| leader.name == name)
    }

    /// The address of another leader.
    pub(crate) fn leader(&self) -> Option<SocketAddr> {
        match self.standing {
            Standing::Follows {
                leader: Some(leader),
            } => self.directory.address(leader),
            _ => None,
        }
    }
}
