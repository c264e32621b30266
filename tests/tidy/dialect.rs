//! Words of a private dialect in what users of the programs read: string literals and help texts.
//! A sentence for users names its subject, with the field's noun.

use std::mem;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprLit, Lit, LitStr, Meta};

use crate::scan::marks_test;
use crate::violation::Violation;

/// Folders with the sources of programs.
pub(crate) const PROGRAM_FOLDERS: &[&str] = &["agent/", "common/", "coordinator/", "proto/"];

/// A word, and what to write instead.
const DIALECT: &[(&str, &str)] = &[
    ("whoever", NAME_THE_SUBJECT),
    ("whomever", NAME_THE_SUBJECT),
    ("nobody", NAME_THE_SUBJECT),
    ("somebody", NAME_THE_SUBJECT),
    ("anybody", NAME_THE_SUBJECT),
    ("everybody", NAME_THE_SUBJECT),
    ("newcomer", NAME_THE_SUBJECT),
    ("newcomers", NAME_THE_SUBJECT),
    ("of it", "name the thing again"),
    ("so many", GIVE_THE_FIGURE),
    ("so long", GIVE_THE_FIGURE),
    ("so often", GIVE_THE_FIGURE),
    ("tell", NAME_THE_ACT),
    ("tells", NAME_THE_ACT),
    ("told", NAME_THE_ACT),
    ("believed", "write accepted or rejected"),
    ("foretold", "write predicted"),
    ("foretells", "write predicts"),
    ("come about", "write blocked, with the reason"),
    ("comes about", "write blocked, with the reason"),
    ("came about", "write blocked, with the reason"),
    ("taken back", "write rolled back"),
    ("takes back", "write rolls back"),
    ("given up", "write aborted"),
    ("give up", "write abort"),
    ("carried out", "write applied"),
    ("carry out", "write apply"),
    ("shut out", "write revoked"),
    ("let in", "write admitted or refused"),
    ("mend", "write repair or fix"),
    ("mends", "write repairs or fixes"),
    ("mended", "write repaired or fixed"),
    ("stands twice", "write duplicate"),
    ("any more", "write no longer"),
    ("anew", "write again or new"),
    ("shall", "write the imperative, or desired"),
];
const NAME_THE_SUBJECT: &str = "name the subject: operator, agent, leader, member, peer";
const GIVE_THE_FIGURE: &str = "give the figure with its unit";
const NAME_THE_ACT: &str = "write report, send, print, instruct or show";

/// What follows these is for developers: why something cannot fail, or why a lint is lifted.
const INTERNAL: &[&str] = &[
    "expect",
    "expect_err",
    "reason",
    "panic",
    "unreachable",
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
];

/// What stands in the source of a program outside its tests.
pub(crate) fn violations(path: &str, source: &str) -> Vec<Violation> {
    let file = syn::parse_file(source).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut texts = Texts::default();
    texts.visit_file(&file);
    let found = texts.found.iter();
    found
        .flat_map(|(line, text)| of_text(path, *line, text))
        .collect()
}

fn of_text(path: &str, line: usize, text: &str) -> Vec<Violation> {
    // A single word is a key.
    if !text.trim().contains(' ') {
        return Vec::new();
    }
    let plain = plain(text);
    let found = DIALECT.iter().filter(|(word, _)| stands_in(&plain, word));
    found
        .map(|(word, mend)| Violation::new(path, line, format!("`{word}` for users"), *mend))
        .collect()
}

/// In lower case, with single spaces, and without the names of placeholders.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut in_placeholder = false;
    for c in text.to_lowercase().chars() {
        match c {
            '{' => in_placeholder = true,
            '}' => {
                in_placeholder = false;
                plain.push('…');
            }
            _ if in_placeholder => {}
            _ => plain.push(c),
        }
    }
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// As a word of its own, and not in the name of an option or a field.
fn stands_in(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// Literals and help texts, with their lines.
#[derive(Default)]
struct Texts {
    /// Doc comments here are printed by `--help`.
    is_help: bool,
    found: Vec<(usize, String)>,
}

impl Texts {
    fn add(&mut self, text: &LitStr) {
        self.found.push((text.span().start().line, text.value()));
    }

    /// Inside a macro there is no syntax tree.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut is_internal = false;
        for tree in tokens {
            match tree {
                TokenTree::Ident(ident) => is_internal = INTERNAL.iter().any(|it| ident == *it),
                TokenTree::Punct(_) => {}
                TokenTree::Group(group) => {
                    if !mem::take(&mut is_internal) {
                        self.tokens(group.stream());
                    }
                }
                TokenTree::Literal(literal) => {
                    if !mem::take(&mut is_internal)
                        && let Lit::Str(text) = Lit::new(literal)
                    {
                        self.add(&text);
                    }
                }
            }
        }
    }

    fn item(&mut self, attributes: &[Attribute], visit: impl FnOnce(&mut Self)) {
        if attributes.iter().any(marks_test) {
            return;
        }
        let is_help = attributes.iter().any(derives_help);
        let outer = mem::replace(&mut self.is_help, is_help);
        visit(self);
        self.is_help = outer;
    }
}

fn derives_help(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else {
        return false;
    };
    let derived = list.tokens.to_string();
    list.path.is_ident("derive")
        && derived
            .split(|c: char| !c.is_alphanumeric())
            .any(|name| matches!(name, "Args" | "Parser" | "Subcommand" | "ValueEnum"))
}

impl<'ast> Visit<'ast> for Texts {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.item(&item.attrs, |texts| visit::visit_item_mod(texts, item));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.item(&item.attrs, |texts| visit::visit_item_impl(texts, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.item(&item.attrs, |texts| visit::visit_item_fn(texts, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.item(&item.attrs, |texts| visit::visit_impl_item_fn(texts, item));
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.item(&item.attrs, |texts| visit::visit_item_struct(texts, item));
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.item(&item.attrs, |texts| visit::visit_item_enum(texts, item));
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        match &attribute.meta {
            Meta::List(list) => self.tokens(list.tokens.clone()),
            Meta::NameValue(pair) if self.is_help && pair.path.is_ident("doc") => {
                if let Expr::Lit(ExprLit {
                    lit: Lit::Str(text),
                    ..
                }) = &pair.value
                {
                    self.add(text);
                }
            }
            _ => {}
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if INTERNAL.iter().any(|it| call.method == *it) {
            self.visit_expr(&call.receiver);
        } else {
            visit::visit_expr_method_call(self, call);
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let name = call.path.segments.last().map(|last| &last.ident);
        if !name.is_some_and(|name| INTERNAL.iter().any(|it| name == *it)) {
            self.tokens(call.tokens.clone());
        }
    }

    fn visit_lit_str(&mut self, text: &'ast LitStr) {
        self.add(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<(usize, String)> {
        let found = violations("src/lib.rs", source).into_iter();
        found.map(|it| (it.line, it.what)).collect()
    }

    fn at(line: usize, word: &str) -> (usize, String) {
        (line, format!("`{word}` for users"))
    }

    #[test]
    fn dialect_in_literals_is_found() {
        let source = "fn f() {\n    g(\"nobody leads\");\n    warn!(\"{n} rules shall \\\n        go\");\n}\n\
                      #[derive(Error)]\nenum E {\n    #[error(\"it was carried out\")]\n    A,\n}";
        let expected = [at(2, "nobody"), at(3, "shall"), at(8, "carried out")];
        assert_eq!(found(source), expected);
    }

    #[test]
    fn dialect_in_help_is_found() {
        let source = "#[derive(Debug, Args)]\nstruct A {\n    /// Whoever asks\n    #[arg(long)]\n    a: u8,\n}\n\
                      /// Whoever asks\nstruct B;";
        assert_eq!(found(source), [at(3, "whoever")]);
    }

    #[test]
    fn tests_and_reasons_are_exempt() {
        let source = "#[cfg(test)]\nmod tests { const A: &str = \"nobody leads\"; }\n\
                      fn f() { a.expect(\"nobody else has it\"); g!(b.expect(\"nobody else has it\")); }\n\
                      #[allow(lint, reason = \"nobody else has it\")]\nfn h() { unreachable!(\"nobody asks\") }";
        assert!(found(source).is_empty(), "{:?}", found(source));
    }

    #[test]
    fn keys_options_and_placeholders_are_exempt() {
        let source = "fn f() { g(\"told\", \"use --anew\", \"plan {told} of {shall:?}\", \"an untold_row\"); }";
        assert!(found(source).is_empty(), "{:?}", found(source));
    }
}
