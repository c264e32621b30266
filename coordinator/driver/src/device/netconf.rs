//! NETCONF, over the system's `ssh`: all circuits of a step in one transaction, under lock.
//!
//! Confirmed commit is never used, though servers offer it: the device would roll back by itself after it has been
//! read, and the report would be wrong.

use std::process::Stdio;
use std::time::Duration;

use reweave_common::circuit::{Circuit, CircuitSet};
use reweave_formats::optical::Pair;
use reweave_formats::optical::netconf::framing::{Deframer, framed};
use reweave_formats::optical::netconf::{
    Datastore, Edit, HELLO_MESSAGE, Request, Server, read_hello, read_reply,
};
use reweave_formats::optical::pairs::read_pairs;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::sessions::{Opens, Session};
use super::{Verb, named, within};
use crate::config::NetconfSettings;
use crate::error::DeviceError;

const SSH_PROGRAM: &str = "ssh";
/// What is kept of why ssh ended.
const MAX_STDERR_BYTES: u64 = 4096;

pub(super) struct Netconf {
    settings: NetconfSettings,
    patience: Duration,
}

pub(super) struct Call {
    wire: Wire,
    server: Server,
    last_id: u64,
    patience: Duration,
}

/// Two pipes of an ssh that runs, and ends when this is dropped.
struct Wire {
    _ssh: Child,
    input: ChildStdin,
    output: ChildStdout,
    words: ChildStderr,
    deframer: Deframer,
}

impl Netconf {
    pub(super) fn new(settings: NetconfSettings, patience: Duration) -> Self {
        Self { settings, patience }
    }

    /// Ignores the user's own ssh settings, and never prompts.
    fn ssh(&self) -> Command {
        let NetconfSettings { host, port, .. } = &self.settings;
        let known = format!("UserKnownHostsFile={}", self.settings.known_hosts.display());
        let mut ssh = Command::new(SSH_PROGRAM);
        ssh.args(["-s", "-F", "none", "-a", "-x"]);
        for option in [
            "BatchMode=yes",
            "IdentitiesOnly=yes",
            "StrictHostKeyChecking=yes",
            &known,
        ] {
            ssh.args(["-o", option]);
        }
        ssh.arg("-i").arg(&self.settings.key_file);
        ssh.args(["-p", &port.to_string(), "-l", &self.settings.user]);
        ssh.args(["--", host, "netconf"]);
        ssh
    }
}

impl Opens for Netconf {
    type Session = Call;

    async fn open(&self) -> Result<Call, DeviceError> {
        let greeted = async {
            let mut wire = Wire::run(self.ssh())?;
            // First, for a server has been seen to answer nothing that came in one piece with it. Where nothing hears
            // it, ssh says why.
            let _ = wire.send(&framed(HELLO_MESSAGE, false)).await;
            let server = read_hello(&wire.hear().await?)?;
            if server.chunks {
                wire.deframer.use_chunks();
            }
            Ok((wire, server))
        };
        let (wire, server) = within(self.patience, greeted).await?;
        Ok(Call {
            wire,
            server,
            last_id: 0,
            patience: self.patience,
        })
    }
}

impl Session for Call {
    async fn read(&mut self) -> Result<CircuitSet, DeviceError> {
        let pairs = self.pairs().await?;
        Ok(pairs.into_iter().map(Pair::circuit).collect())
    }

    /// No other session changes anything meanwhile, so removed circuits still have the names that were read.
    async fn change(&mut self, verb: Verb, circuits: &[Circuit]) -> Result<(), DeviceError> {
        for (done, store) in self.locked().iter().enumerate() {
            if let Err(error) = self.call(&Request::Lock(*store)).await {
                return self.give_up(error, &self.locked()[..done]).await;
            }
        }
        match self.transact(verb, circuits).await {
            Ok(()) => self.unlock(self.locked()).await,
            Err(error) => self.give_up(error, self.locked()).await,
        }
    }
}

impl Call {
    /// In this order; a candidate is locked, too, so that it holds nothing of others.
    fn locked(&self) -> &'static [Datastore] {
        match self.server.edited {
            Datastore::Running => &[Datastore::Running],
            Datastore::Candidate => &[Datastore::Running, Datastore::Candidate],
        }
    }

    async fn transact(&mut self, verb: Verb, circuits: &[Circuit]) -> Result<(), DeviceError> {
        let edits: Vec<_> = match verb {
            Verb::Connect => circuits
                .iter()
                .map(|it| Edit::Create((*it).into()))
                .collect(),
            Verb::Disconnect => {
                let gone = named(circuits, &self.pairs().await?)?;
                gone.into_iter().map(Edit::Delete).collect()
            }
        };
        self.call(&Request::Edit(self.server, &edits)).await?;
        if self.server.edited == Datastore::Running {
            return Ok(());
        }
        self.call(&Request::Commit).await.map(drop)
    }

    /// Leaves nothing behind for who comes next. A line that broke does that by itself.
    async fn give_up(&mut self, why: DeviceError, locked: &[Datastore]) -> Result<(), DeviceError> {
        let still_speaks = matches!(
            why,
            DeviceError::Reply(_) | DeviceError::NoSuchCircuit { .. }
        );
        if still_speaks && locked.contains(&Datastore::Candidate) {
            let _ = self.call(&Request::DiscardChanges).await;
        }
        if still_speaks {
            let _ = self.unlock(locked).await;
        }
        Err(why)
    }

    async fn unlock(&mut self, locked: &[Datastore]) -> Result<(), DeviceError> {
        for store in locked.iter().rev() {
            self.call(&Request::Unlock(*store)).await?;
        }
        Ok(())
    }

    async fn pairs(&mut self) -> Result<Vec<Pair>, DeviceError> {
        Ok(read_pairs(&self.call(&Request::GetConfig).await?)?)
    }

    async fn call(&mut self, request: &Request<'_>) -> Result<String, DeviceError> {
        self.last_id += 1;
        let text = framed(&request.text(self.last_id), self.server.chunks);
        let reply = within(self.patience, self.wire.exchange(&text)).await?;
        read_reply(&reply, self.last_id)?;
        Ok(reply)
    }
}

impl Wire {
    fn run(mut ssh: Command) -> Result<Self, DeviceError> {
        let failed = |source| DeviceError::Run {
            program: SSH_PROGRAM.into(),
            source,
        };
        let piped = ssh.stdin(Stdio::piped()).stdout(Stdio::piped());
        let piped = piped.stderr(Stdio::piped()).kill_on_drop(true);
        let mut ssh = piped.spawn().map_err(failed)?;
        let pipes = (ssh.stdin.take(), ssh.stdout.take(), ssh.stderr.take());
        let (Some(input), Some(output), Some(words)) = pipes else {
            return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
        };
        Ok(Self {
            _ssh: ssh,
            input,
            output,
            words,
            deframer: Deframer::default(),
        })
    }

    async fn exchange(&mut self, text: &str) -> Result<String, DeviceError> {
        self.send(text).await?;
        self.hear().await
    }

    async fn send(&mut self, text: &str) -> Result<(), DeviceError> {
        let sent = self.input.write_all(text.as_bytes()).await;
        sent.map_err(|source| DeviceError::Broken { source })
    }

    async fn hear(&mut self) -> Result<String, DeviceError> {
        let mut bytes = [0; 8192];
        loop {
            if let Some(message) = self.deframer.poll_message()? {
                return Ok(message);
            }
            let read = self.output.read(&mut bytes).await;
            match read.map_err(|source| DeviceError::Broken { source })? {
                0 => return Err(self.hung_up().await),
                count => self.deframer.handle_bytes(&bytes[..count]),
            }
        }
    }

    /// Why, as ssh says.
    async fn hung_up(&mut self) -> DeviceError {
        let mut words = vec![];
        let _ = (&mut self.words)
            .take(MAX_STDERR_BYTES)
            .read_to_end(&mut words)
            .await;
        let words = String::from_utf8_lossy(&words);
        let said = words.lines().rfind(|line| !line.trim().is_empty());
        DeviceError::HungUp {
            said: said.unwrap_or("no reason given").trim().to_owned(),
        }
    }
}
