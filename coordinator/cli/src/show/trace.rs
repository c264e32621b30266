//! Traced paths of flows, node by node.

use reweave_common::operator::{Hop, TracedStep};

use super::hop;

/// Formats a path as `h0 > leaf0 > spine1 .2 > ? > h4`: the fourth node is unknown, and the third is reached over the
/// second of several cables.
pub(crate) fn steps(from: &str, steps: &[TracedStep]) -> String {
    let mut words = vec![from.to_owned()];
    let mut before = Some(from);
    for step in steps {
        words.push(word(before, step));
        before = step.node.as_deref();
    }
    words.join(" > ")
}

fn word(before: Option<&str>, step: &TracedStep) -> String {
    match (before, step) {
        (
            Some(from),
            TracedStep {
                node: Some(to),
                link: Some(link),
                ..
            },
        ) => {
            let hop = hop(&Hop {
                from: from.to_owned(),
                to: to.clone(),
                link: link.clone(),
            });
            let begin = format!("{from} > ");
            hop.strip_prefix(&begin).unwrap_or(to).to_owned()
        }
        (_, TracedStep { node: Some(to), .. }) => to.clone(),
        (
            _,
            TracedStep {
                address: Some(address),
                ..
            },
        ) => address.to_string(),
        _ => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(node: Option<&str>, link: Option<&str>) -> TracedStep {
        TracedStep {
            node: node.map(str::to_owned),
            link: link.map(str::to_owned),
            address: None,
        }
    }

    #[test]
    fn trace_distinguishes_cables_and_unknown_hops() {
        let stranger = TracedStep {
            address: Some([10, 9, 9, 9].into()),
            ..TracedStep::default()
        };
        let way = [
            step(Some("leaf0"), Some("h0-leaf0")),
            step(Some("spine1"), Some("leaf0-spine1.2")),
            step(None, None),
            stranger,
            step(Some("h4"), None),
        ];
        let said = steps("h0", &way);
        assert_eq!(said, "h0 > leaf0 > spine1 .2 > ? > 10.9.9.9 > h4");
    }
}
