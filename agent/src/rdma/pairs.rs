//! The queue pairs of this machine by the tool `rdma`: their peers and counters.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use serde::Serialize;
use serde_json::Value;

/// One of a program or of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueuePair {
    pub device: String,
    pub port: Option<u64>,
    pub number: u64,
    /// RC, UD, and those of the kernel's own.
    pub kind: String,
    pub state: String,
    /// The number of the queue pair at the other end of a connection.
    pub peer: Option<u64>,
    pub process: Option<u64>,
    pub owner: String,
    /// Keyed by the NIC's counter names. Only queue pairs that `rdma statistic qp` was set to count appear.
    pub counters: BTreeMap<String, u64>,
}

/// Empty where the tool is missing or does not report them.
pub fn queue_pairs() -> Vec<QueuePair> {
    let listed = rdma_output(&["-j", "-d", "resource", "show", "qp"]);
    let counted = rdma_output(&["-j", "statistic", "qp", "show"]);
    read_pairs(&listed, &counted)
}

pub(crate) fn read_pairs(listed: &[u8], counted: &[u8]) -> Vec<QueuePair> {
    let [listed, counted] = [listed, counted].map(serde_json::from_slice);
    read(&listed.unwrap_or_default(), &counted.unwrap_or_default())
}

fn rdma_output(words: &[&str]) -> Vec<u8> {
    let run = Command::new("rdma")
        .args(words)
        .stdin(Stdio::null())
        .output();
    run.map(|run| run.stdout).unwrap_or_default()
}

fn read(listed: &Value, counted: &Value) -> Vec<QueuePair> {
    let listed = listed.as_array().map_or(&[][..], Vec::as_slice);
    listed
        .iter()
        .filter_map(|it| queue_pair(it, counted))
        .collect()
}

fn queue_pair(answer: &Value, counted: &Value) -> Option<QueuePair> {
    let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
    let (device, number) = (text("ifname"), answer["lqpn"].as_u64()?);
    Some(QueuePair {
        counters: counters(counted, &device, number),
        device,
        number,
        port: answer["port"].as_u64(),
        kind: text("type"),
        state: text("state"),
        peer: answer["rqpn"].as_u64(),
        process: answer["pid"].as_u64(),
        owner: text("comm"),
    })
}

/// What is counted for one pair alone; a counter that several share says nothing of one of them.
fn counters(counted: &Value, device: &str, number: u64) -> BTreeMap<String, u64> {
    let known = ["ifname", "port", "cntn", "lqpn", "pid", "comm"];
    let is_its = |it: &&Value| {
        let alone = match &it["lqpn"] {
            Value::Array(pairs) => pairs.len() == 1 && pairs[0] == number,
            pair => *pair == number,
        };
        it["ifname"] == device && alone
    };
    let mut counted = counted.as_array().into_iter().flatten();
    let counters = counted.find(is_its).and_then(Value::as_object);
    let counters = counters.into_iter().flatten();
    counters
        .filter(|(name, _)| !known.contains(&name.as_str()))
        .filter_map(|(name, value)| Some((name.clone(), value.as_u64()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn queue_pairs_join_their_own_counters() {
        let listed = json!([
            {"ifindex": 0, "ifname": "rxe0", "port": 1, "lqpn": 1, "type": "GSI", "state": "RTS", "comm": "ib_core"},
            {"ifindex": 1, "ifname": "mlx5_0", "port": 1, "lqpn": 300, "rqpn": 301, "type": "RC", "state": "RTS",
             "pid": 42, "comm": "python3"}
        ]);
        let counted = json!([
            {"ifname": "mlx5_0", "port": 1, "cntn": 3, "lqpn": []},
            {"ifname": "mlx5_0", "port": 1, "cntn": 4, "lqpn": [300], "np_cnp_sent": 7},
            {"ifname": "mlx5_0", "port": 1, "cntn": 5, "lqpn": [1, 300], "np_cnp_sent": 9}
        ]);
        let pairs = read(&listed, &counted);
        assert_eq!(pairs.len(), 2);
        assert!(pairs[0].counters.is_empty() && pairs[0].peer.is_none());
        assert_eq!((pairs[1].peer, pairs[1].process), (Some(301), Some(42)));
        assert_eq!(pairs[1].counters.get("np_cnp_sent"), Some(&7));
        assert_eq!(pairs[1].counters.len(), 1);
    }

    #[test]
    fn empty_rdma_listing_has_no_pairs() {
        assert_eq!(read(&Value::Null, &Value::Null), []);
        assert_eq!(read(&json!([{"ifname": 7}, 3]), &json!({})), []);
    }
}
