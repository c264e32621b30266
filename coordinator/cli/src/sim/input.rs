//! Files that people name.

use std::fs;
use std::path::Path;

use reweave_common::fabric::Fabric;

use crate::error::CliError;

/// What a file holds, which must be text.
pub(super) fn text(file: &Path) -> Result<String, CliError> {
    fs::read_to_string(file).map_err(|source| CliError::Read {
        file: file.to_owned(),
        source,
    })
}

pub(super) fn fabric(file: &Path) -> Result<Fabric, CliError> {
    Ok(Fabric::parse(&file.display().to_string(), &text(file)?)?)
}
