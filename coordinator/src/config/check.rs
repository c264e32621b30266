//! `config check`: checks whether a coordinator would start.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::SystemTime;

use reweave_common::fabric::{Fabric, NicUse};
use reweave_files::{FileSystem as _, LocalFiles};
use reweave_link::pki::PkiError;
use reweave_link::{Identity, Role};
use reweave_replica::{FolderId, MIN_FREE_BYTES};

use super::{Config, Settings};
use crate::data::Belonging;
use crate::error::CoordinatorError;
use crate::event_loop::saved_state;
use crate::hex::hex;
use crate::history::HistoryError;
use crate::listeners::Listeners;
use crate::signing::Signing;
use crate::{audit, data, http, voice, webhooks};

/// State of this machine that a start would find.
pub(crate) struct StartState {
    pub(crate) identity: Identity,
    pub(crate) signing: Signing,
    /// A coordinator runs on this data, so it uses the addresses.
    data_is_held: bool,
    /// Free space for the data, if the file system reports it.
    free_bytes: Option<u64>,
    /// Line of the audit log that was changed.
    audit_damage: Option<String>,
}

impl Settings {
    /// Fails as a start would, because both run the same checks. Prints what was found, and changes nothing.
    pub(crate) fn check(&self) -> Result<(), CoordinatorError> {
        let config = self.read()?;
        let found = config.look()?;
        let listeners = if found.data_is_held {
            None
        } else {
            Some(Listeners::try_out(&config, &found.identity)?)
        };
        let report = summary(&config, &found, listeners.as_ref());
        let said = voice::out().write_all(report.as_bytes());
        said.map_err(|source| CoordinatorError::Start {
            what: "printing the result",
            source,
        })?;
        match found.identity.problem(SystemTime::now()) {
            None => Ok(()),
            Some(problem) => Err(config.identity.wrong(CoordinatorError::Unaccepted {
                folder: config.identity.value.clone(),
                problem,
            })),
        }
    }
}

fn summary(config: &Config, found: &StartState, listeners: Option<&Listeners>) -> String {
    let mut text = String::new();
    let mut line = |what: &str, found: String| {
        let _ = writeln!(text, "{what:<13} {found}");
    };
    let identity = &found.identity;
    line("member", identity.member().to_string());
    line("signer", signer(config, found));
    let fabric = &config.fabric;
    let (nodes, links) = (fabric.nodes().len(), fabric.links().len());
    line("fabric", format!("{nodes} nodes, {links} links"));
    if fabric.nics().next().is_some() {
        line("", nics(fabric));
    }
    line("listens on", config.listen.value.to_string());
    if !config.members.is_empty() {
        line("members", membership(config, identity.member().name()));
    }
    let is_there = |has: fn(&Listeners) -> bool| listeners.is_none_or(has);
    let place = |address, is_there| {
        if is_there {
            format!("{address}")
        } else {
            format!("nowhere: {address} is taken")
        }
    };
    let hears = is_there(|listeners| listeners.join_listener.is_some());
    line("joins on", place(config.door.value, hears));
    let serves = is_there(|listeners| listeners.http.is_some());
    line("http on", place(config.http_address(), serves));
    if let Some(https) = &config.https {
        line("https on", https.value.to_string());
    }
    line("data", config.data.value.display().to_string());
    if let Some(full) = found.free_bytes.and_then(full_disk) {
        line("", full);
    }
    if let Some(damage) = &found.audit_damage {
        line("audit log", format!("changed: {damage}"));
    }
    if found.data_is_held {
        let held = "a coordinator runs on this data, so its ports were not checked";
        line("", held.to_owned());
    }
    for name in config.undriven() {
        let none =
            format!("none for {name}, so its circuits cannot be moved: name one in a [[driver]]");
        line("driver", none);
    }
    if let Some(collector) = &config.traces {
        line("traces", webhooks::origin(collector));
    }
    for hook in &config.webhooks {
        line("webhook", webhooks::origin(&hook.url));
        if hook.is_open_to_all() {
            let path = hook.secret_file.value.display();
            let open = format!("every user of this machine can read its secret: chmod o-r {path}");
            line("", open);
        }
    }
    text
}

/// Words for a disk on which a coordinator starts, and decides nothing.
fn full_disk(free_bytes: u64) -> Option<String> {
    let mib = |bytes: u64| bytes >> 20;
    (free_bytes < MIN_FREE_BYTES).then(|| {
        format!(
            "the disk is full: {} MiB are free, and without {} MiB nothing is decided",
            mib(free_bytes),
            mib(MIN_FREE_BYTES)
        )
    })
}

/// Returns the free space for a folder, which may not exist yet.
fn free_bytes(folder: &Path) -> Option<u64> {
    let mut folders = folder.ancestors();
    folders.find_map(|folder| LocalFiles.free_bytes(folder))
}

/// Counts NICs by use, and the rails of the host with the most.
fn nics(fabric: &Fabric) -> String {
    let count = |purpose| {
        let nics = fabric.nics().map(|(_, nic)| nic);
        nics.filter(|nic| nic.purpose == purpose).count()
    };
    let (all, rails) = (fabric.nics().len(), fabric.rail_count());
    let [nics, rail] = [(all, "NIC"), (rails.into(), "rail")]
        .map(|(count, thing)| format!("{count} {thing}{}", if count == 1 { "" } else { "s" }));
    let storage = count(NicUse::Storage);
    let text = format!("{nics}: {rail}, {storage} for storage");
    match count(NicUse::Management) {
        0 => text,
        management => format!("{text}, {management} for management"),
    }
}

/// Describes who signs certificates: without a signer here, the leader passes requests to a coordinator with one.
fn signer(config: &Config, found: &StartState) -> String {
    let name = found.identity.member().name();
    let has_others = config.members.values().any(|member| member.name != name);
    let without = match (found.signing.can_sign(), has_others) {
        (true, _) => return "found: joins and certificate renewals are possible".to_owned(),
        (false, true) => "none: while this coordinator leads, another member with a signer signs",
        (false, false) => "none: no joins and no certificate renewals here",
    };
    format!(
        "{without}; create one with `reweave cluster issue --role coordinator --name {name}` on \
         the machine of the authority"
    )
}

/// Describes the membership of this coordinator, and mismatches with the file.
fn membership(config: &Config, name: &str) -> String {
    let count = config.members.len();
    let Some(own) = config.members.values().find(|member| member.name == name) else {
        return format!(
            "{count}, none of which is {name}: it waits for `reweave cluster member add`"
        );
    };
    let (listen, report) = (config.listen.value, own.address);
    let is_there = listen.ip().is_unspecified() || listen.ip() == report.ip();
    if is_there && listen.port() == report.port() {
        format!("{count}, and {name} is one of them, at {report}")
    } else {
        format!("{count}; the others connect to {name} at {report}, but it does not listen there")
    }
}

impl Config {
    /// Collects everything that a start needs, without locking or binding anything.
    pub(crate) fn look(&self) -> Result<StartState, CoordinatorError> {
        let identity = self.identity()?;
        let signing = self.signing()?;
        for hook in &self.webhooks {
            hook.secret()?;
        }
        let data = data::look(&self.data.value, &self.belonging(&identity));
        let data = data.map_err(|error| self.data.wrong(error))?;
        if let Some(saved) = &data.saved {
            saved_state(saved, &self.data.value).map_err(|error| self.data.wrong(error))?;
        }
        audit::look(&self.data.value).map_err(|error| self.data.wrong(error))?;
        let audit_damage = audit::damage(&self.data.value);
        let audit_damage = audit_damage.map_err(|error| self.data.wrong(error))?;
        if let Some(history) = &self.history {
            let there = reweave_history::check(&history.value.url);
            there.map_err(|error| history.wrong(HistoryError::Open(error)))?;
        }
        Ok(StartState {
            identity,
            signing,
            data_is_held: data.is_held,
            free_bytes: free_bytes(&self.data.value),
            audit_damage,
        })
    }

    /// Returns the cluster that the log must belong to.
    pub(crate) fn belonging(&self, identity: &Identity) -> Belonging {
        Belonging {
            cluster: identity.cluster().to_string(),
            fabric: self.fabric_text.clone(),
            name: identity.member().name().to_owned(),
            folder: FolderId::default(),
            authority: hex(&identity.authority_digest().0),
        }
    }

    pub(crate) fn http_address(&self) -> SocketAddr {
        self.http
            .as_ref()
            .map_or(http::DEFAULT_LISTEN, |http| http.value)
    }

    /// Returns the certificate of this coordinator.
    fn identity(&self) -> Result<Identity, CoordinatorError> {
        let folder = &self.identity.value;
        let identity = Identity::load(folder).map_err(|source| self.unusable(source))?;
        if identity.member().role() == Role::Coordinator {
            return Ok(identity);
        }
        Err(self.identity.wrong(CoordinatorError::NotACoordinator {
            folder: folder.display().to_string(),
            member: identity.member().to_string(),
        }))
    }

    /// Returns the signer with which it issues certificates to members.
    fn signing(&self) -> Result<Signing, CoordinatorError> {
        Signing::load(&self.identity.value).map_err(|source| self.unusable(source))
    }

    fn unusable(&self, source: PkiError) -> CoordinatorError {
        self.identity.wrong(CoordinatorError::Identity {
            folder: self.identity.value.clone(),
            source: Box::new(source),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use reweave_common::error::error_chain as in_words;
    use reweave_link::pki::{Authority, Validity};

    use super::*;

    const ONE_HOUR: Duration = Duration::from_hours(1);

    /// Returns a folder with everything that a coordinator needs, whose certificate was issued an hour ago.
    fn settings(good_for: Duration, members: &str) -> (tempfile::TempDir, Settings) {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let authority = Authority::create(&path("authority"), "lab").unwrap();
        let now = SystemTime::now();
        let validity = Validity {
            not_before: now - 2 * ONE_HOUR,
            not_after: now - ONE_HOUR + good_for,
        };
        let issued = authority.issue(Role::Coordinator, "c1", validity, &path("identity"));
        issued.unwrap();
        fs::write(
            path("fabric.toml"),
            "kind = \"ideal\"\nhosts = 2\nnic_gbps = 1\n",
        )
        .unwrap();
        let text = format!(
            "fabric = \"fabric.toml\"\nidentity = \"identity\"\ndata = \"data\"\nlisten = \
             \"127.0.0.1:0\"\n{members}"
        );
        fs::write(path("c.toml"), text).unwrap();
        let settings = Settings {
            config: Some(path("c.toml")),
            ..Settings::default()
        };
        (folder, settings)
    }

    fn member(id: u64, name: &str, address: &str) -> String {
        format!("[[member]]\nid = {id}\nname = \"{name}\"\naddress = \"{address}\"\n")
    }

    #[test]
    fn expired_certificate_is_refused() {
        let (_folder, good) = settings(2 * ONE_HOUR, "");
        good.check().unwrap();
        let (_folder, old) = settings(ONE_HOUR / 2, "");
        let error = old.check().unwrap_err();
        let words = in_words(&error);
        assert!(
            words.contains("c.toml:2: identity: the certificate in"),
            "{words}"
        );
        assert!(words.contains("expired"), "{words}");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn missing_signer_needs_another_member() {
        let describe = |members: &str| {
            let (_folder, settings) = settings(2 * ONE_HOUR, members);
            let config = settings.read().unwrap();
            summary(&config, &config.look().unwrap(), None)
        };
        let itself = member(1, "c1", "10.0.0.1:7332");
        for alone in [describe(""), describe(&itself)] {
            assert!(alone.contains("none: no joins"), "{alone}");
        }
        let among_others = describe(&(itself + &member(2, "c2", "10.0.0.2:7332")));
        assert!(!among_others.contains("none: no joins"), "{among_others}");
        assert!(
            among_others.contains(
                "another member with a signer signs; create one with `reweave cluster issue"
            ),
            "{among_others}"
        );
    }

    /// It would start, and decide nothing.
    #[test]
    fn full_disk_is_reported() {
        let (_folder, settings) = settings(2 * ONE_HOUR, "");
        let config = settings.read().unwrap();
        let found = config.look().unwrap();
        assert!(
            found.free_bytes.is_some(),
            "the data folder is not there yet"
        );
        let describe = |free_bytes| {
            let found = StartState {
                free_bytes,
                ..config.look().unwrap()
            };
            summary(&config, &found, None)
        };
        let full = describe(Some(MIN_FREE_BYTES - 1));
        let words = "the disk is full: 15 MiB are free, and without 16 MiB nothing is decided";
        assert!(full.contains(words), "{full}");
        for roomy in [describe(Some(MIN_FREE_BYTES)), describe(None)] {
            assert!(!roomy.contains("disk is full"), "{roomy}");
        }
    }

    #[test]
    fn switch_without_driver_is_reported() {
        let drivers = "[[driver]]\nname = \"d0\"\nswitches = [\"ocs0\"]\n";
        let (folder, settings) = settings(2 * ONE_HOUR, drivers);
        let fabric = "kind = \"graph\"\nnode = []\noptical = [{ name = \"ocs0\", ports = 4 }, { \
                      name = \"ocs1\", ports = 4 }]\n";
        fs::write(folder.path().join("fabric.toml"), fabric).unwrap();
        let config = settings.read().unwrap();
        let report = summary(&config, &config.look().unwrap(), None);
        assert!(
            report.contains("none for ocs1, so its circuits cannot be moved"),
            "{report}"
        );
        assert!(!report.contains("none for ocs0"), "{report}");
    }

    #[test]
    fn nics_are_counted_by_use() {
        let (folder, settings) = settings(2 * ONE_HOUR, "");
        let describe = |fabric: &str| {
            fs::write(folder.path().join("fabric.toml"), fabric).unwrap();
            let config = settings.read().unwrap();
            summary(&config, &config.look().unwrap(), None)
        };
        let rails = "kind = \"rails\"\npods = 2\nhosts_per_pod = 4\nrails = 8\nleaves_per_pod = 4\n\
                     spines = 4\nhost_gbps = 1\nuplink_gbps = 1\n";
        let report = describe(rails);
        assert!(report.contains(" 20 nodes, 96 links\n"), "{report}");
        assert!(
            report.contains(" 64 NICs: 8 rails, 0 for storage\n"),
            "{report}"
        );
        let report = describe(&format!("{rails}storage_nics = 1\n"));
        assert!(
            report.contains(" 72 NICs: 8 rails, 8 for storage\n"),
            "{report}"
        );
        let one = "kind = \"ideal\"\nhosts = 1\nnic_gbps = 1\n";
        assert!(describe(one).contains(" 1 NIC: 1 rail, 0 for storage\n"));
        let wired = "kind = \"direct\"\nhosts = 2\nlink_gbps = 1\nstrides = [1]\n";
        assert!(!describe(wired).contains("NIC"));
    }

    #[test]
    fn data_file_is_refused_before_start() {
        let (folder, settings) = settings(2 * ONE_HOUR, "");
        fs::write(folder.path().join("data"), "").unwrap();
        let error = settings.check().unwrap_err();
        let words = in_words(&error);
        assert!(words.ends_with("is not a folder"), "{words}");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn readable_webhook_secret_is_reported() {
        let hook = "[[webhook]]\nurl = \"http://x/\"\nsecret_file = \"s\"\n";
        let (folder, settings) = settings(2 * ONE_HOUR, hook);
        let secret = folder.path().join("s");
        let said = || in_words(&settings.check().unwrap_err());
        assert!(
            said().contains("c.toml:7: secret_file: cannot read"),
            "{}",
            said()
        );
        fs::write(&secret, "short").unwrap();
        assert!(
            said().contains("c.toml:7: secret_file: the secret in"),
            "{}",
            said()
        );
        let describe = |mode| {
            fs::write(&secret, "0123456789abcdef").unwrap();
            fs::set_permissions(&secret, Permissions::from_mode(mode)).unwrap();
            let config = settings.read().unwrap();
            summary(&config, &config.look().unwrap(), None)
        };
        assert!(describe(0o644).contains("every user of this machine can read its secret"));
        assert!(!describe(0o600).contains("everybody"));
    }

    #[test]
    fn only_origins_of_urls_are_shown() {
        let tables = "traces = \"http://y/hidden\"\n[[webhook]]\nurl = \
                       \"http://x/hidden?key=hidden\"\nsecret_file = \"s\"\n";
        let (folder, settings) = settings(2 * ONE_HOUR, tables);
        fs::write(folder.path().join("s"), "0123456789abcdef").unwrap();
        let config = settings.read().unwrap();
        let text = summary(&config, &config.look().unwrap(), None);
        assert!(
            text.contains(" http://x\n") && text.contains(" http://y\n"),
            "{text}"
        );
        assert!(!text.contains("hidden"), "{text}");
    }

    /// The file has no end.
    #[test]
    fn endless_config_file_is_refused() {
        let settings = Settings {
            config: Some("/dev/zero".into()),
            ..Settings::default()
        };
        let error = settings.check().unwrap_err();
        let words = in_words(&error);
        assert!(words.contains("/dev/zero is larger than"), "{words}");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn config_reports_own_member_address() {
        let describe = |members: &str| {
            let (_folder, settings) = settings(2 * ONE_HOUR, members);
            let mut config = settings.read().unwrap();
            config.listen.value = "10.0.0.1:7332".parse().unwrap();
            membership(&config, "c1")
        };
        let other = member(2, "c2", "10.0.0.2:7332");
        let here = describe(&(member(1, "c1", "10.0.0.1:7332") + &other));
        assert_eq!(here, "2, and c1 is one of them, at 10.0.0.1:7332");
        let elsewhere = describe(&(member(1, "c1", "10.0.0.1:7339") + &other));
        assert!(elsewhere.contains("connect to c1 at 10.0.0.1:7339"));
        assert!(describe(&other).contains("1, none of which is c1"));
    }
}
