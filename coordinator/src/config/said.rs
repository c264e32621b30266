//! Settings with their places in the file, so that errors found later, on this machine, also name the place.

use reweave_common::input::Document;
use toml::Spanned;

use crate::error::CoordinatorError;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Said<T> {
    pub(crate) value: T,
    /// File, line and key; or the flag; or only the key for a default.
    pub(crate) place: String,
}

impl<T> Said<T> {
    pub(super) fn in_file(document: Document<'_>, value: Spanned<T>) -> Self {
        let at = document.error(value.span(), "");
        Self {
            place: format!("{}:{}: {}", at.file, at.line, at.key),
            value: value.into_inner(),
        }
    }

    /// Returns a default value.
    pub(crate) fn usual(key: &str, value: impl Into<T>) -> Self {
        Self {
            value: value.into(),
            place: key.to_owned(),
        }
    }

    /// Returns an error that names this setting as its cause.
    pub(crate) fn wrong(&self, source: impl Into<CoordinatorError>) -> CoordinatorError {
        CoordinatorError::Setting {
            place: self.place.clone(),
            source: Box::new(source.into()),
        }
    }
}

/// Returns the flag, else the value of the file.
pub(super) fn said<T: Clone>(
    flag: &str,
    value: &Option<T>,
    file: Option<Said<T>>,
) -> Option<Said<T>> {
    match value {
        Some(value) => Some(Said::usual(flag, value.clone())),
        None => file,
    }
}
