//! The location of a row: `kind=links/resolution=1s/day=2026-11-20/hour=14/part-….parquet`. Programs that know the
//! folder names of Hive find their columns in it.
//!
//! The name of a file has its content and its checksum. So the name alone shows whether a file belongs to the history
//! and is complete. Names are never used twice.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reweave_common::moment::Moment;

use crate::kind::Kind;
use crate::resolution::{Resolution, floor};

/// The folder of the rows of one kind and resolution in one hour, or in one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) kind: Kind,
    pub(crate) resolution: Resolution,
    pub(crate) start: Moment,
}

/// The name of one file in its folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileName {
    pub(crate) merged: bool,
    /// The number of the run that wrote it.
    pub(crate) run: u64,
    pub(crate) number: u64,
    pub(crate) checksum: u32,
}

impl Place {
    pub(crate) fn of(kind: Kind, resolution: Resolution, at: Moment) -> Self {
        Self {
            kind,
            resolution,
            start: floor(at, resolution.period()),
        }
    }

    pub(crate) fn end(&self) -> Moment {
        self.start + self.resolution.period()
    }

    pub(crate) fn folder_of_all(kind: Kind, resolution: Resolution) -> String {
        format!("kind={}/resolution={}", kind.name(), resolution.name())
    }

    /// Returns the folders of all kinds and resolutions.
    pub(crate) fn all_folders() -> impl Iterator<Item = String> {
        Kind::ALL.into_iter().flat_map(|kind| {
            Resolution::ALL.map(|resolution| Self::folder_of_all(kind, resolution))
        })
    }

    /// Returns the common beginning of all places of this kind and resolution on the same day.
    pub(crate) fn day_folder(&self) -> String {
        let all = Self::folder_of_all(self.kind, self.resolution);
        format!("{all}/day={}", &written(self.start)[..DATE_CHARS])
    }

    pub(crate) fn folder(&self) -> String {
        let day = self.day_folder();
        match self.resolution {
            Resolution::FiveMinutes => day,
            _ => format!("{day}/hour={}", &written(self.start)[HOUR_CHARS]),
        }
    }

    pub(crate) fn path(&self, file: &FileName) -> String {
        format!("{}/{file}", self.folder())
    }

    /// Parses a path. None if the file does not belong to the history.
    pub(crate) fn parse(path: &str) -> Option<(Self, FileName)> {
        let (folder, name) = path.rsplit_once('/')?;
        let mut parts = folder.split('/');
        let mut value = |key: &str| parts.next()?.strip_prefix(key)?.strip_prefix('=');
        let kind = Kind::named(value("kind")?)?;
        let resolution = Resolution::named(value("resolution")?)?;
        let day = value("day")?;
        let hour = value("hour").unwrap_or("00");
        let at = humantime::parse_rfc3339(&format!("{day}T{hour}:00:00Z")).ok()?;
        let place = Self::of(kind, resolution, moment(at));
        let file = FileName::parse(name)?;
        (place.folder() == folder).then_some((place, file))
    }
}

/// The lengths and positions in `2026-11-20T14:03:00Z`.
const DATE_CHARS: usize = 10;
const HOUR_CHARS: std::ops::Range<usize> = 11..13;
const MINUTE_CHARS: usize = 16;

/// The end of the year 9999, the last one that RFC 3339 can write.
const MAX_MOMENT: Moment = Moment::from_micros(253_402_300_799_000_000);

/// Formats a moment in UTC, as in RFC 3339.
pub fn written(at: Moment) -> String {
    let at = UNIX_EPOCH + Duration::from_micros(at.min(MAX_MOMENT).as_micros());
    humantime::format_rfc3339_micros(at).to_string()
}

/// Returns the moment this long after another one. None if it cannot be written.
pub fn later(at: Moment, by: Duration) -> Option<Moment> {
    let micros = u64::try_from(by.as_micros()).ok()?;
    let later = Moment::from_micros(at.as_micros().checked_add(micros)?);
    (later <= MAX_MOMENT).then_some(later)
}

/// Parses a moment: a date, a time to the minute or finer, or a duration before `now`. None if the text is neither.
pub fn moment_of(text: &str, now: SystemTime) -> Option<Moment> {
    let at = match humantime::parse_rfc3339_weak(&to_the_second(text)) {
        Ok(at) => at,
        Err(_) => now.checked_sub(humantime::parse_duration(text).ok()?)?,
    };
    let micros = at.duration_since(UNIX_EPOCH).ok()?.as_micros();
    u64::try_from(micros).ok().map(Moment::from_micros)
}

/// Completes a time from which users left out zeros.
fn to_the_second(text: &str) -> String {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let rest = match text.len() {
        DATE_CHARS => "T00:00:00",
        MINUTE_CHARS => ":00",
        _ => "",
    };
    format!("{text}{rest}")
}

pub(crate) fn moment(at: SystemTime) -> Moment {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

impl FileName {
    const FILE_SUFFIX: &'static str = ".parquet";

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_suffix(Self::FILE_SUFFIX)?.split('-');
        let merged = match parts.next()? {
            "part" => false,
            "merged" => true,
            _ => return None,
        };
        let mut hex = || u64::from_str_radix(parts.next()?, 16).ok();
        let file = Self {
            merged,
            run: hex()?,
            number: hex()?,
            checksum: u32::try_from(hex()?).ok()?,
        };
        (file.to_string() == name).then_some(file)
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.merged { "merged" } else { "part" };
        write!(
            f,
            "{what}-{:016x}-{:08x}-{:08x}{}",
            self.run,
            self.number,
            self.checksum,
            Self::FILE_SUFFIX
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moment_parses_at_any_precision() {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_183_200);
        let said = |text| moment_of(text, now).map(written);
        let is = |text: &str| Some(format!("2026-11-19T{text}.000000Z"));
        for ten in [
            "2026-11-19T10:00",
            "2026-11-19T10:00Z",
            "2026-11-19 10:00",
            "2026-11-19T10:00:00",
            "2026-11-19T10:00:00Z",
        ] {
            assert_eq!(said(ten), is("10:00:00"), "{ten}");
        }
        for day in ["2026-11-19", "2026-11-19Z"] {
            assert_eq!(said(day), is("00:00:00"), "{day}");
        }
        assert_eq!(said("1h"), Some("2026-11-20T13:00:00.000000Z".to_owned()));
        for none in [
            "",
            "Z",
            "2026-11",
            "2026-11-19T10",
            "2026-11-19T25:00",
            "2026-13-19",
            "yesterday",
            "äääää",
            "2026-11-19T10:00:00+01:00",
        ] {
            assert_eq!(said(none), None, "{none}");
        }
    }
}
