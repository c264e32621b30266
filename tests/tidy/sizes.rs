//! Sizes of functions and files. The limits are ratchets: they only ever tighten.

use crate::scan::{Facts, Function};
use crate::violation::Violation;

/// No function at all is longer, in tests neither.
pub(crate) const MAX_FUNCTION_LINES: usize = 70;
/// Nine of ten functions outside tests are no longer.
pub(crate) const MAX_P90_FUNCTION_LINES: usize = 30;
/// Half of the functions outside tests are no longer.
pub(crate) const MAX_MEDIAN_FUNCTION_LINES: usize = 8;
pub(crate) const MAX_FILE_LINES: usize = 800;
pub(crate) const MAX_MEDIAN_FILE_LINES: usize = 500;

pub(crate) type Source = (String, Facts);

pub(crate) fn long_functions(sources: &[Source]) -> Vec<Violation> {
    let all = sources
        .iter()
        .flat_map(|(path, facts)| facts.functions.iter().map(move |f| (path, f)));
    all.filter(|(_, function)| function.lines > MAX_FUNCTION_LINES)
        .map(|(path, function)| long_function(path, function))
        .collect()
}

fn long_function(path: &str, function: &Function) -> Violation {
    Violation::new(
        path,
        function.line,
        format!(
            "{} has {} lines, the limit is {MAX_FUNCTION_LINES}",
            function.name, function.lines
        ),
        "give its steps names of their own",
    )
}

/// The shape of the whole: where the middle and the ninth of ten functions lie.
pub(crate) fn function_shape(sources: &[Source]) -> Vec<Violation> {
    let mut sizes: Vec<_> = sources
        .iter()
        .flat_map(|(path, facts)| facts.functions.iter().map(move |f| (f.lines, path, f)))
        .filter(|(.., function)| !function.in_test)
        .collect();
    sizes.sort_by_key(|(lines, path, function)| (*lines, *path, function.line));
    [
        ("median", 50, MAX_MEDIAN_FUNCTION_LINES),
        ("90th percentile", 90, MAX_P90_FUNCTION_LINES),
    ]
    .into_iter()
    .filter_map(|(name, percent, limit)| {
        let (lines, path, function) = sizes.get(rank(sizes.len(), percent)?)?;
        (*lines > limit).then(|| {
            Violation::new(
                path,
                function.line,
                format!("{name} of function lengths is {lines} lines, the limit is {limit}"),
                format!("split functions longer than {limit} lines, starting where you are"),
            )
        })
    })
    .collect()
}

pub(crate) fn long_files(sources: &[Source]) -> Vec<Violation> {
    let long = sources
        .iter()
        .filter(|(_, facts)| facts.lines > MAX_FILE_LINES);
    long.map(|(path, facts)| {
        Violation::new(
            path,
            facts.lines,
            format!("{} lines, the limit is {MAX_FILE_LINES}", facts.lines),
            "split it by meaning into modules",
        )
    })
    .collect()
}

pub(crate) fn file_shape(sources: &[Source]) -> Vec<Violation> {
    let mut sizes: Vec<_> = sources
        .iter()
        .map(|(path, facts)| (facts.lines, path))
        .collect();
    sizes.sort_unstable();
    let median = rank(sizes.len(), 50).map(|index| sizes[index]);
    median
        .filter(|(lines, _)| *lines > MAX_MEDIAN_FILE_LINES)
        .map(|(lines, path)| {
            Violation::new(
                path,
                lines,
                format!(
                    "median of file lengths is {lines} lines, the limit is {MAX_MEDIAN_FILE_LINES}"
                ),
                "split the longer files by meaning",
            )
        })
        .into_iter()
        .collect()
}

/// Index of the smallest of `count` sorted values that is at least as large as `percent` of them.
fn rank(count: usize, percent: usize) -> Option<usize> {
    (count * percent).div_ceil(100).checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::facts;

    fn function_of(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2))
    }

    fn source(text: &str) -> Source {
        (
            "planted.rs".into(),
            facts(text, false).expect("the planted text is Rust"),
        )
    }

    fn functions(lengths: &[usize]) -> Source {
        source(
            &lengths
                .iter()
                .map(|lines| function_of(*lines))
                .collect::<String>(),
        )
    }

    #[test]
    fn function_over_line_limit_is_found() {
        let found = long_functions(&[functions(&[MAX_FUNCTION_LINES, MAX_FUNCTION_LINES + 1])]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0]
                .to_string()
                .starts_with("planted.rs:71: f has 71 lines"),
            "{}",
            found[0]
        );
    }

    #[test]
    fn long_test_counts_only_for_limit() {
        let text = format!("#[test]\n{}", function_of(MAX_FUNCTION_LINES + 1));
        assert_eq!(long_functions(&[source(&text)]).len(), 1);
        assert_eq!(function_shape(&[source(&text)]), []);
    }

    #[test]
    fn function_median_and_p90_are_limited() {
        let fine = [MAX_MEDIAN_FUNCTION_LINES; 5]
            .into_iter()
            .chain([MAX_P90_FUNCTION_LINES; 4])
            .chain([60]);
        assert_eq!(function_shape(&[functions(&fine.collect::<Vec<_>>())]), []);
        let bulky = [MAX_MEDIAN_FUNCTION_LINES + 1; 8]
            .into_iter()
            .chain([MAX_P90_FUNCTION_LINES + 1; 2]);
        let found = function_shape(&[functions(&bulky.collect::<Vec<_>>())]);
        let what: Vec<_> = found.iter().map(|v| v.what.as_str()).collect();
        assert_eq!(
            what,
            [
                "median of function lengths is 9 lines, the limit is 8",
                "90th percentile of function lengths is 31 lines, the limit is 30"
            ]
        );
    }

    #[test]
    fn files_are_held_to_their_limits() {
        let of = |lines: usize| source(&"\n".repeat(lines));
        assert_eq!(long_files(&[of(MAX_FILE_LINES)]), []);
        assert_eq!(long_files(&[of(MAX_FILE_LINES + 1)]).len(), 1);
        assert_eq!(
            file_shape(&[of(MAX_MEDIAN_FILE_LINES), of(MAX_MEDIAN_FILE_LINES + 1)]),
            []
        );
        assert_eq!(
            file_shape(&[
                of(1),
                of(MAX_MEDIAN_FILE_LINES + 1),
                of(MAX_MEDIAN_FILE_LINES + 1)
            ])
            .len(),
            1
        );
    }

    #[test]
    fn ranks_of_small_sets() {
        assert_eq!(rank(0, 50), None);
        assert_eq!(
            (rank(1, 90), rank(10, 90), rank(10, 50)),
            (Some(0), Some(8), Some(4))
        );
    }
}
