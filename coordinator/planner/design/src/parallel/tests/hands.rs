//! The answer does not depend on the workers or their order, even though simulations of slow candidates stop early.

use std::fmt::Debug;

use super::bounds::{WANT_ALL, spreads};
use super::*;
use crate::crew::{AtOnce, Backwards, Crew};
use crate::parallel::Ground;
use crate::parallel::together::{Better, Wanted};

const CREWS: [&dyn Crew; 3] = [&Alone, &Backwards, &AtOnce];

fn on_switch<M: Dealing>(
    model: &M,
    from: &M::Deal,
    wanted: Wanted,
    request: &Request,
    crew: &dyn Crew,
) -> Better<M::Deal> {
    let settings = Settings::default();
    let help = Help { crew, ..HELP };
    let ground = Ground::ideal(model.place(), &settings, request, help).unwrap();
    model.better(from, &ground, wanted).unwrap()
}

/// All that a pairing says.
fn paired<M: Dealing>(
    model: &M,
    start: &M::Deal,
    request: &Request,
    crew: &dyn Crew,
) -> impl PartialEq + Debug
where
    M::Deal: Debug,
{
    let help = Help { crew, ..HELP };
    let settings = Settings::default();
    let found = together::search(model, start.clone(), &settings, request, help).unwrap();
    let proposal = found.proposal;
    (
        (found.deal, found.course, found.tried, found.bound_ms),
        (proposal.design.wiring.pairs(), proposal.evaluation),
        proposal.lost,
    )
}

#[test]
fn truncated_search_is_independent_of_workers() {
    let search = spreads();
    let start = search.start().unwrap();
    let request = Request {
        limits: Limits::plain(4, 3),
        degree: 3,
        rate: Rate::from_gbps(100.0).unwrap(),
        ..request(4)
    };
    let better = |wanted, crew| on_switch(&search, &start, wanted, &request, crew);
    let one = Wanted {
        best: 1,
        ..WANT_ALL
    };
    let alone = better(one, &Alone);
    for crew in CREWS {
        assert_eq!(better(one, crew), alone);
    }
    let all = better(WANT_ALL, &Alone).deals;
    let is_cut_short = |deal| !all.contains(deal);
    assert!(alone.deals.iter().any(is_cut_short));
}

#[test]
fn parallel_split_search_is_deterministic() {
    let (model, timings) = (towers(), timings());
    let search = searching(&model, &timings, None);
    let start = model.data_parallel(&timings, 8).unwrap();
    let better = |crew| on_switch(&search, &start, WANT_ALL, &request(8), crew);
    let alone = better(&Alone);
    assert_ne!(alone.deals[0].0, start);
    for crew in CREWS {
        assert_eq!(better(crew), alone);
    }
}

#[test]
fn plans_are_independent_of_workers() {
    let (model, timings) = (towers(), timings());
    let splits = Search {
        tries: Some(60),
        ..searching(&model, &timings, None)
    };
    let start = model.data_parallel(&timings, 8).unwrap();
    let request = request(8);
    let alone = paired(&splits, &start, &request, &Alone);
    for crew in CREWS {
        assert_eq!(paired(&splits, &start, &request, crew), alone);
    }
    let spreads = spreads();
    let (start, request) = (spreads.start().unwrap(), super::request(4));
    let request = Request {
        limits: Limits::plain(4, 3),
        degree: 3,
        ..request
    };
    let alone = paired(&spreads, &start, &request, &Alone);
    for crew in CREWS {
        assert_eq!(paired(&spreads, &start, &request, crew), alone);
    }
}
