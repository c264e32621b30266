//! Lists of hosts as Slurm writes them: `g[0-3,7]` for `g0 g1 g2 g3 g7`.

use std::collections::BTreeMap;

use thiserror::Error;

/// A list that stands for more is a mistake, or an attack.
const MOST_HOSTS: usize = 1_000_000;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HostlistError {
    #[error("{part}: a bracket that is not closed")]
    Open { part: String },
    #[error("{part}: a closing bracket that was never opened")]
    Closed { part: String },
    #[error("{part}: {range} is not a number, and not a range such as 0-3")]
    Range { part: String, range: String },
    #[error("{part}: {range} ends before it begins")]
    Backwards { part: String, range: String },
    #[error("a name is empty")]
    Empty,
    #[error("it stands for more than {MOST_HOSTS} hosts")]
    TooMany,
}

/// As short as it gets, in the order of the numbers. Names without a number at their end stand alone.
pub fn fold<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut stems = BTreeMap::<(&str, usize), Vec<u64>>::new();
    let mut parts = Vec::new();
    for name in names {
        match numbered(name) {
            Some((stem, width, number)) => stems.entry((stem, width)).or_default().push(number),
            None => parts.push(name.to_owned()),
        }
    }
    parts.extend(
        stems
            .into_iter()
            .map(|((stem, width), numbers)| folded(stem, width, numbers)),
    );
    parts.join(",")
}

/// The width is that of a number with leading zeros, and 0 for any other.
fn numbered(name: &str) -> Option<(&str, usize, u64)> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[stem.len()..];
    let width = if digits.starts_with('0') && digits.len() > 1 {
        digits.len()
    } else {
        0
    };
    Some((stem, width, digits.parse().ok()?))
}

fn folded(stem: &str, width: usize, mut numbers: Vec<u64>) -> String {
    numbers.sort_unstable();
    numbers.dedup();
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let run = |run: &[u64]| match run {
        [first, .., last] => format!("{first:0width$}-{last:0width$}"),
        [only] => format!("{only:0width$}"),
        [] => String::new(),
    };
    let ranges: Vec<_> = runs.map(run).collect();
    match &ranges[..] {
        [one] if !one.contains('-') => format!("{stem}{one}"),
        _ => format!("{stem}[{}]", ranges.join(",")),
    }
}

/// All names that a list stands for, in its order.
pub fn unfold(list: &str) -> Result<Vec<String>, HostlistError> {
    let mut names = Vec::new();
    for part in parts(list)? {
        names.extend(unfold_part(part, MOST_HOSTS - names.len())?);
    }
    Ok(names)
}

/// What stands between the commas outside of brackets.
fn parts(list: &str) -> Result<Vec<&str>, HostlistError> {
    let mut parts = Vec::new();
    let (mut begin, mut inside) = (0, false);
    for (at, c) in list.char_indices() {
        let part = || list[begin..].to_owned();
        match (c, inside) {
            ('[', false) => inside = true,
            (']', true) => inside = false,
            (',', false) => {
                parts.push(&list[begin..at]);
                begin = at + 1;
            }
            ('[', true) => return Err(HostlistError::Open { part: part() }),
            (']', false) => return Err(HostlistError::Closed { part: part() }),
            _ => {}
        }
    }
    if inside {
        let part = list[begin..].to_owned();
        return Err(HostlistError::Open { part });
    }
    parts.push(&list[begin..]);
    Ok(parts)
}

/// Several brackets in one name multiply.
fn unfold_part(part: &str, most: usize) -> Result<Vec<String>, HostlistError> {
    let part = part.trim();
    let mut names = vec![String::new()];
    let mut rest = part;
    while let Some((plain, bracket)) = rest.split_once('[') {
        let (ranges, after) = bracket.split_once(']').unwrap_or((bracket, ""));
        let numbers = numbers(part, ranges, most)?;
        if names.len().saturating_mul(numbers.len()) > most {
            return Err(HostlistError::TooMany);
        }
        let with = |name: &String| {
            let begun = format!("{name}{plain}");
            numbers
                .iter()
                .map(move |number| format!("{begun}{number}"))
                .collect::<Vec<_>>()
        };
        names = names.iter().flat_map(with).collect();
        rest = after;
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    if names.iter().any(String::is_empty) {
        return Err(HostlistError::Empty);
    }
    if names.len() > most {
        return Err(HostlistError::TooMany);
    }
    Ok(names)
}

fn numbers(part: &str, ranges: &str, most: usize) -> Result<Vec<String>, HostlistError> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let bad = || HostlistError::Range {
            part: part.to_owned(),
            range: range.to_owned(),
        };
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse::<u64>().map_err(|_| bad()),
            false => Err(bad()),
        };
        let (from, to) = (number(first)?, number(last)?);
        if to < from {
            return Err(HostlistError::Backwards {
                part: part.to_owned(),
                range: range.to_owned(),
            });
        }
        if to - from >= (most - numbers.len().min(most)) as u64 {
            return Err(HostlistError::TooMany);
        }
        let width = first.len();
        numbers.extend((from..=to).map(|number| format!("{number:0width$}")));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn runs_are_folded_and_zeros_kept() {
        let names = ["g0", "g1", "g2", "g7", "login", "n08", "n09", "n10"];
        assert_eq!(fold(names), "login,g[0-2,7],n10,n[08-09]");
        assert_eq!(fold(["h3"]), "h3");
    }

    #[test]
    fn what_others_write_is_unfolded() {
        let names = unfold("g[0-2,7],login,n[08-11],r[1-2]u[3,5]").unwrap();
        let expected = "g0 g1 g2 g7 login n08 n09 n10 n11 r1u3 r1u5 r2u3 r2u5";
        assert_eq!(names.join(" "), expected);
    }

    #[test]
    fn each_mistake_is_told_with_its_place() {
        let told = |list: &str| unfold(list).unwrap_err().to_string();
        assert_eq!(told("a,g[0-3"), "g[0-3: a bracket that is not closed");
        assert_eq!(
            told("g0-3]"),
            "g0-3]: a closing bracket that was never opened"
        );
        assert_eq!(
            told("g[a]"),
            "g[a]: a is not a number, and not a range such as 0-3"
        );
        assert_eq!(
            told("g[]"),
            "g[]:  is not a number, and not a range such as 0-3"
        );
        assert_eq!(told("g[3-1]"), "g[3-1]: 3-1 ends before it begins");
        assert_eq!(told("a,,b"), "a name is empty");
        assert_eq!(
            told("g[0-18446744073709551615]"),
            "it stands for more than 1000000 hosts"
        );
        assert_eq!(
            told("g[0-999]h[0-9999]"),
            "it stands for more than 1000000 hosts"
        );
    }

    proptest! {
        #[test]
        fn what_is_folded_unfolds_to_the_same(
            numbers in proptest::collection::btree_set(0_u64..200, 1..40),
            stems in proptest::collection::btree_set("[a-z]{1,3}", 1..4),
        ) {
            let names: BTreeSet<_> = stems
                .iter()
                .flat_map(|stem| numbers.iter().map(move |number| format!("{stem}{number}")))
                .collect();
            let list = fold(names.iter().map(String::as_str));
            let unfolded: BTreeSet<_> = unfold(&list).unwrap().into_iter().collect();
            prop_assert_eq!(unfolded, names);
        }

        #[test]
        fn whatever_is_given_ends(list in "[a-c0-9,\\[\\]-]{0,40}") {
            let _ = unfold(&list);
        }
    }
}
