//! Every command with hostile values: each ends with one clear error and an exit code that says whose fault it is,
//! nothing steers the terminal, and nothing hangs. Which commands and options there are, the manual tells, which is
//! made from the same tree as the commands themselves.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Far more than any of them takes to say no.
const REFUSAL_TIMEOUT: Duration = Duration::from_mins(2);
const THREAD_COUNT: usize = 4;

/// These begin programs of their own, wait for input, or take any name for a file of a person's own.
const SKIPPED_COMMANDS: [&str; 3] = ["dev", "completions", "context"];
/// Creates the folder it is given, with any name.
const ACCEPTS_ANY_PATH: [&str; 2] = ["man", "--into"];
/// All have it, and what is no address goes to the resolver of names.
const COORDINATOR_OPTION: &str = "--coordinator";

fn hostile() -> [String; 6] {
    [
        String::new(),
        "-1".to_owned(),
        "99999999999999999999999999999999".to_owned(),
        "\u{1b}]0;mine\u{7}\u{1b}[2Jx\nerror: all is well\u{202e}".to_owned(),
        "../../../../../../nowhere/at/all".to_owned(),
        "x".repeat(100_000),
    ]
}

/// A command as the manual has it.
#[derive(Debug, Default)]
struct Page {
    words: Vec<String>,
    /// Options that take a value.
    options: Vec<String>,
}

fn reweave(words: &[String], home: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reweave"));
    command.args(words).current_dir(home).env("HOME", home);
    command
        .env("REWEAVE_COORDINATOR", "127.0.0.1:1")
        .env_remove("REWEAVE_IDENTITY");
    command.env_remove("XDG_CONFIG_HOME").stdin(Stdio::null());
    let began = Instant::now();
    let output = command.output().expect("reweave runs");
    assert!(
        began.elapsed() < REFUSAL_TIMEOUT,
        "{words:?} took {:?}",
        began.elapsed()
    );
    output
}

/// Names of commands have no dashes in them but where one stands below another.
fn pages() -> Vec<Page> {
    let home = tempfile::tempdir().expect("a folder");
    let into = home.path().join("man");
    let words = [
        "man".to_owned(),
        "--into".to_owned(),
        into.display().to_string(),
    ];
    assert!(reweave(&words, home.path()).status.success());
    let entries = fs::read_dir(&into).expect("it was written");
    let mut pages: BTreeMap<String, Page> = BTreeMap::new();
    for entry in entries {
        let path = entry.expect("an entry").path();
        let name = path
            .file_stem()
            .and_then(|name| name.to_str())
            .expect("a name");
        let text = fs::read_to_string(&path).expect("a page");
        let words = name.split('-').skip(1).map(str::to_owned).collect();
        pages.insert(name.to_owned(), page(words, &text));
    }
    let names: Vec<_> = pages.keys().cloned().collect();
    let is_leaf = |name: &String| !names.iter().any(|it| it.starts_with(&format!("{name}-")));
    pages.retain(|name, _| is_leaf(name) || name == "reweave-plan");
    pages.retain(|_, page| {
        page.words
            .first()
            .is_none_or(|it| !SKIPPED_COMMANDS.contains(&&it[..]))
    });
    pages.into_values().collect()
}

fn page(words: Vec<String>, text: &str) -> Page {
    let mut page = Page {
        words,
        ..Page::default()
    };
    for line in text.lines().map(|line| line.replace("\\-", "-")) {
        if !line.starts_with("\\fB-") {
            continue;
        }
        let long = line
            .split("\\fB--")
            .nth(1)
            .and_then(|rest| rest.split("\\fR").next());
        match long {
            Some(long) if COORDINATOR_OPTION.ends_with(long) => {}
            Some(long) if line.contains("\\fI") => page.options.push(format!("--{long}")),
            _ => {}
        }
    }
    page
}

/// The page with hostile values at each place: two at each option, and all in the place of what has no name.
fn lines(page: &Page) -> Vec<Vec<String>> {
    let with = |more: &[String]| [page.words.clone(), more.to_vec()].concat();
    let mut lines = vec![with(&[]), with(&["--no-such-option".to_owned()])];
    let values = hostile();
    for (place, option) in page.options.iter().enumerate() {
        for nth in [place, place + values.len() / 2] {
            let value = values[nth % values.len()].clone();
            lines.push(with(&[option.clone(), value]));
        }
    }
    for value in &values {
        lines.push(with(&["--".to_owned(), value.clone()]));
    }
    let evil = &values[3];
    lines.push(with(&["--", evil, evil, evil].map(str::to_owned)));
    lines
}

fn steers(c: char) -> bool {
    let turns = ('\u{202a}'..='\u{202e}').contains(&c);
    turns || (c.is_control() && c != '\n')
}

/// What is wrong with an answer, if anything is.
fn complaint(words: &[String], output: &Output) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let shown = String::from_utf8_lossy(&output.stdout);
    let short: Vec<_> = words
        .iter()
        .map(|it| it.chars().take(40).collect::<String>())
        .collect();
    let complain = |what: &str| {
        let said: String = said.chars().take(400).collect();
        Some(format!(
            "{what}: {short:?}\n  {:?}: {said:?}",
            output.status.code()
        ))
    };
    if said.chars().chain(shown.chars()).any(steers) {
        return complain("steers the terminal");
    }
    if said.contains("panicked") || said.contains("RUST_BACKTRACE") {
        return complain("panics");
    }
    // As a shell tells that there is no such program, or that it cannot be run.
    let codes = match words.first().map(String::as_str) {
        Some("run") => &[1, 2, 126, 127][..],
        _ => &[1, 2],
    };
    let errors = said.lines().filter(|it| it.starts_with("error: "));
    match output.status.code() {
        Some(0) if words.starts_with(&ACCEPTS_ANY_PATH.map(str::to_owned)) => None,
        Some(0) => complain("is accepted"),
        Some(code) if !codes.contains(&code) => complain("ends in no documented way"),
        Some(_) if errors.count() == 1 => None,
        Some(_) => complain("has not one error"),
        None => complain("is killed"),
    }
}

fn complaints(lines: Vec<Vec<String>>) -> Vec<String> {
    let (lines, found) = (Mutex::new(lines), Mutex::new(Vec::new()));
    let work = || {
        let home: TempDir = tempfile::tempdir().expect("a folder");
        loop {
            let Some(words) = lines.lock().expect("no thread panics").pop() else {
                return;
            };
            let output = reweave(&words, home.path());
            let complaint = complaint(&words, &output);
            found.lock().expect("no thread panics").extend(complaint);
        }
    };
    thread::scope(|scope| {
        for _ in 0..THREAD_COUNT {
            scope.spawn(work);
        }
    });
    found.into_inner().expect("no thread panics")
}

#[test]
fn every_command_rejects_bad_input() {
    let pages = pages();
    assert!(pages.len() > 30, "{pages:#?}");
    let lines: Vec<_> = pages.iter().flat_map(lines).collect();
    println!("{} commands, {} lines", pages.len(), lines.len());
    let found = complaints(lines);
    let count = found.len();
    assert!(
        found.is_empty(),
        "{count} complaints:\n{}",
        found[..count.min(25)].join("\n")
    );
}

#[test]
fn invalid_coordinator_address_is_refused() {
    let home = tempfile::tempdir().expect("a folder");
    for place in ["127.0.0.1:99999999", "127.0.0.1:", "[::1", "\u{1b}[2J:x"] {
        let words = ["--coordinator", place, "status"].map(str::to_owned);
        let output = reweave(&words, home.path());
        assert_eq!(output.status.code(), Some(2), "{place}");
        assert_eq!(complaint(&words, &output), None);
    }
}

#[test]
fn bad_context_file_is_refused() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join(".config/reweave");
    fs::create_dir_all(&folder).expect("there is room");
    let text = "[[context]]\nname = \"lab\"\ncoordinator = \"10.0.0.1\"\n";
    fs::write(folder.join("config.toml"), text).expect("there is room");
    for words in [&["status"][..], &["context", "list"]] {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        let output = reweave(&words, home.path());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert_eq!(complaint(&words, &output), None);
        let said = String::from_utf8_lossy(&output.stderr);
        let place = "reweave/config.toml:3: coordinator: this key is unknown";
        assert!(said.contains(place), "{said}");
    }
}

#[test]
fn bad_context_name_is_refused() {
    let home = tempfile::tempdir().expect("a folder");
    for name in hostile().iter().filter(|name| !name.starts_with('9')) {
        for words in [
            &["context", "set", "--", name][..],
            &["context", "use", "--", name],
            &["context", "remove", "--", name],
            &["--context", name, "status"],
        ] {
            let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
            let output = reweave(&words, home.path());
            assert_eq!(output.status.code(), Some(2), "{words:?}");
            assert_eq!(complaint(&words, &output), None);
        }
    }
}

#[test]
fn stored_context_is_used_and_removed() {
    let home = tempfile::tempdir().expect("a folder");
    let answer = |words: &str| {
        let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
        let output = reweave(&words, home.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8(output.stdout).expect("text")
    };
    answer("context set lab --identity certificates");
    answer("--coordinator 10.0.0.1,10.0.0.2 context set prod");
    assert_eq!(answer("context list -o name"), "lab\nprod\n");
    // The environment names the coordinator of the first, which is current.
    let lab = answer("context show");
    let identity = home.path().join("certificates").display().to_string();
    assert!(
        lab.contains("127.0.0.1:1") && lab.contains(&identity),
        "{lab}"
    );
    answer("context use prod");
    assert!(answer("context show").contains("10.0.0.1, 10.0.0.2"));
    assert!(answer("--context lab context show").contains("127.0.0.1:1"));
    answer("context remove prod");
    assert_eq!(answer("context list -o name"), "lab\n");
}
