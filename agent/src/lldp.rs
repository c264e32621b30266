//! The neighbours of interfaces by LLDP, if lldpd runs.

use std::io;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use reweave_common::error::error_chain;
use reweave_common::hardware::{Lack, Neighbour};
use serde_json::Value;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum LldpError {
    #[error("cannot start lldpcli; install lldpd")]
    Start { source: io::Error },
    #[error("lldpcli failed: {words}")]
    Failed { words: String },
    #[error("cannot parse the output of lldpcli")]
    Garbled { source: serde_json::Error },
}

/// The name of this measurement where it is reported as off.
pub const MEASUREMENT_NAME: &str = "neighbours by LLDP";

impl LldpError {
    /// The lack to report if lldpd could not be asked. It does not mean that there are no neighbours.
    pub fn lack(&self) -> Lack {
        let remedy = match self {
            Self::Start { .. } => "install lldpd and start it, here and on the switches",
            Self::Failed { .. } => {
                "start lldpd; a user other than root must be in its group: `usermod -aG _lldpd \
                 USER`"
            }
            Self::Garbled { .. } => "install an lldpd whose lldpcli supports the format json0",
        };
        Lack {
            measurement: MEASUREMENT_NAME.to_owned(),
            because: error_chain(self),
            remedy: remedy.to_owned(),
        }
    }
}

/// Reads lldpd's neighbours on a thread of its own, so that nothing waits for a program that hangs.
pub struct LldpListener {
    heard: Receiver<LldpNeighbours>,
    last: Option<LldpNeighbours>,
}

/// Neighbours, or why none are known.
pub type LldpNeighbours = Result<Vec<Neighbour>, Lack>;

impl LldpListener {
    /// Asks at once, and then this often. The thread holds nothing that would stay, and ends when it next has something
    /// to report and its receiver is gone.
    pub fn listen(every: Duration) -> Self {
        let (tell, heard) = channel();
        thread::spawn(move || {
            while tell
                .send(neighbours().map_err(|error| error.lack()))
                .is_ok()
            {
                thread::sleep(every);
            }
        });
        Self { heard, last: None }
    }

    /// What it said last; none before it has said anything.
    pub fn last(&mut self) -> Option<&LldpNeighbours> {
        self.last = self.heard.try_iter().last().or(self.last.take());
        self.last.as_ref()
    }

    /// Waits for the first answer.
    pub fn wait(&mut self) {
        if self.last.is_none() {
            self.last = self.heard.recv().ok();
        }
    }
}

/// The neighbours as lldpd reports them.
pub fn neighbours() -> Result<Vec<Neighbour>, LldpError> {
    let run = Command::new("lldpcli")
        .args(["-f", "json0", "show", "neighbors"])
        .stdin(Stdio::null())
        .output()
        .map_err(|source| LldpError::Start { source })?;
    if !run.status.success() {
        let words = String::from_utf8_lossy(&run.stderr);
        let first = words.lines().next().unwrap_or("no reason given");
        return Err(LldpError::Failed {
            words: first.to_owned(),
        });
    }
    heard(&String::from_utf8_lossy(&run.stdout))
}

/// In `json0`, everything that may be there more than once is a list, even when it is there once.
pub(crate) fn heard(json: &str) -> Result<Vec<Neighbour>, LldpError> {
    let answer: Value =
        serde_json::from_str(json).map_err(|source| LldpError::Garbled { source })?;
    let interfaces = list(&answer["lldp"])
        .iter()
        .flat_map(|it| list(&it["interface"]));
    Ok(interfaces.filter_map(neighbour).collect())
}

fn neighbour(answer: &Value) -> Option<Neighbour> {
    let chassis = list(&answer["chassis"]).first()?;
    let port = list(&answer["port"]).first()?;
    let addresses = list(&chassis["mgmt-ip"]).iter().filter_map(value);
    Some(Neighbour {
        interface: answer["name"].as_str()?.to_owned(),
        system: first(&chassis["name"]).or_else(|| first(&chassis["id"]))?,
        port: port_name(port)?,
        address: addresses
            .filter_map(|it| it.parse::<Ipv4Addr>().ok())
            .next(),
    })
}

/// Some name their ports in the identity, some only in the description.
fn port_name(port: &Value) -> Option<String> {
    let is_name = |id: &&Value| id["type"] == "ifname";
    let named = list(&port["id"]).iter().find(is_name).and_then(value);
    named
        .map(str::to_owned)
        .or_else(|| first(&port["descr"]))
        .or_else(|| first(&port["id"]))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn value(of: &Value) -> Option<&str> {
    of["value"].as_str()
}

fn first(values: &Value) -> Option<String> {
    list(values).iter().find_map(value).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LLDPCTL_JSON: &str = r#"{"lldp":[{"interface":[
      {"name":"eth0","via":"LLDP","rid":"1","age":"0 day, 00:01:02",
       "chassis":[{"id":[{"type":"mac","value":"50:6b:4b:00:00:01"}],"name":[{"value":"leaf1"}],
                   "descr":[{"value":"SONiC"}],"mgmt-ip":[{"value":"fe80::1"},{"value":"10.1.0.1"}]}],
       "port":[{"id":[{"type":"ifname","value":"Ethernet4"}],"descr":[{"value":"etp2"}]}]},
      {"name":"eth1","via":"LLDP",
       "chassis":[{"id":[{"type":"mac","value":"50:6b:4b:00:00:02"}]}],
       "port":[{"id":[{"type":"mac","value":"50:6b:4b:00:00:12"}],"descr":[{"value":"swp7"}]}]}]}]}"#;

    #[test]
    fn neighbours_have_names_and_ports() {
        let heard = heard(LLDPCTL_JSON).expect("JSON");
        let shown: Vec<_> = heard
            .iter()
            .map(|it| [&it.interface, &it.system, &it.port].map(String::as_str))
            .collect();
        let expected = [
            ["eth0", "leaf1", "Ethernet4"],
            ["eth1", "50:6b:4b:00:00:02", "swp7"],
        ];
        assert_eq!(shown, expected);
        assert_eq!(heard[0].address, Some(Ipv4Addr::new(10, 1, 0, 1)));
    }

    #[test]
    fn empty_lldp_output_has_no_neighbours() {
        assert_eq!(heard(r#"{"lldp":[{}]}"#).expect("JSON"), []);
    }

    #[test]
    fn damaged_text_is_safe() {
        for end in 0..LLDPCTL_JSON.len() {
            let _ = heard(&LLDPCTL_JSON[..end]);
        }
        for at in 0..LLDPCTL_JSON.len() {
            for byte in *b"0[{\"]}n" {
                let mut damaged = LLDPCTL_JSON.as_bytes().to_vec();
                damaged[at] = byte;
                let _ = heard(&String::from_utf8_lossy(&damaged));
            }
        }
    }
}
