//! Change windows: periods of the week, by the time of day in UTC.
//!
//! A coordinator's moments start at its time of day and advance from there. So a clock that is set back meanwhile
//! neither opens nor closes a window.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use reweave_common::moment::Moment;
use serde::{Deserialize, Serialize};

const DAY_NAMES: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MINUTES_PER_DAY: u64 = 24 * 60;
const MINUTES_PER_WEEK: u64 = 7 * MINUTES_PER_DAY;
/// The first of January 1970 was a Thursday.
const EPOCH_WEEKDAY: u64 = 3;

/// A period such as `Mon-Fri 02:00-05:00`. One that ends before it begins lasts into the next day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Hours {
    /// The first and the last day of the week.
    days: [u64; 2],
    /// The start and the end, in minutes of the day.
    minutes: [u64; 2],
}

/// The text is no period of the week.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoHours(String);

impl fmt::Display for NoHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        write!(
            f,
            "{text:?} is not a weekly time range: write `Mon-Fri 02:00-05:00` or `Sat \
             22:00-06:00`, in UTC"
        )
    }
}

impl std::error::Error for NoHours {}

impl Hours {
    pub fn has(&self, moment: Moment) -> bool {
        let minute = minute_of_week(moment);
        // A window that opened late on the previous day may still be open.
        [minute, minute + MINUTES_PER_WEEK - MINUTES_PER_DAY]
            .into_iter()
            .zip([0, MINUTES_PER_DAY])
            .any(|(minute, more)| self.has_begun_on(minute % MINUTES_PER_WEEK, more))
    }

    /// Whether the window opens on the day of `minute` and is still open `more` minutes later.
    fn has_begun_on(&self, minute: u64, more: u64) -> bool {
        let [first, last] = self.days;
        let day = minute / MINUTES_PER_DAY;
        let is_day = (day + 7 - first) % 7 <= (last + 7 - first) % 7;
        let [begin, end] = self.minutes;
        let end = if end <= begin {
            end + MINUTES_PER_DAY
        } else {
            end
        };
        is_day && (begin..end).contains(&(minute % MINUTES_PER_DAY + more))
    }
}

/// How long until the next window opens; none if there are no windows.
pub(crate) fn opens_in(hours: &[Hours], now: Moment) -> Option<Duration> {
    let minutes = (0..=MINUTES_PER_WEEK).map(|minute| Duration::from_secs(60 * minute));
    let mut later = minutes.filter(|later| hours.iter().any(|it| it.has(now + *later)));
    later.next()
}

fn minute_of_week(moment: Moment) -> u64 {
    let minutes = moment.as_micros() / 60_000_000;
    (minutes + EPOCH_WEEKDAY * MINUTES_PER_DAY) % MINUTES_PER_WEEK
}

impl Hours {
    fn parsed(text: &str) -> Option<Self> {
        let (days, time) = text.split_once(' ')?;
        let (first, last) = days.split_once('-').unwrap_or((days, days));
        let (begin, end) = time.split_once('-')?;
        let (begin, end) = (minute_of_day(begin)?, minute_of_day(end)?);
        let is_sound = begin != end && begin < MINUTES_PER_DAY;
        is_sound.then_some(Self {
            days: [day(first)?, day(last)?],
            minutes: [begin, end],
        })
    }
}

impl FromStr for Hours {
    type Err = NoHours;

    fn from_str(text: &str) -> Result<Self, NoHours> {
        Self::parsed(text).ok_or_else(|| NoHours(text.to_owned()))
    }
}

fn day(name: &str) -> Option<u64> {
    let place = DAY_NAMES.iter().position(|day| *day == name)?;
    u64::try_from(place).ok()
}

/// `02:00`; the end of the day is 24:00.
fn minute_of_day(text: &str) -> Option<u64> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |digits: &str| {
        let sound = digits.len() == 2 && digits.bytes().all(|it| it.is_ascii_digit());
        digits.parse::<u64>().ok().filter(|_| sound)
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let minute = 60 * hours + minutes;
    (minutes < 60 && minute <= MINUTES_PER_DAY).then_some(minute)
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, last] = self.days.map(|day| DAY_NAMES[day as usize % 7]);
        f.write_str(first)?;
        if first != last {
            write!(f, "-{last}")?;
        }
        let [begin, end] = self.minutes.map(|it| (it / 60, it % 60));
        write!(
            f,
            " {:02}:{:02}-{:02}:{:02}",
            begin.0, begin.1, end.0, end.1
        )
    }
}

impl From<Hours> for String {
    fn from(hours: Hours) -> Self {
        hours.to_string()
    }
}

impl TryFrom<String> for Hours {
    type Error = NoHours;

    fn try_from(text: String) -> Result<Self, NoHours> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-23 was a Monday.
    const MONDAY_S: u64 = 1_795_392_000;

    fn at(day: u64, hour: u64, minute: u64) -> Moment {
        let seconds = MONDAY_S + 86_400 * day + 3600 * hour + 60 * minute;
        Moment::from_micros(seconds * 1_000_000)
    }

    fn hours(text: &str) -> Hours {
        text.parse().unwrap()
    }

    #[test]
    fn change_window_includes_start_excludes_end() {
        let nights = hours("Mon-Fri 02:00-05:00");
        let has = |day, hour, minute| nights.has(at(day, hour, minute));
        assert!(has(0, 2, 0) && has(4, 4, 59) && has(7, 3, 0));
        assert!(!has(0, 1, 59) && !has(0, 5, 0) && !has(5, 3, 0) && !has(6, 3, 0));
    }

    #[test]
    fn change_window_spans_midnight_and_week() {
        let night = hours("Sun 22:00-06:00");
        let has = |day, hour| night.has(at(day, hour, 0));
        assert!(has(6, 22) && has(6, 23) && has(7, 0) && has(7, 5) && has(0, 5));
        assert!(!has(6, 5) && !has(7, 6) && !has(7, 22) && !has(6, 21));
    }

    #[test]
    fn change_window_spans_weekend_and_midnight() {
        let weekend = hours("Sat-Mon 00:00-24:00");
        let days: Vec<_> = (0..7).filter(|day| weekend.has(at(*day, 12, 0))).collect();
        assert_eq!(days, [0, 5, 6]);
        assert!(weekend.has(at(0, 23, 59)) && !weekend.has(at(1, 0, 0)));
    }

    #[test]
    fn next_change_window_start_is_computed() {
        let nights = [hours("Mon-Fri 02:00-05:00"), hours("Sat 12:00-13:00")];
        let opens = |day, hour| opens_in(&nights, at(day, hour, 0)).unwrap().as_secs() / 3600;
        assert_eq!(
            [opens(0, 3), opens(0, 5), opens(4, 5), opens(5, 13)],
            [0, 21, 31, 37]
        );
        assert_eq!(opens_in(&[], at(0, 0, 0)), None);
    }

    #[test]
    fn malformed_change_window_is_refused() {
        let bad = [
            "",
            "Mon",
            "02:00-05:00",
            "Mon 2:00-5:00",
            "Mon 02:00",
            "Mon 02:60-03:00",
            "mon 02:00-03:00",
            "Mon 24:00-02:00",
            "Mon 02:00-25:00",
            "Mon 02:00-02:00",
            "Mon-Xyz 02:00-03:00",
            "Mon 02:00-+3:00",
            "Mon  02:00-03:00",
            "Mon-Tue-Wed 02:00-03:00",
        ];
        for text in bad {
            let error = text.parse::<Hours>().unwrap_err().to_string();
            assert!(error.contains("is not a weekly time range"), "{error}");
        }
        for text in ["Mon-Fri 02:00-05:00", "Sat 22:00-24:00"] {
            assert_eq!(hours(text).to_string(), text);
        }
    }
}
