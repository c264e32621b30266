//! Input files of commands; `-` is standard input.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use reweave_common::fabric::Fabric;

use crate::error::CliError;

/// Maximum size of an input file.
const MAX_INPUT_BYTES: u64 = 1 << 30;
/// Byte order mark, which spreadsheets put before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, CliError> {
    let failed = |source| CliError::Read {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    let read = if is_standard_input(path) {
        once()?.take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes)
    } else {
        let file = fs::File::open(path).map_err(failed)?;
        file.take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes)
    };
    if read.map_err(failed)? as u64 > MAX_INPUT_BYTES {
        return Err(CliError::TooLarge {
            path: path.to_owned(),
            most_bytes: MAX_INPUT_BYTES,
        });
    }
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// Standard input can be read only once.
fn once() -> Result<io::StdinLock<'static>, CliError> {
    static STDIN_TAKEN: AtomicBool = AtomicBool::new(false);
    if STDIN_TAKEN.swap(true, Ordering::Relaxed) {
        Err(CliError::InputTwice)
    } else {
        Ok(io::stdin().lock())
    }
}

pub(crate) fn text(path: &Path) -> Result<String, CliError> {
    String::from_utf8(bytes(path)?).map_err(|source| CliError::NotText {
        path: path.to_owned(),
        source: source.utf8_error(),
    })
}

pub(crate) fn fabric(path: &Path) -> Result<Fabric, CliError> {
    let fabric = Fabric::parse(&path.display().to_string(), &text(path)?);
    fabric.map_err(CliError::Input)
}

/// Reads a fabric. Fibres without a circuit in the file are left out, because they carry nothing.
pub(crate) fn lit(path: &Path) -> Result<Fabric, CliError> {
    Ok(fabric(path)?.lit_alone())
}
