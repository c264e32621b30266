//! Jobs over several blocks: only where none has room, and no longer than that pays.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::training::{Reduces, forming, ground, joined};
use crate::cluster::{Circuit, Event, Fleet, Ground, Job, Lying, Server, Shard, Step, What};

const GIGABYTE_BYTES: u64 = 1_000_000_000;

fn job(name: &str, servers: usize, iterations: u64) -> Event {
    Event::Arrive(Job {
        name: name.to_owned(),
        training: Rc::new(Reduces::new(10, GIGABYTE_BYTES)),
        servers: [servers, servers],
        iterations,
    })
}

fn end(name: &str) -> Event {
    Event::End(name.to_owned())
}

/// On all servers of a ground.
fn shard(ground: Ground) -> Shard {
    let servers: Vec<_> = ground.servers().collect();
    let made = forming(ground).shard(
        &Reduces::new(10, GIGABYTE_BYTES),
        &servers,
        Lying::default(),
    );
    made.unwrap()
}

fn crossing(shard: &Shard) -> usize {
    let crossing = shard.circuits.iter().filter(|it| it.fibre.is_some());
    crossing.count()
}

/// A job needs between blocks what its rings cross, independent of the number of hosts.
#[test]
fn all_reduce_over_blocks_matches_switch() {
    for (blocks, fibres) in [([6, 6], 8), ([6, 6], 4), ([5, 7], 4), ([12, 4], 4)] {
        let shard = shard(joined(&blocks, fibres));
        let slower = shard.estimate.ms / shard.ideal_ms;
        assert!(slower < 1.01, "{blocks:?}, {fibres} fibres: {slower}");
        assert!((2..=fibres as usize).contains(&crossing(&shard)));
    }
}

/// Each fibre is one circuit's, and each circuit between blocks has one of its own switch.
#[test]
fn each_fibre_carries_one_circuit() {
    let mut ground = joined(&[6, 6], 1);
    ground
        .blocks
        .iter_mut()
        .for_each(|block| block.switches = 4);
    let shard = shard(ground);
    let fibres = shard
        .circuits
        .iter()
        .filter_map(|it| Some((it.fibre?, it.switch)));
    let fibres: Vec<_> = fibres.collect();
    assert!((2..=4).contains(&fibres.len()), "{fibres:?}");
    assert_eq!(fibres.iter().collect::<BTreeSet<_>>().len(), fibres.len());
}

#[test]
fn three_chained_blocks_match_switch() {
    let shard = shard(joined(&[4, 4, 4], 4));
    assert!(shard.estimate.ms / shard.ideal_ms < 1.01);
}

fn summary(steps: &[Step]) -> Vec<(String, What)> {
    let reports = steps.iter().map(|step| (step.job.clone(), step.what));
    reports.collect()
}

fn named(steps: &[(&str, What)]) -> Vec<(String, What)> {
    let named = steps.iter().map(|(job, what)| ((*job).to_owned(), *what));
    named.collect()
}

/// Two blocks of six: a job that fits into no block spans both, and is moved into one when possible.
#[test]
fn job_spans_blocks_until_one_fits() {
    let mut fleet = Fleet::new(forming(joined(&[6, 6], 2)));
    fleet.handle(0.0, job("left", 3, 1_000_000));
    fleet.handle(0.0, job("right", 5, 1_000_000));
    let steps = fleet.handle(1.0, job("wide", 4, 1_000_000));
    assert_eq!(summary(&steps), named(&[("wide", What::Starts)]));
    assert!(steps[0].why.contains("blocks b0 and b1"), "{}", steps[0]);
    let wide = &fleet.running[2].shard;
    assert!(crossing(wide) > 0 && wide.estimate.ms > wide.ideal_ms * 1.01);
    let steps = fleet.handle(2.0, end("right"));
    assert_eq!(
        summary(&steps),
        named(&[("right", What::Ends), ("wide", What::Moves)])
    );
    let wide = &fleet.running[1].shard;
    assert_eq!(
        (
            fleet.forming.ground.blocks_of(&wide.servers).len(),
            crossing(wide)
        ),
        (1, 0)
    );
}

/// Two jobs over the same two blocks: what one uses the other has not, and none is left for a third.
#[test]
fn fibres_are_shared_out() {
    let forming = forming(joined(&[6, 6], 6));
    let training = Reduces::new(10, GIGABYTE_BYTES);
    let server = |host: u32| Server { host, slice: 0 };
    let on = |hosts: [u32; 4], others: &[Circuit]| {
        let lying = Lying { own: &[], others };
        forming.shard(&training, &hosts.map(server), lying)
    };
    let first = on([0, 1, 6, 7], &[]).unwrap();
    let mut others = first.circuits.clone();
    let second = on([2, 3, 8, 9], &others).unwrap();
    others.extend(&second.circuits);
    let used: Vec<_> = others.iter().filter_map(|it| it.fibre).collect();
    assert_eq!(used.iter().collect::<BTreeSet<_>>().len(), used.len());
    assert_eq!((crossing(&first), crossing(&second)), (4, 2));
    assert!(first.estimate.ms < second.estimate.ms);
    let refused = on([4, 5, 10, 11], &others).unwrap_err();
    assert!(refused.0.contains("no cable can join"), "{refused}");
}

/// A job that one fibre would make slow is done sooner in a block that is free soon.
#[test]
fn job_waits_for_faster_single_block() {
    let mut fleet = Fleet::new(forming(joined(&[6, 6], 1)));
    fleet.handle(0.0, job("brief", 4, 100));
    fleet.handle(0.0, job("long", 4, 1_000_000));
    let steps = fleet.handle(1.0, job("wide", 4, 1_000_000));
    assert_eq!(
        summary(&steps),
        named(&[("wide", What::Waits)]),
        "{}",
        steps[0]
    );
    assert!(steps[0].why.contains("done sooner in one"), "{}", steps[0]);
}

#[test]
fn oversized_job_needs_joined_blocks() {
    let mut apart = Fleet::new(forming(ground(&[4, 4])));
    let steps = apart.handle(0.0, job("wide", 6, 1_000));
    assert_eq!(summary(&steps), named(&[("wide", What::Refused)]));
    assert!(steps[0].why.contains("request 4"), "{}", steps[0]);
    let mut fleet = Fleet::new(forming(joined(&[4, 4], 4)));
    fleet.handle(0.0, job("first", 4, 1_000));
    let steps = fleet.handle(1.0, job("wide", 6, 1_000));
    assert_eq!(summary(&steps), named(&[("wide", What::Waits)]));
    assert_eq!(
        fleet.waiting[0].next.as_ref().map(|it| it.servers.len()),
        Some(6)
    );
    let steps = fleet.handle(2.0, end("first"));
    assert_eq!(
        summary(&steps),
        named(&[("first", What::Ends), ("wide", What::Starts)])
    );
    let steps = fleet.handle(3.0, job("huge", 9, 1_000));
    assert!(steps[0].why.contains("request 8"), "{}", steps[0]);
}
