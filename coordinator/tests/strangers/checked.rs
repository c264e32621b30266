//! What a run would refuse is reported before it does, in the same words and with its place.

use std::fs::{self, File};
use std::net::{TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use reweave_link::Role;
use reweave_link::pki::{Authority, Validity};
use reweave_replica::{MemberId, Members, Saved};
use serde_json::Value;
use tempfile::TempDir;

const START_TIMEOUT: Duration = Duration::from_mins(1);
const TWO_HOSTS: &str = "kind = \"ideal\"\nhosts = 2\nnic_gbps = 1\n";
const ANY_PORT_SETTINGS: &str =
    "listen = \"127.0.0.1:0\"\ndoor = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\n";

/// A machine on which a coordinator could be.
struct Site {
    home: TempDir,
}

impl Site {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let site = Self { home };
        site.belong("lab", "c1");
        site.write("fabric.toml", TWO_HOSTS);
        site
    }

    /// To this cluster, by this name, from now on.
    fn belong(&self, cluster: &str, name: &str) {
        for old in ["authority", "identity"] {
            let _ = fs::remove_dir_all(self.path(old));
        }
        let authority = Authority::create(&self.path("authority"), cluster).unwrap();
        let folder = self.path("identity");
        let issued = authority.issue(Role::Coordinator, name, Validity::day(), &folder);
        issued.unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn begin(&self, command: &str, settings: &str) -> Child {
        self.begin_with(command, settings, &[])
    }

    fn begin_with(&self, command: &str, settings: &str, more: &[&str]) -> Child {
        let paths = "fabric = \"fabric.toml\"\nidentity = \"identity\"\ndata = \"data\"\n";
        self.write("c.toml", &format!("{paths}{settings}"));
        Command::new(env!("CARGO_BIN_EXE_reweave-coordinator"))
            .current_dir(self.home.path())
            .args([command, "--config", "c.toml"])
            .args(more)
            .stdin(Stdio::null())
            .stdout(File::create(self.path("said")).unwrap())
            .stderr(File::create(self.path(command)).unwrap())
            .spawn()
            .unwrap()
    }

    /// What it exits with, and the error that it ends with.
    fn run_with(&self, command: &str, settings: &str) -> (i32, String) {
        let mut child = self.begin(command, settings);
        let ended = until(|| child.try_wait().unwrap());
        let said = fs::read_to_string(self.path(command)).unwrap();
        let error = said.lines().last().unwrap_or_default().to_owned();
        (ended.code().unwrap(), error)
    }

    fn both_refuse(&self, settings: &str, words: &str) {
        let checked = self.run_with("check", settings);
        assert!(checked.1.contains(words), "{checked:?}");
        assert_ne!(checked.0, 0);
        assert_eq!(self.run_with("run", settings), checked);
    }

    /// As what a person gave is at fault.
    fn both_refuse_what_was_given(&self, words: &str) {
        self.both_refuse(ANY_PORT_SETTINGS, words);
        assert_eq!(self.run_with("check", ANY_PORT_SETTINGS).0, 2, "{words}");
    }

    fn found(&self) -> String {
        fs::read_to_string(self.path("said")).unwrap()
    }

    /// There is a log now.
    fn run_once(&self) {
        let mut running = self.begin("run", ANY_PORT_SETTINGS);
        until(|| self.path("data/reached").exists().then_some(()));
        running.kill().unwrap();
        running.wait().unwrap();
    }
}

fn until<T>(mut is_so: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        if let Some(so) = is_so() {
            return so;
        }
        assert!(Instant::now() < deadline, "it does not come to that");
        thread::park_timeout(Duration::from_millis(10));
    }
}

#[test]
fn unavailable_addresses_name_line_and_key() {
    let site = Site::new();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = udp.local_addr().unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let web = tcp.local_addr().unwrap();
    let free = "\"127.0.0.1:0\"";
    let no_socket = format!("cannot listen: cannot open a UDP socket at {taken}: Address already");
    site.both_refuse(
        &format!("listen = \"{taken}\"\n"),
        &format!("error: c.toml:4: listen: {no_socket}"),
    );
    site.both_refuse(
        &format!("listen = {free}\ndoor = \"{taken}\"\n"),
        &format!("error: c.toml:5: door: {no_socket}"),
    );
    site.both_refuse(
        &format!("listen = {free}\ndoor = {free}\nhttp = \"{web}\"\n"),
        &format!(
            "error: c.toml:6: http: cannot serve health and metrics at {web}: Address already"
        ),
    );
    site.both_refuse(
        "listen = \"127.0.0.1:7339\"\ndoor = \"127.0.0.1:7339\"\n",
        "error: c.toml:5: door: 127.0.0.1:7339 is already the address for members (listen)",
    );
}

#[test]
fn invalid_settings_name_line_and_key() {
    let site = Site::new();
    site.both_refuse(
        "[history]\nwrite_every_s = 0\n",
        "error: c.toml:5: write_every_s: a time of 0 is not allowed",
    );
    site.write("data", "");
    site.both_refuse(
        ANY_PORT_SETTINGS,
        "error: c.toml:3: data: data is not a folder",
    );
    fs::remove_file(site.path("fabric.toml")).unwrap();
    site.both_refuse(
        ANY_PORT_SETTINGS,
        "error: c.toml:1: fabric: cannot read fabric.toml",
    );
}

#[test]
fn bad_nic_names_line_and_key() {
    let site = Site::new();
    let nic = "[[nic]]\nhost = \"h0\"\nto = \"leaf0\"\ngbps = 1\naddress = \"10.1.0.1\"\n";
    let nodes =
        "node = [{ name = \"h0\", role = \"host\" }, { name = \"leaf0\", role = \"switch\" }]\n";
    site.write(
        "fabric.toml",
        &format!("kind = \"graph\"\n{nodes}{nic}{nic}"),
    );
    site.both_refuse_what_was_given(
        "error: fabric.toml:12: address: two NICs have the address 10.1.0.1",
    );
}

#[test]
fn foreign_data_names_line_and_key() {
    let site = Site::new();
    site.run_once();
    assert_eq!(site.run_with("check", ANY_PORT_SETTINGS).0, 0);
    site.write("fabric.toml", &TWO_HOSTS.replace('2', "3"));
    site.both_refuse_what_was_given("error: c.toml:3: data: data was made for another fabric");
    // As the manual says for a fabric that changed.
    fs::rename(site.path("data/log"), site.path("before.log")).unwrap();
    site.both_refuse_what_was_given("data/log is gone, and data/reached shows that");
    fs::rename(site.path("data/reached"), site.path("before.reached")).unwrap();
    site.run_once();
    fs::rename(site.path("before.log"), site.path("data/log")).unwrap();
    fs::rename(site.path("before.reached"), site.path("data/reached")).unwrap();
    site.write("fabric.toml", TWO_HOSTS);
    site.belong("lab", "c2");
    site.both_refuse_what_was_given(
        "error: c.toml:3: data: data belongs to coordinator \"c1\", but this one is \"c2\": give \
         \"c2\" its own folder",
    );
    site.belong("other", "c1");
    site.both_refuse_what_was_given(
        "error: c.toml:3: data: data was made for cluster \"lab\", but this one is \"other\": use \
         the certificate of that cluster, or a new data folder",
    );
    site.belong("lab", "c1");
    site.both_refuse_what_was_given(
        "error: c.toml:3: data: data was made for another cluster of the same name: its authority is \
         not that of this certificate",
    );
    let log = site.path("data/log");
    let mut content = fs::read(&log).unwrap();
    content[40] ^= 1;
    fs::write(&log, content).unwrap();
    site.both_refuse_what_was_given("data/log is corrupt");
}

#[test]
fn files_beside_log_are_checked() {
    let site = Site::new();
    fs::create_dir(site.path("data")).unwrap();
    site.write("data/audit", "");
    site.both_refuse_what_was_given("error: c.toml:3: data: cannot read the audit log data/audit");
    fs::remove_file(site.path("data/audit")).unwrap();
    site.write("data/history", "");
    site.both_refuse_what_was_given("error: c.toml:3: data: cannot open the history: data/history");
    fs::remove_file(site.path("data/history")).unwrap();
    for url in ["s3://", "gs://x/y", "c.toml"] {
        let settings = format!("{ANY_PORT_SETTINGS}[history]\nurl = \"{url}\"\n");
        let place = "error: c.toml:8: url: cannot open the history: ";
        site.both_refuse(&settings, &format!("{place}{url} "));
        assert_eq!(site.run_with("check", &settings).0, 2, "{url}");
    }
}

/// Of a log that can be read, and holds what is not known here.
#[test]
fn data_of_other_version_names_file() {
    let site = Site::new();
    let log = Saved::joining(MemberId(1), vec![0xff; 3], Members::default());
    fs::create_dir(site.path("data")).unwrap();
    fs::write(site.path("data/log"), log.whole().encode(0).unwrap()).unwrap();
    site.both_refuse_what_was_given(
        "error: c.toml:3: data: data/log was written by another version of this program: start \
         that version",
    );
}

/// Machines read it, so each line is for them, and the last one too.
#[test]
fn json_log_has_object_per_line() {
    let site = Site::new();
    let json = ["--log-format", "json"];
    let said = |command: &str| fs::read_to_string(site.path(command)).unwrap();
    let mut running = site.begin_with("run", ANY_PORT_SETTINGS, &json);
    until(|| said("run").contains("leader in term").then_some(()));
    running.kill().unwrap();
    running.wait().unwrap();
    site.write("fabric.toml", "kind = \"none\"\n");
    let all = said("run");
    let mut refused = site.begin_with("run", ANY_PORT_SETTINGS, &json);
    until(|| refused.try_wait().unwrap());
    let last = said("run");
    assert!(last.contains("is not a kind of fabric"), "{last}");
    for line in all.lines().chain(last.lines()) {
        let line: Value = serde_json::from_str(line).expect(line);
        for key in ["/timestamp", "/level", "/fields/message"] {
            let answer = line.pointer(key).and_then(Value::as_str);
            assert!(answer.is_some_and(|it| !it.is_empty()), "{key}: {line}");
        }
    }
}

/// It is asked on machines where one runs: its own ports are no reason to refuse its settings.
#[test]
fn config_check_accepts_running_coordinator() {
    let site = Site::new();
    let mut running = site.begin("run", ANY_PORT_SETTINGS);
    until(|| site.path("data/log").exists().then_some(()));
    let checked = site.run_with("check", ANY_PORT_SETTINGS);
    assert_eq!(checked.0, 0, "{}", checked.1);
    let found = site.found();
    assert!(found.contains("a coordinator runs on this data"), "{found}");
    let second = site.run_with("run", ANY_PORT_SETTINGS);
    assert!(
        second.1.contains("another process uses the folder data"),
        "{second:?}"
    );
    running.kill().unwrap();
    running.wait().unwrap();
}

/// As of a cluster that is to grow, and a file that names its first coordinator alone.
#[test]
fn single_configured_member_starts() {
    let site = Site::new();
    let itself = "[[member]]\nid = 1\nname = \"c1\"\naddress = \"127.0.0.1:7332\"\n";
    let mut running = site.begin("run", &format!("{ANY_PORT_SETTINGS}{itself}"));
    until(|| site.path("data/log").exists().then_some(()));
    running.kill().unwrap();
    running.wait().unwrap();
}

#[test]
fn config_check_writes_nothing() {
    let site = Site::new();
    assert_eq!(site.run_with("check", ANY_PORT_SETTINGS).0, 0);
    assert!(!site.path("data").exists());
}

/// A coordinator goes on, since requests are recorded behind it, and says where the log was changed.
#[test]
fn garbled_audit_log_is_reported() {
    let site = Site::new();
    let mut first = site.begin("run", ANY_PORT_SETTINGS);
    let file = until(|| {
        let mut files = fs::read_dir(site.path("data/audit")).ok()?;
        let file = files.next()?.ok()?.path();
        site.path("data/reached").exists().then_some(file)
    });
    first.kill().unwrap();
    first.wait().unwrap();
    fs::write(&file, "all is well\n").unwrap();
    let (code, _) = site.run_with("check", ANY_PORT_SETTINGS);
    let found = site.found();
    let place = ".jsonl:1: it is no entry: ";
    assert!(code == 0 && found.contains(place), "{found}");
    let mut running = site.begin("run", ANY_PORT_SETTINGS);
    let said = until(|| {
        let said = fs::read_to_string(site.path("run")).unwrap();
        said.contains("reweave audit verify").then_some(said)
    });
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(said.contains(place), "{said}");
}
