//! docs/metrics.md has each metric that the code names and each alarm of the rules, and no other.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::TextFile;
use crate::violation::Violation;

const PAGE: &str = "docs/metrics.md";
const CODE: &str = "coordinator/src/http/metrics/";
const RULES: &str = "deploy/prometheus/reweave.rules.yml";

type NameOfLine = fn(&str) -> Option<&str>;

pub(crate) fn violations(files: &[TextFile]) -> Vec<Violation> {
    let named: Vec<_> = files.iter().flat_map(named).collect();
    let on_page = named.iter().filter(|it| it.path == PAGE);
    let on_page: BTreeMap<&str, &Named<'_>> = on_page.map(|it| (it.name, it)).collect();
    let in_code = named.iter().filter(|it| it.path != PAGE);
    let in_code: BTreeMap<&str, &Named<'_>> = in_code.map(|it| (it.name, it)).collect();
    let names: BTreeSet<&str> = on_page.keys().chain(in_code.keys()).copied().collect();
    let differs = |name: &str| match (on_page.get(name), in_code.get(name)) {
        (None, Some(it)) => Some(it.violation("is not on docs/metrics.md", "give it a row")),
        (Some(it), None) => Some(it.violation("does not exist", "remove its row")),
        _ => None,
    };
    names.into_iter().filter_map(differs).collect()
}

/// A metric or an alarm, and where it is named.
struct Named<'t> {
    name: &'t str,
    path: &'t str,
    line: usize,
}

impl Named<'_> {
    fn violation(&self, what: &str, mend: &str) -> Violation {
        let what = format!("{} {what}", self.name);
        Violation::new(self.path, self.line, what, mend)
    }
}

fn named(file: &TextFile) -> Vec<Named<'_>> {
    let name_of_line: NameOfLine = match &*file.path {
        PAGE => row,
        RULES => alarm,
        path if path.starts_with(CODE) => metric,
        _ => return Vec::new(),
    };
    let path = &*file.path;
    let name = |(text, line)| {
        let name = name_of_line(text)?;
        Some(Named { name, path, line })
    };
    file.text.lines().zip(1..).filter_map(name).collect()
}

/// The first cell of a row of metrics or alarms.
fn row(line: &str) -> Option<&str> {
    let (name, _) = line.strip_prefix("| `")?.split_once('`')?;
    (is_metric(name) || name.starts_with("Reweave")).then_some(name)
}

fn alarm(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("- alert: ")
}

/// A string that is a name as a whole: tests quote names with labels or values.
fn metric(line: &str) -> Option<&str> {
    line.split('"').find(|piece| is_metric(piece))
}

fn is_metric(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    text.starts_with("reweave_") && text.bytes().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str =
        "| `reweave_up` | gauge | | |\n| `ReweaveDown` | critical | |\n| `role` | |\n";
    const LINE: &str = "page.single(Kind::Gauge, \"reweave_up\", help, 1);\n";
    const ALERT: &str = "      - alert: ReweaveDown\n";

    fn found(page: &str, code: &str, rules: &str) -> Vec<String> {
        let module = format!("{CODE}mod.rs");
        let files = [(PAGE, page), (&*module, code), (RULES, rules)];
        let files = files.map(|(path, text)| TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        });
        let found = violations(&files);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn whole_page_has_no_violation() {
        let quoted = "assert!(text.contains(\"reweave_up 1\"), \"reweave_up{role}\");\n";
        let code = format!("{LINE}{quoted}");
        assert_eq!(found(ROWS, &code, ALERT), [""; 0]);
    }

    #[test]
    fn metric_without_row_is_found() {
        let code = format!("{LINE}let name = \"reweave_down\";\n");
        let expected = "coordinator/src/http/metrics/mod.rs:2: reweave_down is not on docs/metrics.md; \
                        give it a row";
        assert_eq!(found(ROWS, &code, ALERT), [expected]);
    }

    #[test]
    fn row_without_metric_is_found() {
        let expected = "docs/metrics.md:1: reweave_up does not exist; remove its row";
        assert_eq!(found(ROWS, "", ALERT), [expected]);
    }

    #[test]
    fn alarms_are_held_against_rows_too() {
        let expected = "docs/metrics.md:2: ReweaveDown does not exist; remove its row";
        assert_eq!(found(ROWS, LINE, ""), [expected]);
    }
}
