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
/// Where a coordinator serves HTTP unless somebody says otherwise.
pub(crate) const USUAL: &str = "127.0.0.1:7334";

/// Where a browser shows the cluster: a link that is good for hours
///
/// Whoever has the link may ask what you may ask, so keep it to yourself. Scripts may send what stands
/// behind `token=` with `Authorization: Bearer` to the API at /api/v1.
#[derive(Debug, Args)]
pub(crate) struct Dashboard {
    /// Where the leading coordinator serves HTTP, as your browser reaches it
    #[arg(long, value_name = "ADDRESS:PORT", default_value = USUAL)]
    http: SocketAddr,
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
        let (url, expires_in_ms) = link(&mut coordinator, self.http, self.hours)?;
        let made = serde_json::json!({ "url": url, "expires_in_ms": expires_in_ms });
        print(output, &made, |page| page.line(&url))
    }
}

/// The link, and how many milliseconds it is good for. The secret is made here, and the coordinator learns its
/// digest alone.
pub(crate) fn link(
    coordinator: &mut Coordinator,
    http: SocketAddr,
    hours: u64,
) -> Result<(String, u64), CliError> {
    let visit = Visit::random();
    let request = Request::Visit {
        token: visit.digest(),
        lasting: Duration::from_secs(3600 * hours),
    };
    match coordinator.ask(&request)? {
        Response::MayVisit { expires_in_ms } => {
            Ok((format!("http://{http}/#token={visit}"), expires_in_ms))
        }
        Response::Refused(refused) => Err(CliError::Refused(refused)),
        other => Err(CliError::unexpected(&other)),
    }
}
