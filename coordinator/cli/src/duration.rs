//! Durations in options: `500ms`, `30s`, `10m`, `2h`.

use std::time::Duration;

use humantime::{format_duration, parse_duration};

pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_mins(1);

/// Parses a duration. A bare number is in `unit` if the option's name ends with that unit, and is refused otherwise.
pub(crate) fn parse(
    text: &str,
    unit: Option<Duration>,
    [min, max]: [Duration; 2],
) -> Result<Duration, String> {
    let example = "write it with a unit, as in 30s, 10m or 2h";
    let (is_negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let is_bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let duration = if is_bare {
        let count = text.parse::<u32>().ok();
        unit.ok_or(example)
            .map(|unit| count.and_then(|count| unit.checked_mul(count)))?
    } else {
        Some(parse_duration(text).map_err(|_| format!("not a duration: {example}"))?)
    };
    let fits = duration.filter(|duration| !is_negative && (min..=max).contains(duration));
    fits.ok_or_else(|| format!("not {} to {}", format_duration(min), format_duration(max)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: [Duration; 2] = [SECOND, Duration::from_hours(2)];

    fn seconds(text: &str) -> Result<Duration, String> {
        parse(text, Some(SECOND), RANGE)
    }

    #[test]
    fn durations_are_read_with_units() {
        for (text, expected_s) in [("30s", 30), ("10m", 600), ("2h", 7200), ("1m 30s", 90)] {
            let expected = Duration::from_secs(expected_s);
            assert_eq!(parse(text, None, RANGE), Ok(expected), "{text}");
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        let short = parse("500ms", None, [MILLISECOND, SECOND]);
        assert_eq!(short, Ok(Duration::from_millis(500)));
    }

    #[test]
    fn bare_numbers_need_named_unit() {
        assert_eq!(seconds("30"), Ok(Duration::from_secs(30)));
        let refused = parse("30", None, RANGE).unwrap_err();
        assert!(refused.contains("as in 30s"), "{refused}");
    }

    #[test]
    fn bad_durations_are_refused() {
        for text in ["", "s", "-", "--all", "30 parsecs", "1.5", "../x"] {
            let refused = seconds(text).unwrap_err();
            assert!(refused.starts_with("not a duration"), "{text}: {refused}");
        }
        for text in [
            "0",
            "0s",
            "-1",
            "-30s",
            "3h",
            "9999",
            "99999999999999999999",
        ] {
            assert_eq!(seconds(text), Err("not 1s to 2h".to_owned()), "{text}");
        }
    }
}
