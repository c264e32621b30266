//! Periods of the history.

use std::time::{Duration, SystemTime};

use reweave_common::moment::Moment;
use reweave_history::{Covered, Kind, Past, Question, Window, later, moment_of};

use crate::error::CliError;
use crate::voice::print_note;

/// Parses `FROM/SPAN`.
pub(super) fn span(text: &str) -> Result<[Moment; 2], CliError> {
    let bad = || CliError::BadSpan {
        text: text.to_owned(),
    };
    let (from, length) = text.rsplit_once('/').ok_or_else(bad)?;
    let from = moment_of(from, SystemTime::now()).ok_or_else(bad)?;
    let length = humantime::parse_duration(length).map_err(|_| bad())?;
    if length == Duration::ZERO {
        return Err(bad());
    }
    let to = later(from, length).ok_or_else(|| CliError::BeyondTime {
        text: text.to_owned(),
    })?;
    Ok([from, to])
}

/// Records of a period of the history.
pub(super) struct Looked {
    pub(super) window: Window,
    pub(super) covered: Covered,
    /// Commands that moved circuits until then, as JSON.
    pub(super) moved: Vec<String>,
}

/// Reads all records of these kinds.
pub(super) fn look(
    history: &str,
    [from, to]: [Moment; 2],
    kinds: &[Kind],
) -> Result<Looked, CliError> {
    let past = Past::open(history).map_err(CliError::Shelf)?;
    let question = Question {
        from,
        to,
        resolution: None,
        kinds: kinds.to_vec(),
    };
    let failed = |error| CliError::Past(Box::new(error));
    let window = past.look(&question).map_err(failed)?;
    for warning in &window.warnings {
        print_note(&warning.to_string());
    }
    Ok(Looked {
        covered: past
            .covered([from, to], window.resolution)
            .map_err(failed)?,
        moved: past.circuits_moved(to).map_err(failed)?,
        window,
    })
}
