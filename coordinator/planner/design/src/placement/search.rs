//! The search for an order.

use reweave_common::split_mix::SplitMix64;

use super::Request;
use super::judge::{Judge, Score};

/// All orders of this many hosts are tried: 40 320.
const MAX_EXHAUSTIVE_HOSTS: usize = 8;
/// Maximum number of spots at which chains start, largest first.
const MAX_CHAINS: usize = 16;
/// Weight of traffic to other spots, small enough to only break ties.
const TIE_WEIGHT: f64 = 1e-3;

/// Returns the best order found, and whether all orders were tried. Hosts beyond the last place are unused.
///
/// A starting order wins ties: an order by spots also suits other collectives of the job (recursive halving, trees),
/// and is readable.
pub(super) fn best(judge: &Judge, request: &Request<'_>, present: &[usize]) -> (Vec<usize>, bool) {
    let starts = starts(judge, request, present);
    let began = starts
        .iter()
        .map(|order| (judge.score(order), order.clone()));
    let began = began.reduce(better).expect("there is the present one");
    if present.len() <= MAX_EXHAUSTIVE_HOSTS {
        let mut best = began;
        permute(judge, &mut present.to_vec(), 0, &mut best);
        return (best.1, true);
    }
    let work = request.work / starts.len();
    let climbed = starts.into_iter().enumerate().map(|(nth, start)| {
        let rng = SplitMix64::new(request.seed.wrapping_add(nth as u64));
        climb(judge, start, request.demand.places, rng, work)
    });
    (climbed.fold(began, better).1, false)
}

fn better(a: (Score, Vec<usize>), b: (Score, Vec<usize>)) -> (Score, Vec<usize>) {
    if b.0 < a.0 { b } else { a }
}

/// Returns the present order, and the best of each kind among the chains of spots.
fn starts(judge: &Judge, request: &Request<'_>, present: &[usize]) -> Vec<Vec<usize>> {
    let spots = &judge.spots;
    let mut sizes = vec![0; spots.count];
    present
        .iter()
        .for_each(|&host| sizes[judge.spot(host)] += 1);
    let mut first: Vec<_> = (0..spots.count).collect();
    first.sort_by_key(|&spot| (usize::MAX - sizes[spot], spot));
    let chains: Vec<_> = first
        .iter()
        .take(MAX_CHAINS)
        .map(|&spot| spots.chain(spot))
        .collect();
    let best = |of: &dyn Fn(&[usize]) -> Vec<usize>| {
        let orders = chains.iter().map(|chain| of(chain));
        let scored = orders.map(|order| (judge.score(&order), order));
        let best = scored.reduce(better);
        best.map(|(_, order)| order)
    };
    let along = best(&|chain| along(judge, chain, present));
    let gathered = best(&|chain| gathered(judge, request, chain, present));
    [present.to_vec()]
        .into_iter()
        .chain(along)
        .chain(gathered)
        .collect()
}

/// Tries all orders; the first of equal ones is kept.
fn permute(judge: &Judge, order: &mut Vec<usize>, place: usize, best: &mut (Score, Vec<usize>)) {
    if place == order.len() {
        let score = judge.score(order);
        if score < best.0 {
            *best = (score, order.clone());
        }
        return;
    }
    for other in place..order.len() {
        order.swap(place, other);
        permute(judge, order, place + 1, best);
        order.swap(place, other);
    }
}

/// Spot by spot.
fn along(judge: &Judge, chain: &[usize], present: &[usize]) -> Vec<usize> {
    let mut turn = vec![0; chain.len()];
    (0..).zip(chain).for_each(|(nth, &spot)| turn[spot] = nth);
    let mut order = present.to_vec();
    order.sort_by_key(|&host| (turn[judge.spot(host)], host));
    order
}

/// Spot by spot, filled with the place that exchanges most with those already there, or else with
/// those in the spots before.
fn gathered(
    judge: &Judge,
    request: &Request<'_>,
    chain: &[usize],
    present: &[usize],
) -> Vec<usize> {
    let mut of_spot = vec![Vec::new(); chain.len()];
    let last_first = present.iter().rev();
    last_first.for_each(|&host| of_spot[judge.spot(host)].push(host));
    let places = request.demand.places;
    let (mut host_of, mut ties) = (vec![None; places], vec![0.0; places]);
    let mut left = Vec::new();
    for &spot in chain {
        let mut hosts = std::mem::take(&mut of_spot[spot]);
        ties.iter_mut().for_each(|tie| *tie *= TIE_WEIGHT);
        while let Some(host) = hosts.pop() {
            let free = (0..places).filter(|&place| host_of[place].is_none());
            let Some(next) = free.reduce(|a, b| if ties[b] > ties[a] { b } else { a }) else {
                left.push(host);
                continue;
            };
            host_of[next] = Some(host);
            judge
                .partners(next)
                .for_each(|(other, bytes)| ties[other] += bytes);
        }
    }
    host_of.into_iter().flatten().chain(left).collect()
}

/// Exchanges two places while that is no worse.
fn climb(
    judge: &Judge,
    mut order: Vec<usize>,
    places: usize,
    mut rng: SplitMix64,
    work: usize,
) -> (Score, Vec<usize>) {
    let mut loads = judge.loads(&order);
    let mut score = judge.score_of(&loads, &order);
    for _ in 0..work {
        let pair = [rng.below(places), rng.below(order.len())];
        if judge.spot(order[pair[0]]) == judge.spot(order[pair[1]]) && pair[1] < places {
            continue;
        }
        judge.exchange(&mut loads, &mut order, pair);
        let next = judge.score_of(&loads, &order);
        if next <= score {
            score = next;
        } else {
            judge.exchange(&mut loads, &mut order, pair);
        }
    }
    (judge.score(&order), order)
}
