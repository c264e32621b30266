//! How long nothing passes a port, by its kernel's count: this program as a helper inside a node, until its input ends.

use std::io::Read as _;
use std::process::{Child, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use reweave_tests::Stage;

/// The argument that makes it one.
pub(crate) const WATCH_ARGUMENT: &str = "--watch-port";
/// Far less than any queue pair waits.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

pub(crate) struct Watch(Child);

impl Watch {
    /// Of the port of a node that leads to a neighbour.
    pub(crate) fn begin(stage: &Stage, node: &str, to: &str) -> Self {
        let this = std::env::current_exe().expect("this program has a path");
        let mut helper = stage.inside(node, this);
        helper.args([WATCH_ARGUMENT, &stage.port(node, to)]);
        let piped = helper.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(piped.spawn().expect("it starts"))
    }

    /// The longest time in which nothing has left by it.
    pub(crate) fn end(mut self) -> Duration {
        drop(self.0.stdin.take());
        let output = self.0.wait_with_output().expect("it ends");
        let millis = String::from_utf8_lossy(&output.stdout).trim().parse();
        Duration::from_millis(millis.expect("a number"))
    }
}

pub(crate) fn watch(port: &str) -> ExitCode {
    let ended = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&ended);
    thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        tell.store(true, Ordering::Relaxed);
    });
    let file = format!("/sys/class/net/{port}/statistics/tx_bytes");
    let count = || fs::read_to_string(&file).expect("a port counts");
    let (mut last, mut since, mut longest) = (count(), Instant::now(), Duration::ZERO);
    while !ended.load(Ordering::Relaxed) {
        let now = count();
        longest = longest.max(since.elapsed());
        if now != last {
            (last, since) = (now, Instant::now());
        }
        thread::park_timeout(POLL_INTERVAL);
    }
    println!("{}", longest.as_millis());
    ExitCode::SUCCESS
}
