//! The bursts of flows: consecutive time windows of the history are joined.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::moment::Moment;
use reweave_common::time_span::TimeSpan;
use reweave_common::traffic::Burst;

use super::seen::{FlowSeen, Seen, Window};

impl Window {
    /// Returns all bursts in the order of their beginnings. A flow that did not send throughout a window sent at the
    /// end of it if more followed, else at its beginning. If the path changes, a burst ends and the next one begins.
    pub fn bursts(&self) -> Vec<Burst> {
        let mut flows: BTreeMap<(&str, FlowKey), Vec<&Seen<FlowSeen>>> = BTreeMap::new();
        for seen in &self.flows {
            let key = (&*seen.what.node, seen.what.flow);
            flows.entry(key).or_default().push(seen);
        }
        let stretch = self.resolution.width();
        let mut bursts: Vec<_> = flows
            .values()
            .flat_map(|rows| of_flow(rows, stretch))
            .collect();
        bursts.sort_by(|a, b| (a.at, &a.node, a.flow).cmp(&(b.at, &b.node, b.flow)));
        bursts
    }
}

/// Returns the bursts of one flow, from its rows in the order of time.
fn of_flow(rows: &[&Seen<FlowSeen>], stretch: Duration) -> Vec<Burst> {
    let mut bursts: Vec<Burst> = Vec::new();
    let mut before: Option<&Seen<FlowSeen>> = None;
    for &row in rows {
        let Some((bytes, sending)) = sent_in(row, before, stretch) else {
            before = Some(row);
            continue;
        };
        let goes_on = before.is_some_and(|before| before.at + stretch == row.at && sent(before));
        let hops = row.what.hops.as_deref().map(nodes_of);
        match bursts.last_mut() {
            Some(burst) if goes_on && is_same_way(burst, hops.as_ref()) => {
                go_on(burst, row, bytes, sending, hops, stretch);
            }
            last => {
                let goes_on = goes_on && last.is_some();
                // Until now it was one stretch: it began late in it.
                if let Some(burst) = last.filter(|burst| goes_on && row.at == burst.at + stretch) {
                    burst.at = began_late(burst, stretch);
                }
                bursts.push(begin(row, bytes, sending, hops, goes_on));
            }
        }
        before = Some(row);
    }
    bursts
}

fn sent(row: &Seen<FlowSeen>) -> bool {
    row.what.rate_bits_per_s.is_some_and(|rate| rate.mean > 0.0)
}

/// Returns the bytes and the duration of sending. The counters give the bytes, and the rate while sending gives the
/// duration.
fn sent_in(
    row: &Seen<FlowSeen>,
    before: Option<&Seen<FlowSeen>>,
    stretch: Duration,
) -> Option<(u64, Duration)> {
    let rate = row.what.rate_bits_per_s.filter(|rate| rate.mean > 0.0)?;
    let whole = (rate.mean * stretch.as_secs_f64() / 8.0) as u64;
    // Bytes that a flow sent before its first row are not part of the window.
    let counted = match before {
        Some(before) => row.what.sent_bytes.saturating_sub(before.what.sent_bytes),
        None => row.what.sent_bytes.min(whole),
    };
    let seconds = counted as f64 * 8.0 / rate.mean;
    let sending = TimeSpan::from_secs_f64(seconds).min(stretch.into());
    (counted > 0).then_some((counted, *sending))
}

/// Whether the path is the same. An unknown path counts as the same.
fn is_same_way(burst: &Burst, hops: Option<&Vec<String>>) -> bool {
    burst
        .hops
        .as_ref()
        .zip(hops)
        .is_none_or(|(was, is)| was == is)
}

fn began_late(burst: &Burst, stretch: Duration) -> Moment {
    if burst.goes_on {
        burst.at
    } else {
        burst.at + stretch.saturating_sub(burst.sending)
    }
}

fn begin(
    row: &Seen<FlowSeen>,
    bytes: u64,
    sending: Duration,
    hops: Option<Vec<String>>,
    goes_on: bool,
) -> Burst {
    Burst {
        node: row.what.node.clone(),
        to_node: row.what.to_node.clone(),
        flow: row.what.flow,
        at: row.at,
        sending,
        bytes,
        hops,
        goes_on,
    }
}

fn go_on(
    burst: &mut Burst,
    row: &Seen<FlowSeen>,
    bytes: u64,
    sending: Duration,
    hops: Option<Vec<String>>,
    stretch: Duration,
) {
    // Until now it was one stretch: it began late in it.
    if row.at == burst.at + stretch {
        burst.at = began_late(burst, stretch);
    }
    burst.bytes += bytes;
    burst.sending += sending;
    burst.to_node = burst.to_node.take().or_else(|| row.what.to_node.clone());
    burst.hops = burst.hops.take().or(hops);
}

/// Returns the nodes of a path: `h0/3 leaf0/8` are the hops from h0 and from leaf0.
fn nodes_of(hops: &str) -> Vec<String> {
    let names = hops.split(' ').filter_map(|hop| hop.rsplit_once('/'));
    names.map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::past::seen::Figures;
    use crate::resolution::Resolution;
    use reweave_common::flow::Protocol;

    /// Makes a window of rows `(second, sent so far, rate)`.
    fn window(rows: &[(u64, u64, f64)]) -> Window {
        let mut window = Window::new(Resolution::Second, &[], Vec::new());
        let address = |last| std::net::SocketAddrV4::new([10, 0, 0, last].into(), 5000);
        let row = |&(second, sent_bytes, mean): &(u64, u64, f64)| Seen {
            at: Moment::from_micros(second * 1_000_000),
            readings: 1,
            what: FlowSeen {
                node: "h0".to_owned(),
                to_node: Some("h4".to_owned()),
                flow: FlowKey {
                    protocol: Protocol::Tcp,
                    source: address(1),
                    destination: address(2),
                },
                rate_bits_per_s: Some(Figures {
                    min: 0,
                    mean,
                    max: 0,
                }),
                rtt_ns: None,
                sent_bytes,
                retransmits: 0,
                hops: Some("h0/0 leaf0/8 spine-1/9".to_owned()),
            },
        };
        window.flows = rows.iter().map(row).collect();
        window
    }

    fn shown(window: &Window) -> Vec<(u64, u64, u64)> {
        let bursts = window.bursts();
        let shown = bursts.iter().map(|it| {
            let millis = |micros: u64| micros / 1000;
            (
                millis(it.at.as_micros()),
                it.bytes,
                it.sending.as_millis() as u64,
            )
        });
        shown.collect()
    }

    #[test]
    fn consecutive_readings_form_one_burst() {
        let rows = [
            (10, 250, 8000.0),
            (11, 1250, 8000.0),
            (12, 1750, 8000.0),
            (20, 2750, 16000.0),
            (21, 2750, 0.0),
            (22, 3750, 8000.0),
        ];
        let window = window(&rows);
        // The first burst began in the last quarter of its second.
        assert_eq!(
            shown(&window),
            [
                (10_750, 1750, 1750),
                (20_000, 1000, 500),
                (22_000, 1000, 1000)
            ]
        );
        let hops = window.bursts().remove(0).hops;
        assert_eq!(hops.unwrap(), ["h0", "leaf0", "spine-1"]);
    }

    /// The flow changes its spine in the third second. In the fifth there are no readings.
    #[test]
    fn burst_splits_on_path_change() {
        let each = |second: u64| (second, (second - 9) * 1000, 8000.0);
        let mut window = window(&[10, 11, 12, 13, 14].map(each));
        for row in &mut window.flows[2..4] {
            row.what.hops = Some("h0/0 leaf0/8 spine-2/9".to_owned());
        }
        window.flows[4].what.hops = None;
        assert_eq!(shown(&window), [(10_000, 2000, 2000), (12_000, 3000, 3000)]);
        let ways = window.bursts().into_iter();
        let ways: Vec<_> = ways
            .map(|it| (it.goes_on, it.hops.unwrap().remove(2)))
            .collect();
        let expected = [(false, "spine-1"), (true, "spine-2")];
        assert_eq!(ways, expected.map(|(on, spine)| (on, spine.to_owned())));
    }

    #[test]
    fn bytes_before_first_sight_are_ignored() {
        assert_eq!(
            shown(&window(&[(10, 1_000_000, 8000.0)])),
            [(10_000, 1000, 1000)]
        );
    }
}
