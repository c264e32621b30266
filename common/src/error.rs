//! Errors for people.

use std::error::Error;

/// An error with all that led to it, in one line.
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    let texts: Vec<_> = chain.map(ToString::to_string).collect();
    texts.join(": ")
}
