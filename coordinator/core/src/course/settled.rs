//! A node that may hold either of two tables gets no third one before it has answered which it holds: every mixture on a
//! course is judged with two per node.

use reweave_common::course::{Course, Leg, Round, Tables};
use reweave_common::forwarding::ForwardingTable;

use super::rounds::own_table;

/// The course with a round before all others, where it has to be: in that, each node that would get a third table is to
/// hold the one that it held for certain.
pub(crate) fn settled(mut course: Course, tables: &Tables, unsure: &Round) -> Course {
    let mut first = Round::new();
    for (_, leg) in course.legs() {
        let Leg::Round(round) = leg else { continue };
        for (&node, next) in round {
            let held = tables.get(&node);
            let is_third = unsure.get(&node).is_some_and(|other| {
                !leads_alike(held, Some(next)) && !leads_alike(Some(other), Some(next))
            });
            if is_third {
                first.insert(node, held.cloned().unwrap_or_else(|| own_table(node)));
            }
        }
    }
    if let Some(wave) = course.waves.first_mut().filter(|_| !first.is_empty()) {
        wave.drain.insert(0, first);
    }
    course
}

/// Whether both lead a node's packets the same ways. A node without a table has one that leads nowhere.
pub(crate) fn leads_alike(one: Option<&ForwardingTable>, other: Option<&ForwardingTable>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.towards == other.towards,
        (one, other) => one.or(other).is_none_or(|table| table.towards.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use reweave_common::course::Wave;
    use reweave_common::forwarding::NextHop;
    use reweave_common::ids::{LinkId, NodeId};

    use super::*;

    fn node() -> NodeId {
        NodeId::from_index(0)
    }

    /// Over this link.
    fn round(link: usize) -> Round {
        let hop = NextHop {
            link: LinkId::from_index(link),
            weight: 1,
        };
        let towards = BTreeMap::from([(NodeId::from_index(9), vec![hop])]);
        let table = ForwardingTable {
            towards,
            ..own_table(node())
        };
        Round::from([(node(), table)])
    }

    fn course(link: usize) -> Course {
        let wave = Wave {
            undrain: vec![round(link)],
            ..Wave::default()
        };
        Course { waves: vec![wave] }
    }

    #[test]
    fn third_table_waits_for_the_first() {
        let (held, unsure) = (round(0), round(1));
        let course = settled(course(2), &held, &unsure);
        assert_eq!(course.waves[0].drain, [held]);
        assert_eq!(course.waves[0].undrain, [round(2)]);
    }

    #[test]
    fn node_without_a_table_settles() {
        let (held, unsure) = (Tables::new(), round(1));
        let course = settled(course(2), &held, &unsure);
        let nowhere = Round::from([(node(), own_table(node()))]);
        assert_eq!(course.waves[0].drain, [nowhere]);
    }

    #[test]
    fn either_of_both_is_told_at_once() {
        for next in [0, 1] {
            let laid = settled(course(next), &round(0), &round(1));
            assert_eq!(laid, course(next));
        }
        let laid = settled(course(2), &round(0), &Round::new());
        assert_eq!(laid, course(2));
    }
}
