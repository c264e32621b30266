//! What can go wrong on a stage.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use reweave_common::input::InputError;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum StageError {
    #[error(
        "{} is missing: build all programs first, with `cargo build --workspace --bins`",
        path.display()
    )]
    NoProgram { path: PathBuf },
    #[error("cannot find out where this program lies")]
    Nowhere(#[source] io::Error),
    #[error("cannot write {}", path.display())]
    Files { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Fabric(#[from] InputError),
    #[error("cannot start {command}")]
    Start { command: String, source: io::Error },
    #[error("{command} does not end")]
    Endless { command: String },
    #[error("{command} ended with {code:?}: {said}")]
    Failed {
        command: String,
        code: Option<i32>,
        said: String,
    },
    #[error("{name} is not there any more: {how}")]
    Gone { name: String, how: String },
    #[error("{name} was not started")]
    NotStarted { name: &'static str },
    #[error("it was to be JSON of another kind")]
    Json(#[source] serde_json::Error),
    #[error("waited {} s in vain: {what}{}", waited.as_secs(), hint(last.as_deref()))]
    InVain {
        what: String,
        waited: Duration,
        /// What was wrong the last time it was tried.
        last: Option<String>,
    },
}

fn hint(last: Option<&str>) -> String {
    last.map_or_else(String::new, |last| format!(" ({last})"))
}
