//! The search for an order.

use super::Request;
use super::judge::{Judge, Score};
use crate::dice::Dice;

/// All orders of so many hosts are tried: 40 320.
const FEW: usize = 8;

/// The best order of hosts that was found, and whether all were tried. Hosts beyond the last place
/// are not used.
pub(super) fn best(judge: &Judge, request: &Request<'_>, present: &[usize]) -> (Vec<usize>, bool) {
    if present.len() <= FEW {
        let mut best = (judge.score(present), present.to_vec());
        permute(judge, &mut present.to_vec(), 0, &mut best);
        return (best.1, true);
    }
    let starts = [
        present.to_vec(),
        by_rack(judge, present),
        gathered(judge, request, present),
    ];
    let work = request.work / starts.len();
    let climbed = starts.into_iter().enumerate().map(|(nth, start)| {
        let dice = Dice::new(request.seed.wrapping_add(nth as u64));
        climb(judge, start, request.demand.places, dice, work)
    });
    let better = |a: (Score, Vec<usize>), b: (Score, Vec<usize>)| if b.0 < a.0 { b } else { a };
    let best = climbed.reduce(better);
    (best.map_or(present.to_vec(), |best| best.1), false)
}

/// Of equals the first in order stays.
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

fn by_rack(judge: &Judge, present: &[usize]) -> Vec<usize> {
    let mut order = present.to_vec();
    order.sort_by_key(|&host| (judge.rack(host), host));
    order
}

/// Rack by rack, the largest first, filled with the place that exchanges most with those already
/// there.
fn gathered(judge: &Judge, request: &Request<'_>, present: &[usize]) -> Vec<usize> {
    let mut of_rack = vec![Vec::new(); judge.racks()];
    present
        .iter()
        .rev()
        .for_each(|&host| of_rack[judge.rack(host)].push(host));
    of_rack.sort_by_key(|hosts| usize::MAX - hosts.len());
    let places = request.demand.places;
    let (mut host_of, mut ties) = (vec![None; places], vec![0.0; places]);
    let mut left = Vec::new();
    for mut hosts in of_rack {
        ties.fill(0.0);
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
    mut dice: Dice,
    work: usize,
) -> (Score, Vec<usize>) {
    let mut loads = judge.loads(&order);
    let mut score = judge.score_of(&loads, &order);
    for _ in 0..work {
        let pair = [dice.below(places), dice.below(order.len())];
        if judge.rack(order[pair[0]]) == judge.rack(order[pair[1]]) && pair[1] < places {
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
