//! FRR's static routes, by vtysh. Nothing is saved to its files: after a restart the routes are sent again.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use reweave_agent_core::switch::frr::{Configured, version};
use reweave_common::forwarding_state::RouteRule;

use super::{RoutePush, Vendor};
use crate::program::{self, Ended, NoAnswer};
use crate::switch::{SwitchError, VtyshError};

/// A daemon that is well answers within some tens of milliseconds.
const VTYSH_TIMEOUT: Duration = Duration::from_secs(2);
/// This many are taken long before patience ends.
const MAX_LINES_PER_CALL: usize = 1000;

pub(super) struct Frr {
    sockets: Option<PathBuf>,
}

impl Frr {
    pub(super) fn new(sockets: Option<PathBuf>) -> Self {
        Self { sockets }
    }
}

impl Vendor for Frr {
    fn name(&self) -> &'static str {
        "FRR"
    }

    fn remedy(&self) -> &'static str {
        "start FRR, and put the agent's user into the group frrvty; see docs/switches.md"
    }

    fn configured(&self) -> Result<Vec<RouteRule>, SwitchError> {
        Ok(self.read()?.rules())
    }

    fn words_to(&self, desired: &[RouteRule]) -> Result<Vec<String>, SwitchError> {
        self.lines_to(&self.read()?, desired)
    }

    fn tell(&self, desired: &[RouteRule]) -> Result<RoutePush, SwitchError> {
        let configured = self.read()?;
        let lines = self.lines_to(&configured, desired)?;
        for some in lines.chunks(MAX_LINES_PER_CALL) {
            self.configure(some)?;
        }
        Ok(RoutePush {
            before: configured.rules(),
            anything: !lines.is_empty(),
        })
    }
}

impl Frr {
    fn read(&self) -> Result<Configured, VtyshError> {
        let text = self.show("running-config")?;
        Ok(Configured::read(&text))
    }

    fn lines_to(
        &self,
        configured: &Configured,
        desired: &[RouteRule],
    ) -> Result<Vec<String>, SwitchError> {
        configured.lines_to(desired).map_err(|source| {
            let version_text = self.show("version").unwrap_or_default();
            let by = version(&version_text).unwrap_or("FRR").to_owned();
            SwitchError::Unfit { by, source }
        })
    }

    fn show(&self, what: &str) -> Result<String, VtyshError> {
        self.ask(&["-c", &format!("show {what}")], String::new())
    }

    /// Sends the lines as a file, which FRR applies as a single change and not as one for each line.
    fn configure(&self, lines: &[String]) -> Result<(), VtyshError> {
        let text = lines.join("\n") + "\n";
        self.ask(&["-f", "/dev/stdin"], text).map(drop)
    }

    fn ask(&self, words: &[&str], text: String) -> Result<String, VtyshError> {
        let mut vtysh = Command::new("vtysh");
        if let Some(sockets) = &self.sockets {
            vtysh.arg("--vty_socket").arg(sockets);
        }
        match program::ask(vtysh.args(words), text, VTYSH_TIMEOUT) {
            Ok(ended) => printed(ended),
            Err(NoAnswer::Hangs) => Err(VtyshError::Hangs {
                patience: VTYSH_TIMEOUT,
            }),
            Err(NoAnswer::Start(source)) => Err(VtyshError::Start { source }),
        }
    }
}

/// What it prints, unless that is a complaint: vtysh may end well after one.
fn printed(
    Ended {
        status,
        printed,
        said,
    }: Ended,
) -> Result<String, VtyshError> {
    let mut lines = printed.lines().chain(said.lines());
    match lines.find(|line| line.starts_with('%') || line.contains(": % ")) {
        Some(complaint) => Err(VtyshError::Refused {
            words: complaint.replace("% ", ""),
        }),
        None if !status.success() => Err(VtyshError::Refused {
            words: said.lines().next().unwrap_or("nothing").to_owned(),
        }),
        None => Ok(printed),
    }
}
