//! Shortens many reasons for people: the first of each kind, and the number of the rest.

use std::mem::discriminant;

use reweave_common::fabric::Fabric;

use crate::log::reason::Reason;

/// Reasons per kind that are listed. A thousand agents may be away, and each is a reason.
const MAX_REASONS_PER_KIND: usize = 8;

pub(crate) fn texts<'r>(
    reasons: impl IntoIterator<Item = &'r Reason>,
    fabric: &Fabric,
) -> Vec<String> {
    let mut kinds: Vec<Vec<&Reason>> = Vec::new();
    for reason in reasons {
        let is_alike = |kind: &&mut Vec<&Reason>| discriminant(kind[0]) == discriminant(reason);
        match kinds.iter_mut().find(is_alike) {
            Some(kind) => kind.push(reason),
            None => kinds.push(vec![reason]),
        }
    }
    let words = kinds.iter().flat_map(|kind| some_of(kind, fabric));
    words.collect()
}

fn some_of(kind: &[&Reason], fabric: &Fabric) -> Vec<String> {
    let reports = kind
        .iter()
        .take(MAX_REASONS_PER_KIND)
        .map(|it| it.words(fabric));
    let more = kind.len().saturating_sub(MAX_REASONS_PER_KIND);
    let more = (more > 0).then(|| more_of(kind[0], more));
    reports.chain(more).collect()
}

fn more_of(kind: &Reason, count: usize) -> String {
    match kind {
        Reason::NotConnected { .. } => format!("{count} agents more are not connected"),
        Reason::FlowEnded { .. } => format!("{count} flows more have ended"),
        Reason::NotMeasured { .. } => format!("{count} flows more have no recent readings"),
        Reason::Silent { .. } => format!("{count} switches more did not answer in time"),
        _ => format!("{count} more of the same kind"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_reason_lists_are_summarized() {
        let fabric = Fabric::parse("f.toml", "kind = \"ideal\"\nhosts = 1000\nnic_gbps = 1\n");
        let fabric = fabric.unwrap();
        let away = |node| Reason::NotConnected { node };
        let mut reasons: Vec<_> = fabric.endpoints().map(away).collect();
        reasons.insert(1, Reason::NothingToMend);
        let words = texts(&reasons, &fabric);
        assert_eq!(words.len(), MAX_REASONS_PER_KIND + 2);
        assert_eq!(words[0], "the agent of h0 is not connected");
        assert_eq!(
            words[MAX_REASONS_PER_KIND - 1],
            "the agent of h7 is not connected"
        );
        assert_eq!(
            words[MAX_REASONS_PER_KIND],
            "992 agents more are not connected"
        );
        assert_eq!(words[MAX_REASONS_PER_KIND + 1], reasons[1].words(&fabric));
        assert_eq!(
            texts(&reasons[..MAX_REASONS_PER_KIND], &fabric).len(),
            MAX_REASONS_PER_KIND
        );
    }
}
