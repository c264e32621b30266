//! `reweave dashboard`: a link that shows the cluster in a browser with the operator's own permissions.

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::{Request, Response};
use reweave_common::time_span::TimeSpan;
use reweave_link::access_token::AccessToken;
use reweave_link::pki::AUTHORITY_CERTIFICATE_FILE;
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::page::Page;
use crate::report::Report;
use crate::voice::print_note;
use crate::{Output, print_report};

pub(crate) const MAX_VISIT_HOURS: u64 = 12;

/// Print a link to the dashboard
///
/// Print a link to the dashboard of the cluster, valid for hours
///
/// The link grants your own permissions: keep it secret. Scripts send the value after `token=` as `Authorization:
/// Bearer` to the API at /api/v1.
#[derive(Debug, Args)]
pub(crate) struct Dashboard {
    /// HTTP address of the leading coordinator, as your browser reaches it [default: the address that the coordinator
    /// reports]
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<SocketAddr>,
    /// Validity of the link
    #[arg(
        long,
        value_name = "HOURS",
        default_value_t = MAX_VISIT_HOURS,
        value_parser = clap::value_parser!(u64).range(1..=MAX_VISIT_HOURS)
    )]
    hours: u64,
}

impl Dashboard {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let mut coordinator = Coordinator::reach(reach)?;
        let link = Link::ask(&mut coordinator, self.hours)?;
        let expires_in_ms = link.expires_in_ms;
        let asked = coordinator.address().ip();
        let url = match self.http {
            Some(_) => link.at(self.http)?,
            None => link.for_browser(asked)?,
        };
        print_report(output, &DashboardLink { expires_in_ms, url })
    }
}

#[derive(Serialize)]
struct DashboardLink {
    expires_in_ms: u64,
    url: String,
}

impl Report for DashboardLink {
    fn lay_out(&self, page: &mut Page) {
        page.line(&self.url);
    }
}

/// Without TLS the coordinator serves the page only on its own machine.
fn hint_at_tunnel(http: SocketAddr, machine: IpAddr) {
    let port = http.port();
    print_note(&format!(
        "from another machine, use  ssh -L {port}:{http} {machine}"
    ));
}

fn hint_at_authority() {
    print_note(&format!(
        "the browser must trust the cluster's certificate authority, {AUTHORITY_CERTIFICATE_FILE} \
         in the folder of your certificate"
    ));
}

/// A link with its secret. The secret is made here; the coordinator receives only its digest.
pub(crate) struct Link {
    visit: AccessToken,
    expires_in_ms: u64,
    /// HTTP address that the coordinator reports.
    http: Option<SocketAddr>,
    https: Option<SocketAddr>,
}

impl Link {
    pub(crate) fn ask(coordinator: &mut Coordinator, hours: u64) -> Result<Self, CliError> {
        let visit = AccessToken::random();
        let request = Request::Visit {
            token: visit.digest(),
            lasting: TimeSpan::from_secs(3600 * hours),
        };
        match coordinator.ask(&request)? {
            Response::MayVisit {
                expires_in_ms,
                http,
                https,
            } => Ok(Self {
                visit,
                expires_in_ms,
                http,
                https,
            }),
            Response::Refused(refused) => Err(CliError::Refused(refused)),
            other => Err(CliError::unexpected(&other)),
        }
    }

    /// Returns the link for a browser on this machine, which reaches the coordinator at that address.
    fn for_browser(&self, coordinator: IpAddr) -> Result<String, CliError> {
        let is_here = coordinator.is_loopback();
        match (self.http, self.https) {
            (Some(_), _) if is_here => self.at(None),
            (_, Some(https)) => {
                hint_at_authority();
                Ok(self.url("https", reached(https, coordinator)))
            }
            (Some(http), None) => {
                hint_at_tunnel(http, coordinator);
                self.at(None)
            }
            (None, None) => Err(CliError::NoPage),
        }
    }

    /// Returns the link at the given address, else at the address that the coordinator reports.
    pub(crate) fn at(&self, place: Option<SocketAddr>) -> Result<String, CliError> {
        let place = place.or(self.http).ok_or(CliError::NoPage)?;
        Ok(self.url("http", place))
    }

    fn url(&self, scheme: &str, place: SocketAddr) -> String {
        format!("{scheme}://{place}/#token={}", self.visit)
    }
}

/// Replaces an unspecified address (0.0.0.0 or ::) by the address at which the machine is reached.
fn reached(place: SocketAddr, machine: IpAddr) -> SocketAddr {
    if place.ip().is_unspecified() {
        SocketAddr::new(machine, place.port())
    } else {
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(coordinator: &str, http: Option<&str>, https: Option<&str>) -> Option<String> {
        let place = |text: &str| text.parse().unwrap();
        let link = Link {
            visit: AccessToken::random(),
            expires_in_ms: 1,
            http: http.map(place),
            https: https.map(place),
        };
        let url = link.for_browser(coordinator.parse().unwrap()).ok()?;
        let (page, token) = url.split_once("#token=")?;
        assert_eq!(token, link.visit.to_string());
        Some(page.to_owned())
    }

    #[test]
    fn remote_browser_is_sent_to_tls() {
        let (near, everywhere) = (Some("127.0.0.1:7334"), Some("0.0.0.0:7335"));
        let page = |page: &str| Some(page.to_owned());
        assert_eq!(
            from("127.0.0.1", near, everywhere),
            page("http://127.0.0.1:7334/")
        );
        assert_eq!(
            from("10.0.9.1", near, everywhere),
            page("https://10.0.9.1:7335/")
        );
        assert_eq!(from("10.0.9.1", near, None), page("http://127.0.0.1:7334/"));
        assert_eq!(
            from("127.0.0.1", None, everywhere),
            page("https://127.0.0.1:7335/")
        );
        let one = Some("10.1.0.1:443");
        assert_eq!(from("10.0.9.1", near, one), page("https://10.1.0.1:443/"));
        assert_eq!(
            from("fd00::1", near, Some("[::]:7335")),
            page("https://[fd00::1]:7335/")
        );
        assert_eq!(from("10.0.9.1", None, None), None);
    }
}
