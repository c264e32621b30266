//! Links of README.md and of docs/ lead to files and headings that exist, and README.md leads to each page.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::TextFile;
use crate::violation::Violation;

const README: &str = "README.md";
const PAGES_FOLDER: &str = "docs/";

/// A relative link of a page.
struct PageLink<'a> {
    line: usize,
    target: &'a str,
}

pub(crate) fn violations(files: &[TextFile]) -> Vec<Violation> {
    let pages: Vec<_> = files.iter().filter(|file| is_page(&file.path)).collect();
    let anchors: BTreeMap<&str, BTreeSet<String>> = pages
        .iter()
        .map(|page| (&*page.path, anchors(&page.text)))
        .collect();
    let broken = |page: &TextFile| {
        let links = links(&page.text).into_iter();
        let wrong = links.filter_map(|link| {
            let what = problem(&page.path, link.target, files, &anchors)?;
            let mend = "name a file and a heading that exist";
            Some(Violation::new(&page.path, link.line, what, mend))
        });
        wrong.collect::<Vec<_>>()
    };
    let mut found: Vec<_> = pages.iter().copied().flat_map(broken).collect();
    found.extend(unlisted(&pages));
    found
}

fn is_page(path: &str) -> bool {
    path == README || (path.starts_with(PAGES_FOLDER) && path.ends_with(".md"))
}

/// Pages that a reader of README.md does not find.
fn unlisted(pages: &[&TextFile]) -> Vec<Violation> {
    let readme = pages.iter().filter(|page| page.path == README);
    let listed: BTreeSet<String> = readme
        .flat_map(|page| links(&page.text))
        .map(|link| place(README, path_and_anchor(link.target).0))
        .collect();
    let others = pages.iter().filter(|page| page.path != README);
    let unlisted = others.filter(|page| !listed.contains(&page.path));
    let violation = |page: &&TextFile| {
        let what = "README.md does not lead here";
        Violation::new(&page.path, 1, what, "add it to the list of pages")
    };
    unlisted.map(violation).collect()
}

/// A line with four blanks in front is code.
fn links(text: &str) -> Vec<PageLink<'_>> {
    let lines = text.lines().zip(1..);
    let prose = lines.filter(|(line, _)| !line.starts_with("    "));
    let links = prose.flat_map(|(text, line)| {
        let ends = text.split("](").skip(1);
        let targets = ends.filter_map(|end| Some(end.split_once(')')?.0));
        targets.map(move |target| PageLink { line, target })
    });
    links
        .filter(|link| !link.target.starts_with("http"))
        .collect()
}

fn problem(
    page: &str,
    target: &str,
    files: &[TextFile],
    anchors: &BTreeMap<&str, BTreeSet<String>>,
) -> Option<String> {
    let (path, anchor) = path_and_anchor(target);
    let place = place(page, path);
    if !is_there(&place, files) {
        return Some(format!("{place} does not exist"));
    }
    let has_anchor = anchors.get(&*place).is_some_and(|it| it.contains(anchor));
    let is_lost = !anchor.is_empty() && !has_anchor;
    is_lost.then(|| format!("{place} has no heading #{anchor}"))
}

fn path_and_anchor(target: &str) -> (&str, &str) {
    target.split_once('#').unwrap_or((target, ""))
}

/// Relative to the root of the tree.
fn place(page: &str, path: &str) -> String {
    if path.is_empty() {
        return page.to_owned();
    }
    let mut parts: Vec<_> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        if part == ".." {
            parts.pop();
        } else if !part.is_empty() {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// A file of the tree, or a folder with one. Pictures of pixels are no text, and so in no list.
fn is_there(place: &str, files: &[TextFile]) -> bool {
    let is_in = |file: &TextFile| {
        let rest = file.path.strip_prefix(place);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    place.ends_with(".png") || files.iter().any(is_in)
}

fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect()
}

/// As GitHub makes it of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    let lower = kept.flat_map(char::to_lowercase);
    lower.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(readme: &str, page: &str) -> Vec<String> {
        let files = [
            (README, readme),
            ("docs/undo.md", page),
            ("deploy/slurm/prolog.sh", ""),
        ];
        let files = files.map(|(path, text)| TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        });
        let found = violations(&files);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_to_files_and_headings_pass() {
        let readme = "See [undo](docs/undo.md#stop-it-now) and\n[scripts](deploy/slurm).\n";
        let page = "# Undo\n\n## Stop `it` now\n\n[up](../README.md), [here](#undo), ![p](p.png)\n\
                    [far](https://example.org/#x)\n\n    [code](is.md)\n";
        assert_eq!(found(readme, page), [""; 0]);
    }

    #[test]
    fn lost_files_and_headings_are_found() {
        let page = "# Undo\n\n[a](gone.md) and [b](#stop)\n";
        let mend = "name a file and a heading that exist";
        let expected = [
            format!("docs/undo.md:3: docs/gone.md does not exist; {mend}"),
            format!("docs/undo.md:3: docs/undo.md has no heading #stop; {mend}"),
        ];
        assert_eq!(found("[undo](docs/undo.md)\n", page), expected);
    }

    #[test]
    fn page_missing_in_readme_is_found() {
        let expected = "docs/undo.md:1: README.md does not lead here; add it to the list of pages";
        assert_eq!(found("# Reweave\n", "# Undo\n"), [expected]);
    }
}
