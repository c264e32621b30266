//! NICs of hosts, and the training traffic between them.

use axum::extract::State;
use axum::http::HeaderMap;
use reweave_common::operator::{NicStatus, PairTraffics, Request, Response as Answer};
use serde::Serialize;
use utoipa::ToSchema;

use super::problem::Problem;
use super::reading::OfRail;
use super::tagged::tagged;
use super::visitor::Visitor;
use super::{ApiResult, Options, Served, options};

/// The NICs of hosts, in the order of the fabric.
#[derive(Debug, Serialize, ToSchema)]
struct Nics {
    nics: Vec<NicStatus>,
}

/// Returns the NICs of hosts: rail, use, link, address, place in the host, state and rates.
#[utoipa::path(get, path = "/nics", responses((status = 200, description = "The NICs", body = Nics)))]
pub(super) async fn nics(served: State<Served>, visitor: Visitor, headers: HeaderMap) -> ApiResult {
    let asked = Request::Nics {
        from_nic: 0,
        most: u32::MAX,
    };
    match visitor.ask(&served.context, asked).await? {
        Answer::Nics(nics) => tagged(&headers, &Nics { nics }),
        _ => Err(Problem::unexpected()),
    }
}

/// Returns the training traffic between hosts now, per rail, of all rails or one.
///
/// Pairs with the highest rate come first.
#[utoipa::path(get, path = "/traffic", params(OfRail), responses((status = 200, description = "The pairs", body = PairTraffics)))]
pub(super) async fn traffic(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    of: Options<OfRail>,
) -> ApiResult {
    let asked = Request::Traffic {
        rail: options(of)?.rail,
        most: u32::MAX,
    };
    match visitor.ask(&served.context, asked).await? {
        Answer::Traffic(traffic) => tagged(&headers, &traffic),
        _ => Err(Problem::unexpected()),
    }
}
