//! `reweave sim trace`: recorded traces of a job on a fabric.

use std::iter::repeat_n;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use reweave_common::explicit_paths::ExplicitPaths;
use reweave_common::ids::Rank;
use reweave_common::iteration::Iteration;
use reweave_common::recorded_exchange::RecordedExchange;
use reweave_formats::{chakra, flight_recorder, nccl_inspector};
use reweave_sim::workload::Settings;
use reweave_sim::workload::job::Work;
use reweave_sim::workload::recorded::{self, RecordedError};

use super::input;
use super::run::{Scene, Uncertainty};
use super::variants::{Allowed, Base};
use crate::Output;
use crate::error::CliError;

/// Replay recorded traces of a job on a fabric
#[derive(Debug, Args)]
pub(crate) struct Trace {
    /// Format of the files
    #[arg(long, value_enum)]
    format: Format,
    /// One file per rank, in rank order
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Fabric file
    #[arg(long)]
    fabric: PathBuf,
    /// Ranks per host
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    gpus_per_host: u16,
    /// Compare with this variant, as `sim history` does; may be repeated
    #[arg(
        long = "with",
        value_name = "VARIANT.toml",
        conflicts_with = "interval"
    )]
    variants: Vec<PathBuf>,
    #[command(flatten)]
    allowed: Allowed,
    #[command(flatten)]
    uncertainty: Uncertainty,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// Chakra execution traces
    Chakra,
    /// Dumps of PyTorch's flight recorder, as pickle or JSON
    FlightRecorder,
    /// Output of NCCL's Inspector plugin
    NcclInspector,
}

impl Trace {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let fabric = input::lit(&self.fabric)?;
        let files: Vec<_> = self.files.iter().map(|path| input::bytes(path)).collect();
        let files: Vec<_> = files.into_iter().collect::<Result<_, _>>()?;
        let iteration = match self.format {
            Format::Chakra => self.executed(&files)?,
            Format::FlightRecorder => self.joined(&self.dumps(&files)?)?,
            Format::NcclInspector => self.joined(&self.inspected(&files)?)?,
        };
        let each = usize::from(self.gpus_per_host);
        let hosts = fabric.endpoints();
        let placement: Vec<_> = hosts.flat_map(|host| repeat_n(host, each)).collect();
        let work = Work {
            iteration,
            placement,
            settings: Settings::default(),
        };
        if !self.variants.is_empty() {
            return self.compare(&work, output);
        }
        let scene = Scene {
            iteration: &work.iteration,
            fabric: &fabric,
            placement: &work.placement,
            carriage: &ExplicitPaths::default(),
            settings: work.settings,
        };
        let answer = scene.simulate(&self.uncertainty, output);
        answer.map_err(|error| error.on(&self.fabric))
    }

    fn compare(&self, work: &Work, output: Output) -> Result<ExitCode, CliError> {
        let base = Base {
            fabric: Some(&self.fabric),
            ..Base::default()
        };
        let variants = base.read_all(&self.variants)?;
        let answers = variants.iter().map(|it| it.played_job(work, None));
        let answers: Vec<_> = answers.collect::<Result<_, _>>()?;
        self.allowed.judged(&answers, output)
    }

    fn dumps(&self, files: &[Vec<u8>]) -> Result<Vec<RecordedExchange>, CliError> {
        let mut records = Vec::new();
        for (rank, (path, bytes)) in self.files.iter().zip(files).enumerate() {
            let dump = flight_recorder::read(Rank::from_index(rank), bytes);
            records.extend(dump.map_err(|source| CliError::FlightRecorder {
                path: path.clone(),
                source,
            })?);
        }
        Ok(records)
    }

    fn inspected(&self, files: &[Vec<u8>]) -> Result<Vec<RecordedExchange>, CliError> {
        let text = |(path, bytes): (&PathBuf, &Vec<u8>)| as_text(path, bytes);
        let texts = self.files.iter().zip(files).map(text);
        let texts: Vec<_> = texts.collect::<Result<_, _>>()?;
        let slices: Vec<_> = texts.iter().map(String::as_str).collect();
        let read = nccl_inspector::read(&slices);
        read.map_err(|error| CliError::Inspector {
            path: self.files[error.file].clone(),
            source: error.source,
        })
    }

    fn executed(&self, files: &[Vec<u8>]) -> Result<Iteration, CliError> {
        let slices: Vec<_> = files.iter().map(Vec::as_slice).collect();
        chakra::read(&slices).map_err(|source| CliError::Chakra {
            files: self.named(&source.ranks()),
            source,
        })
    }

    fn joined(&self, records: &[RecordedExchange]) -> Result<Iteration, CliError> {
        let iteration = recorded::iteration(self.files.len(), records);
        iteration.map_err(|source| CliError::Recorded {
            files: self.named(&self.whose(&source)),
            source,
        })
    }

    /// Returns the ranks of an error. Inspector files are not separated by rank.
    fn whose(&self, error: &RecordedError) -> Vec<usize> {
        match (self.format, error) {
            (Format::FlightRecorder, RecordedError::Unlike { rank, .. }) => vec![rank.index()],
            _ => vec![],
        }
    }

    /// Names the files of these ranks, or all files if the rank is unknown. Of many files it names the first.
    fn named(&self, ranks: &[usize]) -> String {
        let all: Vec<_> = match ranks {
            [] => self.files.iter().collect(),
            _ => ranks.iter().map(|&rank| &self.files[rank]).collect(),
        };
        match all.len() {
            ..=2 => {
                let names: Vec<_> = all.iter().map(|it| it.display().to_string()).collect();
                names.join(" and ")
            }
            many => format!("{} and {} others", all[0].display(), many - 1),
        }
    }
}

fn as_text(path: &Path, bytes: &[u8]) -> Result<String, CliError> {
    let text = String::from_utf8(bytes.to_vec());
    text.map_err(|source| CliError::NotText {
        path: path.to_owned(),
        source: source.utf8_error(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns the error for these files, called rank0, rank1 and so on.
    fn refused(format: &str, files: &[&[u8]]) -> String {
        use clap::Parser;

        #[derive(Debug, Parser)]
        struct TraceCommand {
            #[command(flatten)]
            trace: Trace,
        }

        let folder = tempfile::tempdir().unwrap();
        let fabric = folder.path().join("fabric.toml");
        fs::write(&fabric, "kind = \"ideal\"\nhosts = 4\nnic_gbps = 100\n").unwrap();
        let fabric = fabric.display().to_string();
        let mut words = ["trace", "--format", format, "--fabric", &fabric]
            .map(str::to_owned)
            .to_vec();
        for (rank, bytes) in files.iter().enumerate() {
            let path = folder.path().join(format!("rank{rank}"));
            fs::write(&path, bytes).unwrap();
            words.push(path.display().to_string());
        }
        let asked = TraceCommand::try_parse_from(words).unwrap();
        let error = asked.trace.run(Output::Json).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let within = format!("{}/", folder.path().display());
        error.error_chain().replace(&within, "")
    }

    #[test]
    fn invalid_trace_is_refused_by_file() {
        let empty = b"\x00";
        let said = refused("chakra", &[empty, b""]);
        assert!(said.starts_with("rank1: the trace of rank 1: "), "{said}");
        let said = refused("nccl-inspector", &[b"", b"{"]);
        assert!(
            said.starts_with("rank1: not what NCCL's Inspector writes: "),
            "{said}"
        );
        let said = refused("flight-recorder", &[b"{}", b"{"]);
        assert!(said.starts_with("rank"), "{said}");
    }

    #[test]
    fn contradictory_ranks_are_named_by_file() {
        let line = |rank: u32, coll: &str| {
            format!(
                r#"{{"header":{{"id":"0xa","rank":{rank},"n_ranks":2}},
                "metadata":{{"hostname":"g1","pid":{rank}}},
                "coll_perf":{{"coll":"{coll}","coll_msg_size_bytes":4096}}}}"#
            )
        };
        let [one, other] = [line(0, "AllReduce"), line(1, "AllGather")];
        let said = refused("nccl-inspector", &[one.as_bytes(), other.as_bytes()]);
        assert!(
            said.starts_with("rank0 and rank1: the ranks disagree"),
            "{said}"
        );
    }
}
