//! The shape of what is said or written down, as a text that is held against the one of its version. Each room
//! that has a format of its own includes this file.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_reflection::{ContainerFormat, Tracer, TracerConfig};

/// The shapes of all that one value is made of, by name.
pub(crate) type Shapes = BTreeMap<String, Value>;

/// Each format by its outermost type.
pub(crate) type Formats = Vec<(&'static str, Shapes)>;

/// Every type that a `T` is made of, with its fields and variants in their order. Of a choice within
/// others not every variant comes up by itself: those are traced one by one.
pub(crate) fn shape<T: DeserializeOwned>(choices: &[fn(&mut Tracer)]) -> Shapes {
    let mut tracer = Tracer::new(TracerConfig::default());
    trace::<T>(&mut tracer);
    choices.iter().for_each(|trace| trace(&mut tracer));
    let value = |format: &ContainerFormat| serde_json::to_value(format).expect("it can be written");
    match tracer.registry() {
        Ok(registry) => registry
            .iter()
            .map(|(name, it)| (name.clone(), value(it)))
            .collect(),
        Err(error) => panic!("{}: {error}", std::any::type_name::<T>()),
    }
}

pub(crate) fn trace<T: DeserializeOwned>(tracer: &mut Tracer) {
    let traced = tracer.trace_simple_type::<T>();
    traced.unwrap_or_else(|error| panic!("{error}: {}", error.explanation()));
}

pub(crate) fn text(formats: &[(&str, Shapes)]) -> String {
    let line = |(name, shape): (&String, &Value)| format!("{name} {shape}\n");
    let section = |(root, shapes): &(&str, Shapes)| {
        let lines: String = shapes.iter().map(line).collect();
        format!("# {root}\n{lines}")
    };
    formats.iter().map(section).collect()
}

/// A released shape stays, and what is new comes with a new version.
#[track_caller]
pub(crate) fn assert_known(formats: &[(&str, Shapes)], known: &str) {
    let now = text(formats);
    let lines: BTreeSet<_> = known.lines().collect();
    let new: Vec<_> = now.lines().filter(|it| !lines.contains(it)).collect();
    assert!(
        now == known,
        "the format has not the shape that is written down for its version. A released shape stays, and what is new \
         comes under a new version; before a release, `make shapes`. These lines are new:\n{}",
        new.join("\n")
    );
}

/// Before a release, when a format has become another one.
#[allow(
    clippy::disallowed_methods,
    reason = "the files are beside the code; some of the rooms that include this may read them anyway"
)]
pub(crate) fn write_down(file: &str, formats: &[(&str, Shapes)]) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/shapes");
    std::fs::create_dir_all(folder).expect("the tree can be written to");
    std::fs::write(format!("{folder}/{file}"), text(formats)).expect("so can the file");
}
