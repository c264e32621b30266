//! The lints the tree relies on: bans of the pure rooms with their reasons, and the levels every
//! package inherits.

use toml::{Table, Value};

use crate::rooms::room_of;
use crate::tree::{Package, TextFile};
use crate::violation::{Violation, line_of};

/// What no pure room may touch. Its `clippy.toml` may ban more, never less.
const BANNED_TYPES: &[&str] = &[
    "std::collections::HashMap",
    "std::collections::HashSet",
    "std::hash::RandomState",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::UdpSocket",
    "std::os::unix::net::UnixDatagram",
    "std::os::unix::net::UnixListener",
    "std::os::unix::net::UnixStream",
    "std::fs::File",
    "std::fs::OpenOptions",
    "reweave_files::LocalFiles",
    "std::process::Command",
    "std::thread::Builder",
];

const BANNED_METHODS: &[&str] = &[
    "std::env::args",
    "std::env::current_dir",
    "std::env::var",
    "std::env::var_os",
    "std::env::vars",
    "std::fs::create_dir_all",
    "std::fs::metadata",
    "std::fs::read",
    "std::fs::read_dir",
    "std::fs::read_to_string",
    "std::fs::remove_file",
    "std::fs::rename",
    "std::fs::write",
    "std::process::abort",
    "std::process::exit",
    "std::thread::scope",
    "std::thread::sleep",
    "std::thread::spawn",
];

/// Functions of floats whose last digits differ between platforms.
const INEXACT_FUNCTIONS: &[&str] = &[
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "exp",
    "exp2", "exp_m1", "hypot", "ln", "ln_1p", "log", "log10", "log2", "powf", "powi", "sin",
    "sin_cos", "sinh", "tan", "tanh",
];

/// Lints of the workspace that must stop the build.
const DENIED_LINTS: &[(&str, &str)] = &[
    ("clippy", "todo"),
    ("clippy", "unimplemented"),
    ("clippy", "unwrap_used"),
    ("rust", "unreachable_pub"),
    ("rust", "unsafe_code"),
];

/// Every pure room has a `clippy.toml`, complete, with reasons, and the same in all of them.
pub(crate) fn pure_rooms(packages: &[Package], files: &[TextFile]) -> Vec<Violation> {
    let mut found = vec![];
    let mut first: Option<&TextFile> = None;
    let is_pure = |package: &&Package| room_of(&package.name).is_some_and(|room| room.pure);
    for package in packages.iter().filter(is_pure) {
        let path = format!("{}/clippy.toml", package.dir);
        match files.iter().find(|file| file.path == path) {
            None => found.push(no_bans(&path)),
            Some(file) => {
                found.extend(of_bans(file));
                found.extend(differs(file, first.get_or_insert(file)));
            }
        }
    }
    found
}

fn no_bans(path: &str) -> Violation {
    let mend = "copy common/clippy.toml here";
    Violation::new(path, 1, "a pure room without its bans", mend)
}

fn differs(file: &TextFile, first: &TextFile) -> Option<Violation> {
    let mut lines = file.text.lines().zip(first.text.lines()).zip(1..);
    let other = lines.find(|((a, b), _)| a != b).map_or(1, |(_, line)| line);
    (file.text != first.text).then(|| {
        let mend = "the pure rooms share one text; copy it to all of them";
        Violation::new(
            &file.path,
            other,
            format!("differs from {}", first.path),
            mend,
        )
    })
}

fn of_bans(file: &TextFile) -> Vec<Violation> {
    let table = match file.text.parse::<Table>() {
        Ok(table) => table,
        Err(error) => return vec![unreadable(&file.path, &error)],
    };
    let types = of_list(
        file,
        &table,
        "disallowed-types",
        BANNED_TYPES.iter().map(|t| (*t).into()),
    );
    let methods = of_list(file, &table, "disallowed-methods", banned_methods());
    types.into_iter().chain(methods).collect()
}

fn banned_methods() -> impl Iterator<Item = String> {
    let floats = ["f32", "f64"].into_iter();
    let inexact = floats.flat_map(|float| {
        INEXACT_FUNCTIONS
            .iter()
            .map(move |name| format!("{float}::{name}"))
    });
    BANNED_METHODS
        .iter()
        .map(|method| (*method).to_owned())
        .chain(inexact)
}

fn of_list(
    file: &TextFile,
    table: &Table,
    key: &str,
    required: impl Iterator<Item = String>,
) -> Vec<Violation> {
    let empty = vec![];
    let entries = table.get(key).and_then(Value::as_array).unwrap_or(&empty);
    let missing = required
        .filter(|path| !entries.iter().any(|entry| path_of(entry) == Some(path)))
        .map(|path| {
            Violation::new(
                &file.path,
                1,
                format!("{path} is not banned"),
                format!("name it in {key}, with the reason"),
            )
        });
    let bare = entries
        .iter()
        .filter(|entry| reason_of(entry).is_empty())
        .map(|entry| {
            let path = path_of(entry).unwrap_or("an entry");
            let line = line_of(&file.text, path);
            Violation::new(
                &file.path,
                line,
                format!("{path} is banned without a reason"),
                "write { path = .., reason = \"what to use instead\" }",
            )
        });
    missing.chain(bare).collect()
}

fn path_of(entry: &Value) -> Option<&str> {
    entry.as_str().or_else(|| entry.get("path")?.as_str())
}

fn reason_of(entry: &Value) -> &str {
    entry
        .get("reason")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .trim()
}

fn unreadable(path: &str, error: &toml::de::Error) -> Violation {
    Violation::new(
        path,
        1,
        format!("not TOML: {}", error.message()),
        "mend its syntax",
    )
}

/// The workspace denies what no review should have to look for.
pub(crate) fn workspace_lints(file: &TextFile) -> Vec<Violation> {
    let table = match file.text.parse::<Table>() {
        Ok(table) => table,
        Err(error) => return vec![unreadable(&file.path, &error)],
    };
    let soft = DENIED_LINTS
        .iter()
        .filter(|(tool, lint)| !is_denied(&table, tool, lint));
    soft.map(|(tool, lint)| {
        let line = line_of(&file.text, &format!("{lint} ="));
        let section = format!("[workspace.lints.{tool}]");
        Violation::new(
            &file.path,
            line,
            format!("{lint} is not denied"),
            format!("write {lint} = \"deny\" under {section}"),
        )
    })
    .collect()
}

fn is_denied(table: &Table, tool: &str, lint: &str) -> bool {
    let lints = table.get("workspace").and_then(|w| w.get("lints"));
    let entry = lints.and_then(|lints| lints.get(tool)?.get(lint));
    let level = entry.and_then(|entry| entry.as_str().or_else(|| entry.get("level")?.as_str()));
    matches!(level, Some("deny" | "forbid"))
}

/// Every package takes the lints of the workspace.
pub(crate) fn inherited_lints(packages: &[Package]) -> Vec<Violation> {
    packages
        .iter()
        .filter(|package| !inherits(package))
        .map(disowned)
        .collect()
}

fn inherits(package: &Package) -> bool {
    let lints = package
        .manifest
        .parse::<Table>()
        .ok()
        .and_then(|mut t| t.remove("lints"));
    lints.is_some_and(|lints| lints.get("workspace") == Some(&Value::Boolean(true)))
}

fn disowned(package: &Package) -> Violation {
    Violation::new(
        &package.manifest_path(),
        line_of(&package.manifest, "[lints"),
        format!("{} does not take the lints of the workspace", package.name),
        "write `[lints]` and `workspace = true`",
    )
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

    fn package(name: &str, dir: &str, manifest: &str) -> Package {
        Package {
            manifest: manifest.into(),
            name: name.into(),
            dir: dir.into(),
            ..Package::default()
        }
    }

    fn common() -> Package {
        package("reweave-common", "common", "")
    }

    fn bans() -> String {
        let entry = |path: String| format!("  {{ path = \"{path}\", reason = \"planted\" }},\n");
        let types: String = BANNED_TYPES
            .iter()
            .map(|path| entry((*path).into()))
            .collect();
        let methods: String = banned_methods().map(entry).collect();
        format!("disallowed-types = [\n{types}]\ndisallowed-methods = [\n{methods}]\n")
    }

    fn found(text: &str) -> Vec<String> {
        let violations = pure_rooms(&[common()], &[file("common/clippy.toml", text)]);
        violations.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn complete_bans_pass() {
        assert_eq!(found(&bans()), [""; 0]);
    }

    #[test]
    fn missing_clippy_toml_is_found() {
        let found = pure_rooms(&[common()], &[]);
        assert_eq!(
            found[0].to_string(),
            "common/clippy.toml:1: a pure room without its bans; copy common/clippy.toml here"
        );
    }

    #[test]
    fn each_missing_ban_is_named() {
        for gone in ["std::time::Instant", "std::thread::spawn", "f64::powf"] {
            let text: String = bans()
                .lines()
                .filter(|l| !l.contains(&format!("\"{gone}\"")))
                .map(|l| format!("{l}\n"))
                .collect();
            let found = found(&text);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                found[0].contains(&format!("{gone} is not banned")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn ban_without_reason_names_line() {
        let text = bans().replacen(", reason = \"planted\"", "", 1);
        assert!(found(&text)[0].starts_with(
            "common/clippy.toml:2: std::collections::HashMap is banned without a reason"
        ));
    }

    #[test]
    fn invalid_toml_is_one_violation() {
        assert!(found("disallowed-types = [")[0].contains("not TOML"));
    }

    #[test]
    fn differing_bans_of_pure_rooms_found() {
        let packages = [common(), package("reweave-proto", "proto", "")];
        let other = bans().replacen("planted", "otherwise", 1);
        let files = [
            file("common/clippy.toml", &bans()),
            file("proto/clippy.toml", &other),
        ];
        let found = pure_rooms(&packages, &files);
        assert_eq!(found.len(), 1);
        assert!(
            found[0]
                .to_string()
                .starts_with("proto/clippy.toml:2: differs from common/clippy.toml")
        );
    }

    #[test]
    fn other_rooms_need_no_bans() {
        assert_eq!(
            pure_rooms(&[package("reweave-lab", "tests/lab", "")], &[]),
            []
        );
    }

    #[test]
    fn softened_workspace_lint_is_named() {
        let text = "[workspace.lints.rust]\nunsafe_code = \"deny\"\nunreachable_pub = \"forbid\"\n\
                    [workspace.lints.clippy]\ntodo = { level = \"deny\" }\nunwrap_used = \"warn\"";
        let what: Vec<_> = workspace_lints(&file("Cargo.toml", text))
            .iter()
            .map(|v| (v.line, v.what.clone()))
            .collect();
        assert_eq!(
            what,
            [
                (1, "unimplemented is not denied".into()),
                (6, "unwrap_used is not denied".into())
            ]
        );
    }

    #[test]
    fn package_with_own_lints_is_named() {
        let own = package("reweave-lab", "tests/lab", "[lints]\nworkspace = false");
        let none = package("reweave-common", "common", "[package]");
        let good = package("reweave-tests", "tests", "[lints]\nworkspace = true");
        let found: Vec<_> = inherited_lints(&[own, none, good])
            .into_iter()
            .map(|v| v.file)
            .collect();
        assert_eq!(found, ["tests/lab/Cargo.toml", "common/Cargo.toml"]);
    }
}
