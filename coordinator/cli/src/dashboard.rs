//! `reweave dashboard`: a link that a browser shows the cluster at, in the name of whoever asks.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reweave_common::operator::{Request, Response};
use reweave_link::visit::Visit;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::{Output, print};

pub(crate) const LONGEST_HOURS: u64 = 12;

/// Where a browser shows the cluster: a link that is good for hours
///
/// Whoever has the link may ask what you may ask, so keep it to yourself. Scripts may send what stands
/// behind `token=` with `Authorization: Bearer` to the API at /api/v1.
#[derive(Debug, Args)]
pub(crate) struct Dashboard {
    /// Where the leading coordinator serves HTTP, as your browser reaches it [default: as the
    /// coordinator has it]
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<SocketAddr>,
    /// For how long the link is good
    #[arg(
        long,
        value_name = "HOURS",
        default_value_t = LONGEST_HOURS,
        value_parser = clap::value_parser!(u64).range(1..=LONGEST_HOURS)
    )]
    hours: u64,
}

impl Dashboard {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let mut coordinator = Coordinator::reach(reach)?;
        let link = Link::ask(&mut coordinator, self.hours)?;
        let url = link.at(self.http)?;
        let expires_in_ms = link.expires_in_ms;
        if self.http.is_none() {
            hint(&link, coordinator.address());
        }
        let made = serde_json::json!({ "url": url, "expires_in_ms": expires_in_ms });
        print(output, &made, |page| page.line(&url))
    }
}

/// The page is shown on the coordinator's own machine alone.
fn hint(link: &Link, coordinator: SocketAddr) {
    if let Some(http) = link.http.filter(|_| !coordinator.ip().is_loopback()) {
        let (port, machine) = (http.port(), coordinator.ip());
        eprintln!("from another machine it is reached with  ssh -L {port}:{http} {machine}");
    }
}

/// The secret is made here, and the coordinator learns its digest alone.
pub(crate) struct Link {
    visit: Visit,
    expires_in_ms: u64,
    /// As the coordinator has it.
    http: Option<SocketAddr>,
}

impl Link {
    pub(crate) fn ask(coordinator: &mut Coordinator, hours: u64) -> Result<Self, CliError> {
        let visit = Visit::random();
        let request = Request::Visit {
            token: visit.digest(),
            lasting: Duration::from_secs(3600 * hours),
        };
        match coordinator.ask(&request)? {
            Response::MayVisit {
                expires_in_ms,
                http,
            } => Ok(Self {
                visit,
                expires_in_ms,
                http,
            }),
            Response::Refused(refused) => Err(CliError::Refused(refused)),
            other => Err(CliError::unexpected(&other)),
        }
    }

    /// There, or else where the coordinator says.
    pub(crate) fn at(&self, place: Option<SocketAddr>) -> Result<String, CliError> {
        let place = place.or(self.http).ok_or(CliError::NoPage)?;
        Ok(format!("http://{place}/#token={}", self.visit))
    }
}
