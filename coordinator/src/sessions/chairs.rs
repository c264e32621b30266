//! Room for people and scripts that ask: for so many of each role, so that whoever may only look keeps
//! nobody out who could change something, and for so many sessions of one member.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use reweave_common::lock::lock;
use reweave_common::member::Member;

/// Sessions of one role at a time.
const MOST: usize = 256;
/// Sessions of one member at a time: of a script whose programs are killed, some stay until they have been
/// silent for seconds.
const MOST_OF_ONE: usize = 192;

#[derive(Debug, Clone, Default)]
pub(crate) struct Chairs(Arc<Mutex<BTreeMap<Member, usize>>>);

/// Given back when it is dropped.
#[derive(Debug)]
pub(super) struct Chair {
    of: Chairs,
    member: Member,
}

impl Chairs {
    /// A chair, or why there is none.
    pub(super) fn take(&self, member: &Member) -> Result<Chair, String> {
        let mut taken = lock(&self.0);
        let of_role = taken.iter().filter(|(it, _)| it.role == member.role);
        if of_role.map(|(_, chairs)| chairs).sum::<usize>() >= MOST {
            return Err(format!("{MOST} sessions of a {} ask already", member.role));
        }
        let chairs = taken.entry(member.clone()).or_default();
        if *chairs >= MOST_OF_ONE {
            return Err(format!(
                "{MOST_OF_ONE} sessions with its certificate ask already"
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
        let mut taken = lock(&self.of.0);
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
        let chairs = Chairs::default();
        let viewer = |number: usize| Member::new(Role::Viewer, &format!("v{number}"));
        let mut held: Vec<_> = (0..MOST_OF_ONE)
            .map(|_| chairs.take(&viewer(0)).unwrap())
            .collect();
        let refused = chairs.take(&viewer(0)).unwrap_err();
        assert!(refused.contains("with its certificate"), "{refused}");
        held.extend((MOST_OF_ONE..MOST).map(|it| chairs.take(&viewer(it)).unwrap()));
        let refused = chairs.take(&viewer(1)).unwrap_err();
        assert!(refused.contains("of a viewer"), "{refused}");
        let operator = chairs.take(&Member::new(Role::Operator, "ann"));
        assert!(operator.is_ok(), "whoever may shut viewers out gets in");
        held.pop();
        assert!(chairs.take(&viewer(1)).is_ok(), "there is room again");
        held.clear();
        drop(operator);
        assert!(lock(&chairs.0).is_empty());
    }
}
