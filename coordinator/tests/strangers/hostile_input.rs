//! All that the document has, asked as it should not be: each answer is a problem that names the place.

use std::collections::BTreeSet;

use serde_json::Value;

use super::api::operators;
use super::described::document;
use super::house::House;
use super::http::{Answer, send, send_json};

/// Fewer than a token may ask at once.
const REQUESTS_PER_TOKEN: usize = 80;
const METHODS: [&str; 5] = ["get", "put", "post", "patch", "delete"];
const LONG_TEXT_BYTES: usize = 5000;
/// More than is taken for a request.
const HUGE_BODY_BYTES: usize = 3 << 20;
const NESTING_DEPTH: usize = 100_000;

/// Asks with one token after the other.
struct Asker<'a> {
    house: &'a House,
    tokens: Vec<String>,
    asked: usize,
}

impl<'a> Asker<'a> {
    fn of(house: &'a House, tokens: Vec<String>) -> Self {
        let asked = 0;
        Self {
            house,
            tokens,
            asked,
        }
    }

    fn ask(&mut self, method: &str, target: &str, headers: &str, json: Option<&str>) -> Answer {
        let headers = format!("{}{headers}", self.tokens[self.asked / REQUESTS_PER_TOKEN]);
        self.asked += 1;
        let method = method.to_uppercase();
        match json {
            None => send(self.house, &method, target, &headers),
            Some(json) => send_json(self.house, &method, target, &headers, json),
        }
    }
}

/// One way to ask for something, as the document has it.
struct Operation<'a> {
    method: &'a str,
    path: String,
    parameters: Vec<Parameter>,
    takes_json: bool,
    needs_json: bool,
}

struct Parameter {
    name: String,
    place: String,
    is_needed: bool,
    types: BTreeSet<String>,
    is_one_of: bool,
}

impl Parameter {
    fn of(document: &Value, parameter: &Value) -> Self {
        let text = |key: &str| parameter[key].as_str().unwrap().to_owned();
        let (mut types, mut is_one_of) = (BTreeSet::new(), false);
        look_into(document, &parameter["schema"], &mut types, &mut is_one_of);
        Self {
            name: text("name"),
            place: text("in"),
            is_needed: parameter["required"] == true,
            types,
            is_one_of,
        }
    }

    fn is(&self, kind: &str) -> bool {
        self.types.contains(kind)
    }

    fn good(&self) -> &'static str {
        match self.name.as_str() {
            "hosts" => "h0,h1",
            "to" => "h1",
            _ if self.is("integer") => "1",
            _ => "h0",
        }
    }

    /// What could not be taken for a value of it.
    fn wrong(&self) -> &'static [&'static str] {
        match () {
            () if self.is("integer") => {
                &["x", "-1", "1.5", "99999999999999999999999", "%00", "0x1"]
            }
            () if self.is("number") => &["x", "-1", "0", "1e999", "nan", "-inf", "%00", ""],
            () if self.is("boolean") => &["maybe", "2", "%00", ""],
            () if self.is_one_of => &["no-such", "%00", "", "%3Cscript%3E"],
            () => &[],
        }
    }
}

/// A schema may be a choice of others, which may be somewhere else.
fn look_into(document: &Value, schema: &Value, types: &mut BTreeSet<String>, is_one_of: &mut bool) {
    *is_one_of |= schema["enum"].is_array() || schema["const"].is_string();
    match &schema["type"] {
        Value::String(kind) => drop(types.insert(kind.clone())),
        Value::Array(kinds) => {
            let kinds = kinds.iter().filter_map(Value::as_str);
            types.extend(kinds.map(str::to_owned));
        }
        _ => {}
    }
    if let Some(place) = schema["$ref"].as_str() {
        let there = document.pointer(place.trim_start_matches('#')).unwrap();
        look_into(document, there, types, is_one_of);
    }
    for choice in ["oneOf", "anyOf", "allOf"] {
        for schema in schema[choice].as_array().into_iter().flatten() {
            look_into(document, schema, types, is_one_of);
        }
    }
}

fn operations(document: &Value) -> Vec<Operation<'_>> {
    let root = document["servers"][0]["url"].as_str().unwrap();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        // What never ends cannot be read to its end, and takes nothing.
        for method in METHODS.iter().filter(|_| path != "/events") {
            let Some(operation) = item.get(*method) else {
                continue;
            };
            let parameters = operation["parameters"].as_array();
            let parameters = parameters.into_iter().flatten();
            found.push(Operation {
                method,
                path: format!("{root}{path}"),
                parameters: parameters.map(|it| Parameter::of(document, it)).collect(),
                takes_json: operation["requestBody"].is_object(),
                needs_json: operation["requestBody"]["required"] == true,
            });
        }
    }
    found
}

impl Operation<'_> {
    fn of(&self, place: &str) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(move |it| it.place == place)
    }

    /// With all that is needed, but this one otherwise: nothing leaves it out.
    fn target(&self, name: &str, value: Option<&str>) -> String {
        let mut path = self.path.clone();
        for parameter in self.of("path") {
            let value = value.filter(|_| parameter.name == name);
            let value = value.unwrap_or(parameter.good());
            path = path.replace(&format!("{{{}}}", parameter.name), value);
        }
        let query = self.of("query").filter_map(|it| {
            if it.name == name {
                value.map(|value| format!("{name}={value}"))
            } else {
                it.is_needed.then(|| format!("{}={}", it.name, it.good()))
            }
        });
        format!("{path}?{}", query.collect::<Vec<_>>().join("&"))
    }
}

/// A problem of the client's, which names the place.
#[track_caller]
fn is_named(answer: &Answer, place: &str, asked: &str) {
    let text = format!("{asked}: {} {}", answer.code, answer.body);
    assert!((400..500).contains(&answer.code), "{text}");
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json"),
        "{text}"
    );
    let json = answer.json();
    assert_eq!(json["status"], answer.code, "{text}");
    assert!(
        json["detail"].as_str().unwrap().contains(place),
        "{place}: {text}"
    );
}

async fn ready(house: &House, tokens: usize) -> Vec<String> {
    let mut made = Vec::new();
    for _ in 0..tokens {
        made.push(operators(house).await);
    }
    made
}

#[tokio::test]
async fn invalid_or_missing_value_is_named() {
    let house = House::new();
    let mut asker = Asker::of(&house, ready(&house, 8).await);
    let document = document(&house);
    for operation in operations(&document) {
        for parameter in operation.of("path").chain(operation.of("query")) {
            let place = match parameter.place.as_str() {
                "path" => "path",
                _ => parameter.name.as_str(),
            };
            for wrong in parameter.wrong() {
                let target = operation.target(&parameter.name, Some(wrong));
                let answer = asker.ask(operation.method, &target, "", None);
                is_named(&answer, place, &target);
            }
            if parameter.place == "query" {
                let target = operation.target(&parameter.name, None);
                if parameter.is_needed {
                    is_named(
                        &asker.ask(operation.method, &target, "", None),
                        place,
                        &target,
                    );
                }
                let twice = format!("{target}&{place}=1&{place}=1");
                is_named(
                    &asker.ask(operation.method, &twice, "", None),
                    place,
                    &twice,
                );
            }
        }
        if operation.of("query").next().is_some() {
            let target = operation.target("", None) + "&else=1";
            is_named(
                &asker.ask(operation.method, &target, "", None),
                "else",
                &target,
            );
        }
        // ETags that were never given are no mistake.
        let keys = operation
            .of("header")
            .filter(|it| it.name == "Idempotency-Key");
        for _ in keys {
            let (target, bad) = (operation.target("", None), "Idempotency-Key: a b\r\n");
            is_named(
                &asker.ask(operation.method, &target, bad, None),
                "Idempotency-Key",
                &target,
            );
        }
    }
    assert!(asker.asked > 80, "{} questions", asker.asked);
}

#[tokio::test]
async fn injection_strings_are_plain_values() {
    let house = House::new();
    let mut asker = Asker::of(&house, ready(&house, 6).await);
    let document = document(&house);
    let long = "x".repeat(LONG_TEXT_BYTES);
    let hostile = [
        "%FF",
        "%00",
        "%3Cscript%3E",
        "%0D%0ASet-Cookie:x",
        "..%2F..",
        "%22%7D",
        &long,
    ];
    for operation in operations(&document) {
        for parameter in operation.of("path").chain(operation.of("query")) {
            let is_free = parameter.wrong().is_empty();
            for value in hostile.iter().filter(|_| is_free) {
                let target = operation.target(&parameter.name, Some(value));
                let answer = asker.ask(operation.method, &target, "", None);
                let text = format!(
                    "{} {target}: {} {}",
                    operation.method, answer.code, answer.body
                );
                assert!(answer.code < 500, "{text}");
                assert!(answer.header("set-cookie").is_none(), "{text}");
                match answer.header("content-type") {
                    None => assert_eq!(answer.code, 204, "{text}"),
                    Some(kind) => assert!(kind.ends_with("json"), "{kind}: {text}"),
                }
            }
        }
    }
    assert!(asker.asked > 50, "{} questions", asker.asked);
}

#[tokio::test]
async fn invalid_body_names_its_place() {
    let house = House::new();
    let mut asker = Asker::of(&house, ready(&house, 2).await);
    let document = document(&house);
    let deep = "[".repeat(NESTING_DEPTH);
    let huge = format!("{{\"stage\": \"{}\"}}", "x".repeat(HUGE_BODY_BYTES));
    let mut taking = 0;
    for operation in operations(&document).iter().filter(|it| it.takes_json) {
        taking += 1;
        let target = operation.target("", None);
        let any = [
            ("", "line 1"),
            ("{", "line 1"),
            (deep.as_str(), "line 1"),
            (huge.as_str(), "body"),
        ];
        for (json, place) in any.iter().chain(wrong_bodies(&target)) {
            let answer = asker.ask(operation.method, &target, "", Some(json));
            is_named(&answer, place, &format!("{target} {json:.60}"));
        }
        let plain = asker.ask(operation.method, &target, "", None);
        if operation.needs_json {
            is_named(&plain, "Content-Type", &target);
        } else {
            assert!(plain.code < 300, "{target}: {}", plain.body);
        }
        let null = asker.ask(operation.method, &target, "", Some("null"));
        if operation.needs_json {
            is_named(&null, "line 1", &format!("{target} null"));
        } else {
            assert_eq!(null.body, plain.body, "{target} null");
        }
    }
    assert_eq!(taking, 6, "each has words of its own");
}

/// And the place of what is wrong with them.
fn wrong_bodies(target: &str) -> &'static [(&'static str, &'static str)] {
    match target.trim_end_matches('?') {
        target if target.ends_with("/sandbox") => &[
            ("{}", "variants"),
            ("{\"from\": 1}", "from"),
            ("{\"flows\": 1}", "flows"),
            ("{\"job\": []}", "job"),
            ("{\"fabric\": {}}", "fabric"),
            (
                "{\"variants\": [{\"name\": \"\", \"variant\": \"\"}]}",
                "`flows`",
            ),
            (
                "{\"flows\": \"\", \"job\": \"\", \"variants\": [{\"name\": \"\", \"variant\": \"\"}]}",
                "one of",
            ),
            (
                "{\"from\": \"2m\", \"to\": \"1m\", \"variants\": 1}",
                "variants",
            ),
            (
                "{\"from\": \"2m\", \"to\": \"1m\", \"variants\": [], \"else\": 1}",
                "else",
            ),
        ],
        target if target.ends_with("/sandbox/plan") => &[
            ("{}", "variant"),
            ("{\"variant\": 1}", "variant"),
            ("{\"variant\": \"\", \"else\": 1}", "else"),
        ],
        target if target.ends_with("/plans") => &[
            ("{}", "drain, weights, circuits and ranks"),
            ("{\"drain\": 1}", "drain"),
            ("{\"weights\": \"heavy\"}", "weights"),
            ("{\"circuits\": {\"ocs0\": [[1, 99999]]}}", "circuits.ocs0"),
            ("{\"drain\": [], \"weights\": \"even\"}", "one of"),
            ("{\"else\": 1}", "else"),
        ],
        target if target.ends_with("/policy") => &[
            ("{}", "settings"),
            ("{\"settings\": 1}", "settings"),
            ("{\"settings\": {\"mode\": {}}}", "settings.mode"),
            ("{\"settings\": {}, \"else\": 1}", "else"),
        ],
        _ => &[
            ("{}", "stage"),
            ("{\"stage\": 1}", "stage"),
            ("{\"stage\": \"no-such\"}", "stage"),
            ("{\"stage\": \"draining\", \"else\": 1}", "else"),
        ],
    }
}
