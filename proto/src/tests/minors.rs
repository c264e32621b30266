//! A later minor version only adds kinds at the ends of lists, so that a reader of the earlier one reads all that is
//! not new. The rooms whose formats have minor versions include this file.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::shapes::{Formats, Shapes, text};

/// A kind that came with the later version: in which format, in which list, and what it is called.
pub(crate) type NewKind = (&'static str, &'static str, &'static str);

/// As it was before there was what is new.
pub(crate) fn earlier(mut formats: Formats, new: &[NewKind]) -> Formats {
    for (root, shapes) in &mut formats {
        for (_, list, kind) in new.iter().filter(|(format, ..)| format == root) {
            let kinds = shapes
                .get_mut(*list)
                .and_then(|it| it["ENUM"].as_object_mut());
            let kinds = kinds.expect("a list of kinds");
            kinds.retain(|_, it| it.get(kind).is_none());
        }
        let mut needed = BTreeSet::new();
        reach(shapes, root, &mut needed);
        shapes.retain(|name, _| needed.contains(name));
    }
    formats
}

/// All that this one is made of.
pub(crate) fn reach(shapes: &Shapes, name: &str, needed: &mut BTreeSet<String>) {
    if needed.insert(name.to_owned()) {
        let shape = shapes.get(name).expect("it was traced");
        named(shape).for_each(|name| reach(shapes, name, needed));
    }
}

pub(crate) fn named(shape: &Value) -> Box<dyn Iterator<Item = &str> + '_> {
    match shape {
        Value::Object(parts) => Box::new(parts.iter().flat_map(|(key, part)| match part {
            Value::String(name) if key == "TYPENAME" => Box::new(std::iter::once(name.as_str())),
            part => named(part),
        })),
        Value::Array(parts) => Box::new(parts.iter().flat_map(named)),
        _ => Box::new(std::iter::empty()),
    }
}

pub(crate) fn read(text: &str) -> Vec<(&str, Shapes)> {
    let mut formats: Vec<(&str, Shapes)> = vec![];
    for line in text.lines() {
        let (name, rest) = line.split_once(' ').expect("two words");
        match (name, formats.last_mut()) {
            ("#", _) => formats.push((rest, Shapes::new())),
            (_, Some((_, shapes))) => {
                let shape = serde_json::from_str(rest).expect("it is JSON");
                shapes.insert(name.to_owned(), shape);
            }
            _ => panic!("{line} stands under no format"),
        }
    }
    formats
}

/// Whether who knows the old shape understands all that it can say, and says nothing else itself: the same,
/// or a list of kinds with more of them at its end.
pub(crate) fn only_adds(old: &Value, new: &Value) -> bool {
    match (old["ENUM"].as_object(), new["ENUM"].as_object()) {
        (Some(old), Some(new)) => old.iter().all(|(place, kind)| new.get(place) == Some(kind)),
        _ => old == new,
    }
}

/// What of the old shapes is another thing in the new ones.
pub(crate) fn bent(old: &[(&str, Shapes)], new: &[(&str, Shapes)]) -> Vec<String> {
    let new: BTreeMap<_, _> = new.iter().map(|(root, shapes)| (*root, shapes)).collect();
    let mut bent = vec![];
    for (root, shapes) in old {
        for (name, shape) in shapes {
            let now = new.get(root).and_then(|shapes| shapes.get(name));
            if !now.is_some_and(|now| only_adds(shape, now)) {
                bent.push(format!("{name} in {root}"));
            }
        }
    }
    bent
}

/// What is written down of the earlier version is the later one without what is new, and nothing else is bent.
#[track_caller]
pub(crate) fn assert_only_added(formats: Formats, new: &[NewKind], [before, now]: [&str; 2]) {
    let without = text(&earlier(formats, new));
    assert_eq!(without, before, "`make shapes` rewrites it");
    assert_eq!(bent(&read(before), &read(now)), Vec::<String>::new());
}
