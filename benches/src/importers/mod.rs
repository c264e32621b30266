//! Large files of recorders and of other simulators: time to read and replay them, and memory.

mod chakra;
mod flexflow;
mod pickle;

use reweave_common::explicit_paths::ExplicitPaths;
use reweave_common::ids::Rank;
use reweave_common::iteration::Iteration;
use reweave_formats::topoopt::TaskGraph;
use reweave_formats::{chakra as traces, flight_recorder};
use reweave_sim::workload::{Network, Settings, recorded, simulate};

use crate::cost::{peak_mib, timed};

const CHAKRA_BENCH: &str = "import-chakra";
const FLEXFLOW_BENCH: &str = "import-flexflow";
const FLIGHT_RECORDER_BENCH: &str = "import-flight-recorder";

const SERVER_COUNT: usize = 16;
/// Number of tasks of all ranks; a real step of a large model has some ten thousand per rank.
const TASK_COUNT: usize = 1 << 20;
const ENTRY_COUNT: usize = 1 << 18;
const VALID_INPUT: &str = "the file is sound";

/// Runs the benchmarks whose names contain one of the words; all without words.
pub(crate) fn measure_all(words: &[String]) {
    println!("name file_mb tasks best_s mb_per_s peak_mib");
    let is_wanted =
        |name: &&str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    for name in [CHAKRA_BENCH, FLEXFLOW_BENCH, FLIGHT_RECORDER_BENCH]
        .iter()
        .filter(|it| is_wanted(it))
    {
        match *name {
            CHAKRA_BENCH => import_chakra(),
            FLEXFLOW_BENCH => import_flexflow(),
            _ => import_flight_recorder(),
        }
    }
}

fn import_chakra() {
    let traces = chakra::traces(SERVER_COUNT, TASK_COUNT / SERVER_COUNT);
    let files: Vec<_> = traces.iter().map(Vec::as_slice).collect();
    let bytes = traces.iter().map(Vec::len).sum();
    tell(CHAKRA_BENCH, bytes, || {
        traces::read(&files).expect(VALID_INPUT)
    });
}

fn import_flexflow() {
    let file = flexflow::graph(SERVER_COUNT, TASK_COUNT);
    let graph = tell(FLEXFLOW_BENCH, file.len(), || {
        TaskGraph::decode(&file).expect(VALID_INPUT)
    });
    let fabric = graph.fabric(graph.link_rate).expect(VALID_INPUT);
    let carriage = ExplicitPaths::default();
    let replay = || {
        let network = Network::new(&fabric, &graph.placement, &carriage, Settings::default());
        simulate(&graph.iteration, &network, u64::MAX).expect(VALID_INPUT)
    };
    tell("replay-flexflow", file.len(), replay);
}

fn import_flight_recorder() {
    let dump = pickle::dump(SERVER_COUNT, ENTRY_COUNT / SERVER_COUNT);
    tell(FLIGHT_RECORDER_BENCH, dump.len() * SERVER_COUNT, || {
        joined(&dump)
    });
}

/// All ranks have the same dump.
fn joined(dump: &[u8]) -> Iteration {
    let mut records = Vec::new();
    for rank in 0..SERVER_COUNT {
        records.extend(flight_recorder::read(Rank::from_index(rank), dump).expect(VALID_INPUT));
    }
    recorded::iteration(SERVER_COUNT, &records).expect(VALID_INPUT)
}

const ROUND_COUNT: usize = 3;

fn tell<T>(name: &str, bytes: usize, run: impl Fn() -> T) -> T
where
    T: Tasks,
{
    let mut best_s = f64::INFINITY;
    let mut last = None;
    for _ in 0..ROUND_COUNT {
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

impl Tasks for reweave_sim::workload::Timeline {
    fn tasks(&self) -> usize {
        self.finish.len()
    }
}
