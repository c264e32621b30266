//! Small cases in which every distribution can be tried.

use super::*;
use crate::parallel::Ground;
use crate::parallel::together::Wanted;

pub(super) const WANT_ALL: Wanted = Wanted {
    best: usize::MAX,
    most_ms: f64::INFINITY,
};

/// Each operator on any of the servers, and on any of them together.
fn all_splits(operators: usize, servers: usize) -> Vec<Vec<Vec<Rank>>> {
    let ranks = |set: usize| (0..servers).filter(move |it| set >> it & 1 == 1);
    let each: Vec<Vec<_>> = (1..1 << servers)
        .map(|set| ranks(set).map(Rank::from_index).collect())
        .collect();
    let mut all = vec![Vec::new()];
    for _ in 0..operators {
        let longer = |splits: &Vec<Vec<Rank>>| {
            let splits = splits.clone();
            let one_more = move |split: &Vec<Rank>| [splits.clone(), vec![split.clone()]].concat();
            each.iter().map(one_more).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// The bound, and the fastest of all splits on a switch.
fn bound_and_fastest(model: &Model, timings: &Timings, servers: usize) -> [f64; 2] {
    let (settings, request) = (Settings::default(), request(4));
    let request = Request {
        limits: Limits::plain(servers, servers - 1),
        ..request
    };
    let search = Search {
        servers,
        ..searching(model, timings, None)
    };
    let ground = Ground::ideal(search.place(), &settings, &request, HELP).unwrap();
    let known = all_splits(model.operators.len(), servers).into_iter();
    let known = known.filter_map(|splits| search.iteration(&splits).ok());
    let times = known.map(|iteration| ground.time(&iteration).unwrap());
    [search.bound_ms(), times.fold(f64::INFINITY, f64::min)]
}

fn chain(names: &[&str], kind: &str, bytes: u64) -> Model {
    let one = |(nth, name): (usize, &&str)| Operator {
        timing: kind.to_owned(),
        output_per_sample: Bytes::new(bytes),
        ..operator(name, &(0..nth).rev().take(1).collect::<Vec<_>>(), bytes)
    };
    Model {
        name: "chain".to_owned(),
        batch: 64,
        operators: names.iter().enumerate().map(one).collect(),
    }
}

/// Reached where nothing is sent, and by what cannot be split too; never missed where much is sent.
#[test]
fn no_split_beats_its_bound() {
    let mut timings = timings();
    let whole = timings.get("dense", 1).unwrap();
    timings.insert("whole", 1, whole);
    let is_reached = |[bound, fastest]: [f64; 2]| (fastest / bound - 1.0).abs() < 1e-6;
    let silent = chain(&["a", "b", "c"], "dense", 0);
    let found = bound_and_fastest(&silent, &timings, 2);
    assert!(is_reached(found) && found[0] == 36.0, "{found:?}");
    let in_turn = bound_and_fastest(&chain(&["a", "b"], "whole", 0), &timings, 2);
    assert!(is_reached(in_turn) && in_turn[0] == 48.0, "{in_turn:?}");
    let mut apart = chain(&["a", "b"], "whole", 0);
    apart.operators[1].inputs.clear();
    let beside = bound_and_fastest(&apart, &timings, 2);
    assert!(is_reached(beside) && beside[0] == 24.0, "{beside:?}");
    for servers in [2, 3] {
        let [bound, fastest] =
            bound_and_fastest(&chain(&["a", "b"], "dense", 1 << 20), &timings, servers);
        assert!(
            bound < fastest,
            "{bound} ms, {fastest} ms on {servers} servers"
        );
    }
    let [bound, fastest] = bound_and_fastest(&towers(), &timings, 2);
    assert!(
        bound <= fastest,
        "{bound} ms, and the fastest takes {fastest} ms"
    );
}

pub(super) fn spreads() -> presets::Search {
    let mut preset = Preset::named("bert", None, Batch::PerReplica(16)).unwrap();
    preset.gpus_per_host = 2;
    presets::Search::new(&preset, 4, None)
}

/// The least of what all spreads need at least, and no more than what any of them takes.
#[test]
fn no_parallelism_beats_its_bound() {
    let (search, settings) = (spreads(), Settings::default());
    let request = Request {
        limits: Limits::plain(4, 3),
        degree: 3,
        ..request(4)
    };
    let start = search.start().unwrap();
    let found = together::search(&search, start, &settings, &request, HELP).unwrap();
    let bound_ms = found.bound_ms.unwrap();
    let ground = Ground::ideal(search.place(), &settings, &request, HELP).unwrap();
    let iterations = search
        .fitting()
        .into_iter()
        .filter_map(|it| search.iteration(&it).ok());
    let mut least_ms = f64::INFINITY;
    for iteration in iterations {
        let ms = ground.time(&iteration).unwrap();
        assert!(bound_ms <= ms, "{bound_ms} ms, and a spread takes {ms} ms");
        least_ms = least_ms.min(ground.bound_ms(&iteration));
    }
    assert_eq!(bound_ms, least_ms);
    assert!(bound_ms <= found.proposal.bound_ms && bound_ms > 0.0);
}

/// A caller that asks for some only gets the same of these.
#[test]
fn requesting_fewer_splits_keeps_same_best() {
    let counts = [10.0, 100.0, 1000.0].map(|gbps| {
        let request = Request {
            limits: Limits::plain(4, 3),
            degree: 3,
            rate: Rate::from_gbps(gbps).unwrap(),
            ..request(4)
        };
        knows_what_is_wanted(&request)
    });
    // Side by side go four, which know nothing of each other.
    assert!(counts.iter().any(|&count| count > 4), "{counts:?}");
}

fn knows_what_is_wanted(request: &Request) -> usize {
    let (search, settings) = (spreads(), Settings::default());
    let start = search.start().unwrap();
    let ground = Ground::ideal(search.place(), &settings, request, HELP).unwrap();
    let all = search.better(&start, &ground, WANT_ALL).unwrap();
    for best in [1, 3] {
        let wanted = Wanted { best, ..WANT_ALL };
        let some = search.better(&start, &ground, wanted).unwrap();
        assert_eq!(some.deals[..best], all.deals[..best]);
        assert_eq!((some.tried, some.all), (all.tried, all.all));
        for (deal, least_ms) in &some.deals {
            let ms = all.deals.iter().find(|(other, _)| other == deal).unwrap().1;
            assert!(*least_ms <= ms, "{deal:?}: {least_ms} ms of {ms} ms");
        }
    }
    let most_ms = all.deals[1].1;
    let wanted = Wanted { best: 3, most_ms };
    let few = search.better(&start, &ground, wanted).unwrap();
    assert_eq!(few.deals[..2], all.deals[..2]);
    assert!(few.deals[2..].iter().all(|(_, ms)| *ms == most_ms));
    all.deals.len()
}
