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
        if let Some(history) = &config.history {
            reweave_history::check(&history.url).map_err(HistoryError::Open)?;
        }
        let found = found(&config, &identity, &signing);
        let said = io::stdout().lock().write_all(found.as_bytes());
        said.map_err(|source| CoordinatorError::Start {
            what: "telling what was found",
            source,
        })
    }
}

fn found(config: &Config, identity: &Identity, signing: &Signing) -> String {
    let mut text = String::new();
    let mut line = |what: &str, found: String| {
        let _ = writeln!(text, "{what:<13} {found}");
    };
    line("member", identity.member().to_string());
    if let Some(problem) = identity.problem(SystemTime::now()) {
        line("certificate", format!("nobody will accept it: {problem}"));
    }
    let signer = match signing.can_sign() {
        true => "found: nodes can join, and certificates are renewed",
        false => "none: nobody can join here, and no certificate is renewed",
    };
    line("signer", signer.to_owned());
    let fabric = &config.fabric;
    let (nodes, links) = (fabric.nodes().len(), fabric.links().len());
    line("fabric", format!("{nodes} nodes, {links} links"));
    line("listens on", config.listen.to_string());
    line("newcomers on", config.door.to_string());
    let http = config.http.unwrap_or(http::USUAL);
    line("http on", http.to_string());
    line("data", config.data.display().to_string());
    text
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
