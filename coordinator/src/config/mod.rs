//! The coordinator's configuration: flags, and one file in which unknown keys are errors.

mod check;
mod drivers;
mod history;
mod members;
mod said;
mod webhooks;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use reqwest::Url;
use reweave_common::fabric::Fabric;
use reweave_common::ids::OpticalId;
use reweave_common::input::{Document, InputError};
use reweave_common::operator::Mode;
use reweave_core::Policy;
use reweave_proto::DEFAULT_PORT;
use reweave_replica::{Member, MemberId};
use serde::Deserialize;
use toml::Spanned;

use crate::error::CoordinatorError;
use crate::webhooks::Hook;
use drivers::{DriverAssignment, DriverFile};
use members::MemberFile;
use webhooks::WebhookFile;

pub(crate) use check::StartState;
pub(crate) use history::HistoryConfig;
use history::HistorySettings;
pub(crate) use said::Said;
use said::said;

/// Default paths.
const DEFAULT_CONFIG_PATH: &str = "/etc/reweave/coordinator.toml";
const DEFAULT_FABRIC_PATH: &str = "/etc/reweave/fabric.toml";
const DEFAULT_DATA_PATH: &str = "/var/lib/reweave/coordinator";

/// Flags win over the file.
#[derive(Debug, Default, Args)]
pub(crate) struct Settings {
    /// File with these settings and the policy; deploy/coordinator.toml explains each [default:
    /// /etc/reweave/coordinator.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Fabric file: nodes, roles and links [default: /etc/reweave/fabric.toml]
    #[arg(long, value_name = "FILE")]
    fabric: Option<PathBuf>,
    /// Address for agents and operators [default: 0.0.0.0:7332]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Address for members that join with a token [default: the port after that of --listen, if it is free]
    #[arg(long, value_name = "ADDRESS:PORT")]
    door: Option<SocketAddr>,
    /// HTTP address for health and metrics [default: 127.0.0.1:7334, if it is free]
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<SocketAddr>,
    /// TLS address for dashboard, API, health and metrics, also for other machines [default: none]
    #[arg(long, value_name = "ADDRESS:PORT")]
    https: Option<SocketAddr>,
    /// Folder with the coordinator's certificate and key, and the certificate of the authority [default:
    /// /var/lib/reweave/coordinator/identity]
    #[arg(long, value_name = "DIR")]
    identity: Option<PathBuf>,
    /// Folder for persistent state [default: /var/lib/reweave/coordinator]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Who approves plans [default: manual]
    #[arg(long)]
    mode: Option<ModeName>,
    /// Record all inputs and effects in a new file, for `replay`
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModeName {
    /// An operator
    Manual,
    /// The coordinator, within its policy
    Auto,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Manual => Self::Manual,
            ModeName::Auto => Self::Auto,
        }
    }
}

/// Flags and file together, with all names resolved.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) fabric: Arc<Fabric>,
    /// Text of the fabric file.
    pub(crate) fabric_text: String,
    pub(crate) listen: Said<SocketAddr>,
    pub(crate) door: Said<SocketAddr>,
    /// No setting names the join address: the default is used if it is free.
    pub(crate) door_is_usual: bool,
    /// None without a setting: then the default is used if it is free.
    pub(crate) http: Option<Said<SocketAddr>>,
    /// None without TLS.
    pub(crate) https: Option<Said<SocketAddr>>,
    pub(crate) identity: Said<PathBuf>,
    pub(crate) data: Said<PathBuf>,
    /// Coordinators of the cluster; empty for a single coordinator.
    pub(crate) members: BTreeMap<MemberId, Member>,
    /// Driver assigned to each optical switch; absent for a switch without a driver.
    pub(crate) assigned_driver: BTreeMap<OpticalId, String>,
    pub(crate) policy: Policy,
    /// None if the history is disabled.
    pub(crate) history: Option<Said<HistoryConfig>>,
    /// Receivers of events.
    pub(crate) webhooks: Vec<Hook>,
    /// Collector of traces of plans.
    pub(crate) traces: Option<Url>,
}

/// Content of the file.
#[derive(Debug, Default, PartialEq)]
struct FileSettings {
    fabric: Option<Said<PathBuf>>,
    listen: Option<Said<SocketAddr>>,
    door: Option<Said<SocketAddr>>,
    http: Option<Said<SocketAddr>>,
    https: Option<Said<SocketAddr>>,
    identity: Option<Said<PathBuf>>,
    data: Option<Said<PathBuf>>,
    members: BTreeMap<MemberId, Member>,
    drivers: Vec<DriverAssignment>,
    policy: Policy,
    history: HistorySettings,
    webhooks: Vec<Hook>,
    traces: Option<Url>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    fabric: Option<Spanned<PathBuf>>,
    listen: Option<Spanned<String>>,
    door: Option<Spanned<String>>,
    http: Option<Spanned<String>>,
    https: Option<Spanned<String>>,
    identity: Option<Spanned<PathBuf>>,
    data: Option<Spanned<PathBuf>>,
    traces: Option<Spanned<String>>,
    #[serde(default)]
    member: Vec<MemberFile>,
    #[serde(default)]
    driver: Vec<DriverFile>,
    #[serde(default)]
    webhook: Vec<WebhookFile>,
}

impl Settings {
    pub(crate) fn read(&self) -> Result<Config, CoordinatorError> {
        let file = match self.file() {
            None => FileSettings::default(),
            Some(path) => FileSettings::read(&path)?,
        };
        let fabric_path = said("--fabric", &self.fabric, file.fabric);
        let fabric_path = fabric_path.unwrap_or_else(|| Said::usual("fabric", DEFAULT_FABRIC_PATH));
        let fabric_text = fabric_path.text()?;
        let fabric = Fabric::parse(&fabric_path.value.display().to_string(), &fabric_text)?;
        let data = said("--data", &self.data, file.data);
        let data = data.unwrap_or_else(|| Said::usual("data", DEFAULT_DATA_PATH));
        let identity = said("--identity", &self.identity, file.identity);
        let beside_data = || Said::usual("identity", data.value.join("identity"));
        let mode = self.mode.map_or(file.policy.mode, Mode::from);
        let listen = said("--listen", &self.listen, file.listen);
        let listen = listen.unwrap_or_else(|| Said::usual("listen", everywhere()));
        let door = said("--door", &self.door, file.door);
        if let Some(door) = door.as_ref().filter(|door| are_one(door, &listen)) {
            let address = listen.value;
            return Err(door.wrong(CoordinatorError::JoinPortTaken { address }));
        }
        Ok(Config {
            assigned_driver: drivers::resolve(&fabric, file.drivers)?,
            fabric: Arc::new(fabric),
            fabric_text,
            history: file.history.config(&data),
            door_is_usual: door.is_none(),
            door: door.unwrap_or_else(|| Said::usual("door", beside(listen.value))),
            listen,
            http: said("--http", &self.http, file.http),
            https: said("--https", &self.https, file.https),
            identity: identity.unwrap_or_else(beside_data),
            data,
            members: file.members,
            policy: Policy {
                mode,
                ..file.policy
            },
            webhooks: file.webhooks,
            traces: file.traces,
        })
    }
}

/// Returns the location of the history. It needs neither a fabric nor a certificate.
pub(crate) fn history_url(
    config: Option<&Path>,
    data: Option<&Path>,
) -> Result<String, CoordinatorError> {
    let file = config
        .map(FileSettings::read)
        .transpose()?
        .unwrap_or_default();
    let said = file.data.map(|data| data.value);
    let data = data.map(Path::to_owned).or(said);
    let data = data.unwrap_or_else(|| PathBuf::from(DEFAULT_DATA_PATH));
    Ok(file.history.url(&data))
}

impl Settings {
    /// Returns the file of the option, else the default file if it exists.
    fn file(&self) -> Option<PathBuf> {
        let usual = || Some(PathBuf::from(DEFAULT_CONFIG_PATH)).filter(|path| path.exists());
        self.config.clone().or_else(usual)
    }
}

/// Returns the next port, or port 0 after the last one.
fn beside(listen: SocketAddr) -> SocketAddr {
    let port = listen.port().checked_add(1);
    let port = port.filter(|_| listen.port() != 0);
    SocketAddr::new(listen.ip(), port.unwrap_or(0))
}

/// Whether two addresses are equal. Port 0 stands for a new port each time.
fn are_one(door: &Said<SocketAddr>, listen: &Said<SocketAddr>) -> bool {
    door.value == listen.value && listen.value.port() != 0
}

fn everywhere() -> SocketAddr {
    (Ipv4Addr::UNSPECIFIED, DEFAULT_PORT).into()
}

/// Maximum size of a settings file or a fabric file.
const MAX_FILE_BYTES: u64 = 64 << 20;

pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, CoordinatorError> {
    let failed = |source| CoordinatorError::Read {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    if read.map_err(failed)? as u64 > MAX_FILE_BYTES {
        Err(CoordinatorError::TooLarge {
            path: path.to_owned(),
            most_bytes: MAX_FILE_BYTES,
        })
    } else {
        Ok(bytes)
    }
}

fn read(path: &Path) -> Result<String, CoordinatorError> {
    let text = String::from_utf8(bytes(path)?);
    text.map_err(|source| CoordinatorError::Read {
        path: path.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidData, source),
    })
}

impl Said<PathBuf> {
    /// Returns the content of the file.
    fn text(&self) -> Result<String, CoordinatorError> {
        read(&self.value).map_err(|source| self.wrong(source))
    }
}

impl FileSettings {
    fn read(path: &Path) -> Result<Self, CoordinatorError> {
        let text = read(path)?;
        let mut settings = Self::parse(&path.display().to_string(), &text)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let paths = [
            &mut settings.fabric,
            &mut settings.identity,
            &mut settings.data,
        ];
        for named in paths.into_iter().flatten() {
            named.value = folder.join(&named.value);
        }
        let hooks = settings.webhooks.into_iter();
        settings.webhooks = hooks.map(|hook| hook.lies_in(folder)).collect();
        Ok(settings)
    }

    fn parse(file: &str, text: &str) -> Result<Self, InputError> {
        let mut table = Document::new(file, text).table()?;
        let policy = table.take_table("policy")?;
        let history = table.take_table("history")?;
        let document = table.document();
        let head: Head = table.finish()?;
        let address = |text: Spanned<String>| {
            let address = members::address(document, &text)?;
            Ok(Said::in_file(document, Spanned::new(text.span(), address)))
        };
        let path = |path| Said::in_file(document, path);
        let traces = head.traces.filter(|url| !url.get_ref().is_empty());
        let traces = traces.map(|url| webhooks::url(document, &url));
        Ok(Self {
            fabric: head.fabric.map(path),
            listen: head.listen.map(address).transpose()?,
            door: head.door.map(address).transpose()?,
            http: head.http.map(address).transpose()?,
            https: head.https.map(address).transpose()?,
            identity: head.identity.map(path),
            data: head.data.map(path),
            history: history.map_or_else(|| Ok(HistorySettings::default()), history::read)?,
            members: members::read(document, &head.member)?,
            drivers: drivers::read(document, head.driver)?,
            policy: policy.map_or_else(|| Ok(Policy::default()), Policy::read)?,
            webhooks: webhooks::read(document, head.webhook)?,
            traces: traces.transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::webhooks::Kind;

    const SAMPLE_CONFIG: &str = include_str!("../../../deploy/coordinator.toml");

    fn parse(text: &str) -> Result<FileSettings, InputError> {
        FileSettings::parse("c.toml", text)
    }

    fn value<T>(said: Option<Said<T>>) -> Option<T> {
        said.map(|said| said.value)
    }

    fn error_of(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn sample_config_matches_defaults() {
        let sample = parse(SAMPLE_CONFIG).unwrap();
        assert_eq!(sample.policy, Policy::default());
        assert_eq!(sample.history, HistorySettings::default());
        assert_eq!(sample.traces, None);
        assert_eq!(value(sample.listen), Some(everywhere()));
        assert_eq!(value(sample.door), Some(beside(everywhere())));
        assert_eq!(value(sample.http), Some(crate::http::DEFAULT_LISTEN));
        assert_eq!(sample.https, None);
        let with_https = SAMPLE_CONFIG.replacen("#https", "https", 1);
        let https = value(parse(&with_https).unwrap().https);
        assert_eq!(https, Some("0.0.0.0:7335".parse().unwrap()));
        let folder = |path: Option<Said<PathBuf>>| value(path).unwrap().display().to_string();
        assert_eq!(folder(sample.fabric), DEFAULT_FABRIC_PATH);
        assert_eq!(folder(sample.data), DEFAULT_DATA_PATH);
        assert_eq!(
            folder(sample.identity),
            format!("{DEFAULT_DATA_PATH}/identity")
        );
    }

    /// Users could not find a setting that is missing in the sample.
    #[test]
    fn sample_config_lists_every_setting() {
        let is_set = |line: &&str| line.contains(" = ") && !line.starts_with('#');
        for line in SAMPLE_CONFIG.lines().filter(is_set) {
            let without = SAMPLE_CONFIG.replacen(line, "", 1);
            parse(&without).unwrap();
            let unknown = SAMPLE_CONFIG.replacen(line, &format!("x{line}"), 1);
            assert!(error_of(&unknown).contains("this key is unknown"), "{line}");
        }
        let keys = SAMPLE_CONFIG.lines().filter(is_set).count();
        assert_eq!(keys, 7 + Policy::keys().count() + history::SETTING_COUNT);
    }

    #[test]
    fn settings_are_read() {
        let text = "listen = \"10.0.0.1:9\"\n[policy]\nmode = \"auto\"\nsettle_ms = 20\n";
        let settings = parse(text).unwrap();
        assert_eq!(value(settings.listen), Some("10.0.0.1:9".parse().unwrap()));
        assert_eq!(settings.policy.mode, Mode::Auto);
        assert_eq!(settings.policy.settle, Duration::from_millis(20));
        let hours = "[policy]\nchanges_only = [\"Mon-Fri 02:00-05:00\"]\n";
        let hours = parse(hours).unwrap().policy.changes_only;
        assert_eq!(hours, ["Mon-Fri 02:00-05:00".parse().unwrap()]);
    }

    #[test]
    fn errors_name_their_place() {
        assert!(error_of("fabrik = \"f\"").starts_with("c.toml:1: fabrik: this key is unknown"));
        assert_eq!(
            error_of("data = \"d\"\nlisten = \"here\"\n"),
            "c.toml:2: listen: \"here\" is not of the form ADDRESS:PORT"
        );
        assert_eq!(
            error_of("traces = \"there\""),
            "c.toml:1: traces: expected a URL with https:// or http://"
        );
        let said = |line: &str| error_of(&format!("[policy]\n\n{line}\n"));
        assert!(said("mod = \"auto\"").starts_with("c.toml:3: mod: this key is unknown"));
        assert!(said("mode = \"car\"").starts_with("c.toml:3: mode: \"car\" is unknown here"));
        assert_eq!(
            said("readings = 0"),
            "c.toml:3: readings: 0 is not between 1 and 16"
        );
        assert_eq!(
            said("least_gain = -0.5"),
            "c.toml:3: least_gain: -0.5 is not a share between 0 and 1"
        );
        assert_eq!(
            said("changes_only = [\"Mon 02:00-05:00\", \"Mo 2-5\"]"),
            "c.toml:3: changes_only: \"Mo 2-5\" is not a weekly time range: write `Mon-Fri \
             02:00-05:00` or `Sat 22:00-06:00`, in UTC"
        );
        assert!(said("look_every_ms = 0").ends_with("look_every_ms: a time of 0 is not allowed"));
        let history = error_of("[history]\nwrite_every_s = 0\n");
        assert_eq!(
            history,
            "c.toml:2: write_every_s: a time of 0 is not allowed"
        );
        assert!(said("settle_ms = 1e12").starts_with("c.toml:3: settle_ms: 1000000000000 is not"));
    }

    #[test]
    fn unsatisfiable_policy_is_refused() {
        let said = |lines: &str| error_of(&format!("[policy]\n{lines}\n"));
        let both = said("verify_within_ms = 1\nsettle_ms = 60000");
        assert!(
            both.starts_with("c.toml:2: verify_within_ms: no plan could ever be kept"),
            "{both}"
        );
        let one = said("settle_ms = 10000");
        assert!(
            one.starts_with("c.toml:2: settle_ms: no plan could ever be kept"),
            "{one}"
        );
        parse("[policy]\nsettle_ms = 9999").unwrap();
    }

    #[test]
    fn switch_has_one_driver_in_fabric() {
        let driver = |name: &str, switches: &str| {
            format!("[[driver]]\nname = \"{name}\"\nswitches = {switches}\n")
        };
        let two = driver("d0", "[\"ocs0\"]") + &driver("d1", "[\"ocs1\", \"ocs0\"]");
        assert_eq!(
            error_of(&two),
            "c.toml:6: switches: \"ocs0\" already has a driver"
        );
        let driven = || parse(&driver("d0", "[\"ocs0\"]")).unwrap().drivers;
        let fabric = |text: &str| Fabric::parse("f.toml", text).unwrap();
        let switched =
            fabric("kind = \"graph\"\nnode = []\noptical = [{ name = \"ocs0\", ports = 4 }]\n");
        let found = drivers::resolve(&switched, driven()).unwrap();
        assert_eq!(found.values().collect::<Vec<_>>(), ["d0"]);
        let plain = "kind = \"leaf-spine\"\nleaves = 1\nspines = 1\nhosts_per_leaf = 1\n\
                     host_gbps = 1\nuplink_gbps = 1";
        let missing = drivers::resolve(&fabric(plain), driven()).unwrap_err();
        assert_eq!(missing.exit_code(), 2);
        assert!(missing.to_string().starts_with("c.toml:3: "), "{missing}");
    }

    #[test]
    fn members_are_unique_and_valid() {
        let member = |id: u64, name: &str, address: &str| {
            format!("[[member]]\nid = {id}\nname = \"{name}\"\naddress = \"{address}\"\n")
        };
        let two = member(1, "c1", "10.0.0.1:7332") + &member(2, "c2", "10.0.0.2:7332");
        let settings = parse(&two).unwrap();
        assert_eq!(settings.members[&MemberId(2)].name, "c2");
        let twice = two.clone() + &member(2, "c3", "10.0.0.3:7332");
        assert_eq!(
            error_of(&twice),
            "c.toml:10: id: two members have the number 2"
        );
        let named = two.clone() + &member(3, "c1", "10.0.0.3:7332");
        assert!(error_of(&named).starts_with("c.toml:11: name: two members have the name \"c1\""));
        let beside = two.clone() + &member(3, "c3", "10.0.0.1:7332");
        assert!(error_of(&beside).starts_with(
            "c.toml:12: address: two members have the address \
                10.0.0.1:7332"
        ));
        let at = |address: &str| error_of(&(two.clone() + &member(3, "c3", address)));
        for (address, why) in [
            ("there", "\"there\" is not of"),
            ("10.0.0.3:0", "10.0.0.3:0 has no port"),
            (
                "0.0.0.0:7332",
                "0.0.0.0:7332 is not the address of one machine",
            ),
            ("224.0.0.1:7332", "224.0.0.1:7332 is the address of many"),
        ] {
            let said = at(address);
            let expected = format!("c.toml:12: address: {why}");
            assert!(said.starts_with(&expected), "{said}");
        }
    }

    #[test]
    fn webhooks_need_valid_urls() {
        let hook = |url: &str, more: &str| {
            format!("[[webhook]]\nurl = {url:?}\nsecret_file = \"s\"\n{more}")
        };
        let all = parse(&hook("https://pager.example/hook", "")).unwrap();
        assert_eq!(all.webhooks[0].kinds, Kind::ALL);
        let some = hook("http://10.0.0.1:8080/", "of = [\"alarm\"]\n");
        assert_eq!(parse(&some).unwrap().webhooks[0].kinds, [Kind::Alarm]);
        let said = |url| error_of(&hook(url, ""));
        let expected = "c.toml:2: url: expected a URL with https:// or http://";
        assert_eq!(said("pager/secret"), expected);
        let elsewhere = said("ftp://ann:secret@x/secret?key=secret");
        assert_eq!(elsewhere, format!("{expected}, found ftp://x"));
        let unknown = hook("http://x/", "of = [\"gossip\"]\n");
        assert!(
            error_of(&unknown).starts_with("c.toml:4: "),
            "{}",
            error_of(&unknown)
        );
    }

    #[test]
    fn relative_paths_start_at_config_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.toml");
        fs::write(&path, "fabric = \"f.toml\"\ndata = \"/d\"\n").unwrap();
        let settings = FileSettings::read(&path).unwrap();
        assert_eq!(value(settings.fabric), Some(folder.path().join("f.toml")));
        assert_eq!(value(settings.data), Some(PathBuf::from("/d")));
    }

    #[test]
    fn flags_override_config_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        file("f.toml", "kind = \"ideal\"\nhosts = 2\nnic_gbps = 1\n");
        let text = "fabric = \"f.toml\"\nlisten = \"10.0.0.1:9\"\nidentity = \"i\"\n";
        let settings = Settings {
            config: Some(file("c.toml", text)),
            listen: Some("10.0.0.2:8".parse().unwrap()),
            mode: Some(ModeName::Auto),
            ..Settings::default()
        };
        let config = settings.read().unwrap();
        assert_eq!(config.listen.value, "10.0.0.2:8".parse().unwrap());
        assert_eq!(config.listen.place, "--listen");
        assert_eq!(config.policy.mode, Mode::Auto);
        assert_eq!(config.fabric.nodes().len(), 3);
        assert_eq!(config.door.value, "10.0.0.2:9".parse().unwrap());
        assert_eq!(config.identity.value, folder.path().join("i"));
    }

    #[test]
    fn missing_file_is_named() {
        let missing = Settings {
            fabric: Some(PathBuf::from("/nowhere/fabric.toml")),
            ..Settings::default()
        };
        let error = missing.read().unwrap_err();
        let words = reweave_common::error::error_chain(&error);
        assert!(
            words.starts_with("--fabric: cannot read /nowhere/fabric.toml"),
            "{words}"
        );
        assert_eq!(error.exit_code(), 2);
    }
}
