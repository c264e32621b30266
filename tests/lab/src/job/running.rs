//! A job's processes while they run.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use reweave_common::scenario::Job;

use super::launch::Plan;
use super::tally::{Silence, Tally};
use crate::artifacts::KeptFile;
use crate::error::LabError;
use crate::nodes::Nodes;
use crate::report::JobReport;
use crate::worker::protocol::{Event, Order};

/// Time limit for all ranks to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for ranks to report after a request to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Output of a rank's process.
enum Heard {
    Said {
        event: Event,
        line: String,
    },
    /// There is no further output.
    Silent(Silence),
}

pub(crate) struct RunningJob<'c> {
    pub(crate) job: &'c Job,
    processes: Vec<Child>,
    heard: Receiver<(usize, Heard)>,
    tally: Tally<'c>,
}

impl<'c> RunningJob<'c> {
    /// Starts the processes and connects them; nothing is sent yet.
    pub(crate) fn launch(nodes: &'c Nodes, job: &'c Job, plan: Plan) -> Result<Self, LabError> {
        let (tell, heard) = mpsc::channel();
        let mut processes = Vec::new();
        for (rank, assignment) in plan.assignments.iter().enumerate() {
            let mut process = spawn(nodes, job, rank)?;
            let text = serde_json::to_string(assignment).map_err(std::io::Error::from);
            text.and_then(|line| write_line(&mut process, &line))
                .map_err(|source| LabError::TellRank {
                    job: job.name.clone(),
                    rank,
                    source,
                })?;
            listen(&mut process, rank, tell.clone());
            processes.push(process);
        }
        let tally = Tally::new(nodes, job, plan.flows);
        let mut running = Self {
            job,
            processes,
            heard,
            tally,
        };
        running.connect()?;
        Ok(running)
    }

    fn connect(&mut self) -> Result<(), LabError> {
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        self.hear_until(deadline, Tally::all_listen);
        self.tell(Order::Connect);
        self.hear_until(deadline, Tally::all_connected);
        if self.tally.all_connected() {
            return Ok(());
        }
        let why = self
            .tally
            .first_breakage()
            .unwrap_or_else(|| "not all ranks answered".into());
        Err(LabError::NotConnected {
            job: self.job.name.clone(),
            why,
        })
    }

    pub(crate) fn start(&mut self) {
        self.tell(Order::Start);
    }

    /// Ends the job before its time; what it has done so far is reported.
    pub(crate) fn stop(&mut self) {
        self.tell(Order::Stop);
        self.hear_until(Instant::now() + STOP_TIMEOUT, Tally::all_ended);
    }

    /// Listens to the ranks until the deadline or until `enough`.
    pub(crate) fn hear_until(&mut self, deadline: Instant, enough: impl Fn(&Tally<'c>) -> bool) {
        while !enough(&self.tally) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.heard.recv_timeout(left) {
                Ok((rank, Heard::Said { event, line })) => {
                    self.tally.write_down(rank, &line);
                    self.tally.note(rank, event);
                }
                Ok((rank, Heard::Silent(silence))) => self.tally.fell_silent(rank, silence),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    pub(crate) fn tally(&self) -> &Tally<'c> {
        &self.tally
    }

    /// The process of each rank.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        self.processes
            .iter()
            .map(|process| Pid::from_raw(process.id().cast_signed()))
            .collect()
    }

    pub(crate) fn report(&self) -> JobReport {
        self.tally.report()
    }

    /// Returns the output of all ranks, as files to keep.
    pub(crate) fn logs(&self) -> Vec<KeptFile> {
        let name = |rank| format!("{}-rank{rank}.jsonl", self.job.name);
        let file = |(rank, log): (usize, &str)| (name(rank), log.as_bytes().to_vec());
        self.tally.logs().enumerate().map(file).collect()
    }

    /// A rank that is gone takes no orders, and its silence is noted elsewhere.
    fn tell(&mut self, order: Order) {
        let line = order.to_line();
        for process in &mut self.processes {
            let _ = write_line(process, &line);
        }
    }
}

impl Drop for RunningJob<'_> {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn spawn(nodes: &Nodes, job: &Job, rank: usize) -> Result<Child, LabError> {
    let failed = |source| LabError::StartRank {
        job: job.name.clone(),
        rank,
        source,
    };
    let program = std::env::current_exe().map_err(failed)?;
    let mut command: Command = nodes.command(job.hosts[rank], &program.to_string_lossy());
    command
        .arg("worker")
        // Out of the terminal's reach: a rank that Ctrl-C kills could not report any longer.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command.spawn().map_err(failed)
}

fn write_line(process: &mut Child, line: &str) -> std::io::Result<()> {
    let stdin = process
        .stdin
        .as_mut()
        .ok_or(std::io::ErrorKind::BrokenPipe)?;
    stdin.write_all(line.as_bytes())?;
    stdin.write_all(b"\n")
}

/// Passes on what a rank says, from a thread of its own, until its output ends.
fn listen(process: &mut Child, rank: usize, tell: mpsc::Sender<(usize, Heard)>) {
    let Some(stdout) = process.stdout.take() else {
        return;
    };
    thread::spawn(move || {
        let mut silence = Silence::Gone;
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let Ok(event) = serde_json::from_str(&line) else {
                silence = Silence::Unintelligible;
                break;
            };
            if tell.send((rank, Heard::Said { event, line })).is_err() {
                return;
            }
        }
        let _ = tell.send((rank, Heard::Silent(silence)));
    });
}
