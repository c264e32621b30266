//! Shapes that the API's description tells of. It knows them by their names alone: of two with one name it
//! keeps the last, and says so nowhere.

use std::collections::BTreeMap;

use crate::tree::TextFile;
use crate::violation::Violation;

pub(crate) fn violations(files: &[TextFile]) -> Vec<Violation> {
    let mut first: BTreeMap<String, (&str, usize)> = BTreeMap::new();
    let mut found = Vec::new();
    let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
    for (file, (line, name)) in rust.flat_map(|file| shapes(file).map(move |it| (file, it))) {
        if let Some((path, of)) = first.get(&name) {
            let what = format!("{path}:{of} has a shape {name} as well");
            let mend = "call one of them something else, or say `schema(as = ...)`";
            found.push(Violation::new(&file.path, line, what, mend));
        } else {
            first.insert(name, (&file.path, line));
        }
    }
    found
}

/// By the names that the description has for them.
fn shapes(file: &TextFile) -> impl Iterator<Item = (usize, String)> {
    let mut lines = file.text.lines().zip(1..);
    std::iter::from_fn(move || {
        let (head, line) = lines.find(|(line, _)| line.starts_with("#[") && derives(line))?;
        let mut called = said(head);
        for (text, _) in lines.by_ref() {
            called = called.or_else(|| said(text));
            if let Some(name) = declared(text) {
                return Some((line, called.unwrap_or_else(|| name.to_owned())));
            }
        }
        None
    })
}

fn derives(line: &str) -> bool {
    line.contains("derive(") && line.contains("ToSchema")
}

fn said(line: &str) -> Option<String> {
    let (_, after) = line.split_once("schema(as = ")?;
    let name = after.split([')', ',']).next()?;
    Some(name.trim().to_owned())
}

fn declared(line: &str) -> Option<&str> {
    let mut words = line.split([' ', '<', '(', ';', '{']);
    words.find(|word| ["struct", "enum"].contains(word))?;
    words.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[&str]) -> Vec<String> {
        let file = |(nth, text): (usize, &&str)| TextFile {
            path: format!("{nth}.rs"),
            text: (*text).to_owned(),
        };
        let files: Vec<_> = texts.iter().enumerate().map(file).collect();
        violations(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn duplicate_shape_names_are_found() {
        let one = "#[derive(Debug, ToSchema)]\npub enum Outcome {\n";
        let other = "#[cfg_attr(feature = \"schema\", derive(utoipa::ToSchema))]\n/// It.\nstruct Outcome {\n";
        let twice = found(&[one, other]);
        assert_eq!(twice.len(), 1, "{twice:?}");
        assert!(twice[0].starts_with("1.rs:1: 0.rs:1 has a shape Outcome"));
        let renamed = "#[derive(ToSchema)]\n#[schema(as = Other)]\nstruct Outcome;\n";
        let unseen = "#[derive(Debug)]\nstruct Outcome {\n";
        assert!(found(&[one, renamed, unseen]).is_empty());
        let same = "#[derive(ToSchema), schema(as = Outcome)]\nstruct Else;\n";
        assert_eq!(found(&[one, same]).len(), 1);
    }
}
