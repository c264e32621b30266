//! Shards: circuits on ports of their own, and as fast as a switch where that can be.

use std::collections::BTreeSet;

use reweave_common::ids::Rank;
use reweave_common::iteration::{IterationBuilder, Operation, TaskWork};
use reweave_common::units::Bytes;

use super::training::{Reduces, forming, ground};
use crate::cluster::{Forming, Ground, Lying, Server, Shard, Touched, Training, Unfit};

fn servers(hosts: std::ops::Range<u32>) -> Vec<Server> {
    hosts.map(|host| Server { host, slice: 0 }).collect()
}

fn shard(ground: Ground, hosts: std::ops::Range<u32>) -> Shard {
    let made = forming(ground).shard(
        &Reduces::new(10, 1_000_000_000),
        &servers(hosts),
        Lying::default(),
    );
    made.unwrap()
}

/// Ports of a job belong to its servers, and none is for storage.
fn keeps_to_its_ports(forming: &Forming, shard: &Shard) -> bool {
    let ground = &forming.ground;
    let own = |server: &Server| {
        ground
            .ports(*server)
            .map(|port| (server.host, port))
            .collect::<Vec<_>>()
    };
    let own: BTreeSet<_> = shard.servers.iter().flat_map(own).collect();
    let ends = shard.circuits.iter().flat_map(|it| it.ends);
    ends.into_iter().all(|end| {
        own.contains(&(end.host, end.number))
            && !ground.hosts[end.host as usize]
                .left_alone
                .contains(&end.number)
    })
}

#[test]
fn all_reduce_matches_switch() {
    for hosts in [2, 3, 4, 5, 8, 12] {
        let shard = shard(ground(&[16]), 0..hosts);
        let slower = shard.estimate.ms / shard.ideal_ms;
        assert!(slower < 1.01, "{hosts} hosts: {slower}");
    }
}

#[test]
fn small_job_uses_all_ports() {
    let shard = shard(ground(&[4]), 0..2);
    assert_eq!((shard.parallel, shard.circuits.len()), (4, 4));
}

#[test]
fn single_server_needs_no_circuit() {
    let shard = shard(ground(&[4]), 3..4);
    assert!(shard.circuits.is_empty());
    assert_eq!(shard.estimate.ms, 10.0);
}

#[test]
fn slices_of_host_need_no_circuit() {
    let mut sliced = ground(&[4]);
    sliced.hosts.iter_mut().for_each(|host| host.slices = 2);
    let forming = forming(sliced);
    let training = Reduces::new(10, 1_000_000);
    let slice = |host, slice| Server { host, slice };
    let both = forming
        .shard(&training, &[slice(0, 0), slice(0, 1)], Lying::default())
        .unwrap();
    assert!(both.circuits.is_empty());
    let first = [slice(0, 0), slice(1, 0), slice(2, 0)];
    let second = first.map(|it| slice(it.host, 1));
    let [first, second] =
        [first, second].map(|all| forming.shard(&training, &all, Lying::default()).unwrap());
    assert!(keeps_to_its_ports(&forming, &first) && keeps_to_its_ports(&forming, &second));
    let ends = |shard: &Shard| {
        shard
            .circuits
            .iter()
            .flat_map(|it| it.ends)
            .collect::<BTreeSet<_>>()
    };
    assert!(!ends(&first).is_empty() && ends(&first).is_disjoint(&ends(&second)));
}

/// With one port per switch, only some links of a wiring get circuits, and only these count.
#[test]
fn shard_keeps_to_its_ports() {
    for hosts in [5, 6, 7, 8, 9] {
        let mut narrow = ground(&[9]);
        narrow.blocks[0].switches = 4;
        let forming = forming(narrow);
        let training = Reduces::new(10, 1_000_000_000);
        let shard = forming
            .shard(&training, &servers(0..hosts), Lying::default())
            .unwrap();
        assert!(keeps_to_its_ports(&forming, &shard));
        let links = shard.design().wiring.cables() * shard.parallel;
        assert_eq!(shard.circuits.len(), links, "{hosts} hosts");
    }
}

/// The same job on hosts in another order finds its old circuits again.
#[test]
fn replanned_job_keeps_its_circuits() {
    for hosts in [6, 12] {
        let forming = forming(ground(&[16]));
        let training = Reduces::new(10, 1_000_000_000);
        let old = forming
            .shard(&training, &servers(0..hosts), Lying::default())
            .unwrap();
        let mut turned = servers(0..hosts);
        turned.rotate_left(1);
        let lying = Lying {
            own: &old.circuits,
            ..Lying::default()
        };
        let new = forming.shard(&training, &turned, lying).unwrap();
        let touched = Touched::between(&old.circuits, &new.circuits);
        assert_eq!(touched.all(), 0, "{hosts} hosts: {touched:?}");
    }
}

/// All send to all: on two ports most of it is forwarded, and a fat tree of that cost is faster.
#[derive(Debug)]
struct AllToAll;

impl Training for AllToAll {
    fn key(&self) -> &str {
        "all to all"
    }

    fn on(&self, servers: usize) -> Result<crate::cluster::Spread, Unfit> {
        let mut builder = IterationBuilder::new(servers);
        let ranks: Vec<_> = (0..servers).map(Rank::from_index).collect();
        let (group, name) = (builder.group(&ranks), builder.name("all"));
        let work = TaskWork::Collective {
            operation: Operation::AllToAll,
            group,
            bytes: Bytes::new(1_000_000_000),
            local: std::time::Duration::ZERO,
        };
        builder.add(name, work);
        let iteration = builder.build().map_err(|error| Unfit(error.to_string()))?;
        let spread = Reduces::new(1, 1).on(servers)?;
        Ok(crate::cluster::Spread {
            iteration,
            ..spread
        })
    }
}

#[test]
fn all_to_all_gets_sufficient_degree() {
    let mut narrow = ground(&[12]);
    narrow
        .hosts
        .iter_mut()
        .for_each(|host| host.ports = vec![0, 1]);
    let forming = forming(narrow);
    let shard = forming
        .shard(&AllToAll, &servers(0..12), Lying::default())
        .unwrap();
    let degree = forming.degree(&AllToAll, &shard).unwrap();
    assert!(!degree.suffices(), "{degree:?}");
    assert_eq!(degree.enough_ports, Some(4), "{degree:?}");
    assert!(degree.words().contains("4 would be enough"));
    let reduces = Reduces::new(1, 1_000_000_000);
    let shard = forming
        .shard(&reduces, &servers(0..12), Lying::default())
        .unwrap();
    let degree = forming.degree(&reduces, &shard).unwrap();
    assert!(
        degree.suffices() && degree.words().contains("3.17 times as fast"),
        "{}",
        degree.words()
    );
}
