//! Large files of recorders and of other simulators: how fast they are read and replayed, and what
//! memory that takes.

mod chakra;
mod flexflow;
mod pickle;

use reweave_common::carriage::Carriage;
use reweave_common::ids::Rank;
use reweave_common::iteration::Iteration;
use reweave_formats::topoopt::TaskGraph;
use reweave_formats::{chakra as traces, flight_recorder};
use reweave_planner::workload::{Network, Settings, recorded, simulate};

use crate::cost::{peak_mib, timed};

const CHAKRA: &str = "import-chakra";
const FLEXFLOW: &str = "import-flexflow";
const FLIGHT_RECORDER: &str = "import-flight-recorder";

const SERVERS: usize = 16;
/// Of all ranks together; a real step of a large model has some ten thousand a rank.
const TASKS: usize = 1 << 20;
const ENTRIES: usize = 1 << 18;
const SOUND: &str = "the file is sound";

/// Measures what any of the words names; everything when there are none.
pub(crate) fn measure_all(words: &[String]) {
    println!("name file_mb tasks best_s mb_per_s peak_mib");
    let is_wanted =
        |name: &&str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    for name in [CHAKRA, FLEXFLOW, FLIGHT_RECORDER]
        .iter()
        .filter(|it| is_wanted(it))
    {
        match *name {
            CHAKRA => import_chakra(),
            FLEXFLOW => import_flexflow(),
            _ => import_flight_recorder(),
        }
    }
}

fn import_chakra() {
    let traces = chakra::traces(SERVERS, TASKS / SERVERS);
    let files: Vec<_> = traces.iter().map(Vec::as_slice).collect();
    let bytes = traces.iter().map(Vec::len).sum();
    tell(CHAKRA, bytes, || traces::read(&files).expect(SOUND));
}

fn import_flexflow() {
    let file = flexflow::graph(SERVERS, TASKS);
    let graph = tell(FLEXFLOW, file.len(), || {
        TaskGraph::decode(&file).expect(SOUND)
    });
    let fabric = graph.fabric(graph.link_rate).expect(SOUND);
    let carriage = Carriage::default();
    let replay = || {
        let network = Network::new(&fabric, &graph.placement, &carriage, Settings::default());
        simulate(&graph.iteration, &network, u64::MAX).expect(SOUND)
    };
    tell("replay-flexflow", file.len(), replay);
}

fn import_flight_recorder() {
    let dump = pickle::dump(SERVERS, ENTRIES / SERVERS);
    tell(FLIGHT_RECORDER, dump.len() * SERVERS, || joined(&dump));
}

/// All ranks have dumped the same.
fn joined(dump: &[u8]) -> Iteration {
    let mut records = Vec::new();
    for rank in 0..SERVERS {
        records.extend(flight_recorder::read(Rank::from_index(rank), dump).expect(SOUND));
    }
    recorded::iteration(SERVERS, &records).expect(SOUND)
}

const ROUNDS: usize = 3;

fn tell<T>(name: &str, bytes: usize, run: impl Fn() -> T) -> T
where
    T: Tasks,
{
    let mut best_s = f64::INFINITY;
    let mut last = None;
    for _ in 0..ROUNDS {
        drop(last.take());
        let (result, took_s) = timed(&run);
        best_s = best_s.min(took_s);
        last = Some(result);
    }
    let last = last.expect("there is a round");
    let mb = bytes as f64 / 1e6;
    println!(
        "{name} {mb:.1} {} {best_s:.3} {:.1} {:.0}",
        last.tasks(),
        mb / best_s,
        peak_mib()
    );
    last
}

trait Tasks {
    fn tasks(&self) -> usize;
}

impl Tasks for Iteration {
    fn tasks(&self) -> usize {
        Self::tasks(self).len()
    }
}

impl Tasks for TaskGraph {
    fn tasks(&self) -> usize {
        self.iteration.tasks().len()
    }
}

impl Tasks for reweave_planner::workload::Timeline {
    fn tasks(&self) -> usize {
        self.finish.len()
    }
}
