//! A real browser without a window, led over a pipe: no port, and nothing of the machine's own profile.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use reweave_tests::{StageError, wait_for};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Browsers are slow to start on a busy machine.
const EXPRESSION_TIMEOUT: Duration = Duration::from_secs(60);

/// It goes when this is dropped, and its profile too.
pub(crate) struct Browser {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Option<String>,
    last: u64,
    /// What the page complained of, in its own words.
    complaints: Vec<String>,
    /// The reader is ready to be refused a plan for want of a measurement.
    pub(crate) asks_again: bool,
    _profile: TempDir,
}

impl Browser {
    /// `enter` wants a program to run; the shell in between puts the pipe where the browser wants it.
    pub(crate) fn start(mut enter: Command) -> Self {
        let profile = tempfile::tempdir().expect("there is room");
        let line = "exec chromium --headless --no-sandbox --disable-gpu --no-first-run \
                    --disable-background-networking --ignore-certificate-errors --window-size=1440,900 \
                    --remote-debugging-pipe --user-data-dir=\"$1\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        enter.args(["sh", "-c", line, "sh"]).arg(profile.path());
        enter.env("HOME", profile.path());
        let mut child = enter
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut browser = Self {
            orders: child.stdin.take().expect("it is piped"),
            answers: BufReader::new(child.stdout.take().expect("it is piped")),
            child,
            session: None,
            last: 0,
            complaints: Vec::new(),
            asks_again: false,
            _profile: profile,
        };
        browser.open();
        browser
    }

    fn open(&mut self) {
        let page = self.order("Target.createTarget", &json!({ "url": "about:blank" }));
        let whom = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = self.order("Target.attachToTarget", &whom);
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Accessibility"] {
            self.order(&format!("{domain}.enable"), &json!({}));
        }
    }

    /// Does one thing, and returns what came of it.
    pub(crate) fn order(&mut self, method: &str, parameters: &Value) -> Value {
        let answer = self.asked(method, parameters);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    fn asked(&mut self, method: &str, parameters: &Value) -> Value {
        self.last += 1;
        let mut order = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            order["sessionId"] = json!(session);
        }
        let written = self.orders.write_all(format!("{order}\0").as_bytes());
        written.expect("the browser listens");
        loop {
            let answer = self.hear();
            if answer["id"] == self.last {
                return answer;
            }
        }
    }

    fn hear(&mut self) -> Value {
        let mut message = Vec::new();
        let read = self.answers.read_until(0, &mut message);
        read.expect("the browser answers");
        assert_eq!(message.pop(), Some(0), "the browser has gone");
        let message: Value = serde_json::from_slice(&message).expect("it is JSON");
        self.note(&message);
        message
    }

    fn note(&mut self, message: &Value) {
        let report = &message["params"];
        let is_bad = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => report["type"] == "error",
            Some("Log.entryAdded") => {
                let is_expected =
                    has_changed(report) || self.asks_again && is_refused_a_plan(report);
                report["entry"]["level"] == "error" && !is_expected
            }
            _ => false,
        };
        if is_bad {
            self.complaints.push(report.to_string());
        }
    }

    pub(crate) fn complaints(&self) -> &[String] {
        &self.complaints
    }

    pub(crate) fn go(&mut self, url: &str) {
        self.order("Page.navigate", &json!({ "url": url }));
    }

    /// What an expression of the page's own language comes to.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let value = self.value_if_it_stays(expression);
        value.expect("the page stays where it is")
    }

    /// Nothing where the page was left for another before it answered.
    fn value_if_it_stays(&mut self, expression: &str) -> Option<Value> {
        let what = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.asked("Runtime.evaluate", &what);
        let error = &answer["error"];
        let why = error["message"].as_str().unwrap_or_default();
        if why.starts_with("Inspected target navigated") {
            return None;
        }
        assert!(error.is_null(), "{expression}: {answer}");
        let result = &answer["result"];
        assert!(
            result["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        Some(result["result"]["value"].clone())
    }

    /// Waits until it is true, and says how long that took.
    #[track_caller]
    pub(crate) fn when(&mut self, expression: &str) -> Duration {
        let began = Instant::now();
        let holds = || -> Result<Option<()>, StageError> {
            let value = self.value_if_it_stays(&format!("Boolean({expression})"));
            let is_so = value.and_then(|value| value.as_bool());
            Ok(is_so.filter(|holds| *holds).map(drop))
        };
        let waited = wait_for(expression, EXPRESSION_TIMEOUT, holds);
        if waited.is_err() {
            panic!("never so: {expression}\n{}", self.text());
        }
        began.elapsed()
    }

    /// What a person reads.
    pub(crate) fn text(&mut self) -> String {
        let text = self.value("document.body.innerText");
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Presses the button with these words on it.
    #[track_caller]
    pub(crate) fn press(&mut self, words: &str) {
        let button = format!(
            "[...document.querySelectorAll('button')].find((it) => it.innerText.startsWith({}))",
            json!(words)
        );
        self.when(&format!("{button} && !{button}.disabled"));
        self.value(&format!("{button}.click()"));
    }

    pub(crate) fn photograph(&mut self, path: &Path) {
        let shot = self.order("Page.captureScreenshot", &json!({ "format": "png" }));
        let picture = shot["data"].as_str().unwrap_or_default();
        std::fs::write(path, decoded(picture)).expect("there is room");
    }
}

/// The browser complains of each answer that is a refusal; this one is what `If-Match` is for.
fn has_changed(answer: &Value) -> bool {
    let text = answer["entry"]["text"].as_str();
    text.is_some_and(|text| text.contains("a status of 412 "))
}

fn is_refused_a_plan(answer: &Value) -> bool {
    let of = |what: &str| answer["entry"][what].as_str().unwrap_or_default();
    of("text").contains("a status of 409 ") && of("url").contains("/api/v1/plans")
}

/// Base64, of which the browser sends no other kind.
fn decoded(text: &str) -> Vec<u8> {
    let digits = text.bytes().filter_map(|byte| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    });
    let digits: Vec<u8> = digits.collect();
    let groups = digits.chunks(4).flat_map(|group| {
        let bits = group
            .iter()
            .fold(0_u32, |bits, &digit| (bits << 6) | u32::from(digit));
        let bits = bits << (6 * (4 - group.len()));
        bits.to_be_bytes()[1..group.len()].to_vec()
    });
    groups.collect()
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
