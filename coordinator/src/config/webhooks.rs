//! The tables `[[webhook]]`: the receivers of events.

use std::path::PathBuf;

use reqwest::Url;
use reweave_common::input::{Document, InputError};
use serde::Deserialize;
use toml::Spanned;

use super::said::Said;
use crate::webhooks::{Hook, Kind};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WebhookFile {
    url: Spanned<String>,
    secret_file: Spanned<PathBuf>,
    of: Option<Vec<Kind>>,
}

pub(super) fn read(
    document: Document<'_>,
    hooks: Vec<WebhookFile>,
) -> Result<Vec<Hook>, InputError> {
    let hooks = hooks.into_iter().map(|file| {
        Ok(Hook {
            url: url(document, &file.url)?,
            secret_file: Said::in_file(document, file.secret_file),
            kinds: file.of.unwrap_or_else(|| Kind::ALL.to_vec()),
        })
    });
    hooks.collect()
}

/// Parses a URL. Errors show neither path nor query, because many services put a secret there.
pub(super) fn url(document: Document<'_>, text: &Spanned<String>) -> Result<Url, InputError> {
    let expected = "expected a URL with https:// or http://";
    let problem = match Url::parse(text.get_ref()) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => return Ok(url),
        Ok(url) => {
            let host = url.host_str().unwrap_or_default();
            format!("{expected}, found {}://{host}", url.scheme())
        }
        Err(_) => expected.to_owned(),
    };
    Err(document.error(text.span(), problem))
}
