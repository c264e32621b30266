//! A reader that closes a pipe has seen enough: what a command does and exits with is the same.

use std::fs::{self, File};
use std::io::Result;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

const REWEAVE_PROGRAM: &str = env!("CARGO_BIN_EXE_reweave");

/// One without a reader, as after `| head -0`.
fn unread() -> Result<Stdio> {
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    Ok(OwnedFd::from(writer).into())
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [
        ("fabric.toml", "kind = \"ideal\"\nhosts = 2\nnic_gbps = 1\n"),
        ("flows.csv", "src,dst,bytes,start_us\nh0,h1,1000,0\n"),
    ] {
        fs::write(folder.path().join(name), text).expect("there is room");
    }
    folder
}

fn full() -> Stdio {
    let full = File::options().write(true).open("/dev/full");
    full.expect("it is there").into()
}

fn ends_with(words: &str, out: Stdio, errors: Stdio) -> Option<i32> {
    let folder = folder();
    let mut command = Command::new(REWEAVE_PROGRAM);
    command.args(words.split(' ')).current_dir(folder.path());
    let status = command.stdout(out).stderr(errors).status();
    status.expect("it runs").code()
}

#[test]
fn closed_output_keeps_exit_code() {
    let simulated = "sim flows flows.csv --fabric fabric.toml";
    let missing = "sim flows none.csv --fabric fabric.toml";
    for (words, code) in [
        (simulated, 0),
        (missing, 2),
        ("simulate", 2),
        ("--help", 0),
        ("status --identity none", 2),
    ] {
        let heard = ends_with(words, Stdio::null(), Stdio::null());
        let unheard = ends_with(words, unread().expect("pipes"), unread().expect("pipes"));
        assert_eq!((unheard, heard), (Some(code), Some(code)), "{words}");
    }
}

/// Output that is not wanted is no error, but a full disk is reported.
#[test]
fn full_disk_fails_output() {
    for words in [
        "sim flows flows.csv --fabric fabric.toml",
        "completions bash",
        "--version",
        "--help",
        "help plan",
    ] {
        let code = ends_with(words, full(), Stdio::null());
        assert_eq!(code, Some(1), "{words}");
    }
}

/// Each is found beside the first, once all are built.
#[test]
fn no_program_reports_unwritten_output_success() {
    for name in [
        "reweave",
        "reweave-agent",
        "reweave-coordinator",
        "reweave-driver",
    ] {
        for words in ["--help", "--version", "help run", "run --help"] {
            let ended = |out: Stdio| {
                let mut program = Command::new(Path::new(REWEAVE_PROGRAM).with_file_name(name));
                let program = program.args(words.split(' ')).stdout(out);
                program
                    .output()
                    .expect("all programs are built: cargo build --workspace --bins")
            };
            let heard = ended(Stdio::null());
            assert_eq!(heard.status.code(), Some(0), "{name} {words}");
            let unheard = ended(unread().expect("pipes"));
            assert_eq!(unheard.status.code(), Some(0), "{name} {words}");
            let unwritten = ended(full());
            assert_eq!(unwritten.status.code(), Some(1), "{name} {words}");
            let text = String::from_utf8_lossy(&unwritten.stderr);
            assert!(text.contains("cannot print: No space left"), "{text}");
        }
    }
}
