//! The demo as a person has it: at a terminal, with its page in reach, until Ctrl-C.

#[path = "lab/tests/support/needs.rs"]
mod needs;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};

use libtest_mimic::Arguments;
use tempfile::TempDir;

use needs::{Need, trial};

const DEMO_PROGRAM: &str = env!("CARGO_BIN_EXE_reweave-demo");
const NEEDS: &[Need] = &[Need::Lab, Need::Program("script")];
const CTRL_C_BYTE: u8 = 3;
/// Its last story, at which it stays.
const LAST_STORY: &str = "4";

fn main() -> ExitCode {
    let name = "ctrl_c_ends_demo_cleanly";
    let tests = vec![
        trial(name, NEEDS, stays_until_ctrl_c),
        trial("unknown_story_is_refused", &[], no_such_story),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

/// The demo at a terminal of its own. What it makes lies in `home`.
struct Terminal {
    script: Child,
    shown: ChildStdout,
    home: TempDir,
}

impl Terminal {
    fn open() -> Self {
        let home = tempfile::tempdir().expect("there is room");
        let line = format!("{DEMO_PROGRAM} {LAST_STORY}");
        let mut script = Command::new("script");
        script.args(["-qefc", &line, "/dev/null"]);
        script.env("TMPDIR", home.path());
        script.env("XDG_RUNTIME_DIR", home.path()).env_remove("CI");
        let script = script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script = script.spawn().expect("script starts");
        let shown = script.stdout.take().expect("it is piped");
        Self {
            script,
            shown,
            home,
        }
    }

    /// Reads on until these words were shown, or all that ever is.
    fn until(&mut self, words: &str) -> String {
        let mut all = Vec::new();
        let mut some = [0; 4096];
        loop {
            let read = self.shown.read(&mut some).unwrap_or(0);
            all.extend_from_slice(&some[..read]);
            let text = String::from_utf8_lossy(&all);
            if read == 0 || text.contains(words) {
                return text.into_owned();
            }
        }
    }

    fn press(&mut self, key: u8) {
        let keys = self.script.stdin.as_mut().expect("it is piped");
        keys.write_all(&[key]).expect("it listens");
        keys.flush().expect("it listens");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

fn stays_until_ctrl_c() {
    let mut terminal = Terminal::open();
    let output = terminal.until("Ctrl-C ends it.");
    let (_, link) = output.split_once("http://").expect(&output);
    let (place, token) = link.split_once("/#token=").expect(&output);
    let token: String = token.chars().take_while(char::is_ascii_graphic).collect();
    let place: SocketAddr = place.parse().expect("an address");
    let page = ask(place, "/", &token);
    assert!(
        page.starts_with("HTTP/1.1 200 ") && page.contains("<!doctype html"),
        "{page}"
    );
    let status = ask(place, "/api/v1/status", &token);
    assert!(status.starts_with("HTTP/1.1 200 "), "{status}");
    let leads = status.matches("\"name\":\"c").count();
    assert_eq!(leads, 3, "three coordinators: {status}");

    terminal.press(CTRL_C_BYTE);
    let rest = terminal.until("what it never says");
    let output = output + &rest;
    let ended = terminal.script.wait().expect("it was started");
    assert!(ended.success(), "{ended}: {output}");
    for words in ["Finding", "Kept", "Result", "2 of 2 kept, 0 resets"] {
        assert!(output.contains(words), "{words}: {output}");
    }
    assert!(TcpStream::connect(place).is_err(), "the page is gone");
    nothing_is_left(terminal.home.path());
}

/// No folder of a stage, and no lab of these users.
fn nothing_is_left(home: &Path) {
    let names = fs::read_dir(home).expect("it is there").flatten();
    let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
    let stages = names
        .iter()
        .filter(|name| name.to_string_lossy().starts_with("reweave-stage-"));
    assert_eq!(stages.count(), 0, "{names:?}");
    let processes = fs::read_dir("/proc").expect("it is there").flatten();
    let home = home.to_string_lossy();
    for process in processes {
        let words = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        assert!(!words.contains(&*home), "left behind: {words}");
    }
}

fn ask(place: SocketAddr, path: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(place).expect("the page is served");
    let ask = format!(
        "GET {path} HTTP/1.1\r\nHost: {place}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

fn no_such_story() {
    let demo = Command::new(DEMO_PROGRAM)
        .arg("5")
        .output()
        .expect("it starts");
    assert_eq!(demo.status.code(), Some(2));
    let words = String::from_utf8_lossy(&demo.stderr);
    assert_eq!(
        words,
        "error: there is no story 5: they are called 1 to 4\n"
    );
    assert!(demo.stdout.is_empty());
}
