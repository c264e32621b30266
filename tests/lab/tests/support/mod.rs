//! Labs for tests.
//!
//! Every test has a home of its own, in which its labs keep their state, so that labs of other tests or of a user do
//! not interfere. All processes of a test have the home in their environment, so leftovers can be distinguished from
//! everything else on the machine.

#![allow(dead_code, unused_imports, reason = "each test file uses a part of it")]

mod needs;
mod poll;
pub(crate) mod report;
pub(crate) mod timed;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

pub(crate) use needs::{Need, find, trial};
use poll::{TEST_TIMEOUT, wait_for};

pub(crate) const LAB_PROGRAM: &str = env!("CARGO_BIN_EXE_reweave-lab");
const HOME_VARIABLE: &str = "XDG_RUNTIME_DIR";

/// Output and exit code of a command.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }
}

/// Runs a command to its end, which must come soon.
#[track_caller]
pub(crate) fn run(mut command: Command) -> Said {
    let shown = format!("{command:?}");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn();
    let child = child.unwrap_or_else(|error| panic!("{shown}: {error}"));
    finish(child, &shown)
}

/// Waits for a process that was started with pipes; it must end soon.
#[track_caller]
pub(crate) fn finish(child: Child, shown: &str) -> Said {
    let (tell, report) = mpsc::channel();
    thread::spawn(move || tell.send(child.wait_with_output()));
    let output = report.recv_timeout(TEST_TIMEOUT);
    let output = output.unwrap_or_else(|_| panic!("{shown} does not end"));
    output.expect("its pipes can be read").into()
}

/// Waits for a condition, which must come true soon.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

/// Returns the path of a scenario in the folder that tests and users share.
pub(crate) fn scenario(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    folder.join(name).with_extension("toml")
}

/// A folder for one test: the state of its labs and its files.
pub(crate) struct Home {
    pub(crate) path: PathBuf,
}

impl Home {
    pub(crate) fn new() -> Self {
        static HOME_COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = HOME_COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("reweave-lab-test-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a test can make its folder");
        Self { path }
    }

    /// `reweave-lab` with these arguments.
    pub(crate) fn lab<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(LAB_PROGRAM);
        command.args(arguments).env(HOME_VARIABLE, &self.path);
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path.join(name);
        fs::write(&path, text).expect("a test can write to its folder");
        path
    }

    /// Returns the folder with a lab's state, if it exists.
    pub(crate) fn state(&self, lab: &str) -> PathBuf {
        self.path.join("reweave-lab").join(lab)
    }

    /// The names of labs of which there is any state.
    pub(crate) fn states(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path.join("reweave-lab"));
        let entries = entries.into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| !name.starts_with('.')).collect()
    }

    /// The labs that are known, as `list` has them.
    pub(crate) fn labs(&self) -> Vec<Value> {
        let said = run(self.lab(&["list", "--output", "json"])).expect_code(0);
        said.json().as_array().cloned().unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn wait_until_ready(&self, lab: &str) {
        let is_ready = |known: &Value| known["name"] == lab && known["ready"] == true;
        wait_until("the lab is ready", || self.labs().iter().any(is_ready));
    }

    /// Returns all processes that were started from this home.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mark = format!("{HOME_VARIABLE}={}", self.path.display());
        let started_here = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|&byte| byte == 0)
                .any(|variable| variable == mark.as_bytes())
        };
        all_processes().filter(started_here).collect()
    }

    /// Waits until nothing that was started here is left.
    #[track_caller]
    pub(crate) fn wait_until_empty(&self) {
        wait_until("all processes end", || self.processes().is_empty());
        // A process that is ending shows its environment no more, but may still hold its lab.
        wait_until("all names are free", || self.labs().is_empty());
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for name in self.states() {
            run(self.lab(&["down", &name]));
        }
        let _ = fs::remove_dir_all(&self.path);
    }
}

pub(crate) fn all_processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A running lab, which ends when it is dropped.
pub(crate) struct Lab {
    pub(crate) home: Home,
    pub(crate) name: String,
    /// Output of `up`.
    pub(crate) came_up: Value,
}

impl Lab {
    /// Brings up a scenario of the folder.
    pub(crate) fn up(name: &str) -> Self {
        Self::up_file(Home::new(), &scenario(name))
    }

    /// Brings up a scenario or fabric given as text.
    pub(crate) fn up_text(text: &str) -> Self {
        let home = Home::new();
        let file = home.file("lab.toml", text);
        Self::up_file(home, &file)
    }

    pub(crate) fn up_file(home: Home, file: &Path) -> Self {
        let mut command = home.lab(&["up", "--detach", "--output", "json"]);
        command.arg(file);
        let came_up = run(command).expect_code(0).json();
        let name = came_up["lab"]
            .as_str()
            .expect("a lab has a name")
            .to_owned();
        Self {
            home,
            name,
            came_up,
        }
    }

    /// A program in a node.
    pub(crate) fn command(&self, node: &str, words: &[&str]) -> Command {
        self.home
            .lab(&[&["exec", "--lab", &self.name, node, "--"], words].concat())
    }

    pub(crate) fn exec(&self, node: &str, words: &[&str]) -> Said {
        run(self.command(node, words))
    }

    /// Returns the output of a program in a node; the program must succeed.
    #[track_caller]
    pub(crate) fn output(&self, node: &str, words: &[&str]) -> String {
        self.exec(node, words).expect_code(0).stdout
    }

    /// The same for a program that prints JSON.
    #[track_caller]
    pub(crate) fn json(&self, node: &str, words: &[&str]) -> Value {
        self.exec(node, words).expect_code(0).json()
    }

    pub(crate) fn down(&self) -> Said {
        run(self.home.lab(&["down", &self.name]))
    }

    /// The names of all nodes.
    pub(crate) fn nodes(&self) -> Vec<String> {
        let nodes = self.came_up["nodes"].as_array().expect("a lab has nodes");
        let name = |node: &Value| node["name"].as_str().expect("a node has a name").to_owned();
        nodes.iter().map(name).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.down();
    }
}
