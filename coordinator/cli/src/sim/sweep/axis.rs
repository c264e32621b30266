//! Settings of a sweep and their values.

use std::str::FromStr;

use serde_json::Value;

use crate::error::CliError;

/// Maximum number of points of a sweep.
const MAX_POINTS: usize = 1_000_000;

/// A setting and its values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    key: String,
    values: Vec<Value>,
}

/// One value per setting.
pub(super) type Point = Vec<(String, Value)>;

impl FromStr for Axis {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = || "write KEY=A,B,C or KEY=FIRST..LAST".to_owned();
        let (key, values) = text.split_once('=').ok_or_else(usage)?;
        let key = key.trim_start_matches('-').to_owned();
        let values = match values.split_once("..") {
            Some((first, last)) => range(first, last).ok_or_else(usage)?,
            None => values.split(',').map(value).collect(),
        };
        if key.is_empty() || values.is_empty() {
            Err(usage())
        } else {
            Ok(Self { key, values })
        }
    }
}

/// Parses a range; both ends belong to it.
fn range(first: &str, last: &str) -> Option<Vec<Value>> {
    let [first, last]: [i64; 2] = [first.parse().ok()?, last.parse().ok()?];
    let few = last.checked_sub(first)? < MAX_POINTS as i64;
    few.then(|| (first..=last).map(Value::from).collect())
}

/// Parses a value, as a number if possible.
fn value(text: &str) -> Value {
    let whole = text.parse::<i64>().map(Value::from);
    let number = whole.or_else(|_| text.parse::<f64>().map(Value::from));
    match number {
        Ok(number) if !number.is_null() => number,
        _ => Value::from(text),
    }
}

/// Formats a value as the argument of an option.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns all combinations; the last setting varies fastest.
pub(super) fn points(axes: &[Axis]) -> Result<Vec<Point>, CliError> {
    let count = axes.iter().map(|axis| axis.values.len());
    let count = count.fold(1usize, usize::saturating_mul);
    if count > MAX_POINTS {
        return Err(CliError::TooManyPoints { most: MAX_POINTS });
    }
    let mut points = vec![Point::new()];
    for axis in axes {
        let longer = points.iter().flat_map(|point| {
            axis.values.iter().map(|value| {
                let mut point = point.clone();
                point.push((axis.key.clone(), value.clone()));
                point
            })
        });
        points = longer.collect();
    }
    Ok(points)
}

/// One of several parts of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shard {
    pub(super) nth: usize,
    pub(super) of: usize,
}

impl Shard {
    pub(super) const UNSHARDED: Self = Self { nth: 0, of: 1 };

    pub(super) fn has(self, point: usize) -> bool {
        point % self.of == self.nth
    }

    pub(super) fn file(self) -> String {
        format!("shard-{}-of-{}.jsonl", self.nth, self.of)
    }
}

impl Shard {
    /// Returns the shard that writes a file of this name.
    pub(super) fn of_file(name: &str) -> Option<Self> {
        let numbers = name.strip_prefix("shard-")?.strip_suffix(".jsonl")?;
        let (nth, of) = numbers.split_once("-of-")?;
        let shard: Self = format!("{nth}/{of}").parse().ok()?;
        (shard.file() == name).then_some(shard)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = || "write K/N, such as 0/8 to 7/8".to_owned();
        let (nth, of) = text.split_once('/').ok_or_else(usage)?;
        let [nth, of] = [nth, of].map(|part| part.parse().ok());
        match (nth, of) {
            (Some(nth), Some(of)) if nth < of => Ok(Self { nth, of }),
            _ => Err(usage()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(text: &str) -> Axis {
        text.parse().unwrap()
    }

    #[test]
    fn each_combination_belongs_to_one_shard() {
        let axes = [
            axis("op=allreduce,broadcast"),
            axis("bytes=1e6,8"),
            axis("seed=3..5"),
        ];
        let points = points(&axes).unwrap();
        assert_eq!(points.len(), 12);
        let shown: Vec<_> = points[1]
            .iter()
            .map(|(key, value)| format!("{key}={}", plain(value)))
            .collect();
        assert_eq!(shown, ["op=allreduce", "bytes=1000000.0", "seed=4"]);
        let shards = (0..5).map(|nth| Shard { nth, of: 5 });
        let owners = |point| shards.clone().filter(|shard| shard.has(point)).count();
        assert!((0..12).all(|point| owners(point) == 1));
    }

    #[test]
    fn invalid_sweeps_are_refused() {
        for text in [
            "bytes",
            "=3",
            "seed=5..3",
            "seed=1..9999999999",
            "seed=a..b",
        ] {
            assert!(text.parse::<Axis>().is_err(), "{text}");
        }
        for text in ["1", "1/1", "2/1", "-1/2", "a/b", "0/0"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
        let wide = axis("seed=1..1001");
        assert!(points(&[wide.clone(), wide]).is_err());
    }
}
