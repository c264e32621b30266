//! `collectives`: shows reports of this host's jobs about collectives.

use std::path::PathBuf;
use std::thread;

use clap::Args;
use reweave_agent::collectives::Listener;
use reweave_agent::error::AgentError;
use reweave_common::collective::{COLLECTIVES_SOCKET, RankReading, Works};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Rate;
use serde_json::json;

use super::{Form, Watched, out, table};

#[derive(Debug, Args)]
pub(crate) struct Collectives {
    /// Socket for collective reports of jobs; an agent that serves a coordinator may already use it
    #[arg(long, value_name = "PATH", default_value = COLLECTIVES_SOCKET)]
    at: PathBuf,
    #[command(flatten)]
    watched: Watched,
}

impl Collectives {
    pub(super) fn run(&self) -> Result<(), AgentError> {
        let listener = Listener::start(&self.at)?;
        thread::sleep(self.watched.over_ms);
        let readings = listener.readings();
        match self.watched.output.form {
            Form::Json => out::json(&json!({ "ranks": readings })),
            Form::Table if readings.is_empty() => out::line("no job reports collectives here"),
            Form::Table => tell(&readings),
        }
        Ok(())
    }
}

fn tell(readings: &[RankReading]) {
    let works = readings.iter().flat_map(work_rows).collect::<Vec<_>>();
    let headings = ["rank", "does", "by", "a second", "bytes each", "takes"];
    table::print(headings, &works);
    let peers = readings.iter().flat_map(peer_rows).collect::<Vec<_>>();
    if !peers.is_empty() {
        out::line("");
        table::print(["rank", "with", "sends", "receives"], &peers);
    }
    let missed: u64 = readings.iter().map(|it| it.missed).sum();
    if missed > 0 {
        out::line(format_args!("{missed} events dropped: rate too high"));
    }
}

fn work_rows(reading: &RankReading) -> impl Iterator<Item = [String; 6]> {
    reading.works.iter().map(|works| {
        let seconds = reading.over.as_secs_f64().max(f64::MIN_POSITIVE);
        [
            rank(reading),
            works.kind.clone(),
            format!("{} {}", works.algorithm, works.protocol),
            format!("{:.1}", works.count as f64 / seconds),
            (works.bytes.count() / works.count.max(1)).to_string(),
            takes(works),
        ]
    })
}

fn takes(works: &Works) -> String {
    let mean = (works.timed > 0).then(|| works.took.as_secs_f64() / works.timed as f64);
    mean.map_or_else(|| "-".to_owned(), |s| format!("{:.3} ms", s * 1e3))
}

fn peer_rows(reading: &RankReading) -> impl Iterator<Item = [String; 4]> {
    reading.peers.iter().map(|peer| {
        let rate = |bytes| Rate::mean(bytes, *reading.over.max(TimeSpan::from_millis(1)));
        [
            rank(reading),
            peer.rank.to_string(),
            rate(peer.sent).to_string(),
            rate(peer.received).to_string(),
        ]
    })
}

/// Formats a rank of a communicator, such as rank 3 of 8, with the communicator's name or number.
fn rank(reading: &RankReading) -> String {
    let rank = &reading.rank;
    let of = if rank.name.is_empty() {
        format!("{:x}", rank.communicator)
    } else {
        rank.name.clone()
    };
    format!("{}/{} of {of}", rank.rank, rank.ranks)
}
