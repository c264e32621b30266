//! Recorded traces of a job in a request.

use std::iter::repeat_n;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reweave_common::error::error_chain;
use reweave_common::fabric::Fabric;
use reweave_common::ids::Rank;
use reweave_common::iteration::Iteration;
use reweave_common::recorded_exchange::RecordedExchange;
use reweave_formats::chakra::{self, ChakraError};
use reweave_formats::{flight_recorder, nccl_inspector};
use reweave_sim::workload::job::Work;
use reweave_sim::workload::{Settings, recorded};
use serde::Deserialize;
use utoipa::ToSchema;

use super::scene::MAX_RANKS;

/// Maximum number of GPUs per host.
const MAX_GPUS_PER_HOST: u16 = 64;

/// Recorded traces of a job, as for `reweave sim trace`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Trace {
    format: Format,
    /// One file per rank, in rank order.
    files: Vec<File>,
    /// Ranks per host.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 64)]
    gpus_per_host: u16,
}

fn one() -> u16 {
    1
}

/// Format of the files.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum Format {
    /// Chakra execution traces.
    Chakra,
    /// Dumps of `PyTorch`'s flight recorder, as pickle or JSON.
    FlightRecorder,
    /// Output of NCCL's Inspector plugin.
    NcclInspector,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    /// Content in base64.
    base64: String,
}

impl Trace {
    pub(super) fn bytes(&self) -> usize {
        self.files
            .iter()
            .map(|file| file.base64.len() / 4 * 3)
            .sum()
    }

    /// Returns the job on all hosts of the fabric, in their order.
    pub(super) fn work(&self, fabric: &Fabric) -> Result<Work, String> {
        let (ranks, each) = (self.files.len(), self.gpus_per_host);
        if !(1..=MAX_GPUS_PER_HOST).contains(&each) {
            return Err(format!(
                "gpus_per_host: {each} is not between 1 and {MAX_GPUS_PER_HOST}"
            ));
        }
        if ranks > MAX_RANKS {
            let instead = "use `reweave sim trace` for larger ones";
            return Err(format!(
                "{ranks} ranks are more than {MAX_RANKS}: {instead}"
            ));
        }
        let hosts = fabric.endpoints();
        let placement: Vec<_> = hosts.flat_map(|host| repeat_n(host, each.into())).collect();
        if ranks > placement.len() {
            let places = placement.len();
            return Err(format!(
                "{ranks} ranks, but only {places} places on the fabric"
            ));
        }
        Ok(Work {
            iteration: self.iteration()?,
            placement,
            settings: Settings::default(),
        })
    }

    fn iteration(&self) -> Result<Iteration, String> {
        let files: Vec<_> = self
            .files
            .iter()
            .map(File::read)
            .collect::<Result<_, _>>()?;
        let records = match self.format {
            Format::Chakra => {
                let slices: Vec<_> = files.iter().map(Vec::as_slice).collect();
                return chakra::read(&slices).map_err(|error| self.blamed(&error));
            }
            Format::FlightRecorder => self.dumps(&files)?,
            Format::NcclInspector => self.inspected(&files)?,
        };
        recorded::iteration(files.len(), &records).map_err(|error| error.to_string())
    }

    fn dumps(&self, files: &[Vec<u8>]) -> Result<Vec<RecordedExchange>, String> {
        let mut records = Vec::new();
        for (rank, (file, bytes)) in self.files.iter().zip(files).enumerate() {
            let dump = flight_recorder::read(Rank::from_index(rank), bytes);
            records.extend(dump.map_err(|error| file.blamed(&error_chain(&error)))?);
        }
        Ok(records)
    }

    fn inspected(&self, files: &[Vec<u8>]) -> Result<Vec<RecordedExchange>, String> {
        let text = |(file, bytes): (&File, _)| {
            let text = str::from_utf8(bytes);
            text.map_err(|error| file.blamed(&error.to_string()))
        };
        let texts = self.files.iter().zip(files.iter().map(Vec::as_slice));
        let texts: Vec<_> = texts.map(text).collect::<Result<_, _>>()?;
        let read = nccl_inspector::read(&texts);
        read.map_err(|error| self.files[error.file].blamed(&error_chain(&error.source)))
    }

    /// Names the first invalid file, if it is known.
    fn blamed(&self, error: &ChakraError) -> String {
        let why = error_chain(error);
        match error.ranks().first() {
            Some(&rank) => self.files[rank].blamed(&why),
            None => why,
        }
    }
}

impl File {
    fn read(&self) -> Result<Vec<u8>, String> {
        let bytes = BASE64_STANDARD.decode(&self.base64);
        bytes.map_err(|error| self.blamed(&format!("not base64: {error}")))
    }

    fn blamed(&self, why: &str) -> String {
        format!("{}: {why}", self.name)
    }
}
