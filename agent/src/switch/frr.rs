//! FRR, told its static routes by vtysh. Nothing is saved to its files: what it shall have after a restart
//! it is told again.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use reweave_agent_core::switch::frr::{Configured, version};
use reweave_common::holding::RouteRule;

use super::{SwitchError, Told, VtyshError};

/// A daemon that is well answers within some tens of milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// So many are taken long before patience ends.
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

    pub(super) fn tell(&self, desired: &[RouteRule]) -> Result<Told, SwitchError> {
        let configured = self.read()?;
        let lines = self.lines_to(&configured, desired)?;
        for some in lines.chunks(MOST_LINES) {
            self.configure(some)?;
        }
        Ok(Told {
            before: configured.rules(),
            anything: !lines.is_empty(),
        })
    }

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
            let told = self.show("version").unwrap_or_default();
            let by = version(&told).unwrap_or("FRR").to_owned();
            SwitchError::Unfit { by, source }
        })
    }

    fn show(&self, what: &str) -> Result<String, VtyshError> {
        let mut vtysh = self.vtysh();
        finish(start(vtysh.arg("-c").arg(format!("show {what}")))?)
    }

    /// As a file, which FRR takes as one change and not as one for each line.
    fn configure(&self, lines: &[String]) -> Result<(), VtyshError> {
        let mut vtysh = self.vtysh();
        let mut child = start(vtysh.args(["-f", "/dev/stdin"]).stdin(Stdio::piped()))?;
        let (file, text) = (child.stdin.take(), lines.join("\n") + "\n");
        // Whoever does not read is given up below.
        thread::spawn(move || file.map(|mut it| it.write_all(text.as_bytes())));
        finish(child).map(drop)
    }

    fn vtysh(&self) -> Command {
        let mut vtysh = Command::new("vtysh");
        if let Some(sockets) = &self.sockets {
            vtysh.arg("--vty_socket").arg(sockets);
        }
        vtysh.stdin(Stdio::null());
        vtysh
    }
}

fn start(vtysh: &mut Command) -> Result<Child, VtyshError> {
    let piped = vtysh.stdout(Stdio::piped()).stderr(Stdio::piped());
    piped.spawn().map_err(|source| VtyshError::Start { source })
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
