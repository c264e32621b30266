//! Any other device: a program that speaks to it. It is started once for each request, reads one line of JSON on its
//! standard input and writes one on its standard output.
//!
//! | request                                       | answer                              |
//! |-----------------------------------------------|-------------------------------------|
//! | `{"verb":"read"}`                             | `{"circuits":[[1,9],[2,10]]}`       |
//! | `{"verb":"connect","circuit":[1,9]}`          | `{}`                                |
//! | `{"verb":"disconnect","circuit":[1,9]}`       | `{}`                                |
//!
//! It reports a failure by `{"error":"why"}`, or by ending with another code than 0. It gets typed ports only, never
//! text to paste into a command. It is killed at its timeout, or when its output exceeds the limit.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use reweave_common::circuit::{Circuit, CircuitSet};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::within;
use crate::config::ExecSettings;
use crate::error::DeviceError;

/// All circuits of a switch with as many ports as there can be fit into less.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

#[derive(Debug, Serialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
enum Request {
    Read,
    Connect { circuit: Circuit },
    Disconnect { circuit: Circuit },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    circuits: Option<CircuitSet>,
    error: Option<String>,
}

pub(super) struct Exec {
    settings: ExecSettings,
    patience: Duration,
}

impl Exec {
    pub(super) fn new(settings: ExecSettings, patience: Duration) -> Self {
        Self { settings, patience }
    }

    pub(super) async fn read(&self) -> Result<CircuitSet, DeviceError> {
        let answer = self.ask(&Request::Read).await?;
        let lacks = || DeviceError::Failed {
            said: "its answer has no circuits".to_owned(),
        };
        answer.circuits.ok_or_else(lacks)
    }

    pub(super) async fn connect(&self, circuit: Circuit) -> Result<(), DeviceError> {
        self.ask(&Request::Connect { circuit }).await.map(drop)
    }

    pub(super) async fn disconnect(&self, circuit: Circuit) -> Result<(), DeviceError> {
        self.ask(&Request::Disconnect { circuit }).await.map(drop)
    }

    async fn ask(&self, request: &Request) -> Result<Answer, DeviceError> {
        let answer = within(self.patience, self.run(request)).await?;
        match answer.error {
            Some(said) => Err(DeviceError::Failed { said }),
            None => Ok(answer),
        }
    }

    async fn run(&self, request: &Request) -> Result<Answer, DeviceError> {
        let failed = |source| DeviceError::Run {
            program: self.settings.program.clone(),
            source,
        };
        let mut child = Command::new(&self.settings.program)
            .args(&self.settings.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        if let Some(mut input) = child.stdin.take() {
            let mut line = serde_json::to_vec(request).unwrap_or_default();
            line.push(b'\n');
            // A program that does not read its request tells by how it ends.
            let _ = input.write_all(&line).await;
        }
        let (said, complained) = (child.stdout.take(), child.stderr.take());
        let (said, complained) =
            tokio::try_join!(read_output(said), read_output(complained)).map_err(failed)?;
        if said.len() > MAX_OUTPUT_BYTES || complained.len() > MAX_OUTPUT_BYTES {
            return Err(DeviceError::TooMuch {
                most: MAX_OUTPUT_BYTES,
            });
        }
        let status = child.wait().await.map_err(failed)?;
        if !status.success() {
            let said = String::from_utf8_lossy(&complained);
            let said = said.lines().next().unwrap_or("no reason given").to_owned();
            return Err(DeviceError::Failed { said });
        }
        serde_json::from_slice(&said).map_err(|source| DeviceError::Contract { source })
    }
}

/// To its end, or to where it is too much.
async fn read_output(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut report = Vec::new();
    if let Some(pipe) = pipe {
        let most = MAX_OUTPUT_BYTES as u64 + 1;
        pipe.take(most).read_to_end(&mut report).await?;
    }
    Ok(report)
}
