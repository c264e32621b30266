//! The compared systems, and the commands that run them.

use std::path::Path;
use std::process::Command;

use reweave_tests::{Stage, settings_of, term_led};
use serde::{Deserialize, Serialize};

use crate::certificates::CERTIFICATE_FILES;

/// Index of a member, from 0 to 2.
pub(crate) type Place = usize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum System {
    Reweave,
    Etcd,
}

/// Address on the management network, after the station and the switch.
pub(crate) fn address(place: Place) -> String {
    format!("10.255.0.{}", place + 3)
}

impl System {
    pub(crate) const ALL: [Self; 2] = [Self::Reweave, Self::Etcd];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reweave => "reweave",
            Self::Etcd => "etcd",
        }
    }

    /// Address for clients.
    pub(crate) fn door(self, place: Place) -> String {
        let port = match self {
            Self::Reweave => 7332,
            Self::Etcd => 2379,
        };
        format!("{}:{port}", address(place))
    }

    /// Transport between its members.
    pub(crate) fn protocol(self) -> &'static str {
        match self {
            Self::Reweave => "udp",
            Self::Etcd => "tcp",
        }
    }

    pub(crate) fn command(self, stage: &Stage, place: Place) -> Command {
        let host = format!("h{place}");
        match self {
            Self::Reweave => {
                let mut run = stage.inside(&host, stage.programs().coordinator());
                run.args(["run", "--config"]);
                run.arg(stage.path(&format!("c{place}.toml")));
                run
            }
            Self::Etcd => {
                let mut run = stage.inside(&host, "etcd");
                run.args(etcd(place, &stage.path("")));
                run
            }
        }
    }

    /// Returns the term in which a member leads by its own log, if it does.
    pub(crate) fn term(self, log: &str) -> Option<u64> {
        match self {
            Self::Reweave => term_led(log),
            Self::Etcd => etcd_term_led(log),
        }
    }
}

fn etcd_term_led(log: &str) -> Option<u64> {
    let mut lines = log.lines().rev();
    // The line is about the member itself, and not about a peer that became active.
    let news = lines.find(|line| line.contains(" became ") && line.contains(" at term "));
    let (_, rest) = news?.split_once("became leader at term ")?;
    let mut digits = rest.split(|letter: char| !letter.is_ascii_digit());
    digits.next()?.parse().ok()
}

pub(crate) fn settings(place: Place) -> String {
    let addresses = [0, 1, 2].map(|place| System::Reweave.door(place));
    let identities = "certificates/coordinators/";
    settings_of(place, &addresses, "two-leaves.toml", identities)
}

fn etcd(place: Place, home: &Path) -> Vec<String> {
    let peer = |place| format!("https://{}:2380", address(place));
    let members = (0..3).map(|place| format!("e{place}={}", peer(place)));
    let members = members.collect::<Vec<_>>().join(",");
    let door = format!("https://{}", System::Etcd.door(place));
    let file = |name: &str| home.join(name).display().to_string();
    let [authority, certificate, key] = CERTIFICATE_FILES.map(file);
    let data = file(&format!("etcd{place}"));
    let flags = [
        ("name", format!("e{place}")),
        ("data-dir", data),
        ("listen-client-urls", door.clone()),
        ("advertise-client-urls", door),
        ("listen-peer-urls", peer(place)),
        ("initial-advertise-peer-urls", peer(place)),
        ("initial-cluster", members),
        ("heartbeat-interval", "50".to_owned()),
        ("election-timeout", "300".to_owned()),
        ("pre-vote", "true".to_owned()),
        ("logger", "zap".to_owned()),
        ("client-cert-auth", "true".to_owned()),
        ("peer-client-cert-auth", "true".to_owned()),
        ("cert-file", certificate.clone()),
        ("key-file", key.clone()),
        ("trusted-ca-file", authority.clone()),
        ("peer-cert-file", certificate),
        ("peer-key-file", key),
        ("peer-trusted-ca-file", authority),
    ];
    flags
        .map(|(flag, value)| format!("--{flag}={value}"))
        .into()
}
