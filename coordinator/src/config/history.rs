//! The table `[history]`.

use std::path::Path;
use std::time::Duration;

use reweave_common::input::{InputError, Table};
use reweave_history::{Retention, Rules};
use serde::Deserialize;
use toml::Spanned;

/// How many keys there are.
#[cfg(test)]
pub(super) const SETTINGS: usize = 7;

/// Some hundred years.
const LONGEST: Duration = Duration::from_hours(1_000_000);
const MOST_SERIES: i64 = 100_000_000;

/// As it stands in the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HistorySettings {
    on: bool,
    url: String,
    rules: Rules,
}

impl Default for HistorySettings {
    fn default() -> Self {
        Self {
            on: true,
            url: String::new(),
            rules: Rules::default(),
        }
    }
}

/// Where the history is kept, and how.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HistoryConfig {
    pub(crate) url: String,
    pub(crate) rules: Rules,
}

impl HistorySettings {
    pub(super) fn url(&self, data: &Path) -> String {
        match &*self.url {
            "" => data.join("history").display().to_string(),
            url => url.to_owned(),
        }
    }

    pub(super) fn config(&self, data: &Path) -> Option<HistoryConfig> {
        self.on.then(|| HistoryConfig {
            url: self.url(data),
            rules: self.rules.clone(),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryFile {
    on: Option<bool>,
    url: Option<String>,
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
        Some(value) => document.time(value, Duration::from_hours(1), LONGEST),
        None => Ok(default),
    };
    let series = file.most_series.as_ref();
    let series = series.map(|value| document.whole(value, 1..=MOST_SERIES));
    let seconds = file.write_every_s.as_ref();
    let seconds = seconds
        .map(|value| document.period(value, Duration::from_secs(1), Duration::from_hours(1)));
    Ok(HistorySettings {
        on: file.on.unwrap_or(true),
        url: file.url.unwrap_or_default(),
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
