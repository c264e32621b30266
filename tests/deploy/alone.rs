//! A cluster of one machine, as `reweave dev` makes it, in a network of its own.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use reweave_tests::{PATIENCE, Programs};
use tempfile::TempDir;

/// Every 300 ms, so that signs of life come soon.
const WATCHDOG_US: &str = "900000";

pub(crate) struct Alone {
    /// Of the namespaces; it lives there with all that it started.
    entrance: Child,
    /// Where a service manager would listen.
    manager: UnixDatagram,
    folder: TempDir,
}

impl Alone {
    /// When this returns, the coordinator serves.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder of our own");
        let socket = folder.path().join("notify");
        let manager = UnixDatagram::bind(&socket).expect("a place to hear");
        let patient = manager.set_read_timeout(Some(PATIENCE));
        patient.expect("sockets can wait");
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
            .env("NOTIFY_SOCKET", &socket)
            .env("WATCHDOG_USEC", WATCHDOG_US)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
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

    /// Waits until the service manager has been told this so often.
    pub(crate) fn await_told(&self, what: &str, times: usize) {
        let began = Instant::now();
        let mut heard = 0;
        let mut message = [0; 256];
        while heard < times {
            assert!(began.elapsed() < PATIENCE, "{what} was told {heard} times");
            let length = self.manager.recv(&mut message).expect("to be told more");
            let told = String::from_utf8_lossy(&message[..length]);
            heard += usize::from(told.lines().any(|line| line == what));
        }
    }

    /// What is served at this path, to whoever asks without a token.
    pub(crate) fn served(&self, path: &str) -> String {
        let entrance = self.entrance.id().to_string();
        let ask = format!(
            "exec 3<>/dev/tcp/127.0.0.1/7334; printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
        );
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &entrance, "bash", "-c", &ask]);
        let answer = super::told_by(&mut command);
        let (_head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        body.to_owned()
    }

    /// All system calls that were made until now, as strace writes them.
    pub(crate) fn calls(&self) -> String {
        super::text(self.folder.path().join("calls"))
    }
}

impl Drop for Alone {
    /// All in it die with the first process of their namespace.
    fn drop(&mut self) {
        let _ = self.entrance.kill();
        let _ = self.entrance.wait();
    }
}
