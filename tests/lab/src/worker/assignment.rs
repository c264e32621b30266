//! Whether a rank's assignment makes sense, before it opens anything.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::ids::Rank;
use reweave_common::workload::{ProgramStep, Transfer};
use thiserror::Error;

use super::protocol::{Assignment, FlowSpec};

#[derive(Debug, Error)]
pub enum AssignmentError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("flow {flow} neither begins nor ends at rank {rank}")]
    Elsewhere { flow: u32, rank: Rank },
    #[error("flow {flow} stands there twice, by its id or by its addresses")]
    Twice { flow: u32 },
    #[error("the flows from rank {from} to rank {to} are not numbered 0, 1, .. by their nth")]
    Numbering { from: Rank, to: Rank },
    #[error("the program sends to rank {to}, and there is no flow to rank {to}")]
    NoFlowTo { to: Rank },
    #[error("the program receives from rank {from}, and there is no flow from rank {from}")]
    NoFlowFrom { from: Rank },
}

impl Assignment {
    /// Parses one line of JSON.
    pub(crate) fn parse(line: &str) -> Result<Self, AssignmentError> {
        let mut assignment: Self = serde_json::from_str(line)?;
        assignment.flows_differ()?;
        assignment.sort_flows()?;
        assignment.program_has_flows()?;
        Ok(assignment)
    }

    fn flows_differ(&self) -> Result<(), AssignmentError> {
        let (mut ids, mut addresses) = (BTreeSet::new(), BTreeSet::new());
        for flow in &self.flows {
            let (id, rank) = (flow.id, self.rank);
            if (flow.from == rank) == (flow.to == rank) {
                return Err(AssignmentError::Elsewhere { flow: id, rank });
            }
            if !(ids.insert(id) && addresses.insert((flow.source, flow.destination))) {
                return Err(AssignmentError::Twice { flow: id });
            }
        }
        Ok(())
    }

    /// The parts of a transfer go by this order.
    fn sort_flows(&mut self) -> Result<(), AssignmentError> {
        self.flows
            .sort_by_key(|flow| (flow.from, flow.to, flow.nth));
        let mut next: BTreeMap<(Rank, Rank), u32> = BTreeMap::new();
        for &FlowSpec { from, to, nth, .. } in &self.flows {
            let expected = next.entry((from, to)).or_default();
            if nth != *expected {
                return Err(AssignmentError::Numbering { from, to });
            }
            *expected += 1;
        }
        Ok(())
    }

    fn program_has_flows(&self) -> Result<(), AssignmentError> {
        let peers = |end: fn(&FlowSpec) -> Rank| self.flows.iter().map(end).collect();
        let (to, from): (BTreeSet<_>, BTreeSet<_>) =
            (peers(|flow| flow.to), peers(|flow| flow.from));
        for step in &self.program {
            let ProgramStep::Exchange { sends, receives } = step else {
                continue;
            };
            let missing = |transfers: &[Transfer], there: &BTreeSet<Rank>| {
                let mut peers = transfers.iter().map(|transfer| transfer.peer);
                peers.find(|peer| *peer == self.rank || !there.contains(peer))
            };
            if let Some(to) = missing(sends, &to) {
                return Err(AssignmentError::NoFlowTo { to });
            }
            if let Some(from) = missing(receives, &from) {
                return Err(AssignmentError::NoFlowFrom { from });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Rank 0 sends to rank 1 and receives from rank 2, over two flows each.
    fn sound() -> Value {
        let flow = |id: u32, from: u32, to: u32, nth: u32| {
            let source = format!("10.0.0.{from}:{}", 5000 + id);
            let destination = format!("10.0.0.{to}:4791");
            json!({ "id": id, "from": from, "to": to, "nth": nth,
                    "source": source, "destination": destination, "burst_bytes": 0 })
        };
        json!({
            "rank": 0,
            "program": [
                { "compute": { "secs": 0, "nanos": 1 } },
                { "exchange": { "sends": [{ "peer": 1, "bytes": 7 }],
                                "receives": [{ "peer": 2, "bytes": 7 }] } },
            ],
            "iterations": 1,
            "transport": "tcp",
            "flows": [flow(3, 2, 0, 1), flow(2, 2, 0, 0), flow(1, 0, 1, 1), flow(0, 0, 1, 0)],
        })
    }

    fn refusal(change: impl Fn(&mut Value)) -> String {
        let mut changed = sound();
        change(&mut changed);
        Assignment::parse(&changed.to_string())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn flows_are_put_in_order() {
        let assignment = Assignment::parse(&sound().to_string()).unwrap();
        let ids: Vec<_> = assignment.flows.iter().map(|flow| flow.id).collect();
        assert_eq!(ids, [0, 1, 2, 3]);
    }

    #[test]
    fn invalid_assignment_is_refused_by_name() {
        assert!(refusal(|answer| answer["rank"] = json!(7)).contains("flow 3 neither"));
        let one_twice = |answer: &mut Value| answer["flows"][1]["id"] = json!(3);
        assert!(refusal(one_twice).contains("flow 3 stands there twice"));
        let same_addresses = |answer: &mut Value| {
            answer["flows"][1]["source"] = answer["flows"][0]["source"].clone();
        };
        assert!(refusal(same_addresses).contains("flow 2 stands there twice"));
        let gap = |answer: &mut Value| answer["flows"][0]["nth"] = json!(2);
        assert!(refusal(gap).contains("from rank 2 to rank 0 are not numbered"));
        let no_such_rank =
            |answer: &mut Value| answer["program"][1]["exchange"]["sends"][0]["peer"] = json!(9);
        assert!(refusal(no_such_rank).contains("no flow to rank 9"));
        let itself =
            |answer: &mut Value| answer["program"][1]["exchange"]["receives"][0]["peer"] = json!(0);
        assert!(refusal(itself).contains("no flow from rank 0"));
    }
}
