//! FRR, told its static routes by vtysh. Nothing is saved to its files: what it shall have after a restart
//! it is told again.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use reweave_agent_core::switch::frr::{Configured, version};
use reweave_common::holding::RouteRule;

use super::{SwitchError, VtyshError};

/// A daemon that is well answers within some tens of milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// A program's arguments may not be longer than some megabytes.
const MOST_LINES: usize = 1000;

pub(super) struct Frr {
    sockets: Option<PathBuf>,
}

impl Frr {
    pub(super) fn new(sockets: Option<PathBuf>) -> Self {
        Self { sockets }
    }

    pub(super) fn configured(&self) -> Result<Vec<RouteRule>, SwitchError> {
        Ok(self.read()?.rules())
    }

    pub(super) fn words_to(&self, desired: &[RouteRule]) -> Result<Vec<String>, SwitchError> {
        self.lines_to(&self.read()?, desired)
    }

    pub(super) fn tell(&self, desired: &[RouteRule]) -> Result<bool, SwitchError> {
        let lines = self.lines_to(&self.read()?, desired)?;
        for some in lines.chunks(MOST_LINES) {
            let some: Vec<_> = some.iter().map(String::as_str).collect();
            self.vtysh(&[&["configure terminal"], &some[..]].concat())?;
        }
        Ok(!lines.is_empty())
    }

    fn read(&self) -> Result<Configured, VtyshError> {
        let text = self.vtysh(&["show running-config"])?;
        Ok(Configured::read(&text))
    }

    fn lines_to(
        &self,
        configured: &Configured,
        desired: &[RouteRule],
    ) -> Result<Vec<String>, SwitchError> {
        configured.lines_to(desired).map_err(|source| {
            let told = self.vtysh(&["show version"]).unwrap_or_default();
            let by = version(&told).unwrap_or("FRR").to_owned();
            SwitchError::Unfit { by, source }
        })
    }

    fn vtysh(&self, commands: &[&str]) -> Result<String, VtyshError> {
        let mut vtysh = Command::new("vtysh");
        if let Some(sockets) = &self.sockets {
            vtysh.arg("--vty_socket").arg(sockets);
        }
        for command in commands {
            vtysh.args(["-c", command]);
        }
        let piped = vtysh.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = piped.stderr(Stdio::piped()).spawn();
        let child = child.map_err(|source| VtyshError::Start { source })?;
        finish(child)
    }
}

/// What it prints, unless that is a complaint: vtysh may end well after one.
fn finish(mut child: Child) -> Result<String, VtyshError> {
    let [printed, said] = [read(child.stdout.take()), read(child.stderr.take())];
    let Ok(printed) = printed.recv_timeout(PATIENCE) else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(VtyshError::Hangs { patience: PATIENCE });
    };
    let status = child
        .wait()
        .map_err(|source| VtyshError::Start { source })?;
    let said = said.recv().unwrap_or_default();
    let mut lines = printed.lines().chain(said.lines());
    match lines.find(|line| line.starts_with('%')) {
        Some(complaint) => Err(VtyshError::Refused {
            words: complaint.trim_start_matches(['%', ' ']).to_owned(),
        }),
        None if !status.success() => Err(VtyshError::Refused {
            words: said.lines().next().unwrap_or("nothing").to_owned(),
        }),
        None => Ok(printed),
    }
}

/// Told once it has ended.
fn read(from: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (tell, told) = channel();
    thread::spawn(move || {
        let mut bytes = vec![];
        let _ = from.map(|mut it| it.read_to_end(&mut bytes));
        let _ = tell.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    told
}
