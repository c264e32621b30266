//! Packets as tshark sees them.

use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reweave_tests::{STAGE_TIMEOUT, Stage, wait_for};

use crate::play::must;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) at_s: f64,
    pub(crate) ends: [Ipv4Addr; 2],
    pub(crate) bytes: u64,
    /// Of UDP.
    pub(crate) source_port: Option<u16>,
}

/// tshark on the first interface of a node, until it is asked what it saw.
pub(crate) struct Shark {
    child: Child,
    file: std::path::PathBuf,
}

impl Shark {
    pub(crate) fn start(stage: &Stage, node: &str, filter: &str) -> Self {
        let file = stage.path(&format!("{node}.pcapng"));
        let mut command: Command = stage.inside(node, "tshark");
        let words = [
            "-q", "-i", "eth0", "-s", "64", "-B", "64", "-f", filter, "-w",
        ];
        let quiet = command.args(words).arg(&file).stderr(Stdio::null());
        let shark = Self {
            child: quiet.spawn().expect("tshark starts"),
            file,
        };
        must(wait_for("tshark captures", STAGE_TIMEOUT, || {
            let written = std::fs::metadata(&shark.file).is_ok_and(|it| it.len() > 0);
            Ok(written.then_some(()))
        }));
        shark
    }

    pub(crate) fn seen(mut self, stage: &Stage, node: &str) -> Vec<Packet> {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        kill(pid, Signal::SIGINT).expect("it runs");
        let _ = self.child.wait();
        let file = self.file.to_string_lossy();
        let mut words = vec!["tshark", "-r", &file, "-T", "fields"];
        for field in [
            "frame.time_epoch",
            "ip.src",
            "ip.dst",
            "frame.len",
            "udp.srcport",
        ] {
            words.extend(["-e", field]);
        }
        let said = must(stage.output(node, &words));
        said.lines().filter_map(packet).collect()
    }
}

fn packet(line: &str) -> Option<Packet> {
    let fields: Vec<_> = line.split('\t').collect();
    let [at, source, destination, bytes, port] = fields.as_slice() else {
        return None;
    };
    Some(Packet {
        at_s: at.parse().ok()?,
        ends: [source.parse().ok()?, destination.parse().ok()?],
        bytes: bytes.parse().ok()?,
        source_port: port.parse().ok(),
    })
}
