//! Invalid requests to a live cluster: each command prints one clear error, its exit code says who is at fault, and
//! the cluster does not change.

use std::sync::Mutex;
use std::thread;

use reweave_tests::Stage;

use crate::play::must;

const THREAD_COUNT: usize = 4;
/// The position of the tested value.
const VALUE_PLACEHOLDER: &str = "?";
/// Except for commands that succeed when the thing does not exist: an unknown job has ended.
const CHECKED_COMMANDS: [&[&str]; 26] = [
    &["hosts", VALUE_PLACEHOLDER],
    &["links", VALUE_PLACEHOLDER],
    &["paths", VALUE_PLACEHOLDER],
    &["jobs", VALUE_PLACEHOLDER],
    &["pairs", VALUE_PLACEHOLDER],
    &["trace", VALUE_PLACEHOLDER],
    &["trace", "h0", VALUE_PLACEHOLDER],
    &["explain", VALUE_PLACEHOLDER],
    &["plan", "show", VALUE_PLACEHOLDER],
    &["plan", "diff", VALUE_PLACEHOLDER],
    &["plan", "drain", VALUE_PLACEHOLDER],
    &["diff", VALUE_PLACEHOLDER],
    &["apply", VALUE_PLACEHOLDER],
    &["approve", VALUE_PLACEHOLDER],
    &["rollback", VALUE_PLACEHOLDER],
    &["history", VALUE_PLACEHOLDER],
    &["maintenance", VALUE_PLACEHOLDER],
    &["cluster", "member", "remove", VALUE_PLACEHOLDER],
    &["cluster", "member", "replace", VALUE_PLACEHOLDER],
    &["job", "register", "--hosts", VALUE_PLACEHOLDER, "mine"],
    &["job", "start", VALUE_PLACEHOLDER],
    &["job", "phase", VALUE_PLACEHOLDER, "forward"],
    &["job", "gate", "--hosts", VALUE_PLACEHOLDER],
    &["job", "freeze", VALUE_PLACEHOLDER],
    &["job", "thaw", VALUE_PLACEHOLDER],
    &["dashboard", "--hours", VALUE_PLACEHOLDER],
];

fn values() -> [String; 5] {
    [
        String::new(),
        "<img src=x onerror=alert(1)>".to_owned(),
        "99999999999999999999".to_owned(),
        "\u{1b}]0;mine\u{7}\u{1b}[2Jx\nerror: all is well\u{202e}".to_owned(),
        "x".repeat(50_000),
    ]
}

pub(crate) fn is_refused(stage: &Stage) {
    let before = stands(stage);
    let values = values();
    let lines = CHECKED_COMMANDS.iter().flat_map(|words| {
        let with = |value: &String| {
            let words = words.iter().map(|&word| match word {
                VALUE_PLACEHOLDER => value.clone(),
                word => word.to_owned(),
            });
            words.collect::<Vec<_>>()
        };
        values.iter().map(with)
    });
    let lines = Mutex::new(lines.collect::<Vec<_>>());
    let found = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..THREAD_COUNT {
            scope.spawn(|| {
                while let Some(words) = next(&lines) {
                    let complaint = complaint(stage, &words);
                    found.lock().expect("no thread panics").extend(complaint);
                }
            });
        }
    });
    let found = found.into_inner().expect("no thread panics");
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert_eq!(stands(stage), before, "something was changed");
}

fn next(lines: &Mutex<Vec<Vec<String>>>) -> Option<Vec<String>> {
    lines.lock().expect("no thread panics").pop()
}

fn stands(stage: &Stage) -> impl PartialEq + std::fmt::Debug {
    let status = must(stage.operator().status());
    let coordinators: Vec<_> = status.coordinators.into_iter().map(|it| it.name).collect();
    let plans = must(stage.operator().history()).len();
    (status.generation, status.revoked, coordinators, plans)
}

/// The problem with an answer, if any.
fn complaint(stage: &Stage, words: &[String]) -> Option<String> {
    let borrowed: Vec<_> = words.iter().map(String::as_str).collect();
    let output = stage.operator().command(&borrowed).output();
    let output = output.expect("it runs");
    let [said, shown] = [&output.stderr, &output.stdout].map(|it| String::from_utf8_lossy(it));
    let what = match output.status.code() {
        _ if said.chars().chain(shown.chars()).any(steers) => "steers the terminal",
        _ if said.contains("panicked") => "panics",
        Some(1 | 2) if said.lines().filter(|it| it.starts_with("error: ")).count() == 1 => {
            return None;
        }
        Some(1 | 2) => "has not one error",
        Some(0) => "is taken",
        _ => "ends in no documented way",
    };
    let short = |text: &str| text.chars().take(200).collect::<String>();
    let words: Vec<_> = words.iter().map(|word| short(word)).collect();
    Some(format!(
        "{what}: {words:?}\n  {:?}: {:?}",
        output.status,
        short(&said)
    ))
}

fn steers(c: char) -> bool {
    ('\u{202a}'..='\u{202e}').contains(&c) || (c.is_control() && c != '\n')
}
