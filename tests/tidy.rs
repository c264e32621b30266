//! The habits of the house as tests, so that no reviewer has to look for them.
//!
//! Each checker is a pure function from text or metadata to a list of violations and has tests of
//! its own with planted faults; here they meet the real tree.

#[path = "tidy/arrows.rs"]
mod arrows;
#[path = "tidy/bans.rs"]
mod bans;
#[path = "tidy/change_table.rs"]
mod change_table;
#[path = "tidy/dialect.rs"]
mod dialect;
#[path = "tidy/habits.rs"]
mod habits;
#[path = "tidy/layers.rs"]
mod layers;
#[path = "tidy/links.rs"]
mod links;
#[path = "tidy/metrics.rs"]
mod metrics;
#[path = "tidy/planted.rs"]
mod planted;
#[path = "tidy/released.rs"]
mod released;
#[path = "tidy/rooms.rs"]
mod rooms;
#[path = "tidy/runs.rs"]
mod runs;
#[path = "tidy/scan.rs"]
mod scan;
#[path = "tidy/settings.rs"]
mod settings;
#[path = "tidy/shapes.rs"]
mod shapes;
#[path = "tidy/sizes.rs"]
mod sizes;
#[path = "tidy/timed.rs"]
mod timed;
#[path = "tidy/tree.rs"]
mod tree;
#[path = "tidy/violation.rs"]
mod violation;
#[path = "tidy/words.rs"]
mod words;

use std::sync::LazyLock;

use reweave_common::cause::Class;
use sizes::Source;
use tree::{Package, TextFile};
use violation::{Violation, assert_none};

static PACKAGES: LazyLock<Vec<Package>> = LazyLock::new(tree::packages);
static TREE_FILES: LazyLock<Vec<TextFile>> = LazyLock::new(tree::text_files);
/// Parsing takes 3 s.
static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(parse_sources);

fn file(path: &str) -> &'static TextFile {
    let found = TREE_FILES.iter().find(|file| file.path == path);
    found.unwrap_or_else(|| panic!("the tree has no {path}"))
}

/// The Rust files of all packages, with the package each belongs to.
fn rust_files() -> impl Iterator<Item = (&'static Package, &'static TextFile)> {
    let rust = TREE_FILES.iter().filter(|file| file.path.ends_with(".rs"));
    rust.filter_map(|file| Some((habits::owner(&PACKAGES, &file.path)?, file)))
}

fn parse_sources() -> Vec<Source> {
    let facts = |(owner, file): (&Package, &TextFile)| {
        let test_file = habits::is_test_file(owner, &file.path);
        let facts = scan::facts(&file.text, test_file)
            .unwrap_or_else(|error| panic!("{}: not Rust: {error}", file.path));
        (file.path.clone(), facts)
    };
    rust_files().map(facts).collect()
}

#[test]
fn dependency_arrows_follow_room_table() {
    assert_none(&arrows::violations(&PACKAGES));
}

#[test]
fn core_rooms_use_lower_rooms_alone() {
    assert_none(&layers::upward(&TREE_FILES));
}

#[test]
fn common_has_no_new_cycles() {
    assert_none(&layers::circles(&TREE_FILES));
}

#[test]
fn pure_rooms_ban_nondeterminism() {
    assert_none(&bans::pure_rooms(&PACKAGES, &TREE_FILES));
}

#[test]
fn workspace_denies_required_lints() {
    assert_none(&bans::workspace_lints(file("Cargo.toml")));
}

#[test]
fn every_package_inherits_workspace_lints() {
    assert_none(&bans::inherited_lints(&PACKAGES));
}

#[test]
fn every_finding_class_has_runbook() {
    let runbooks = &file("docs/runbooks.md").text;
    for class in Class::ALL {
        let heading = format!("\n### {class}\n");
        assert!(runbooks.contains(&heading), "docs/runbooks.md: no {class}");
    }
}

#[test]
fn change_table_points_to_code() {
    assert_none(&change_table::violations(&TREE_FILES));
}

#[test]
fn metrics_page_matches_code() {
    assert_none(&metrics::violations(&TREE_FILES));
}

#[test]
fn links_of_pages_lead_somewhere() {
    assert_none(&links::violations(&TREE_FILES));
}

#[test]
fn no_function_is_too_long() {
    assert_none(&sizes::long_functions(&SOURCES));
}

#[test]
fn most_functions_are_short() {
    assert_none(&sizes::function_shape(&SOURCES));
}

#[test]
fn no_file_is_too_long() {
    assert_none(&sizes::long_files(&SOURCES));
}

#[test]
fn most_files_are_short() {
    assert_none(&sizes::file_shape(&SOURCES));
}

#[test]
fn sources_have_no_forbidden_habits() {
    let of_file = |(path, facts): &Source| -> Vec<Violation> {
        let owner = habits::owner(&PACKAGES, path).expect("only files of packages are sources");
        habits::violations(owner, path, facts)
    };
    assert_none(&SOURCES.iter().flat_map(of_file).collect::<Vec<_>>());
}

#[test]
fn no_package_is_empty() {
    assert_none(&habits::empty_packages(&PACKAGES, &SOURCES));
}

#[test]
fn every_test_target_is_run() {
    assert_none(&runs::violations(&PACKAGES, file("Makefile")));
}

#[test]
fn every_filter_names_a_test() {
    assert_none(&runs::dead_filters(&TREE_FILES, file("Makefile")));
}

#[test]
fn only_few_timed_tests_may_retry() {
    assert_none(&timed::violations(&TREE_FILES));
}

#[test]
fn api_shapes_have_unique_names() {
    assert_none(&shapes::violations(&TREE_FILES));
}

#[test]
fn every_mutation_applies() {
    assert_none(&planted::violations(&TREE_FILES));
}

#[test]
fn released_shapes_stay() {
    if std::env::var_os("REWEAVE_WRITE_RELEASED").is_some() {
        let list = tree::root().join(released::RELEASED_LIST);
        std::fs::write(list, released::with_all(&TREE_FILES)).expect("the list can be written");
    }
    assert_none(&released::violations(&TREE_FILES));
}

#[test]
fn log_numbers_match_their_shapes() {
    assert_none(&released::log_numbers(&TREE_FILES));
}

#[test]
fn tree_contains_no_banned_words() {
    assert_none(&words::violations(&TREE_FILES));
}

#[test]
fn programs_speak_plainly_to_users() {
    let of_programs = rust_files().filter(|(owner, file)| {
        let mut folders = dialect::PROGRAM_FOLDERS.iter();
        folders.any(|folder| file.path.starts_with(*folder))
            && !file.path.contains("/benches/")
            && !habits::is_test_file(owner, &file.path)
    });
    let found = of_programs.flat_map(|(_, file)| dialect::violations(&file.path, &file.text));
    assert_none(&found.collect::<Vec<_>>());
}

#[test]
fn settings_page_matches_sample_files() {
    let samples = ["coordinator.toml", "driver.toml"];
    let samples = samples.map(|name| (name, &file(&format!("deploy/{name}")).text[..]));
    let role = file("deploy/ansible/roles/reweave/meta/argument_specs.yml");
    let made = settings::page(&samples, &role.text);
    let path = tree::root().join("docs/configuration.md");
    if std::env::var_os("REWEAVE_WRITE_SETTINGS").is_some() {
        std::fs::write(&path, &made).expect("the page can be written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let same = made
        .lines()
        .zip(there.lines())
        .take_while(|(made, there)| made == there);
    let what = "not what sample files, role and variables say".to_owned();
    let mend = "REWEAVE_WRITE_SETTINGS=1 cargo test --workspace --test tidy settings writes it";
    let differs = (made != there)
        .then(|| Violation::new("docs/configuration.md", same.count() + 1, what, mend));
    assert_none(&differs.into_iter().collect::<Vec<_>>());
}

#[test]
fn every_environment_variable_is_documented() {
    assert_none(&settings::undocumented_variables(&TREE_FILES));
}
