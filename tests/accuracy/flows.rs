//! Packets of one flow, sent in a node by this very program.

use std::env;
use std::net::{SocketAddrV4, UdpSocket};
use std::process::ExitCode;

use reweave_tests::Stage;

use crate::play::must;

/// More than anything else that happens in an idle lab.
pub(crate) const PACKETS: u64 = 200;
const WORD: &str = "send-a-flow";

pub(crate) struct Flow {
    source: SocketAddrV4,
    destination: SocketAddrV4,
}

/// The flow that this program was started for.
pub(crate) fn asked_for() -> Option<Flow> {
    let mut words = env::args().skip(1).skip_while(|word| word != WORD).skip(1);
    Some(Flow {
        source: words.next()?.parse().ok()?,
        destination: words.next()?.parse().ok()?,
    })
}

impl Flow {
    pub(crate) fn send(&self) -> ExitCode {
        let sent = UdpSocket::bind(self.source).and_then(|socket| {
            (0..PACKETS).try_for_each(|_| socket.send_to(&[7; 64], self.destination).map(drop))
        });
        match sent {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{} > {}: {error}", self.source, self.destination);
                ExitCode::FAILURE
            }
        }
    }
}

/// Sends [`PACKETS`] of this flow from a node.
pub(crate) fn send(stage: &Stage, node: &str, source: SocketAddrV4, destination: SocketAddrV4) {
    let this = env::current_exe().expect("this program knows where it lies");
    let this = this.to_string_lossy();
    let [source, destination] = [source, destination].map(|end| end.to_string());
    must(stage.output(node, &[&this, WORD, &source, &destination]));
}
