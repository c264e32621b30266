//! The helper process: requests and answers are lines.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use reweave_common::lock::lock;
use reweave_common::rdma::{Answer, MAX_LINE_BYTES, RdmaPort, RdmaReading, Request};

use super::RdmaError;

const HELPER_NAME: &str = "reweave-rdma";
/// A measurement may wait for other hosts, and none takes longer than a minute.
const MEASUREMENT_TIMEOUT: Duration = Duration::from_secs(90);

/// Ends with the process that started it.
pub struct Helper {
    child: Child,
    requests: Option<ChildStdin>,
    answers: Receiver<String>,
    /// Its last error line.
    said: Arc<Mutex<String>>,
    complaining: Option<JoinHandle<()>>,
}

impl Helper {
    /// Starts the helper beside this program. It may still be unable to measure.
    pub fn start() -> Result<Self, RdmaError> {
        let path = beside_this()?;
        let mut child = Command::new(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| RdmaError::Start { source })?;
        let (tell, answers) = channel();
        let (said, complaining) = (Arc::default(), child.stderr.take());
        let to_fill = Arc::clone(&said);
        let complaining = complaining.map(|it| thread::spawn(move || note(it, &to_fill)));
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || lines(stdout, |line| tell.send(line).is_ok()));
        }
        Ok(Self {
            requests: child.stdin.take(),
            child,
            answers,
            said,
            complaining,
        })
    }

    /// At least one port; a machine without any returns an error.
    pub fn ports(&mut self) -> Result<Vec<RdmaPort>, RdmaError> {
        match self.ask(&Request::Ports)? {
            Answer::Ports(ports) if ports.is_empty() => Err(RdmaError::NoDevice),
            Answer::Ports(ports) => Ok(ports),
            other => Err(unasked(other)),
        }
    }

    pub fn measure(&mut self, what: &Request) -> Result<RdmaReading, RdmaError> {
        match self.ask(what)? {
            Answer::Measured(reading) => Ok(reading),
            other => Err(unasked(other)),
        }
    }

    pub fn serve(&mut self, roster: Vec<Ipv4Addr>) -> Result<(), RdmaError> {
        match self.ask(&Request::Serve { roster })? {
            Answer::Serving => Ok(()),
            other => Err(unasked(other)),
        }
    }

    /// Waits until it has ended, and returns why.
    pub fn wait(mut self) -> RdmaError {
        match self.answers.recv() {
            Ok(_) => RdmaError::Silent,
            Err(_) => self.ended(),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Answer, RdmaError> {
        let line = serde_json::to_string(request);
        let line = line.map_err(|source| RdmaError::Garbled { source })?;
        let requests = self.requests.as_mut();
        // The helper may have ended; its exit is reported below.
        let _ = requests.map(|to| to.write_all(format!("{line}\n").as_bytes()));
        match self.answers.recv_timeout(MEASUREMENT_TIMEOUT) {
            Ok(line) => serde_json::from_str(&line).map_err(|source| RdmaError::Garbled { source }),
            Err(RecvTimeoutError::Timeout) => Err(RdmaError::Silent),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
        }
    }

    fn ended(&mut self) -> RdmaError {
        let status = self.child.wait();
        if let Some(complaining) = self.complaining.take() {
            let _ = complaining.join();
        }
        let words = lock(&self.said);
        let words = match (words.is_empty(), status) {
            (false, _) => words.clone(),
            (true, Ok(status)) => status.to_string(),
            (true, Err(error)) => error.to_string(),
        };
        RdmaError::Ended { words }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn beside_this() -> Result<PathBuf, RdmaError> {
    let this = env::current_exe().map_err(|source| RdmaError::Start { source })?;
    let path = this.with_file_name(HELPER_NAME);
    if path.is_file() {
        Ok(path)
    } else {
        Err(RdmaError::Missing { path })
    }
}

fn unasked(answer: Answer) -> RdmaError {
    match answer {
        Answer::Failed { because } => RdmaError::Failed { because },
        _ => RdmaError::Silent,
    }
}

/// Reads until the end, or until the receiver is gone.
fn lines(from: impl Read, mut take: impl FnMut(String) -> bool) {
    let mut from = BufReader::new(from);
    loop {
        let mut line = String::new();
        let read = (&mut from).take(MAX_LINE_BYTES as u64).read_line(&mut line);
        if !matches!(read, Ok(length) if length > 0) || !take(line) {
            return;
        }
    }
}

fn note(complaints: impl Read, last: &Mutex<String>) {
    lines(complaints, |line| {
        tracing::debug!("{HELPER_NAME}: {}", line.trim());
        line.trim().clone_into(&mut lock(last));
        true
    });
}
