//! Text from other machines, made safe to show, log and store: without control characters and line breaks, and of
//! limited length.

use serde::{Deserialize, Deserializer};

/// Maximum length, more than any message of a kernel.
const MAX_TEXT_CHARS: usize = 400;

/// For `#[serde(deserialize_with)]`.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(|text| printable(&text))
}

pub(crate) fn optional_text<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.map(|text| printable(&text)))
}

fn printable(text: &str) -> String {
    shown(
        &text.chars().take(MAX_TEXT_CHARS).collect::<String>(),
        |_| false,
    )
}

/// Replaces control characters, except those that `may_stay`.
pub fn shown(text: &str, may_stay: impl Fn(char) -> bool) -> String {
    let shown = |c: char| {
        if (c.is_control() || is_invisible(c)) && !may_stay(c) {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        }
    };
    text.chars().map(shown).collect()
}

/// Whether a character separates lines or changes the direction of writing without being a control character.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use crate::instruction::InstallRefusal;

    fn received(error: &str) -> String {
        let sent = serde_json::json!({ "kernel": { "error": error } });
        let InstallRefusal::Kernel { error } = serde_json::from_value(sent).unwrap() else {
            panic!()
        };
        error
    }

    #[test]
    fn received_text_is_sanitized_and_cut() {
        assert_eq!(received("Gerät fehlt: up0"), "Gerät fehlt: up0");
        let hostile = received("\u{1b}[2J\u{7}\nplan 9: kept\u{202e}");
        assert_eq!(hostile, "\u{fffd}[2J\u{fffd}\u{fffd}plan 9: kept\u{fffd}");
        assert_eq!(received(&"x".repeat(1 << 20)).len(), super::MAX_TEXT_CHARS);
    }
}
