//! Reads one Rust file into facts: its functions with their sizes, and the marks of habits we do
//! not want, each with its line and whether it stands in test code. Judging them is done elsewhere.

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta};

/// What one source file holds.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) lines: usize,
    /// Top-level items that are more than `mod` and `use`.
    pub(crate) items: usize,
    pub(crate) functions: Vec<Function>,
    pub(crate) marks: Vec<Mark>,
}

#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// From the line of `fn` to the line of its closing brace.
    pub(crate) lines: usize,
    pub(crate) in_test: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) habit: Habit,
    pub(crate) line: usize,
    pub(crate) in_test: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    /// `todo!` or `unimplemented!`
    Unfinished,
    /// `.unwrap()`
    Unwrap,
    /// `thread::sleep(..)`, `time::sleep(..)`, or `sleep(..)` brought in by `use`
    Sleep,
    /// `#[ignore]` without a reason
    BareIgnore,
    /// `#[allow(clippy::disallowed_..)]` or the same with `expect`
    LiftedBan,
}

/// The facts of `text`. `test_file` says that all of it is test code.
pub(crate) fn facts(text: &str, test_file: bool) -> syn::Result<Facts> {
    let file = syn::parse_file(text)?;
    let mut scan = Scan {
        test_depth: usize::from(test_file),
        facts: Facts::default(),
    };
    scan.facts.lines = text.lines().count();
    scan.facts.items = file.items.iter().filter(|item| is_content(item)).count();
    scan.visit_file(&file);
    Ok(scan.facts)
}

fn is_content(item: &Item) -> bool {
    match item {
        Item::Use(_) => false,
        Item::Mod(module) => module.content.is_some(),
        _ => true,
    }
}

struct Scan {
    test_depth: usize,
    facts: Facts,
}

impl Scan {
    fn mark(&mut self, habit: Habit, at: &impl Spanned) {
        let line = at.span().start().line;
        self.facts.marks.push(Mark {
            habit,
            line,
            in_test: self.test_depth > 0,
        });
    }

    /// Visits what `attrs` stand on, as test code if they say so.
    fn within(&mut self, attrs: &[Attribute], visit: impl FnOnce(&mut Self)) {
        let depth = usize::from(attrs.iter().any(marks_test));
        self.test_depth += depth;
        visit(self);
        self.test_depth -= depth;
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let line = signature.span().start().line;
        self.facts.functions.push(Function {
            name: signature.ident.to_string(),
            line,
            lines: block.span().end().line + 1 - line,
            in_test: self.test_depth > 0,
        });
    }

    /// Inside a macro there is no syntax tree, so the habits are recognised by their tokens.
    fn tokens(&mut self, tokens: TokenStream) {
        let trees: Vec<_> = tokens.into_iter().collect();
        for (index, tree) in trees.iter().enumerate() {
            match tree {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(ident) => {
                    if let Some(habit) = habit_of_tokens(&trees, index) {
                        self.mark(habit, ident);
                    }
                }
                _ => {}
            }
        }
    }
}

fn habit_of_tokens(trees: &[TokenTree], index: usize) -> Option<Habit> {
    let word = trees[index].to_string();
    let before = index
        .checked_sub(1)
        .map(|i| trees[i].to_string())
        .unwrap_or_default();
    let after = trees
        .get(index + 1)
        .map(ToString::to_string)
        .unwrap_or_default();
    match word.as_str() {
        "todo" | "unimplemented" if after == "!" => Some(Habit::Unfinished),
        "unwrap" if before == "." && after == "()" => Some(Habit::Unwrap),
        "sleep" if before != "." && before != "fn" && after.starts_with('(') => Some(Habit::Sleep),
        _ => None,
    }
}

/// `#[test]`, `#[tokio::test]` and `#[cfg(test)]` or `#[cfg(all(test, ..))]`.
pub(crate) fn marks_test(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition
                .split(|c: char| !c.is_alphanumeric())
                .any(|word| word == "test")
                && !condition.contains("not")
        }
        meta => meta
            .path()
            .segments
            .last()
            .is_some_and(|last| last.ident == "test"),
    }
}

fn is_sleep(call: &syn::ExprCall) -> bool {
    let syn::Expr::Path(function) = &*call.func else {
        return false;
    };
    let words: Vec<_> = function
        .path
        .segments
        .iter()
        .map(|s| s.ident.to_string())
        .collect();
    matches!(
        words.iter().rev().map(String::as_str).collect::<Vec<_>>()[..],
        ["sleep"] | ["sleep", "thread" | "time", ..]
    )
}

fn lifts_ban(attribute: &Attribute) -> bool {
    let lifts = attribute.path().is_ident("allow") || attribute.path().is_ident("expect");
    let Meta::List(list) = &attribute.meta else {
        return false;
    };
    lifts && list.tokens.to_string().contains("disallowed_")
}

impl<'ast> Visit<'ast> for Scan {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.within(&module.attrs, |scan| visit::visit_item_mod(scan, module));
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        self.within(&block.attrs, |scan| visit::visit_item_impl(scan, block));
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.within(&function.attrs, |scan| {
            scan.function(&function.sig, &function.block);
            visit::visit_item_fn(scan, function);
        });
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.within(&function.attrs, |scan| {
            scan.function(&function.sig, &function.block);
            visit::visit_impl_item_fn(scan, function);
        });
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.within(&function.attrs, |scan| {
            if let Some(block) = &function.default {
                scan.function(&function.sig, block);
            }
            visit::visit_trait_item_fn(scan, function);
        });
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if call.method == "unwrap" && call.args.is_empty() {
            self.mark(Habit::Unwrap, &call.method);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if is_sleep(call) {
            self.mark(Habit::Sleep, call);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let name = call.path.segments.last().map(|last| last.ident.to_string());
        if matches!(name.as_deref(), Some("todo" | "unimplemented")) {
            self.mark(Habit::Unfinished, call);
        }
        self.tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if matches!(&attribute.meta, Meta::Path(path) if path.is_ident("ignore")) {
            self.mark(Habit::BareIgnore, attribute);
        }
        if lifts_ban(attribute) {
            self.mark(Habit::LiftedBan, attribute);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(text: &str) -> Vec<(Habit, usize, bool)> {
        let facts = facts(text, false).expect("the planted text is Rust");
        facts
            .marks
            .iter()
            .map(|mark| (mark.habit, mark.line, mark.in_test))
            .collect()
    }

    #[test]
    fn function_length_spans_fn_to_brace() {
        let text =
            "/// Words.\n#[inline]\npub fn one(\n    a: u8,\n) -> u8 {\n    a\n}\nuse a::b;\n";
        let facts = facts(text, false).expect("the planted text is Rust");
        let one = &facts.functions[0];
        assert_eq!(
            (one.name.as_str(), one.line, one.lines, one.in_test),
            ("one", 3, 5, false)
        );
        assert_eq!((facts.lines, facts.items), (8, 1));
    }

    #[test]
    fn methods_and_trait_defaults_are_functions() {
        let text = "impl A { fn a() {} }\ntrait B { fn b() {} fn c(); }";
        let facts = facts(text, false).expect("the planted text is Rust");
        let names: Vec<_> = facts.functions.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn unwraps_are_found_inside_macros() {
        let text = "fn f() {\n    a.unwrap();\n    assert!(b.unwrap(), \"{}\", .1);\n    c.unwrap_or(0);\n}";
        assert_eq!(
            marks(text),
            [(Habit::Unwrap, 2, false), (Habit::Unwrap, 3, false)]
        );
    }

    #[test]
    fn unfinished_code_is_found_inside_macros() {
        let text = "fn f() { todo!() }\nfn g() { println!(\"{}\", unimplemented!()) }";
        assert_eq!(
            marks(text),
            [(Habit::Unfinished, 1, false), (Habit::Unfinished, 2, false)]
        );
    }

    #[test]
    fn test_code_is_distinguished() {
        let text = "#[cfg(test)]\nmod tests { fn a() { b.unwrap() } }\n\
                    #[tokio::test]\nasync fn c() { d.unwrap() }\n\
                    #[cfg(not(test))]\nfn e() { f.unwrap() }";
        let in_test: Vec<_> = marks(text).iter().map(|mark| mark.2).collect();
        assert_eq!(in_test, [true, true, false]);
    }

    #[test]
    fn sleep_functions_found_methods_ignored() {
        let text = "fn f() {\n    std::thread::sleep(a);\n    sleep(b);\n    tokio::time::sleep(c);\n\
                    \n    select! { _ = sleep(d) => {} }\n    clock.sleep(e);\n}";
        let lines: Vec<_> = marks(text).iter().map(|mark| mark.1).collect();
        assert_eq!(lines, [2, 3, 4, 6]);
    }

    #[test]
    fn ignore_needs_reason() {
        let text = "#[test]\n#[ignore]\nfn a() {}\n#[test]\n#[ignore = \"needs a NIC\"]\nfn b() {}";
        assert_eq!(marks(text), [(Habit::BareIgnore, 2, true)]);
    }

    #[test]
    fn lifted_bans_found_on_items_files() {
        let text = "#![allow(clippy::disallowed_types)]\n\
                    #[expect(clippy::disallowed_methods, reason = \"x\")]\nfn a() {}\n\
                    #[allow(clippy::too_many_lines, reason = \"x\")]\nfn b() {}";
        assert_eq!(
            marks(text),
            [(Habit::LiftedBan, 1, false), (Habit::LiftedBan, 2, false)]
        );
    }
}
