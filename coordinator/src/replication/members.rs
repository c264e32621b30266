//! Operators' requests for membership changes: proposes the change, and answers when it is done.

use reweave_common::member::{self as certified, Role};
use reweave_common::operator::{MemberOrder, Refused};
use reweave_proto::name::NameError;
use reweave_replica::{
    Change, ChangeRefused, Member, MemberId, Members, Replica, Standing, Status,
};
use tokio::sync::oneshot;

type Reply = oneshot::Sender<Result<Status, Refused>>;

#[derive(Debug, Default)]
pub(super) struct Orders {
    /// The changes in progress. Raft allows one at a time.
    waiting: Vec<(Change, Reply)>,
}

impl Orders {
    /// Handles a request. An operator whose session has ended gets no answer.
    pub(super) fn take(&mut self, replica: &mut Replica, order: &MemberOrder, reply: Reply) {
        let status = replica.status();
        let leads = matches!(status.standing, Standing::Leads { .. });
        if leads && is_agreed(&status.members, order) {
            let _ = reply.send(Ok(status));
            return;
        }
        let change = certifiable(order).and_then(|()| change(&status.members, order));
        let proposed = change.and_then(|change| match replica.change(&change) {
            Ok(()) => Ok(change),
            Err(refused) => Err(in_words(&refused)),
        });
        match proposed {
            Ok(change) => self.waiting.push((change, reply)),
            Err(refused) => drop(reply.send(Err(refused))),
        }
    }

    /// Answers requests whose change is done, after a change of the membership.
    pub(super) fn settle(&mut self, replica: &Replica) {
        let members = replica.members();
        for (_, reply) in self.waiting.extract_if(.., |(it, _)| is_done(it, members)) {
            let _ = reply.send(Ok(replica.status()));
        }
    }

    /// Ends waiting requests when this coordinator no longer leads: only the next leader knows whether their changes
    /// are agreed.
    pub(super) fn stand(&mut self, standing: Standing) {
        if let Standing::Follows { .. } = standing {
            for (_, reply) in self.waiting.drain(..) {
                let _ = reply.send(Err(Refused::NotLeading { leader: None }));
            }
        }
    }
}

fn is_done(change: &Change, members: &Members) -> bool {
    match change {
        Change::Add { id, .. } => members.of.contains_key(id),
        Change::Remove { id } => !members.of.contains_key(id),
        Change::Promote { id } | Change::Settle { id, .. } => members.is_voter(*id),
    }
}

/// Whether the log has the change already. A leader that is lost in the middle of a change answers nothing, and the
/// client asks the next leader for the same.
fn is_agreed(members: &Members, order: &MemberOrder) -> bool {
    let mut all = members.of.iter();
    match order {
        MemberOrder::Add { name, address } => all.any(|(&id, it)| {
            let learns = it.replaces.is_none() && !members.is_voter(id);
            learns && it.name == *name && it.address == *address
        }),
        MemberOrder::Remove { who } => is_removed(members, who),
        MemberOrder::Replace { who, name, address } => all.any(|(_, it)| {
            let old = it.replaces.and_then(|old| members.of.get_key_value(&old));
            old.is_some_and(|(old, held)| {
                (held.name == *who || old.to_string() == *who)
                    && it.name == *name.as_ref().unwrap_or(&held.name)
                    && it.address == address.unwrap_or(held.address)
            })
        }),
    }
}

/// Whether this was the name or the number of a member. Numbers are never given twice.
fn is_removed(members: &Members, who: &str) -> bool {
    let number = who.parse().map(MemberId).ok();
    if number.is_some_and(|id| members.of.contains_key(&id)) || members.named(who).next().is_some()
    {
        return false;
    }
    members.is_removed(who) || number.is_some_and(|id| (MemberId(1)..=members.last).contains(&id))
}

/// Checks that a certificate can have the new member's name. Another one would learn for ever, since no coordinator bears it.
fn certifiable(order: &MemberOrder) -> Result<(), Refused> {
    let name = match order {
        MemberOrder::Add { name, .. } => Some(name),
        MemberOrder::Replace { name, .. } => name.as_ref(),
        MemberOrder::Remove { .. } => None,
    };
    let unsound = name.filter(|name| !certified::Member::new(Role::Coordinator, name).is_sound());
    unsound.map_or(Ok(()), |name| {
        Err(Refused::Membership {
            why: NameError::BadName(name.clone()).to_string(),
        })
    })
}

fn change(members: &Members, order: &MemberOrder) -> Result<Change, Refused> {
    let newcomer = |name: &str, address, replaces| Change::Add {
        id: MemberId(members.last.0 + 1),
        member: Member {
            name: name.to_owned(),
            address,
            replaces,
            folder: None,
        },
    };
    Ok(match order {
        MemberOrder::Add { name, address } => newcomer(name, *address, None),
        MemberOrder::Remove { who } => Change::Remove {
            id: find(members, who)?,
        },
        MemberOrder::Replace { who, name, address } => {
            let old = find(members, who)?;
            let held = members.of.get(&old);
            let name = name.as_deref().or(held.map(|held| held.name.as_str()));
            let address = address.or(held.map(|held| held.address));
            match (name, address) {
                (Some(name), Some(address)) => newcomer(name, address, Some(old)),
                _ => return Err(unknown_member(who)),
            }
        }
    })
}

/// Finds a member by its number, or by its name if only one member has it.
fn find(members: &Members, who: &str) -> Result<MemberId, Refused> {
    let number = who.parse().map(MemberId).ok();
    if let Some(id) = number.filter(|id| members.of.contains_key(id)) {
        return Ok(id);
    }
    let named: Vec<_> = members.named(who).collect();
    match named[..] {
        [id] => Ok(id),
        [] => Err(unknown_member(who)),
        _ => Err(Refused::Membership {
            why: format!("several members are named {who:?}; use the number"),
        }),
    }
}

fn unknown_member(who: &str) -> Refused {
    Refused::Membership {
        why: format!("no member {who:?}"),
    }
}

fn in_words(refused: &ChangeRefused) -> Refused {
    match refused {
        // Whichever coordinator leads next is asked again.
        ChangeRefused::NotLeading | ChangeRefused::HandingOver(_) => {
            Refused::NotLeading { leader: None }
        }
        _ => Refused::Membership {
            why: refused.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str) -> Member {
        Member {
            name: name.to_owned(),
            address: "10.0.0.1:7332".parse().unwrap(),
            replaces: None,
            folder: None,
        }
    }

    fn members() -> Members {
        let of = [(1, "c1"), (2, "c2"), (5, "c2")];
        Members {
            of: of.map(|(id, name)| (MemberId(id), member(name))).into(),
            last: MemberId(5),
            ..Members::default()
        }
    }

    #[test]
    fn members_found_by_name_or_number() {
        let find = |who| find(&members(), who);
        assert_eq!(find("c1"), Ok(MemberId(1)));
        assert_eq!(find("5"), Ok(MemberId(5)));
        let several = find("c2").unwrap_err().to_string();
        assert!(several.contains("use the number"), "{several}");
        let refusal = find("c9").unwrap_err().to_string();
        assert!(refusal.contains("no member \"c9\""), "{refusal}");
    }

    #[test]
    fn running_membership_change_is_recognized() {
        let order = |who: &str, address: &str| MemberOrder::Replace {
            who: who.to_owned(),
            name: None,
            address: Some(address.parse().unwrap()),
        };
        let mut members = members();
        let is_known = |members: &Members, who, address| is_agreed(members, &order(who, address));
        assert!(
            !is_known(&members, "c1", "10.0.0.6:1"),
            "no client asked for it yet"
        );
        let asked = change(&members, &order("c1", "10.0.0.6:1")).unwrap();
        let Change::Add { id, member } = asked else {
            panic!("{asked:?}")
        };
        members.of.insert(id, member.clone());
        assert!(is_known(&members, "c1", "10.0.0.6:1") && is_known(&members, "1", "10.0.0.6:1"));
        assert!(!is_known(&members, "c1", "10.0.0.7:1"), "to another place");
        assert!(
            !is_known(&members, "6", "10.0.0.6:1"),
            "the newcomer itself"
        );
        let (name, address) = (member.name.clone(), member.address);
        assert!(
            !is_agreed(&members, &MemberOrder::Add { name, address }),
            "it comes in another's place"
        );
        members.of.remove(&MemberId(1));
        assert!(
            !is_known(&members, "c1", "10.0.0.6:1"),
            "that is over, and this is another"
        );
    }

    #[test]
    fn removal_is_agreed_once_member_is_gone() {
        let mut members = members();
        let is_agreed = |members: &Members, who: &str| {
            let who = who.to_owned();
            is_agreed(members, &MemberOrder::Remove { who })
        };
        assert!(!is_agreed(&members, "c1") && !is_agreed(&members, "1"));
        members.of.remove(&MemberId(1));
        members.removed.insert("c1".to_owned());
        assert!(is_agreed(&members, "c1") && is_agreed(&members, "1"));
        assert!(
            !is_agreed(&members, "c9") && !is_agreed(&members, "6"),
            "never a member"
        );
        assert!(!is_agreed(&members, "0") && !is_agreed(&members, ""));
        members.removed.insert("c2".to_owned());
        assert!(!is_agreed(&members, "c2"), "two members have the name");
    }

    #[test]
    fn uncertifiable_names_are_refused() {
        let address = "10.0.0.6:1".parse().unwrap();
        for name in ["ünïcode", "", "c 4", "../c4"] {
            let (who, name) = ("c1".to_owned(), name.to_owned());
            let by = Some(name.clone());
            let orders = [
                MemberOrder::Add { name, address },
                MemberOrder::Replace {
                    who,
                    name: by,
                    address: None,
                },
            ];
            for order in orders {
                let why = certifiable(&order).unwrap_err().to_string();
                assert!(why.contains("is not a valid name"), "{why}");
            }
        }
        for name in [None, Some("c4".to_owned())] {
            let order = MemberOrder::Replace {
                who: "c1".to_owned(),
                name,
                address: None,
            };
            assert_eq!(certifiable(&order), Ok(()));
        }
    }

    #[test]
    fn replacement_inherits_name_by_default() {
        let order = |name: Option<&str>| MemberOrder::Replace {
            who: "c1".to_owned(),
            name: name.map(str::to_owned),
            address: None,
        };
        let changed = |name| match change(&members(), &order(name)).unwrap() {
            Change::Add { id, member } => (id.0, member.name, member.replaces),
            other => panic!("{other:?}"),
        };
        assert_eq!(changed(None), (6, "c1".to_owned(), Some(MemberId(1))));
        assert_eq!(changed(Some("c6")), (6, "c6".to_owned(), Some(MemberId(1))));
    }
}
