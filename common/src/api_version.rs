//! The first field of what programs print as JSON or YAML, so that a script can refuse a form that it does not know.

use serde::Serialize;

/// A release that removes a field, or gives it another meaning or type, prints another version. New fields keep it.
pub const API_VERSION: &str = "reweave/v1";

/// Name of the field that has it.
pub const API_VERSION_KEY: &str = "apiVersion";

/// An object with its version before all other fields. Serializing a list or a bare value fails.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Versioned<T> {
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    #[serde(flatten)]
    object: T,
}

impl<T> Versioned<T> {
    pub fn new(object: T) -> Self {
        Self {
            api_version: API_VERSION,
            object,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn printed(value: &Value) -> Result<String, serde_json::Error> {
        serde_json::to_string(&Versioned::new(value))
    }

    #[test]
    fn version_stands_before_all_fields() {
        let expected = format!("{{\"{API_VERSION_KEY}\":\"{API_VERSION}\",\"a\":1}}");
        assert_eq!(printed(&json!({ "a": 1 })).unwrap(), expected);
        // By itself it would stand before the key.
        let capital = printed(&json!({ "A": 1 })).unwrap();
        assert!(capital.starts_with("{\"apiVersion\":"), "{capital}");
    }

    #[test]
    fn only_objects_have_a_version() {
        let nothing = printed(&Value::Null).unwrap();
        assert_eq!(nothing, "{\"apiVersion\":\"reweave/v1\"}");
        for bare in [json!([1]), json!("text"), json!(1)] {
            assert!(printed(&bare).is_err(), "{bare}");
        }
    }
}
