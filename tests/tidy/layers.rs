//! Arrows inside a package: rooms of the coordinator's core use lower rooms alone, and modules of common do not use each
//! other in circles. Test code is not looked at.

use std::collections::BTreeSet;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{ItemFn, ItemImpl, ItemMod, ItemUse, Macro, UseTree};

use crate::scan::marks_test;
use crate::tree::TextFile;
use crate::violation::Violation;

const HERE: &str = "tests/tidy/layers.rs";
const CORE: &str = "coordinator/core/src/";
const COMMON: &str = "common/src/";

/// The rooms of the core, the lowest first. What is in none of them stands on top.
const CORE_ROOMS: &[&str] = &[
    "log", "ingest", "estimate", "model", "plan", "rollout", "api",
];

/// Uses of a higher room that are left: file and room. The list may only shrink.
const UPWARD: &[(&str, &str)] = &[];

/// Uses of one module of common by another without which there are no circles. The list may only shrink.
const CIRCLES: &[(&str, &str)] = &[
    ("circuit", "instruction"),
    ("circuit", "plan"),
    ("forwarding_state", "sample"),
    ("snapshot", "plan"),
];

/// A use of one top-level module of a package by another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Edge {
    /// Relative to the sources of the package.
    file: String,
    line: usize,
    from: String,
    to: String,
}

pub(crate) fn upward(files: &[TextFile]) -> Vec<Violation> {
    upward_but(files, UPWARD)
}

pub(crate) fn circles(files: &[TextFile]) -> Vec<Violation> {
    circles_but(files, CIRCLES)
}

fn upward_but(files: &[TextFile], known: &[(&str, &str)]) -> Vec<Violation> {
    let mut edges = edges(files, CORE);
    edges.retain(|edge| rank(&edge.to) > rank(&edge.from));
    let is = |edge: &Edge, (file, room): (&str, &str)| edge.file == file && edge.to == room;
    let stale = known
        .iter()
        .filter(|&&it| !edges.iter().any(|edge| is(edge, it)));
    let stale: Vec<_> = stale.map(|(file, room)| stale_entry(file, room)).collect();
    edges.retain(|edge| !known.iter().any(|&it| is(edge, it)));
    edges.iter().map(wrong_way).chain(stale).collect()
}

fn rank(module: &str) -> usize {
    let place = CORE_ROOMS.iter().position(|room| *room == module);
    place.unwrap_or(CORE_ROOMS.len())
}

fn wrong_way(edge: &Edge) -> Violation {
    Violation::new(
        &format!("{CORE}{}", edge.file),
        edge.line,
        format!("{} must not use {}", edge.from, edge.to),
        format!(
            "rooms use lower ones alone ({}); move the type down, or take its value as an argument",
            CORE_ROOMS.join(" <- ")
        ),
    )
}

fn circles_but(files: &[TextFile], known: &[(&str, &str)]) -> Vec<Violation> {
    let edges = edges(files, COMMON);
    let left = circular(without(&edges, known));
    let needless = known.iter().filter(|&&own| {
        let others: Vec<_> = known.iter().copied().filter(|it| *it != own).collect();
        circular(without(&edges, &others)).len() == left.len()
    });
    let stale = needless.map(|(from, to)| stale_entry(from, to));
    left.iter().map(in_a_circle).chain(stale).collect()
}

fn without(edges: &[Edge], known: &[(&str, &str)]) -> Vec<Edge> {
    let is_known = |edge: &&Edge| known.contains(&(&*edge.from, &*edge.to));
    edges
        .iter()
        .filter(|edge| !is_known(edge))
        .cloned()
        .collect()
}

/// Uses that are part of a circle, or lie between two.
fn circular(mut edges: Vec<Edge>) -> Vec<Edge> {
    loop {
        let users: BTreeSet<_> = edges.iter().map(|edge| edge.from.clone()).collect();
        let used: BTreeSet<_> = edges.iter().map(|edge| edge.to.clone()).collect();
        let before = edges.len();
        edges.retain(|edge| users.contains(&edge.to) && used.contains(&edge.from));
        if edges.len() == before {
            return edges;
        }
    }
}

fn in_a_circle(edge: &Edge) -> Violation {
    Violation::new(
        &format!("{COMMON}{}", edge.file),
        edge.line,
        format!("{} uses {}, which leads back to it", edge.from, edge.to),
        "move what both need into a module that uses neither",
    )
}

fn stale_entry(from: &str, to: &str) -> Violation {
    let what = format!("the exception of {from} and {to} is not needed any more");
    Violation::new(HERE, 1, what, "take it off the list")
}

/// All uses between top-level modules of the package with its sources in this folder.
fn edges(files: &[TextFile], folder: &str) -> Vec<Edge> {
    let sources = files.iter().filter_map(|file| {
        let inner = file.path.strip_prefix(folder)?.strip_suffix(".rs")?;
        let is_test = inner.split('/').any(|part| part == "tests");
        (!is_test && inner != "lib").then_some((inner, file))
    });
    sources
        .flat_map(|(inner, file)| of_file(inner, file))
        .collect()
}

fn of_file(inner: &str, file: &TextFile) -> Vec<Edge> {
    let parsed = syn::parse_file(&file.text)
        .unwrap_or_else(|error| panic!("{}: not Rust: {error}", file.path));
    let inner_path = inner.strip_suffix("/mod").unwrap_or(inner);
    let module: Vec<_> = inner_path.split('/').map(str::to_owned).collect();
    let from = module[0].clone();
    let mut reader = Reader {
        module,
        found: Vec::new(),
    };
    reader.visit_file(&parsed);
    let others = reader.found.into_iter().filter(|(_, to)| *to != from);
    others
        .map(|(line, to)| Edge {
            file: format!("{inner}.rs"),
            line,
            from: from.clone(),
            to,
        })
        .collect()
}

struct Reader {
    /// Where it is, from the root of the package.
    module: Vec<String>,
    /// Lines, and the top-level modules that are named there.
    found: Vec<(usize, String)>,
}

impl Reader {
    /// Where a path leads that begins in this package.
    fn note(&mut self, line: usize, path: &[String]) {
        let supers = path.iter().take_while(|part| *part == "super").count();
        let kept = self.module.len().saturating_sub(supers);
        let top = match path.first().map(String::as_str) {
            Some("crate") => path.get(1),
            Some("super") => self.module[..kept].iter().chain(&path[supers..]).next(),
            _ => None,
        };
        self.found.extend(top.map(|top| (line, top.clone())));
    }

    fn tree(&mut self, line: usize, before: &[String], tree: &UseTree) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            UseTree::Path(path) => self.tree(line, &with(path.ident.to_string()), &path.tree),
            UseTree::Name(name) => self.note(line, &with(name.ident.to_string())),
            UseTree::Rename(renamed) => self.note(line, &with(renamed.ident.to_string())),
            UseTree::Glob(_) => self.note(line, before),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.tree(line, before, tree);
                }
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !item.attrs.iter().any(marks_test) {
            self.module.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !item.attrs.iter().any(marks_test) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if !item.attrs.iter().any(marks_test) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !item.attrs.iter().any(marks_test) {
            self.tree(item.span().start().line, &[], &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<_> = path
            .segments
            .iter()
            .map(|it| it.ident.to_string())
            .collect();
        if parts.len() > 1 {
            self.note(path.span().start().line, &parts);
        }
        visit::visit_path(self, path);
    }

    /// Inside a macro there is no syntax tree.
    fn visit_macro(&mut self, call: &'ast Macro) {
        let line = call.path.span().start().line;
        let text = call.tokens.to_string();
        for behind in text.split("crate :: ").skip(1) {
            let name = behind
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .next();
            self.found.extend(name.map(|name| (line, name.to_owned())));
        }
        visit::visit_macro(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile {
            path: path.into(),
            text: text.into(),
        }
    }

    fn core(inner: &str, text: &str) -> TextFile {
        file(&format!("{CORE}{inner}"), text)
    }

    fn common(inner: &str, text: &str) -> TextFile {
        file(&format!("{COMMON}{inner}"), text)
    }

    fn only(found: &[Violation]) -> String {
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].to_string()
    }

    #[test]
    fn upward_use_is_named_with_line() {
        let text = "use std::fmt;\n\nuse crate::{log::State, plan::check};\n";
        let message = only(&upward_but(&[core("ingest/admission.rs", text)], &[]));
        let expected = "coordinator/core/src/ingest/admission.rs:3: ingest must not use plan;";
        assert!(message.starts_with(expected), "{message}");
    }

    #[test]
    fn paths_and_macros_are_uses() {
        let path = core("log/state/mod.rs", "fn f() { crate::api::answer() }");
        assert!(only(&upward_but(&[path], &[])).contains("log must not use api"));
        let above = core(
            "log/state/step.rs",
            "fn f() -> super::super::super::model::World { g() }",
        );
        assert!(only(&upward_but(&[above], &[])).contains("log must not use model"));
        let inside = core(
            "plan/check.rs",
            "fn f() { assert!(crate::core::is_there()) }",
        );
        assert!(only(&upward_but(&[inside], &[])).contains("plan must not use core"));
    }

    #[test]
    fn downward_uses_are_allowed() {
        let files = [
            core("core.rs", "use crate::{api, log, role};"),
            core(
                "api/mod.rs",
                "use crate::log::State;\nuse super::rollout::Turn;",
            ),
            core(
                "log/state/step.rs",
                "use super::State;\nuse super::super::command::Change;",
            ),
        ];
        assert_eq!(upward_but(&files, &[]), []);
    }

    #[test]
    fn test_code_may_import_upward() {
        let inline = "#[cfg(test)]\nmod tests { use crate::api::answer; }\n#[cfg(test)]\nuse crate::plan::a;";
        let files = [
            core("log/state/tests.rs", "use crate::api::answer;"),
            core("log/codec.rs", inline),
            core("tests/scene.rs", "use crate::api::answer;"),
        ];
        assert_eq!(upward_but(&files, &[]), []);
    }

    #[test]
    fn exceptions_may_only_shrink() {
        let known = [("log/codec.rs", "plan")];
        let upward = core("log/codec.rs", "use crate::plan::check;");
        assert_eq!(upward_but(&[upward], &known), []);
        let mended = core("log/codec.rs", "use crate::log::State;");
        assert!(only(&upward_but(&[mended], &known)).contains("not needed any more"));
    }

    #[test]
    fn cycles_are_found() {
        let a = common("a.rs", "use crate::b::B;");
        let b = common("b/mod.rs", "fn f(c: crate::c::C) {}");
        let c = common("c.rs", "use crate::a::A;\nuse crate::d::D;");
        let d = common("d.rs", "");
        let files = [a, b, c, d];
        assert_eq!(circles_but(&files, &[]).len(), 3);
        assert_eq!(circles_but(&files, &[("c", "a")]), []);
        let needless = circles_but(&files, &[("c", "a"), ("c", "d")]);
        assert!(only(&needless).contains("c and d is not needed"));
    }
}
