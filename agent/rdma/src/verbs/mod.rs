//! The part of the verbs library that measurements need: safe on the outside, and each resource freed when it is
//! dropped.

mod device;
mod memory;
mod pair;
mod queue;

use std::io;

pub(crate) use device::{Context, LocalPort, contexts};
pub(crate) use pair::{Kind, Pair};
pub(crate) use queue::{Completion, Done};

use crate::error::RdmaError;

/// Checks the return code of a library call: zero, or an error number.
fn done(what: &'static str, code: i32) -> Result<(), RdmaError> {
    match code {
        0 => Ok(()),
        // Some answer with a negative number, some with -1 and errno.
        -1 => Err(failed(what)),
        code => Err(RdmaError::Verb {
            what,
            source: io::Error::from_raw_os_error(code.abs()),
        }),
    }
}

/// The error of a library call that returned a null pointer.
fn failed(what: &'static str) -> RdmaError {
    RdmaError::Verb {
        what,
        source: io::Error::last_os_error(),
    }
}
