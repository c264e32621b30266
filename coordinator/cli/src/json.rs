//! Files of JSON. Each error is reported with its place. Of a key that stands twice a reader may take either, so one
//! that edits or judges a file and one that applies it would see different things.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use reweave_common::api_version::{API_VERSION, API_VERSION_KEY};
use reweave_common::input::InputError;
use serde::Deserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use thiserror::Error;

use crate::error::CliError;

/// Why it is not what it should be.
#[derive(Debug, Error)]
pub(crate) enum Misread {
    #[error(transparent)]
    Part(#[from] serde_path_to_error::Error<serde_json::Error>),
    #[error(transparent)]
    Rest(#[from] serde_json::Error),
}

pub(crate) fn read<T: DeserializeOwned>(
    path: &Path,
    bytes: &[u8],
    misread: impl FnOnce(Misread) -> CliError,
) -> Result<T, CliError> {
    has_each_key_once(path, bytes)?;
    read_whole(bytes).map_err(misread)
}

/// Reads what `reweave` printed earlier.
pub(crate) fn read_printed<T: DeserializeOwned>(
    path: &Path,
    bytes: &[u8],
    misread: impl FnOnce(Misread) -> CliError,
) -> Result<T, CliError> {
    has_each_key_once(path, bytes)?;
    // What is no JSON is reported below, with its place.
    if let Ok(whole) = serde_json::from_slice::<Value>(bytes) {
        has_our_version(path, &whole)?;
    }
    read_whole(bytes).map_err(misread)
}

/// A file without a version is of a release that printed none.
pub(crate) fn has_our_version(path: &Path, printed: &Value) -> Result<(), CliError> {
    match printed.get(API_VERSION_KEY) {
        Some(version) if version != API_VERSION => Err(CliError::OtherApiVersion {
            path: path.to_owned(),
            version: version.to_string(),
            ours: API_VERSION,
        }),
        _ => Ok(()),
    }
}

/// For an object inside another one, whose version holds for both.
pub(crate) fn without_version(mut printed: Value) -> Value {
    if let Some(fields) = printed.as_object_mut() {
        fields.remove(API_VERSION_KEY);
    }
    printed
}

/// Of what has each key once.
pub(crate) fn read_whole<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Misread> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(read)
}

/// What is no JSON at all is reported by the code that reads it as something.
pub(crate) fn has_each_key_once(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let twice = OnceCell::new();
    let whole = Part {
        place: &Place::Whole,
        twice: &twice,
    };
    let read = whole.deserialize(&mut serde_json::Deserializer::from_slice(bytes));
    match (read, twice.into_inner()) {
        (Err(error), Some(key)) => Err(CliError::Input(InputError {
            file: path.display().to_string(),
            line: error.line(),
            key,
            problem: "this key is a duplicate".to_owned(),
        })),
        _ => Ok(()),
    }
}

/// Where something stands, by the keys that lead there.
enum Place<'p> {
    Whole,
    Key(&'p Place<'p>, &'p str),
    Item(&'p Place<'p>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Key(Place::Whole, key) => write!(f, "{}", key.escape_debug()),
            Self::Key(of, key) => write!(f, "{of}.{}", key.escape_debug()),
            Self::Item(of, nth) => write!(f, "{of}[{nth}]"),
        }
    }
}

/// One value, of which nothing is kept but the first key that is there twice.
#[derive(Clone, Copy)]
struct Part<'p> {
    place: &'p Place<'p>,
    twice: &'p OnceCell<String>,
}

impl<'p> Part<'p> {
    fn at<'q>(self, place: &'q Place<'q>) -> Part<'q>
    where
        'p: 'q,
    {
        let twice = self.twice;
        Part { place, twice }
    }
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        for nth in 0.. {
            let place = Place::Item(self.place, nth);
            if items.next_element_seed(self.at(&place))?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            let place = Place::Key(self.place, &key);
            if seen.contains(&key) {
                let key = self.twice.get_or_init(|| place.to_string());
                return Err(A::Error::custom(key));
            }
            entries.next_value_seed(self.at(&place))?;
            seen.insert(key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn error_of(text: &str) -> Option<String> {
        let read = has_each_key_once(Path::new("f.json"), text.as_bytes());
        read.err().map(|error| error.error_chain())
    }

    #[test]
    fn duplicate_json_key_is_named() {
        for (text, place) in [
            ("{\"a\": 1,\n\"a\": 1}", "2: a"),
            ("{\"a\": {\"b\": null,\n\n\"b\": 2.5}}", "3: a.b"),
            ("{\"a\": [1, {}, {\"b\": \"x\", \"b\": -1}]}", "1: a[2].b"),
            ("[[true, {\"c\": 1,\n\"\\u0063\": 2}]]", "2: [0][1].c"),
            ("{\"a\\n\": 1, \"a\\n\": 1}", "1: a\\n"),
        ] {
            let expected = format!("f.json:{place}: this key is a duplicate");
            assert_eq!(error_of(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn json_error_names_its_place() {
        let describe = |text: &str| {
            let read = read_whole::<Vec<BTreeMap<String, u8>>>(text.as_bytes());
            read.unwrap_err().to_string()
        };
        for (text, place) in [
            ("[{\"a\": 1}, {\"b\": 2.5}]", "[1].b: invalid type"),
            ("[{\"a\": 1}, 7]", "[1]: invalid type"),
            ("{", "invalid type: map"),
            ("[] []", "trailing characters"),
        ] {
            assert!(describe(text).starts_with(place), "{}", describe(text));
        }
    }

    #[test]
    fn printed_object_of_other_version_refused() {
        let read = |text: &str| {
            let (path, bytes) = (Path::new("f.json"), text.as_bytes());
            read_printed::<BTreeMap<String, Value>>(path, bytes, |error| panic!("{error}"))
        };
        for accepted in ["{\"apiVersion\": \"reweave/v1\", \"a\": 1}", "{\"a\": 1}"] {
            assert_eq!(read(accepted).unwrap()["a"], 1, "{accepted}");
        }
        for other in ["\"reweave/v2\"", "1", "null"] {
            let error = read(&format!("{{\"apiVersion\": {other}}}")).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{other}");
            let message = error.error_chain();
            let expected = format!("f.json has apiVersion {other}, but");
            assert!(message.starts_with(&expected), "{message}");
        }
    }

    #[test]
    fn same_key_in_different_objects_allowed() {
        for text in [
            "{\"a\": {\"a\": 1}, \"b\": {\"a\": 1}}",
            "[{\"a\": 1}, {\"a\": 1}]",
            "3",
            "{",
        ] {
            assert_eq!(error_of(text), None, "{text}");
        }
    }
}
