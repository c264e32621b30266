//! `[[expect]]` tables.

use serde::Deserialize;
use toml::Spanned;

use super::Reader;
use crate::input::{InputError, Table};
use crate::scenario::Expectation;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectationFile {
    job: Spanned<String>,
    #[serde(default = "yes")]
    completes: bool,
    max_resets: Option<u64>,
    max_retransmits: Option<u64>,
    max_lost: Option<u64>,
    max_reordered: Option<u64>,
    max_stall_ms: Option<Spanned<f64>>,
    max_iteration_ms: Option<Spanned<f64>>,
    min_iteration_ms: Option<Spanned<f64>>,
    min_flow_gbps: Option<Spanned<f64>>,
}

fn yes() -> bool {
    true
}

impl Reader<'_> {
    pub(super) fn expectation(&self, table: Table<'_>) -> Result<Expectation, InputError> {
        let file: ExpectationFile = table.finish()?;
        let millis = |value: &Option<_>| value.as_ref().map(|ms| self.millis(ms)).transpose();
        let [max_iteration, min_iteration] = [
            millis(&file.max_iteration_ms)?,
            millis(&file.min_iteration_ms)?,
        ];
        if let (Some(most), Some(least), Some(value)) =
            (max_iteration, min_iteration, &file.min_iteration_ms)
            && least > most
        {
            let problem = format!("{} is more than max_iteration_ms", value.get_ref());
            return Err(self.document.error(value.span(), problem));
        }
        Ok(Expectation {
            job: self.job_named(&file.job)?,
            completes: file.completes,
            max_resets: file.max_resets,
            max_retransmits: file.max_retransmits,
            max_lost: file.max_lost,
            max_reordered: file.max_reordered,
            max_stall: millis(&file.max_stall_ms)?,
            max_iteration,
            min_iteration,
            min_flow_rate: file
                .min_flow_gbps
                .map(|rate| self.document.rate(&rate))
                .transpose()?,
        })
    }
}
