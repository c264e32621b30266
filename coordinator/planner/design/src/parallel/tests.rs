//! Small models whose best splits are known.

mod bounds;
mod hands;

use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::timings::{Timing, Timings};
use reweave_common::units::{Bytes, Rate};
use reweave_sim::workload::Settings;
use reweave_sim::workload::job::operators::{Model, Operator};
use reweave_sim::workload::job::preset::{Batch, Parallelism, Preset, Zero};

use super::operators::Search;
use super::presets;
use super::together::Dealing;
use super::{Help, others, together};
use crate::crew::{Alone, HourGlass, NO_DEADLINE};
use crate::topology::prices::PUBLISHED_PRICES;
use crate::topology::{Job, Limits, Request, Rival, TopologyError, rivals};

const HELP: Help<'_> = Help {
    crew: &Alone,
    go_on: &|_| true,
    in_time: &|| true,
};

fn timings() -> Timings {
    let mut timings = Timings::default();
    for parts in [1u32, 2, 4, 8] {
        let time = |ms: u64| Duration::from_micros(ms * 1000 / u64::from(parts));
        let timing = Timing {
            forward: time(8),
            backward: time(16),
            memory: Bytes::new(8_000_000_000 / u64::from(parts)),
        };
        timings.insert("dense", parts, timing);
    }
    timings
}

fn operator(name: &str, inputs: &[usize], weights: u64) -> Operator {
    Operator {
        name: name.to_owned(),
        timing: "dense".to_owned(),
        inputs: inputs.to_vec(),
        weights: Bytes::new(weights),
        output_per_sample: Bytes::new(1000),
        servers: None,
    }
}

/// Two towers side by side, so heavy that to reduce them takes longer than to compute them.
fn towers() -> Model {
    Model {
        name: "towers".to_owned(),
        batch: 64,
        operators: vec![
            operator("left0", &[], 400_000_000),
            operator("left1", &[0], 400_000_000),
            operator("right0", &[], 400_000_000),
            operator("right1", &[2], 400_000_000),
            operator("top", &[1, 3], 0),
        ],
    }
}

fn request(servers: usize) -> Request {
    Request {
        limits: Limits::plain(servers, 4),
        degree: 4,
        rate: Rate::from_gbps(10.0).unwrap(),
        seed: 1,
        work: 1 << 36,
        relay: None,
        interval: false,
    }
}

fn searching<'s>(model: &'s Model, timings: &'s Timings, memory: Option<u64>) -> Search<'s> {
    Search {
        model,
        timings,
        servers: 8,
        memory: memory.map(Bytes::new),
        seed: 1,
        tries: Some(300),
    }
}

#[test]
fn expensive_layers_use_few_replicas() {
    let (model, timings) = (towers(), timings());
    let search = searching(&model, &timings, None);
    let start = model.data_parallel(&timings, 8).unwrap();
    let found = together::search(&search, start, &Settings::default(), &request(8), HELP).unwrap();
    let (first, last) = (found.course[0], found.proposal.evaluation.iteration_ms);
    assert!(last < first * 0.5, "{first} ms, then {last}");
    assert!(found.deal.iter().any(|split| split.len() < 8));
}

#[test]
fn server_memory_is_respected() {
    let (model, timings) = (towers(), timings());
    let search = searching(&model, &timings, Some(6_000_000_000));
    let start = model.data_parallel(&timings, 8).unwrap();
    let found = together::search(&search, start, &Settings::default(), &request(8), HELP).unwrap();
    assert!(search.fits(&found.deal));
    let whole: Vec<_> = (0..5).map(|_| vec![Rank::from_index(0)]).collect();
    assert!(!search.fits(&whole));
}

#[test]
fn same_seed_finds_same_split() {
    let (model, timings) = (towers(), timings());
    let search = searching(&model, &timings, None);
    let start = model.data_parallel(&timings, 8).unwrap();
    let once = || {
        together::search(
            &search,
            start.clone(),
            &Settings::default(),
            &request(8),
            HELP,
        )
        .unwrap()
    };
    assert_eq!(once().deal, once().deal);
}

/// Each of the two towers computes on half of the servers, so that neither is reduced by all.
#[test]
fn towers_stand_side_by_side() {
    let (model, timings) = (towers(), timings());
    let search = searching(&model, &timings, None);
    let start = model.data_parallel(&timings, 8).unwrap();
    let found = together::search(&search, start, &Settings::default(), &request(8), HELP).unwrap();
    let of = |nth: usize| found.deal[nth].clone();
    assert!(of(0).len() < 8 && of(2).len() < 8, "{:?}", found.deal);
    assert!(found.proposal.evaluation.iteration_ms <= found.course[0]);
}

#[test]
fn operators_move_until_they_have_room() {
    let (model, timings) = (towers(), timings());
    // All of the five on the first server, 8 GB each.
    let crowded: Vec<_> = (0..5).map(|_| vec![Rank::from_index(0)]).collect();
    let search = searching(&model, &timings, Some(9_000_000_000));
    let roomy = search.with_room(crowded.clone()).unwrap();
    assert!(search.fits(&roomy) && !search.fits(&crowded));
    // Five operators of which each part of eight needs 1 GB need 5 GB of each server at least.
    let refused = searching(&model, &timings, Some(4_000_000_000)).with_room(crowded);
    let refused = refused.unwrap_err();
    assert!(refused.enough >= Bytes::new(5_000_000_000));
    let enough = searching(&model, &timings, Some(refused.enough.count()));
    let start = model.data_parallel(&timings, 8).unwrap();
    assert!(enough.with_room(start).is_ok());
    assert!(
        refused
            .to_string()
            .contains("8 servers of 4.0 GB; take servers of")
    );
}

fn gpt(size: &str) -> Preset {
    let mut preset = Preset::named("gpt", Some(size), Batch::Whole(64)).unwrap();
    preset.gpus_per_host = 8;
    preset
}

#[test]
fn state_is_sharded_only_as_needed() {
    let preset = gpt("6.7b");
    let zero = |memory: u64| {
        let search = presets::Search::new(&preset, 4, Some(Bytes::new(memory)));
        let start = search.start().unwrap();
        assert!(search.needed(start).unwrap() <= Bytes::new(memory));
        start.zero
    };
    // 6.7 billion parameters of 16 bytes do not fit into 80 GB, and do into 400.
    assert_eq!(zero(400_000_000_000), Zero::Off);
    let plain = Parallelism {
        data: Some(32),
        ..Parallelism::default()
    };
    let search = presets::Search::new(&preset, 4, None);
    let needs = |stage| {
        let zero = Zero::stage(stage).unwrap();
        let needed = search.needed(Parallelism { zero, ..plain }).unwrap();
        needed.count() as f64 / 1e9
    };
    // Of 16 bytes, 12 belong to the optimizer, 2 to the gradient and 2 to the weight.
    let parameters = (needs(0) - needs(3)) / (16.0 * 31.0 / 32.0);
    assert!((parameters - 6.7).abs() < 0.3, "{parameters}");
    for (stage, bytes) in [(1, 12.0), (2, 14.0), (3, 16.0)] {
        let saved = (needs(0) - needs(stage)) / (bytes * 31.0 / 32.0);
        assert!((saved - parameters).abs() < 1e-6, "stage {stage}: {saved}");
    }
    let little = Bytes::new((needs(1) * 1e9) as u64 + 1);
    let fitting = presets::Search::new(&preset, 4, Some(little)).fitting();
    let same = fitting
        .into_iter()
        .filter(|it| it.tensor * it.pipeline * it.expert == 1);
    let zeros: Vec<_> = same.map(|it| it.zero).collect();
    assert_eq!(zeros, [Zero::Optimizer]);
}

#[test]
fn unfitting_preset_names_sufficient_hosts() {
    let preset = gpt("175b");
    let refused = presets::Search::new(&preset, 2, Some(Bytes::new(80_000_000_000))).start();
    let Err(TopologyError::NoRoom(refused)) = refused else {
        panic!("{refused:?}");
    };
    let enough = presets::Search::new(&preset, 2, Some(refused.least)).start();
    assert_eq!(enough.map(|it| it.zero), Ok(refused.spread.zero));
    let hosts = refused.hosts.unwrap();
    let memory = Some(refused.memory);
    assert!(presets::Search::new(&preset, hosts, memory).start().is_ok());
    let fewer = presets::Search::new(&preset, hosts / 2, memory);
    assert!(fewer.start().is_err());
}

/// Replicas on slow links: slices within hosts, or stages, spare the links.
#[test]
fn preset_search_shortens_iterations() {
    let mut preset = Preset::named("bert", None, Batch::PerReplica(16)).unwrap();
    preset.gpus_per_host = 4;
    let search = presets::Search::new(&preset, 8, None);
    let start = search.start().unwrap();
    assert_eq!((start.data, start.tensor), (Some(32), 1));
    let settings = Settings::default();
    let found = together::search(&search, start, &settings, &request(8), HELP).unwrap();
    assert!(found.deal.data < Some(32), "{:?}", found.deal);
    let last = found.proposal.evaluation.iteration_ms;
    assert!(last < found.course[0] * 0.98, "{:?}", found.course);
    assert_eq!(found.course.last(), Some(&last));
    assert!(found.proposal.bound_ms <= last);
}

/// Checks that rival fabrics have a split of their own: the reduction over all processors is too much for a fat tree of
/// the same cost, slices within hosts are not.
#[test]
fn rival_fabrics_get_their_own_split() {
    let mut preset = Preset::named("bert", None, Batch::PerReplica(16)).unwrap();
    preset.gpus_per_host = 4;
    let search = presets::Search::new(&preset, 8, None);
    let start = search.start().unwrap();
    let (settings, request, cost) = (Settings::default(), request(8), PUBLISHED_PRICES.fat_tree);
    let job = Job {
        iteration: &search.iteration(&start).unwrap(),
        place: &search.place(),
        settings: &settings,
    };
    let as_given = rivals(&job, &request, cost, &Alone, NO_DEADLINE).unwrap();
    let best = others::at_their_best(&search, &start, &settings, &request, cost, HELP).unwrap();
    assert_eq!(best.len(), Rival::ALL.len());
    for (other, (rival, given)) in best.iter().zip(as_given) {
        let (_, ms) = other.best.unwrap();
        assert_eq!(other.rival, rival);
        assert!(ms <= given.unwrap() * (1.0 + 1e-9), "{rival:?}: {ms} ms");
    }
    let of = |rival| best.iter().find(|it| it.rival == rival).unwrap().best;
    let (deal, slow) = of(Rival::EqualCost).unwrap();
    assert_ne!(deal, start);
    let (_, fast) = of(Rival::IdealSwitch).unwrap();
    assert!(
        fast <= slow,
        "{fast} ms on the switch, {slow} ms on the tree"
    );
}

/// Eight tables of 16 processors: in two parts each, all processors look up and send.
#[test]
fn tables_split_over_every_processor() {
    let mut preset = Preset::named("dlrm", None, Batch::PerReplica(256)).unwrap();
    (preset.gpus_per_host, preset.tables) = (2, Some(8));
    let search = presets::Search::new(&preset, 8, None);
    let columns: Vec<_> = search.fitting().iter().map(|it| it.columns).collect();
    assert_eq!(columns, [1, 2]);
    let start = search.start().unwrap();
    let settings = Settings::default();
    let found = together::search(&search, start, &settings, &request(8), HELP).unwrap();
    assert_eq!(found.deal.columns, 2);
    let last = found.proposal.evaluation.iteration_ms;
    assert!(last < found.course[0], "{:?}", found.course);
}

/// The suggested number is enough and half of it is not. If the batch grows with the hosts, the memory for samples
/// stays the same, and no number of hosts helps.
#[test]
fn suggested_host_count_is_sufficient() {
    let gb = 1_000_000_000;
    for (batch, memory, some) in [
        (Batch::PerReplica(4), 4 * gb, true),
        (Batch::Whole(64), 4 * gb, true),
        (Batch::PerReplica(256), 8 * gb, false),
    ] {
        let mut preset = Preset::named("gpt", Some("6.7b"), batch).unwrap();
        preset.gpus_per_host = 8;
        let search = |hosts| presets::Search::new(&preset, hosts, Some(Bytes::new(memory)));
        let Err(TopologyError::NoRoom(no_room)) = search(2).start() else {
            panic!("{batch:?}: there is room on two hosts");
        };
        assert_eq!(no_room.hosts.is_some(), some, "{batch:?}: {no_room}");
        let Some(hosts) = no_room.hosts else { continue };
        let start = search(hosts).start();
        assert!(start.is_ok(), "{batch:?}: {hosts} hosts: {start:?}");
        assert!(
            search(hosts / 2).start().is_err(),
            "{batch:?}: {hosts} hosts"
        );
    }
}

/// 64 tables of ten million rows do not fit into what one processor has, and their columns do.
#[test]
fn table_placement_respects_memory() {
    let mut preset = Preset::named("dlrm", None, Batch::PerReplica(64)).unwrap();
    preset.gpus_per_host = 4;
    let needed = |memory: u64| {
        let search = presets::Search::new(&preset, 32, Some(Bytes::new(memory)));
        let start = search.start()?;
        Ok::<_, TopologyError>((start.columns, search.needed(start).unwrap()))
    };
    let (columns, whole) = needed(80_000_000_000).unwrap();
    assert_eq!(columns, 1);
    let (cut, part) = needed(whole.count() * 7 / 8).unwrap();
    assert!(cut > 1 && part < whole, "{cut} parts of {part:?}");
    assert!(matches!(needed(1_000_000), Err(TopologyError::NoRoom(_))));
    preset.table_rows = Some(1000);
    let few = presets::Search::new(&preset, 32, None);
    assert!(few.needed(preset.parallelism).unwrap() < whole);
}

#[test]
fn zero_hosts_are_refused() {
    let preset = Preset::named("vgg16", None, Batch::Whole(64)).unwrap();
    assert!(preset.iteration(0).is_err());
    assert!(presets::Search::new(&preset, 0, None).start().is_err());
    assert!(towers().data_parallel(&timings(), 0).is_err());
}

/// Whenever it runs out, what was found by then is the answer, and no slower than what was asked for.
#[test]
fn search_returns_best_at_deadline() {
    let (model, timings) = (towers(), timings());
    let search = searching(&model, &timings, None);
    let found = |looks: usize| {
        let glass = HourGlass::new(looks);
        let in_time = || glass.runs();
        let help = Help {
            go_on: &|_| in_time(),
            in_time: &in_time,
            ..HELP
        };
        let start = model.data_parallel(&timings, 8).unwrap();
        let found = together::search(&search, start, &Settings::default(), &request(8), help);
        let found = found.unwrap();
        let ms = found.proposal.evaluation.iteration_ms;
        assert!(ms <= found.course[0], "{looks}: {:?}", found.course);
        (ms, glass.looks())
    };
    let (best, looks) = found(usize::MAX);
    let times = [0, looks / 2, looks - looks / 8, looks - 3].map(|looks| found(looks).0);
    assert!(
        times[0] > best * 1.2 && times[3] <= best,
        "{times:?} and {best} ms"
    );
}

/// A parallelism that does not fit is refused, and the suggested one fits.
#[test]
fn kept_split_must_fit_memory() {
    let preset = gpt("6.7b");
    let search = |memory: u64| presets::Search::new(&preset, 4, Some(Bytes::new(memory)));
    let own = search(400_000_000_000).kept().unwrap();
    assert_eq!(own.zero, Zero::Off);
    let refused = search(80_000_000_000).kept().unwrap_err().to_string();
    let instead = presets::Words(search(80_000_000_000).start().unwrap()).to_string();
    assert!(
        refused.contains(&format!("spread over {instead} it fits")),
        "{refused}"
    );
    let (model, timings) = (towers(), timings());
    let crowded: Vec<_> = (0..5).map(|_| vec![Rank::from_index(0)]).collect();
    let little = searching(&model, &timings, Some(9_000_000_000));
    let refused = little.kept(crowded.clone()).unwrap_err().to_string();
    assert!(
        refused.contains("must hold 40.0 GB and has 9.0 GB"),
        "{refused}"
    );
    let plenty = searching(&model, &timings, Some(40_000_000_000));
    assert_eq!(plenty.kept(crowded.clone()), Ok(crowded));
}

#[test]
fn memory_is_displayed_readably() {
    let values = [999, 1_000, 40_000_000, 100_000_000, 80_000_000_000]
        .map(|bytes| presets::spelled(Bytes::new(bytes)));
    assert_eq!(values, ["999 B", "1.0 kB", "40.0 MB", "0.1 GB", "80.0 GB"]);
}
