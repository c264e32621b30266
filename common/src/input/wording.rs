//! Rewrites serde's errors, which address programmers, for authors of files.

/// Beginning of every error about an unknown key.
pub(crate) const UNKNOWN_KEY_PROBLEM: &str = "this key is unknown";
pub(super) const MISSING_KEY_PROBLEM: &str = "this key is missing";

/// A rewritten message, with the key that it names, if any.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said<'m> {
    pub(super) key: Option<&'m str>,
    pub(super) problem: String,
}

/// Rewrites a message. Messages that are not serde's stay unchanged.
pub(super) fn in_plain_words(message: &str) -> Said<'_> {
    let about = |key, problem| Said {
        key: Some(key),
        problem,
    };
    if let Some(key) = message.strip_prefix("missing field `") {
        return about(key.trim_end_matches('`'), MISSING_KEY_PROBLEM.to_owned());
    }
    let (head, expected) = message.rsplit_once(", expected ").unwrap_or((message, ""));
    if let Some(key) = head.strip_prefix("unknown field `") {
        return about(key.trim_end_matches('`'), unknown_key(names(expected)));
    }
    let problem = if let Some(name) = head.strip_prefix("unknown variant `") {
        let name = name.trim_end_matches('`');
        format!("{name:?} is unknown here; use {}", listed(names(expected)))
    } else if let Some(found) = mistyped(head) {
        mismatch(found, expected)
    } else if message == "wanted string or table" {
        "expected text".to_owned()
    } else {
        message.to_owned()
    };
    Said { key: None, problem }
}

pub(super) fn unknown_key<'n>(known: impl Iterator<Item = &'n str>) -> String {
    format!("{UNKNOWN_KEY_PROBLEM}; known are {}", listed(known))
}

fn mistyped(head: &str) -> Option<&str> {
    let prefixes = ["invalid type: ", "invalid value: "];
    prefixes.iter().find_map(|prefix| head.strip_prefix(prefix))
}

fn mismatch(found: &str, expected: &str) -> String {
    let value = found.split('`').nth(1);
    if found.ends_with("as i128") || found.ends_with("as u128") {
        return format!("{} is too large", value.unwrap_or(found));
    }
    let text = found.strip_prefix("string ");
    let found = match (text, value) {
        (Some(text), _) => format!("the text {text}"),
        (None, Some(value)) => value.to_owned(),
        (None, None) => kind(found).to_owned(),
    };
    format!("expected {}, found {found}", kind(expected))
}

/// Returns the plain name of a type.
pub(super) fn kind(kind: &str) -> &str {
    match kind {
        "f32" | "f64" | "float" => "a number",
        "i8" | "i16" | "i32" | "i64" | "integer" => "a whole number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0 on",
        "a string" | "string" => "text",
        "a sequence" | "sequence" | "array" => "a list",
        "a boolean" | "boolean" => "true or false",
        "a map" | "map" | "table" => "a table",
        "datetime" => "a date",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
}

/// Returns the names that serde lists in backticks.
fn names(expected: &str) -> impl Iterator<Item = &str> {
    expected.split('`').skip(1).step_by(2)
}

fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toml_errors_use_plain_words() {
        for (message, problem) in [
            (
                "invalid type: integer `3`, expected a string",
                "expected text, found 3",
            ),
            (
                "invalid type: string \"a, expected b\", expected f64",
                "expected a number, found the text \"a, expected b\"",
            ),
            (
                "invalid value: integer `-1`, expected u64",
                "expected a whole number from 0 on, found -1",
            ),
            (
                "invalid type: integer `99` as i128, expected i64",
                "99 is too large",
            ),
            (
                "invalid type: map, expected a sequence",
                "expected a list, found a table",
            ),
            (
                "unknown variant `a\nb`, expected `tcp` or `udp`",
                "\"a\\nb\" is unknown here; use tcp, udp",
            ),
            ("wanted string or table", "expected text"),
            ("duplicate key", "duplicate key"),
        ] {
            let said = in_plain_words(message);
            assert_eq!((said.key, said.problem.as_str()), (None, problem));
        }
    }

    #[test]
    fn keys_are_named_apart() {
        let missing = in_plain_words("missing field `at_s`");
        assert_eq!(
            (missing.key, &*missing.problem),
            (Some("at_s"), MISSING_KEY_PROBLEM)
        );
        let unknown = in_plain_words("unknown field `x`, expected one of `a`, `b`, `c`");
        assert_eq!(unknown.key, Some("x"));
        assert_eq!(unknown.problem, "this key is unknown; known are a, b, c");
    }
}
