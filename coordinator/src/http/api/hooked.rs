//! The webhooks, in OpenAPI 3.1.

use serde_json::{Map, Value, json};

/// Each event, and the field with its data.
const HOOK_EVENTS: [(&str, &str); 6] = [
    ("finding.began", "finding"),
    ("finding.ended", "finding"),
    ("alarm.began", "alarm"),
    ("alarm.ended", "alarm"),
    ("change.began", "change"),
    ("change.ended", "record"),
];

/// Adds the webhooks to the document.
pub(super) fn with_webhooks(mut document: Value) -> Value {
    let hooks: Map<_, _> = HOOK_EVENTS
        .map(|(event, part)| (event.to_owned(), hook(event, part)))
        .into_iter()
        .collect();
    if let Value::Object(parts) = &mut document {
        parts.insert("webhooks".to_owned(), hooks.into());
    }
    document
}

fn hook(event: &str, part: &str) -> Value {
    let what = match part {
        "finding" => json!({ "$ref": "#/components/schemas/Finding" }),
        "change" => json!({ "$ref": "#/components/schemas/RunningChange" }),
        "record" => json!({ "$ref": "#/components/schemas/Record" }),
        _ => json!({ "type": "string" }),
    };
    let body = json!({
        "type": "object",
        "required": ["id", "at_ms", "event", part],
        "properties": {
            "id": { "type": "string", "description": "The same for every delivery attempt" },
            "at_ms": { "type": "integer", "minimum": 0, "description": "Milliseconds since 1970, by the coordinator's clock" },
            "event": { "const": event },
            part: what,
        },
    });
    let signature = json!({
        "name": "Reweave-Signature",
        "in": "header",
        "required": true,
        "description": "t=T,v1=S: S is the HMAC-SHA256 of T.BODY under the secret of the [[webhook]], in hexadecimal",
        "schema": { "type": "string" },
    });
    json!({ "post": {
        "summary": format!("Sent to each [[webhook]] that subscribes to it: {event}"),
        "security": [],
        "parameters": [signature],
        "requestBody": { "required": true, "content": { "application/json": { "schema": body } } },
        "responses": { "2XX": { "description": "Accepted; any other status is retried" } },
    } })
}
