//! Values of settings as people write them: TOML values, or bare words for texts.

use toml::Value;

/// Returns the TOML value that the text is. A text that is no TOML value, such as a bare word, becomes a string.
pub fn setting_value(text: &str) -> String {
    let text = text.trim();
    let value = text.parse::<Value>();
    value.unwrap_or_else(|_| Value::from(text)).to_string()
}

/// Returns a TOML list of strings.
pub fn setting_list(texts: Vec<String>) -> String {
    Value::from(texts).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_word_becomes_string() {
        for (text, value) in [
            ("auto", "\"auto\""),
            ("\"auto\"", "\"auto\""),
            ("", "\"\""),
            ("0.2", "0.2"),
            (" 300 ", "300"),
            ("true", "true"),
            ("[\"Sat 22:00-06:00\"]", "[\"Sat 22:00-06:00\"]"),
            ("Sat 22:00-06:00", "\"Sat 22:00-06:00\""),
        ] {
            assert_eq!(setting_value(text), value, "{text}");
        }
    }

    /// A text with several keys would set more than one.
    #[test]
    fn setting_text_is_one_value() {
        for text in ["0.2\nmode = \"auto\"", "1]", "[1", "{ a = 1", "\"a\" \"b\""] {
            let value: Value = setting_value(text).parse().unwrap();
            assert_eq!(value.as_str(), Some(text));
        }
    }

    #[test]
    fn texts_become_list() {
        let texts = ["a", "b\"\nc"].map(str::to_owned).to_vec();
        let list: Value = setting_list(texts.clone()).parse().unwrap();
        assert_eq!(list.try_into::<Vec<String>>().unwrap(), texts);
        assert_eq!(setting_list(vec![]), "[]");
    }
}
