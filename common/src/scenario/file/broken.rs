//! Property test: a scenario file with any typing error is accepted, or refused with the place of the error.

use crate::scenario::Scenario;
use proptest::prelude::*;
use proptest::sample::{Index, select};

const VALID_SCENARIOS: &[&str] = &[
    include_str!("../../../../tests/lab/scenarios/collision.toml"),
    include_str!("../../../../tests/lab/scenarios/demo.toml"),
    include_str!("../../../../tests/lab/scenarios/direct.toml"),
    include_str!("../../../../tests/lab/scenarios/graph.toml"),
    include_str!("../../../../tests/lab/scenarios/ideal.toml"),
    include_str!("../../../../tests/lab/scenarios/leaf-spine.toml"),
    include_str!("../../../../tests/lab/scenarios/patterns.toml"),
    include_str!("../../../../tests/lab/scenarios/rails-8x8.toml"),
    include_str!("../../../../tests/lab/scenarios/rails-pod.toml"),
    FAULTS_SCENARIO,
];

/// A scenario with faults, because the files have none.
const FAULTS_SCENARIO: &str = r#"
name = "faults"
limit_s = 5
[fabric]
kind = "direct"
hosts = 4
link_gbps = 1
links = [[0, 1], [1, 2], [2, 3]]
[[job]]
name = "train"
pattern = "all-to-all"
hosts = ["h0", "h3"]
bytes = 1
iterations = 1
[[fault]]
kind = "link-flap"
at_s = 1
link = ["h0", "h1"]
period_s = 0.5
[[fault]]
kind = "link-loss"
at_s = 1
link = ["h0", "h1"]
nth = 0
percent = 1
[[fault]]
kind = "process-stop"
at_s = 1
job = "train"
rank = 1
[[fault]]
kind = "partition"
at_s = 1
a = ["h0"]
b = ["h1"]
one_way = true
[[expect]]
job = "train"
max_iteration_ms = 2
min_iteration_ms = 1
"#;

/// Texts that replace a part of the file.
const REPLACEMENTS: &[&str] = &[
    "",
    "0",
    "-1",
    "1",
    "3",
    "0.5",
    "100000",
    "1e5",
    "nan",
    "-inf",
    "1e400",
    "9223372036854775807",
    "99999999999999999999",
    "true",
    "'x'",
    "\"\"",
    "\"\\n\"",
    "\"h0\"",
    "[]",
    "[0]",
    "[0, 1, 2]",
    "[[0]]",
    "{}",
    "{ a = 1 }",
    "1979-05-27",
    "=",
    "[",
    "]",
    "]]",
    "\"",
    "'''",
    "#",
    "\u{e9}",
    "name",
    "kind",
    "hosts",
    "[fabric]",
    "[[job]]",
    "[fault]",
    "seed = 1",
    "limit_s",
];

#[derive(Debug, Clone)]
enum Slip {
    DropLine(Index),
    RepeatLine(Index, Index),
    DropToken(Index, Index),
    RepeatToken(Index, Index),
    ReplaceToken(Index, Index, &'static str),
}

impl Slip {
    fn any() -> impl Strategy<Value = Self> {
        let at = any::<Index>;
        prop_oneof![
            at().prop_map(Self::DropLine),
            (at(), at()).prop_map(|(from, to)| Self::RepeatLine(from, to)),
            (at(), at()).prop_map(|(line, token)| Self::DropToken(line, token)),
            (at(), at()).prop_map(|(line, token)| Self::RepeatToken(line, token)),
            (at(), at(), select(REPLACEMENTS))
                .prop_map(|(line, token, word)| Self::ReplaceToken(line, token, word)),
        ]
    }

    fn apply(&self, lines: &mut Vec<String>) {
        if lines.is_empty() {
            return;
        }
        let count = lines.len();
        match self {
            Self::DropLine(line) => drop(lines.remove(line.index(count))),
            Self::RepeatLine(from, to) => {
                lines.insert(to.index(count), lines[from.index(count)].clone());
            }
            Self::DropToken(line, token) => {
                change(&mut lines[line.index(count)], token, |_| String::new());
            }
            Self::RepeatToken(line, token) => {
                change(&mut lines[line.index(count)], token, |old| old.repeat(2));
            }
            Self::ReplaceToken(line, token, word) => {
                change(&mut lines[line.index(count)], token, |_| format!("{word} "));
            }
        }
    }
}

fn change(line: &mut String, token: &Index, new: impl Fn(&str) -> String) {
    let mut tokens: Vec<_> = line
        .split_inclusive([' ', ',', '[', ']'])
        .map(String::from)
        .collect();
    if !tokens.is_empty() {
        let at = token.index(tokens.len());
        tokens[at] = new(&tokens[at]);
        *line = tokens.concat();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..Default::default() })]

    #[test]
    fn broken_scenario_reads_or_names_place(
        text in select(VALID_SCENARIOS),
        slips in prop::collection::vec(Slip::any(), 1..4),
    ) {
        let mut lines: Vec<_> = text.lines().map(String::from).collect();
        for slip in &slips {
            slip.apply(&mut lines);
        }
        let text = lines.join("\n");
        if let Err(error) = Scenario::parse("s.toml", &text, |_| Err("no such file".to_owned())) {
            let said = error.to_string();
            prop_assert!((1..=lines.len().max(1)).contains(&error.line), "{said}\n{text}");
            prop_assert!(said.starts_with(&format!("s.toml:{}: ", error.line)), "{said}");
            prop_assert_eq!(said.lines().count(), 1, "{:?}", said);
            for word in ["i64", "f64", "u64", "usize", "i128", "field `", "sequence", "struct "] {
                prop_assert!(!error.problem.contains(word), "{said}\n{text}");
            }
        }
    }
}

#[test]
fn valid_scenarios_parse() {
    let fabric = include_str!("../../../../tests/lab/scenarios/two-leaves.toml");
    for text in VALID_SCENARIOS {
        Scenario::parse("s.toml", text, |_| Ok(fabric.to_owned())).unwrap();
    }
}
