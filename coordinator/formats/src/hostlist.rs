//! Lists of hosts as Slurm writes them: `g[0-3,7]` for `g0 g1 g2 g3 g7`.

use std::collections::BTreeMap;

use thiserror::Error;

/// A list that stands for more is a mistake, or an attack.
const MAX_HOSTS: usize = 1_000_000;
/// Of one name, in bytes: the DNS has none that is longer.
const MAX_NAME_BYTES: usize = 255;
/// Of all names together: 33 for each of the most hosts.
const MAX_NAMES_BYTES: usize = 32 << 20;
/// So much of a list is shown where it is wrong.
const MAX_EXCERPT_CHARS: usize = 60;

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
    #[error("{part}: a name of more than {MAX_NAME_BYTES} bytes")]
    TooLong { part: String },
    #[error("{part}: with it the list stands for more than {MAX_HOSTS} hosts")]
    TooMany { part: String },
    #[error("{part}: with it the names take more than {} MiB", MAX_NAMES_BYTES >> 20)]
    TooMuch { part: String },
}

/// A name with brackets: what stands before each of them, the numbers in it, and what stands behind the last.
struct Part<'l> {
    brackets: Vec<(&'l str, Vec<Range>)>,
    rest: &'l str,
}

/// From a number to another, both included, with zeros before those that have fewer digits than `width`.
struct Range {
    from: u64,
    to: u64,
    width: usize,
}

/// What may still be unfolded.
struct Room {
    hosts: usize,
    bytes: usize,
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

/// All names that a list stands for, in its order. How much that is, is known before any name is written.
pub fn unfold(list: &str) -> Result<Vec<String>, HostlistError> {
    let mut room = Room {
        hosts: MAX_HOSTS,
        bytes: MAX_NAMES_BYTES,
    };
    let mut names = Vec::new();
    for text in parts(list)? {
        let text = text.trim();
        let part = Part::read(text)?;
        room.take(&part, text)?;
        names.extend(part.names());
    }
    Ok(names)
}

/// What stands between the commas outside of brackets.
fn parts(list: &str) -> Result<Vec<&str>, HostlistError> {
    let mut parts = Vec::new();
    let (mut begin, mut inside) = (0, false);
    for (at, c) in list.char_indices() {
        let part = || shown(&list[begin..]);
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
        let part = shown(&list[begin..]);
        return Err(HostlistError::Open { part });
    }
    parts.push(&list[begin..]);
    Ok(parts)
}

impl<'l> Part<'l> {
    fn read(text: &'l str) -> Result<Self, HostlistError> {
        let mut brackets = Vec::new();
        let mut rest = text;
        while let Some((plain, bracket)) = rest.split_once('[') {
            let (listed, after) = bracket.split_once(']').unwrap_or((bracket, ""));
            let ranges = listed.split(',').map(|range| Range::read(text, range));
            brackets.push((plain, ranges.collect::<Result<_, _>>()?));
            rest = after;
        }
        if brackets.is_empty() && rest.is_empty() {
            Err(HostlistError::Empty)
        } else {
            Ok(Self { brackets, rest })
        }
    }

    /// Several brackets in one name multiply.
    fn count(&self) -> usize {
        let of = |ranges: &[Range]| {
            ranges
                .iter()
                .map(Range::count)
                .fold(0, usize::saturating_add)
        };
        let each = self.brackets.iter().map(|(_, ranges)| of(ranges));
        each.fold(1, usize::saturating_mul)
    }

    /// Of its longest name.
    fn bytes(&self) -> usize {
        let longest = |ranges: &[Range]| ranges.iter().map(Range::digits).max().unwrap_or(0);
        let each = self.brackets.iter();
        let each = each.map(|(plain, ranges)| plain.len() + longest(ranges));
        each.sum::<usize>() + self.rest.len()
    }

    fn names(&self) -> Vec<String> {
        let mut names = vec![String::new()];
        for (plain, ranges) in &self.brackets {
            let with = |begun: &String| {
                let begun = format!("{begun}{plain}");
                let numbers = ranges.iter().flat_map(Range::numbers);
                numbers.map(move |number| begun.clone() + &number)
            };
            names = names.iter().flat_map(with).collect();
        }
        names.iter_mut().for_each(|name| name.push_str(self.rest));
        names
    }
}

impl Range {
    fn read(part: &str, text: &str) -> Result<Self, HostlistError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let bad = || HostlistError::Range {
            part: shown(part),
            range: shown(text),
        };
        let number = |digits: &str| {
            if digits.bytes().all(|byte| byte.is_ascii_digit()) {
                digits.parse::<u64>().map_err(|_| bad())
            } else {
                Err(bad())
            }
        };
        let (from, to) = (number(first)?, number(last)?);
        let width = first.len();
        if from <= to {
            Ok(Self { from, to, width })
        } else {
            Err(HostlistError::Backwards {
                part: shown(part),
                range: shown(text),
            })
        }
    }

    fn count(&self) -> usize {
        usize::try_from(self.to - self.from).map_or(usize::MAX, |more| more.saturating_add(1))
    }

    /// Of its longest number.
    fn digits(&self) -> usize {
        let digits = self.to.checked_ilog10().map_or(1, |more| more as usize + 1);
        self.width.max(digits)
    }

    fn numbers(&self) -> impl Iterator<Item = String> {
        let width = self.width;
        (self.from..=self.to).map(move |number| format!("{number:0width$}"))
    }
}

impl Room {
    fn take(&mut self, part: &Part<'_>, text: &str) -> Result<(), HostlistError> {
        let (count, bytes) = (part.count(), part.bytes());
        let place = || shown(text);
        if bytes > MAX_NAME_BYTES {
            return Err(HostlistError::TooLong { part: place() });
        }
        let hosts = self.hosts.checked_sub(count);
        self.hosts = hosts.ok_or_else(|| HostlistError::TooMany { part: place() })?;
        let left = self.bytes.checked_sub(count * bytes);
        self.bytes = left.ok_or_else(|| HostlistError::TooMuch { part: place() })?;
        Ok(())
    }
}

/// Enough of it to find it again.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_EXCERPT_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
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
    fn hostlist_is_expanded() {
        let names = unfold("g[0-2,7],login,n[08-11],r[1-2]u[3,5]").unwrap();
        let expected = "g0 g1 g2 g7 login n08 n09 n10 n11 r1u3 r1u5 r2u3 r2u5";
        assert_eq!(names.join(" "), expected);
    }

    #[test]
    fn hostlist_error_names_its_place() {
        let describe = |list: &str| unfold(list).unwrap_err().to_string();
        assert_eq!(describe("a,g[0-3"), "g[0-3: a bracket that is not closed");
        assert_eq!(
            describe("g0-3]"),
            "g0-3]: a closing bracket that was never opened"
        );
        assert_eq!(
            describe("g[a]"),
            "g[a]: a is not a number, and not a range such as 0-3"
        );
        assert_eq!(
            describe("g[]"),
            "g[]:  is not a number, and not a range such as 0-3"
        );
        assert_eq!(describe("g[3-1]"), "g[3-1]: 3-1 ends before it begins");
        assert_eq!(describe("a,,b"), "a name is empty");
        assert_eq!(
            describe("g[0-18446744073709551615]"),
            "g[0-18446744073709551615]: with it the list stands for more than 1000000 hosts"
        );
        assert_eq!(
            describe("a,g[0-999]h[0-9999]"),
            "g[0-999]h[0-9999]: with it the list stands for more than 1000000 hosts"
        );
    }

    /// Few bytes that stand for gigabytes: each is refused before its names are written.
    #[test]
    fn oversized_hostlist_is_refused() {
        let describe = |list: &str| unfold(list).unwrap_err().to_string();
        let zeros = "0".repeat(100_000);
        let long = describe(&format!("a,node[{zeros}-{}]", "9".repeat(6)));
        assert!(
            long.starts_with("node[000") && long.ends_with("0…: a name of more than 255 bytes")
        );
        assert!(long.len() < 120, "{long}");
        let brackets = describe(&"[1]".repeat(300));
        assert!(
            brackets.ends_with("…: a name of more than 255 bytes"),
            "{brackets}"
        );
        let wide = format!("[{}-999999]", "0".repeat(200));
        let much = describe(&format!("n{wide}"));
        assert!(
            much.ends_with("…: with it the names take more than 32 MiB"),
            "{much}"
        );
        let half = format!("n[{}-99999],", "0".repeat(200));
        assert_eq!(unfold(half.trim_end_matches(',')).unwrap().len(), 100_000);
        let several = describe(&(half.clone() + &half + "last"));
        assert!(several.ends_with("take more than 32 MiB"), "{several}");
        let many = describe(&"g[0-999],".repeat(1001));
        assert_eq!(
            many,
            "g[0-999]: with it the list stands for more than 1000000 hosts"
        );
    }

    #[test]
    fn largest_hostlist_is_expanded() {
        let longest = format!("n[{}1]", "0".repeat(253));
        assert_eq!(unfold(&longest).unwrap()[0].len(), 255);
        assert!(unfold(&format!("n{longest}")).is_err());
        let plain = "x".repeat(256);
        assert!(unfold(&plain[1..]).is_ok() && unfold(&plain).is_err());
        let most = unfold("node[0-999999]").unwrap();
        assert_eq!((most.len(), &most[999_999][..]), (1_000_000, "node999999"));
    }

    proptest! {
        #[test]
        fn folded_hostlist_expands_to_same(
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
        fn arbitrary_hostlist_terminates(list in "[a-c0-9,\\[\\]-]{0,40}") {
            let names = unfold(&list).unwrap_or_default();
            prop_assert!(names.iter().all(|name| (1..=MAX_NAME_BYTES).contains(&name.len())));
        }
    }
}
