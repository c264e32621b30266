//! One device of each kind that the driver supports, without a cluster.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use reweave_tests::Programs;
use tempfile::TempDir;

use crate::netconfd::Netconfd;

/// The circuits of each device at the start.
pub(crate) const INITIAL_CIRCUITS: [&str; 6] = ["1-7", "2-3", "4-10", "5-6", "8-9", "11-12"];
const SWITCH_PORTS: &str = "16";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Restconf,
    Tl1,
    /// A script that passes its input on.
    Exec,
    /// A NETCONF server by other authors.
    Netconf,
}

impl Kind {
    pub(crate) const ALL_TRANSPORTS: [Self; 4] =
        [Self::Restconf, Self::Tl1, Self::Exec, Self::Netconf];

    /// Whether it can be set to fail.
    pub(crate) fn is_emulated(self) -> bool {
        self != Self::Netconf
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Restconf => "restconf",
            Self::Tl1 => "tl1",
            Self::Exec => "exec",
            Self::Netconf => "netconf",
        }
    }
}

/// A driver with one device, `ocs0`.
pub(crate) struct Bench {
    pub(crate) device: Device,
    folder: TempDir,
    driver: std::path::PathBuf,
}

pub(crate) enum Device {
    Emulated(Emulated),
    Netconfd(Netconfd),
}

impl Bench {
    pub(crate) fn of(kind: Kind) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let programs = Programs::beside_this().expect("the programs are built");
        let (device, speaks) = match kind {
            Kind::Netconf => {
                let server = Netconfd::start(folder.path());
                let speaks = server.settings();
                (Device::Netconfd(server), speaks)
            }
            _ => {
                let switch = Emulated::start(&programs.lab());
                let speaks = switch.settings(kind, folder.path());
                (Device::Emulated(switch), speaks)
            }
        };
        let bench = Self {
            device,
            driver: programs.driver(),
            folder,
        };
        bench.write_config(kind, &speaks);
        if kind == Kind::Netconf {
            bench.drive(&["apply", "ocs0", "--desired", &INITIAL_CIRCUITS.join(",")]);
            // A driver with an empty folder has no earlier instruction to return to.
            fs::remove_dir_all(bench.path("state")).expect("a folder of records");
        }
        bench
    }

    fn write_config(&self, kind: Kind, speaks: &str) {
        let state = self.path("state");
        // How long the driver waits for an answer. The real server always answers, late.
        let patience = if kind == Kind::Netconf { 30_000 } else { 2000 };
        let text = format!(
            "state = {state:?}\n[[optical]]\nname = \"ocs0\"\nports = {SWITCH_PORTS}\n\
             patience_ms = {patience}\n{speaks}\n"
        );
        self.write("driver.toml", &text);
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file");
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn driver(&self, words: &[&str]) -> Output {
        let mut command = Command::new(&self.driver);
        command.arg("--config").arg(self.path("driver.toml"));
        command.args(words).output().expect("the driver starts")
    }

    /// The output of the driver's command, which must succeed.
    #[track_caller]
    pub(crate) fn drive(&self, words: &[&str]) -> String {
        let output = self.driver(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        let said = String::from_utf8(output.stdout).expect("words");
        said.trim().to_owned()
    }

    #[track_caller]
    pub(crate) fn is_refused(&self, words: &[&str], code: i32, says: &str) {
        let output = self.driver(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.starts_with("error: ") && said.contains(says), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }

    pub(crate) fn goes_wrong(&self, how: Option<&str>) {
        let Device::Emulated(switch) = &self.device else {
            panic!("a real server makes no mistakes on request")
        };
        switch.goes_wrong(how);
    }
}

/// The lab's emulated optical switch, with no fibre in any port.
pub(crate) struct Emulated {
    process: Child,
    restconf: String,
    tl1: String,
}

impl Emulated {
    fn start(lab: &Path) -> Self {
        let circuits = INITIAL_CIRCUITS
            .iter()
            .flat_map(|circuit| ["--circuit", circuit]);
        let anywhere = ["--listen", "127.0.0.1:0", "--tl1", "127.0.0.1:0"];
        let mut command = Command::new(lab);
        command
            .args(["optical-switch", "--ports", SWITCH_PORTS])
            .args(anywhere)
            .args(circuits);
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let output = process.stdout.take().expect("piped");
        BufReader::new(output)
            .read_line(&mut line)
            .expect("it says where it listens");
        let mut addresses = line.split_whitespace().filter(|word| word.contains(':'));
        let mut next = || addresses.next().expect("an address").to_owned();
        Self {
            process,
            restconf: next(),
            tl1: next(),
        }
    }

    /// The driver's settings for this protocol.
    fn settings(&self, kind: Kind, folder: &Path) -> String {
        match kind {
            Kind::Tl1 => {
                let password = folder.join("password");
                fs::write(&password, "light\n").expect("a file");
                let (host, port) = self.tl1.split_once(':').expect("an address");
                format!(
                    "[optical.speaks.tl1]\nhost = \"{host}\"\nport = {port}\nuser = \"reweave\"\n\
                     password_file = {password:?}\n"
                )
            }
            Kind::Exec => {
                let program = folder.join("ask");
                fs::write(&program, include_str!("ask.sh")).expect("a file");
                fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
                format!(
                    "speaks.exec = {{ program = {program:?}, arguments = [{:?}] }}",
                    self.restconf
                )
            }
            _ => format!("speaks.restconf.url = \"http://{}\"", self.restconf),
        }
    }

    fn goes_wrong(&self, how: Option<&str>) {
        let wish = serde_json::json!({ "mishap": how }).to_string();
        let url = format!("http://{}/lab/mishap", self.restconf);
        let json = "content-type: application/json";
        let report = Command::new("curl")
            .args(["-sSf", "-X", "PUT", "-H", json, "-d", &wish, &url])
            .status();
        assert!(report.expect("curl").success());
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
