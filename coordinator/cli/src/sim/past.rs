//! Stretches of time of the history.

use std::time::{Duration, SystemTime};

use reweave_common::moment::Moment;
use reweave_history::{Kind, Past, Question, Window, moment_of};

use crate::error::CliError;
use crate::page::tell;

/// `FROM/SPAN`
pub(super) fn span(text: &str) -> Result<[Moment; 2], CliError> {
    let bad = || CliError::BadSpan {
        text: text.to_owned(),
    };
    let (from, length) = text.rsplit_once('/').ok_or_else(bad)?;
    let from = moment_of(from, SystemTime::now()).ok_or_else(bad)?;
    let length = humantime::parse_duration(length).map_err(|_| bad())?;
    let is_long = length > Duration::ZERO;
    is_long.then(|| [from, from + length]).ok_or_else(bad)
}

/// All that was seen of these kinds.
pub(super) fn window(
    history: &str,
    [from, to]: [Moment; 2],
    kinds: &[Kind],
) -> Result<Window, CliError> {
    let past = Past::open(history).map_err(CliError::Shelf)?;
    let question = Question {
        from,
        to,
        resolution: None,
        kinds: kinds.to_vec(),
    };
    let window = past.look(&question);
    let window = window.map_err(|error| CliError::Past(Box::new(error)))?;
    for warning in &window.warnings {
        tell(&warning.to_string());
    }
    Ok(window)
}
