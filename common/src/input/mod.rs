//! Parses files: TOML text becomes typed values, or one error with its place.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer, ValueDeserializer};

use crate::time_span::TimeSpan;
use crate::units::{Loss, Rate};

mod wording;

pub(crate) use wording::UNKNOWN_KEY_PROBLEM;

/// An error in a file, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputError {
    pub file: String,
    /// Line number, from 1.
    pub line: usize,
    /// Key of the error; empty if the text is not valid TOML.
    pub key: String,
    pub problem: String,
}

impl InputError {
    /// Adds the known keys to the error of an unknown key.
    fn with_known(mut self, keys: &[String]) -> Self {
        if self.problem.starts_with(UNKNOWN_KEY_PROBLEM) && !keys.is_empty() {
            self.problem = format!("{}, {}", self.problem, keys.join(", "));
        }
        self
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.problem)
    }
}

impl std::error::Error for InputError {}

/// The text of one file, and its name for errors.
#[derive(Debug, Clone, Copy)]
pub struct Document<'t> {
    file: &'t str,
    text: &'t str,
}

impl<'t> Document<'t> {
    pub fn new(file: &'t str, text: &'t str) -> Self {
        Self { file, text }
    }

    pub fn text(&self) -> &'t str {
        self.text
    }

    /// The whole document as a table.
    pub fn table(self) -> Result<Table<'t>, InputError> {
        let content = DeTable::parse(self.text).map_err(|error| self.syntax_error(&error))?;
        Ok(Table {
            document: self,
            content,
            asked: Vec::new(),
        })
    }

    /// Returns an error about the value at `span`.
    pub fn error(&self, span: Range<usize>, problem: impl Into<String>) -> InputError {
        let key = key_at(self.text, self.text.floor_char_boundary(span.start));
        self.error_about(key, span, problem)
    }

    /// Returns an error about `key`, which is searched at `span`.
    pub fn error_about(
        &self,
        key: &str,
        span: Range<usize>,
        problem: impl Into<String>,
    ) -> InputError {
        // The parser may point into the middle of a character.
        let start = self.text.floor_char_boundary(span.start);
        InputError {
            file: self.file.to_owned(),
            line: self.text[..start].matches('\n').count() + 1,
            // A quoted key may hold any characters.
            key: key.escape_debug().to_string(),
            problem: problem.into(),
        }
    }

    /// Returns a whole number in `range`, which starts at zero or above.
    pub fn whole(
        &self,
        value: &Spanned<i64>,
        range: RangeInclusive<i64>,
    ) -> Result<u64, InputError> {
        let (least, most) = (range.start(), range.end());
        let fits = range
            .contains(value.get_ref())
            .then_some(value.get_ref().unsigned_abs());
        fits.ok_or_else(|| {
            let problem = format!("{} is not between {least} and {most}", value.get_ref());
            self.error(value.span(), problem)
        })
    }

    /// Returns a list of exactly two elements. Deserialized as an array, further elements would be ignored.
    pub fn pair<T>(&self, list: Spanned<Vec<T>>) -> Result<Spanned<[T; 2]>, InputError> {
        let span = list.span();
        let refusal = |items: Vec<T>| {
            let problem = format!("a pair has two elements, this has {}", items.len());
            self.error(span.clone(), problem)
        };
        let pair = list.into_inner().try_into().map_err(refusal)?;
        Ok(Spanned::new(span, pair))
    }

    pub fn rate(&self, gbps: &Spanned<f64>) -> Result<Rate, InputError> {
        Rate::from_gbps(*gbps.get_ref()).ok_or_else(|| {
            let (least, most) = (Rate::RANGE_GBPS.start(), Rate::RANGE_GBPS.end());
            let problem = format!(
                "{} Gb/s is not a rate a link can have: {least} to {most}",
                Number(*gbps.get_ref())
            );
            self.error(gbps.span(), problem)
        })
    }

    pub fn loss(&self, db: &Spanned<f64>) -> Result<Loss, InputError> {
        Loss::from_db(*db.get_ref()).ok_or_else(|| {
            let (least, most) = (Loss::RANGE_DB.start(), Loss::RANGE_DB.end());
            let db = (Number(*db.get_ref()), db.span());
            let problem = format!("{} dB is not a valid optical loss: {least} to {most}", db.0);
            self.error(db.1, problem)
        })
    }

    /// Returns a duration in `unit`, from zero up to `most`.
    pub fn time(
        &self,
        value: &Spanned<f64>,
        unit: Duration,
        most: Duration,
    ) -> Result<Duration, InputError> {
        let seconds = value.get_ref() * unit.as_secs_f64();
        if (0.0..=most.as_secs_f64()).contains(&seconds) {
            return Ok(TimeSpan::from_secs_f64(seconds).get());
        }
        let number = Number(*value.get_ref());
        let problem = format!("{number} is not a time between 0 and {most:?}");
        Err(self.error(value.span(), problem))
    }

    /// Returns a duration above zero: a period of zero would repeat without end.
    pub fn period(
        &self,
        value: &Spanned<f64>,
        unit: Duration,
        most: Duration,
    ) -> Result<Duration, InputError> {
        let period = self.time(value, unit, most)?;
        if period.is_zero() {
            let problem = format!("a time of {} is not allowed", Number(*value.get_ref()));
            return Err(self.error(value.span(), problem));
        }
        Ok(period)
    }

    /// `around` is the place for an error without one.
    fn toml_error(&self, error: &toml::de::Error, around: Range<usize>) -> InputError {
        let span = error.span().unwrap_or(around);
        let said = wording::in_plain_words(error.message());
        match said.key {
            Some(key) => self.error_about(key, span, said.problem),
            None => self.error(span, said.problem),
        }
    }

    /// Text that is not TOML has only a line; the error names the key at its beginning.
    fn syntax_error(&self, error: &toml::de::Error) -> InputError {
        let start = error.span().map_or(0, |span| span.start);
        let start = self.text.floor_char_boundary(start);
        let line = &self.text[self.text[..start].rfind('\n').map_or(0, |end| end + 1)..];
        let problem = error.message().lines().collect::<Vec<_>>().join(", ");
        match keys(line.trim_start()).next().unwrap_or_default() {
            "" => self.error(start..start, problem),
            key => self.error_about(key, start..start, problem),
        }
    }
}

/// Formats a number for people.
#[derive(Debug, Clone, Copy)]
pub struct Number(pub f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number) = self;
        if number.is_finite() && *number != 0.0 && !(1e-6..1e16).contains(&number.abs()) {
            write!(f, "{number:e}")
        } else {
            write!(f, "{number}")
        }
    }
}

/// A table of a document that is not yet interpreted.
pub struct Table<'t> {
    document: Document<'t>,
    content: Spanned<DeTable<'t>>,
    /// Keys that were requested, whether present or not.
    asked: Vec<String>,
}

impl<'t> Table<'t> {
    pub fn document(&self) -> Document<'t> {
        self.document
    }

    /// Returns an error about the whole table.
    pub fn error(&self, problem: impl Into<String>) -> InputError {
        self.document.error(self.content.span(), problem)
    }

    /// Removes `key`, so that the rest can be read by a type that does not know it.
    pub fn take<T: DeserializeOwned>(&mut self, key: &str) -> Result<Option<T>, InputError> {
        let Some(value) = self.remove(key) else {
            return Ok(None);
        };
        let span = value.span();
        T::deserialize(ValueDeserializer::from(value))
            .map(Some)
            .map_err(|error| self.document.toml_error(&error, span))
    }

    /// Removes `key`, which is mandatory.
    pub fn require<T: DeserializeOwned>(&mut self, key: &str) -> Result<T, InputError> {
        self.take(key)?.ok_or_else(|| self.lacks(key))
    }

    /// Returns the error for the missing `key`.
    pub fn lacks(&self, key: &str) -> InputError {
        let span = self.content.span();
        self.document
            .error_about(key, span, wording::MISSING_KEY_PROBLEM)
    }

    /// Refuses every key outside this list.
    pub fn only(&self, known: &[&str]) -> Result<(), InputError> {
        let mut keys = self.content.get_ref().keys();
        match keys.find(|key| !known.contains(&key.get_ref().as_ref())) {
            None => Ok(()),
            Some(key) => {
                let problem = wording::unknown_key(known.iter().copied());
                Err(self
                    .document
                    .error_about(key.get_ref(), key.span(), problem))
            }
        }
    }

    /// Whether the value of `key` is a table.
    pub fn holds_table(&self, key: &str) -> bool {
        matches!(
            self.content.get_ref().get(key).map(Spanned::get_ref),
            Some(DeValue::Table(_))
        )
    }

    /// Removes the table `[key]`.
    pub fn take_table(&mut self, key: &str) -> Result<Option<Self>, InputError> {
        self.remove(key).map(|value| self.nested(value)).transpose()
    }

    /// Removes the tables `[[key]]`, of which there may be none.
    pub fn take_tables(&mut self, key: &str) -> Result<Vec<Self>, InputError> {
        let Some(value) = self.remove(key) else {
            return Ok(Vec::new());
        };
        let span = value.span();
        match value.into_inner() {
            DeValue::Array(items) => items.into_iter().map(|item| self.nested(item)).collect(),
            _ => Err(self.document.error(span, format!("write it as [[{key}]]"))),
        }
    }

    fn remove(&mut self, key: &str) -> Option<Spanned<DeValue<'t>>> {
        self.asked.push(key.to_owned());
        self.content.get_mut().remove(key)
    }

    /// Reads the rest; whether an unknown key is an error depends on `T`.
    pub fn finish<T: DeserializeOwned>(self) -> Result<T, InputError> {
        let (document, span) = (self.document, self.content.span());
        let keys = self.content.get_ref().keys();
        let own: Vec<String> = keys.map(|key| key.get_ref().to_string()).collect();
        let asked = self.asked;
        T::deserialize(Deserializer::from(self.content)).map_err(|error| {
            let error = document.toml_error(&error, span);
            if own.contains(&error.key) {
                error.with_known(&asked)
            } else {
                error
            }
        })
    }

    /// Refuses every key that was not read.
    pub fn nothing_left(self) -> Result<(), InputError> {
        match self.content.get_ref().keys().next() {
            None => Ok(()),
            Some(key) => {
                let problem = format!("{UNKNOWN_KEY_PROBLEM} here");
                Err(self
                    .document
                    .error_about(key.get_ref(), key.span(), problem))
            }
        }
    }

    fn nested(&self, value: Spanned<DeValue<'t>>) -> Result<Self, InputError> {
        let span = value.span();
        match value.into_inner() {
            DeValue::Table(table) => Ok(Self {
                document: self.document,
                content: Spanned::new(span, table),
                asked: Vec::new(),
            }),
            other => {
                let problem = format!(
                    "expected a table, found {}",
                    wording::kind(other.type_str())
                );
                Err(self.document.error(span, problem))
            }
        }
    }
}

/// Returns the key of an error at `start`: the key or the table header that begins there, else the last `key =` before
/// it.
fn key_at(text: &str, start: usize) -> &str {
    let (before, rest) = text.split_at(start);
    let inside = rest.trim_start_matches('[');
    let here = keys(inside).next().unwrap_or_default();
    let is_list = inside.len() < rest.len();
    let end = if is_list { ']' } else { '=' };
    // A list of lists looks like a header, except for the text before it.
    let line = &before[before.rfind('\n').map_or(0, |end| end + 1)..];
    let could_be_key = !is_list || (line.trim().is_empty() && here.parse::<f64>().is_err());
    if !here.is_empty() && could_be_key && inside[here.len()..].trim_start().starts_with(end) {
        return here;
    }
    let assigned = before
        .rsplit_once('=')
        .map_or("", |(key, _)| key.trim_end());
    keys(assigned).next_back().unwrap_or_default()
}

/// Returns the parts of `text` that could be keys.
fn keys(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "_-.".contains(c)))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the errors matter here")]
    struct Cable {
        gbps: f64,
        ends: Vec<Spanned<String>>,
    }

    fn error_of(text: &str) -> String {
        let table = Document::new("f.toml", text).table();
        table
            .and_then(Table::finish::<Cable>)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn numbers_are_displayed_readably() {
        let values = [0.0, -1.0, 0.25, 1e6, 1e300, -2.5e-9, f64::INFINITY];
        let values = values.map(|number| Number(number).to_string());
        assert_eq!(
            values,
            ["0", "-1", "0.25", "1000000", "1e300", "-2.5e-9", "inf"]
        );
        let document = Document::new("f.toml", "x = 1e300");
        let (value, second) = (Spanned::new(4..9, 1e300), Duration::from_secs(1));
        let refused = document
            .time(&value, second, second)
            .unwrap_err()
            .to_string();
        assert_eq!(refused, "f.toml:1: x: 1e300 is not a time between 0 and 1s");
    }

    #[test]
    fn errors_name_file_line_and_key() {
        let unknown = error_of("gbps = 1\nends = []\n\ncolour = 3\n");
        assert!(
            unknown.starts_with("f.toml:4: colour: this key is unknown; known are gbps, ends"),
            "{unknown}"
        );
        let mistyped = error_of("ends = []\ngbps = \"fast\"\n");
        assert!(
            mistyped.starts_with("f.toml:2: gbps: expected a number, found the text"),
            "{mistyped}"
        );
        let missing = error_of("gbps = 1\n");
        assert!(
            missing.starts_with("f.toml:1: ends: this key is missing"),
            "{missing}"
        );
        let nested = error_of("gbps = 1\nends = [\n  \"a\",\n  7,\n]\n");
        assert!(
            nested.starts_with("f.toml:4: ends: expected text, found 7"),
            "{nested}"
        );
    }

    #[test]
    fn unknown_key_lists_taken_keys_too() {
        let mut table = Document::new("f.toml", "colour = 3").table().unwrap();
        assert!(table.take_table("jacket").unwrap().is_none());
        let error = table.finish::<Cable>().unwrap_err().to_string();
        assert!(error.ends_with("known are gbps, ends, jacket"), "{error}");
    }

    #[test]
    fn invalid_toml_names_its_line() {
        let broken = error_of("gbps = 1\nends = [\n");
        assert!(broken.starts_with("f.toml:2: ends: "), "{broken}");
        let broken = error_of("gbps = 1\nends 3\n");
        assert!(broken.starts_with("f.toml:2: ends: "), "{broken}");
    }

    #[test]
    fn inline_tables_name_inner_key() {
        let text = "fault = { at_s = 1, link = 7 }";
        assert_eq!(key_at(text, text.find('7').unwrap()), "link");
        assert_eq!(key_at(text, text.find("link").unwrap()), "link");
        let text = "capture = [[1],\n[2]]";
        assert_eq!(key_at(text, text.find("[1").unwrap()), "capture");
        assert_eq!(key_at(text, text.find("[2").unwrap()), "capture");
    }

    #[test]
    fn any_text_gives_table_or_error() {
        proptest::proptest!(|(text in "[\\[\\]a-c=\"{}, \n\u{e9}1.-]{0,60}")| {
            if let Err(error) = Document::new("f", &text).table() {
                assert!(error.line <= text.matches('\n').count() + 1);
            }
        });
    }
}
