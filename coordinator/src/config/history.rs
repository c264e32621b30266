//! The table `[history]`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reweave_common::input::{InputError, Table};
use reweave_history::{Retention, Rules};
use serde::Deserialize;
use toml::Spanned;

use super::Said;

/// Number of keys.
#[cfg(test)]
pub(super) const SETTING_COUNT: usize = 7;

/// About a hundred years.
const MAX_RETENTION: Duration = Duration::from_hours(1_000_000);
const MAX_SERIES: i64 = 100_000_000;

/// The table in the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HistorySettings {
    on: bool,
    /// None if the history is stored beside the log.
    url: Option<Said<String>>,
    rules: Rules,
}

impl Default for HistorySettings {
    fn default() -> Self {
        Self {
            on: true,
            url: None,
            rules: Rules::default(),
        }
    }
}

/// Location and settings of the history.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HistoryConfig {
    pub(crate) url: String,
    pub(crate) rules: Rules,
}

impl HistorySettings {
    pub(super) fn url(&self, data: &Path) -> String {
        let beside = || data.join("history").display().to_string();
        let url = self.url.as_ref();
        url.map_or_else(beside, |url| url.value.clone())
    }

    /// Returns the configuration. An error about a location beside the log names the setting of the data folder.
    pub(super) fn config(&self, data: &Said<PathBuf>) -> Option<Said<HistoryConfig>> {
        let place = self.url.as_ref().map_or(&data.place, |url| &url.place);
        self.on.then(|| Said {
            value: HistoryConfig {
                url: self.url(&data.value),
                rules: self.rules.clone(),
            },
            place: place.clone(),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryFile {
    on: Option<bool>,
    url: Option<Spanned<String>>,
    keep_1s_h: Option<Spanned<f64>>,
    keep_10s_h: Option<Spanned<f64>>,
    keep_5min_h: Option<Spanned<f64>>,
    write_every_s: Option<Spanned<f64>>,
    most_series: Option<Spanned<i64>>,
}

pub(super) fn read(table: Table<'_>) -> Result<HistorySettings, InputError> {
    let document = table.document();
    let file: HistoryFile = table.finish()?;
    let default = Rules::default();
    let hours = |value: &Option<Spanned<f64>>, default| match value {
        Some(value) => document.time(value, Duration::from_hours(1), MAX_RETENTION),
        None => Ok(default),
    };
    let series = file.most_series.as_ref();
    let series = series.map(|value| document.whole(value, 1..=MAX_SERIES));
    let seconds = file.write_every_s.as_ref();
    let seconds = seconds
        .map(|value| document.period(value, Duration::from_secs(1), Duration::from_hours(1)));
    let url = file.url.filter(|url| !url.get_ref().is_empty());
    Ok(HistorySettings {
        on: file.on.unwrap_or(true),
        url: url.map(|url| Said::in_file(document, url)),
        rules: Rules {
            retention: Retention {
                second: hours(&file.keep_1s_h, default.retention.second)?,
                ten_seconds: hours(&file.keep_10s_h, default.retention.ten_seconds)?,
                five_minutes: hours(&file.keep_5min_h, default.retention.five_minutes)?,
            },
            write_every: seconds.transpose()?.unwrap_or(default.write_every),
            most_series: match series.transpose()? {
                Some(series) => usize::try_from(series).unwrap_or(usize::MAX),
                None => default.most_series,
            },
        },
    })
}
