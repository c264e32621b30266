//! Room for so many sessions of each role, so that whoever may only look keeps nobody out who could change
//! something, and for so many of one member.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use reweave_common::lock::lock;
use reweave_common::member::Member;

/// How many sessions there may be at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// None where there are only so many members, each with room for itself.
    of_role: Option<usize>,
    of_member: usize,
}

/// People and scripts that ask. Of a script whose programs are killed, some sessions stay until they have
/// been silent for seconds.
pub(crate) const TO_ASK: Room = Room {
    of_role: Some(256),
    of_member: 192,
};

/// Members that wait for this coordinator to lead: each, and once more when it was started again. There are
/// as many of them as the fabric has.
pub(crate) const TO_WAIT: Room = Room {
    of_role: None,
    of_member: 2,
};

#[derive(Debug, Clone)]
pub(crate) struct Chairs {
    room: Room,
    taken: Arc<Mutex<BTreeMap<Member, usize>>>,
}

/// Given back when it is dropped.
#[derive(Debug)]
pub(super) struct Chair {
    of: Chairs,
    member: Member,
}

impl Chairs {
    pub(crate) fn new(room: Room) -> Self {
        let taken = Arc::default();
        Self { room, taken }
    }

    /// A chair, or why there is none.
    pub(super) fn take(&self, member: &Member) -> Result<Chair, String> {
        let Room { of_role, of_member } = self.room;
        let mut taken = lock(&self.taken);
        let such = taken.iter().filter(|(it, _)| it.role == member.role);
        let such = such.map(|(_, chairs)| chairs);
        if let Some(of_role) = of_role
            && such.sum::<usize>() >= of_role
        {
            return Err(format!(
                "{of_role} sessions of a {} are here already",
                member.role
            ));
        }
        let chairs = taken.entry(member.clone()).or_default();
        if *chairs >= of_member {
            return Err(format!(
                "{of_member} sessions with its certificate are here already"
            ));
        }
        *chairs += 1;
        Ok(Chair {
            of: self.clone(),
            member: member.clone(),
        })
    }
}

impl Drop for Chair {
    fn drop(&mut self) {
        let mut taken = lock(&self.of.taken);
        if let Some(chairs) = taken.get_mut(&self.member) {
            *chairs -= 1;
            if *chairs == 0 {
                taken.remove(&self.member);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::member::Role;

    use super::*;

    #[test]
    fn one_member_and_one_role_leave_room_for_others() {
        let chairs = Chairs::new(TO_ASK);
        let Room { of_role, of_member } = TO_ASK;
        let of_role = of_role.unwrap();
        let viewer = |number: usize| Member::new(Role::Viewer, &format!("v{number}"));
        let mut held: Vec<_> = (0..of_member)
            .map(|_| chairs.take(&viewer(0)).unwrap())
            .collect();
        let refused = chairs.take(&viewer(0)).unwrap_err();
        assert!(refused.contains("with its certificate"), "{refused}");
        held.extend((of_member..of_role).map(|it| chairs.take(&viewer(it)).unwrap()));
        let refused = chairs.take(&viewer(1)).unwrap_err();
        assert!(refused.contains("of a viewer"), "{refused}");
        let operator = chairs.take(&Member::new(Role::Operator, "ann"));
        assert!(operator.is_ok(), "whoever may shut viewers out gets in");
        held.pop();
        assert!(chairs.take(&viewer(1)).is_ok(), "there is room again");
        held.clear();
        drop(operator);
        assert!(lock(&chairs.taken).is_empty());
    }
}
