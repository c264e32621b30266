//! Whether a run would start, said before it does.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::SystemTime;

use reweave_link::{Identity, Role};

use super::{Config, Settings};
use crate::error::CoordinatorError;
use crate::history::HistoryError;
use crate::signing::Signing;
use crate::{data, http};

impl Settings {
    /// Reads what a run reads, and tells on standard output what it found. Changes nothing.
    pub(crate) fn check(&self) -> Result<(), CoordinatorError> {
        let config = self.read()?;
        let identity = config.identity()?;
        let signing = config.signing()?;
        data::look(&config.data)?;
        config
            .webhooks
            .iter()
            .try_for_each(|hook| hook.secret().map(drop))?;
        if let Some(history) = &config.history {
            reweave_history::check(&history.url).map_err(HistoryError::Open)?;
        }
        let found = found(&config, &identity, &signing);
        let said = io::stdout().lock().write_all(found.as_bytes());
        said.map_err(|source| CoordinatorError::Start {
            what: "telling what was found",
            source,
        })?;
        match identity.problem(SystemTime::now()) {
            None => Ok(()),
            Some(problem) => Err(CoordinatorError::Unaccepted {
                folder: config.identity,
                problem,
            }),
        }
    }
}

fn found(config: &Config, identity: &Identity, signing: &Signing) -> String {
    let mut text = String::new();
    let mut line = |what: &str, found: String| {
        let _ = writeln!(text, "{what:<13} {found}");
    };
    line("member", identity.member().to_string());
    let signer = match signing.can_sign() {
        true => "found: nodes can join, and certificates are renewed",
        false => "none: nobody can join here, and no certificate is renewed",
    };
    line("signer", signer.to_owned());
    let fabric = &config.fabric;
    let (nodes, links) = (fabric.nodes().len(), fabric.links().len());
    line("fabric", format!("{nodes} nodes, {links} links"));
    line("listens on", config.listen.to_string());
    if !config.members.is_empty() {
        line("members", membership(config, identity.member().name()));
    }
    line("newcomers on", config.door.to_string());
    let http = config.http.unwrap_or(http::USUAL);
    line("http on", http.to_string());
    line("data", config.data.display().to_string());
    for hook in &config.webhooks {
        line("told", hook.url.to_string());
    }
    text
}

/// What the file says of this one, and what does not fit to that.
fn membership(config: &Config, name: &str) -> String {
    let count = config.members.len();
    let Some(own) = config.members.values().find(|member| member.name == name) else {
        return format!(
            "{count}, none of which is {name}: it waits until `reweave cluster member add` has it \
             taken in"
        );
    };
    let (listen, told) = (config.listen, own.address);
    let is_there = listen.ip().is_unspecified() || listen.ip() == told.ip();
    match is_there && listen.port() == told.port() {
        true => format!("{count}, and {name} is one of them, at {told}"),
        false => format!(
            "{count}, and the others look for {name} at {told}, where it does not listen itself"
        ),
    }
}

impl Config {
    /// The certificate of a coordinator.
    pub(crate) fn identity(&self) -> Result<Identity, CoordinatorError> {
        let folder = &self.identity;
        let identity = Identity::load(folder).map_err(|source| CoordinatorError::Identity {
            folder: folder.clone(),
            source: Box::new(source),
        })?;
        if identity.member().role() != Role::Coordinator {
            return Err(CoordinatorError::NotACoordinator {
                folder: folder.display().to_string(),
                member: identity.member().to_string(),
            });
        }
        Ok(identity)
    }

    /// What it signs members with.
    pub(crate) fn signing(&self) -> Result<Signing, CoordinatorError> {
        Signing::load(&self.identity).map_err(|source| CoordinatorError::Identity {
            folder: self.identity.clone(),
            source: Box::new(source),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use reweave_link::pki::{Authority, Validity};

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    /// A folder with all that a coordinator needs, which has been good for an hour already.
    fn settings(good_for: Duration, members: &str) -> (tempfile::TempDir, Settings) {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let authority = Authority::create(&path("authority"), "lab").unwrap();
        let now = SystemTime::now();
        let validity = Validity {
            not_before: now - 2 * HOUR,
            not_after: now - HOUR + good_for,
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
             \"10.0.0.1:7332\"\n{members}"
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
    fn a_certificate_that_nobody_accepts_any_more_is_no_certificate() {
        let (_folder, good) = settings(2 * HOUR, "");
        good.check().unwrap();
        let (_folder, old) = settings(HOUR / 2, "");
        let error = old.check().unwrap_err();
        assert!(error.to_string().contains("nobody will accept"), "{error}");
        assert!(error.to_string().contains("expired"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn data_that_is_a_file_is_refused_before_a_start() {
        let (folder, settings) = settings(2 * HOUR, "");
        fs::write(folder.path().join("data"), "").unwrap();
        let error = settings.check().unwrap_err();
        assert!(error.to_string().ends_with("needs one"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn whether_the_members_are_these_and_are_found_here_is_told() {
        let told = |members: &str| {
            let (_folder, settings) = settings(2 * HOUR, members);
            membership(&settings.read().unwrap(), "c1")
        };
        let other = member(2, "c2", "10.0.0.2:7332");
        let here = told(&(member(1, "c1", "10.0.0.1:7332") + &other));
        assert_eq!(here, "2, and c1 is one of them, at 10.0.0.1:7332");
        let elsewhere = told(&(member(1, "c1", "10.0.0.1:7339") + &other));
        assert!(elsewhere.contains("look for c1 at 10.0.0.1:7339"));
        assert!(told(&other).contains("1, none of which is c1"));
    }
}
