//! What the audit log says of plans that no request to approve them, nor to abort them, has a line for.

use reweave_common::member::{Member, Role};
use reweave_common::operator::{Mode, Request};
use reweave_core::{AuditRecord, Author};

use crate::audit::{AuditSubject, Who};

pub(super) fn line(mode: Mode, record: AuditRecord) -> (Who, AuditSubject) {
    match record {
        AuditRecord::CarriedOut {
            generation,
            by,
            seal,
        } => {
            let what = Request::Apply { generation }.to_string();
            let seal = Some(seal);
            (
                Who::Known(principal(mode, &by)),
                AuditSubject { what, seal },
            )
        }
        AuditRecord::RolledBack {
            generation,
            reasons,
        } => {
            let what = format!("roll back plan {generation}: {}", reasons.join("; "));
            (Who::Known(principal(mode, &Author::Policy)), what.into())
        }
    }
}

fn principal(mode: Mode, by: &Author) -> String {
    match (by, mode) {
        (Author::Operator(name), _) => Member::new(Role::Operator, name).to_string(),
        (Author::Policy, Mode::Manual) => "policy manual".to_owned(),
        (Author::Policy, Mode::Auto) => "policy auto".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::plan::Generation;

    use super::*;

    #[test]
    fn automatic_apply_names_policy_and_seal() {
        let generation = Generation(7);
        let carried_out = |by: Author| AuditRecord::CarriedOut {
            generation,
            by,
            seal: "c0ffee".to_owned(),
        };
        let (who, asked) = line(Mode::Auto, carried_out(Author::Policy));
        assert_eq!(who, Who::Known("policy auto".to_owned()));
        assert_eq!(asked.what, "approve plan 7");
        assert_eq!(asked.seal.as_deref(), Some("c0ffee"));
        let (who, _) = line(Mode::Auto, carried_out(Author::Operator("ann".to_owned())));
        assert_eq!(who, Who::Known("operator ann".to_owned()));
        let reasons = vec!["it got slower".to_owned(), "h0 is silent".to_owned()];
        let back = AuditRecord::RolledBack {
            generation,
            reasons,
        };
        let (who, asked) = line(Mode::Manual, back);
        assert_eq!(who, Who::Known("policy manual".to_owned()));
        assert_eq!(asked.what, "roll back plan 7: it got slower; h0 is silent");
        assert_eq!(asked.seal, None);
    }
}
