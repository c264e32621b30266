//! A cluster of one machine, as `reweave dev` makes it, in a network of its own.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use reweave_tests::{Programs, STAGE_TIMEOUT};
use tempfile::TempDir;

/// Every 300 ms, so that signs of life come soon.
const WATCHDOG_US: &str = "900000";

pub(crate) struct Alone {
    /// Of the namespaces; it lives there with all that it started.
    entrance: Child,
    manager: Manager,
    folder: TempDir,
}

/// A service manager, which hears all notifications: a program whose manager does not hear it stands still.
pub(crate) struct Manager {
    notifications: Receiver<String>,
    path: PathBuf,
}

impl Manager {
    pub(crate) fn at(path: PathBuf) -> Self {
        let socket = UnixDatagram::bind(&path).expect("a place to hear");
        let (tell, notifications) = channel();
        thread::spawn(move || {
            let mut message = [0; 256];
            while let Ok(length) = socket.recv(&mut message) {
                let words = String::from_utf8_lossy(&message[..length]).into_owned();
                if tell.send(words).is_err() {
                    return;
                }
            }
        });
        Self {
            notifications,
            path,
        }
    }

    /// As if it had started this.
    pub(crate) fn watches(&self, command: &mut Command) {
        command.env("NOTIFY_SOCKET", &self.path);
        command.env("WATCHDOG_USEC", WATCHDOG_US);
    }

    pub(crate) fn await_state(&self, what: &str, times: usize) {
        let began = Instant::now();
        let mut heard = 0;
        while heard < times {
            assert!(
                began.elapsed() < STAGE_TIMEOUT,
                "{what} was heard {heard} times"
            );
            let received = self
                .notifications
                .recv_timeout(STAGE_TIMEOUT)
                .expect("to hear more");
            heard += usize::from(received.lines().any(|line| line == what));
        }
    }
}

impl Alone {
    /// When this returns, the coordinator serves.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder of our own");
        let manager = Manager::at(folder.path().join("notify"));
        let programs = Programs::beside_this().expect("programs");
        let mut command = Command::new("unshare");
        command
            .args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["--", "sh", "-c"])
            .arg("ip link set lo up && exec strace -f -qq -s 0 -o \"$0\" \"$@\"")
            .arg(folder.path().join("calls"))
            .args([programs.reweave().as_os_str(), "dev".as_ref()])
            .arg("--dir")
            .arg(folder.path().join("dev"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        manager.watches(&mut command);
        let mut entrance = command.spawn().expect("unshare starts");
        let mut line = String::new();
        let mut said = BufReader::new(entrance.stdout.take().expect("a pipe"));
        said.read_line(&mut line).expect("it says where");
        assert!(line.starts_with("http://"), "it said {line:?}");
        Self {
            entrance,
            manager,
            folder,
        }
    }

    /// Waits until the service manager has heard it this often.
    pub(crate) fn await_state(&self, what: &str, times: usize) {
        self.manager.await_state(what, times);
    }

    /// Where the cluster keeps what it keeps.
    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join("dev").join(name)
    }

    /// What is served at this path, to a client without a token.
    pub(crate) fn served(&self, path: &str) -> String {
        let answer = super::output_of(&mut asking(self.entrance.id(), 7334, path));
        body(&answer).expect("a head and a body").to_owned()
    }

    /// Runs what follows in its network, which stays as long as that does.
    pub(crate) fn inside(&self) -> Command {
        beside(self.entrance.id())
    }

    /// All system calls that were made until now, as strace writes them.
    pub(crate) fn calls(&self) -> String {
        super::text(self.folder.path().join("calls"))
    }
}

fn beside(process: u32) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--net", "--target", &process.to_string()]);
    command
}

/// What asks a server in the network of this process.
pub(crate) fn asking(process: u32, port: u16, path: &str) -> Command {
    let ask = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
    );
    let mut command = beside(process);
    command.args(["bash", "-c", &ask]);
    command
}

/// Of an answer over HTTP.
pub(crate) fn body(answer: &str) -> Option<&str> {
    Some(answer.split_once("\r\n\r\n")?.1)
}

impl Drop for Alone {
    /// All in it die with the first process of their namespace.
    fn drop(&mut self) {
        let _ = self.entrance.kill();
        let _ = self.entrance.wait();
    }
}
