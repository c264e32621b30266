//! One thing that goes wrong, at every point where it can.

use std::path::Path;
use std::time::Duration;

use reweave_replica::{
    Batch, Change, Entry, EntryContent, LogError, MemberId, Members, Record, Saved, Store, Vote,
};
use reweave_sim_cluster::chance::Chance;
use reweave_sim_cluster::replicas::cluster::{Cluster, member};
use reweave_sim_cluster::replicas::disk::{LOG_NAME, SimulatedDisk};

use crate::seeds::assert_linearizable;

const PROGRESS_TIMEOUT: Duration = Duration::from_secs(5);
const CLIENT_COUNT: usize = 3;
/// The first that comes to three.
const ADDED_ID: MemberId = MemberId(4);

fn settled(seed: u64) -> Cluster {
    let mut cluster = Cluster::new(seed, 3, CLIENT_COUNT);
    assert!(cluster.run_until(PROGRESS_TIMEOUT, |cluster| cluster.answered() > 20));
    cluster
}

fn goes_on(cluster: &mut Cluster) -> bool {
    let before = cluster.answered();
    cluster.run_until(PROGRESS_TIMEOUT, move |cluster| {
        cluster.answered() > before + 20
    })
}

/// The leader loses power at each operation on its disk: while it writes, syncs, renames and notes how far it has come.
/// At some of them everything that was not synced is there all the same, or in part.
#[test]
fn leader_dies_at_every_operation() {
    for operation in 1..=120 {
        let mut cluster = settled(operation);
        let Some(leader) = cluster.leader() else {
            panic!("a client was answered, and no node leads");
        };
        let life = cluster.nodes[&leader].life;
        cluster.nodes[&leader].disk.die_at(1 + operation % 60);
        let has_died = |cluster: &Cluster| cluster.nodes[&leader].life > life;
        assert!(cluster.run_until(PROGRESS_TIMEOUT, has_died), "{operation}");
        assert!(goes_on(&mut cluster), "operation {operation}");
        assert_linearizable(&cluster.history);
    }
}

/// Another leads where a leader finds no room, whether some is kept ahead of its log or it cannot write on.
#[test]
fn full_disk_keeps_promises() {
    for seed in 0..20 {
        let mut cluster = settled(seed);
        let leader = cluster.leader().expect("a client was answered");
        cluster.nodes[&leader].disk.fill_up(0);
        let is_full = |cluster: &Cluster| cluster.nodes[&leader].is_full();
        assert!(cluster.run_until(PROGRESS_TIMEOUT, is_full), "seed {seed}");
        let leads_elsewhere = |cluster: &Cluster| cluster.leader().is_some_and(|it| it != leader);
        assert!(
            cluster.run_until(PROGRESS_TIMEOUT, leads_elsewhere),
            "seed {seed}"
        );
        assert!(goes_on(&mut cluster), "seed {seed}: {}", cluster.standing());
        cluster.make_room();
        let has_room = |cluster: &Cluster| !cluster.nodes[&leader].is_full();
        assert!(cluster.run_until(PROGRESS_TIMEOUT, has_room), "seed {seed}");
        assert!(goes_on(&mut cluster), "seed {seed}: {}", cluster.standing());
        assert_linearizable(&cluster.history);
    }
}

/// Of clients and the core, while elections go on. The leader is one of the two, or it is not.
#[test]
fn full_disks_of_majority_decide_nothing() {
    for seed in 0..20 {
        let mut cluster = settled(seed);
        let leader = cluster.leader().expect("a client was answered");
        let spared = [leader, 1 + leader % 3][seed as usize % 2];
        let full = (1..=3).filter(|node| *node != spared);
        let full: Vec<_> = full.map(|node| cluster.nodes[&node].disk.clone()).collect();
        full.iter().for_each(|disk| disk.keep_ahead(true));
        // Each looks at its disk meanwhile, and has room then.
        cluster.run_for(Duration::from_secs(2));
        full.iter().for_each(|disk| disk.fill_up(0));
        let decides_nothing = |cluster: &Cluster| cluster.laws.decides_nothing();
        let came = cluster.run_until(PROGRESS_TIMEOUT, decides_nothing);
        assert!(came, "seed {seed}: {}", cluster.standing());
        // The law is looked at with each entry.
        cluster.run_for(Duration::from_secs(2));
        assert!(decides_nothing(&cluster), "seed {seed}");
        cluster.make_room();
        assert!(goes_on(&mut cluster), "seed {seed}: {}", cluster.standing());
        assert_linearizable(&cluster.history);
    }
}

fn first_entry() -> Batch {
    let vote = Vote {
        term: 1,
        ..Vote::default()
    };
    let entry = Entry {
        term: 1,
        index: 1,
        content: EntryContent::Proposal(vec![1; 200]),
    };
    Batch {
        records: vec![Record::Vote(vote), Record::Entry(entry)],
        is_whole: false,
    }
}

/// With any part of it on a full disk, and with or without a loss of power then: the log is as it was, and goes on.
#[test]
fn append_without_room_leaves_log_unchanged() {
    for left in 0..200 {
        let (disk, path) = (SimulatedDisk::new(Chance::of(left)), Path::new(LOG_NAME));
        disk.keep_ahead(false);
        let open = || {
            let joining = Saved::joining(MemberId(1), Vec::new(), Members::default());
            Store::open(disk.clone(), path, Some(joining)).expect("it is whole")
        };
        let read = || {
            disk.look(path, |log| log.actual.clone())
                .expect("it is there")
        };
        let mut store = open().store;
        let before = read();
        disk.fill_up(left);
        let refused = store.persist(&first_entry());
        let is_refused = matches!(refused, Err(LogError::NoRoom { .. }));
        assert!(is_refused, "{left} bytes: {refused:?}");
        if left.is_multiple_of(2) {
            disk.lose_power();
        }
        assert_eq!(read(), before, "{left} bytes");
        disk.make_room();
        store.persist(&first_entry()).expect("there is room");
        assert_eq!(open().saved.entries.len(), 1, "{left} bytes");
    }
}

/// How many of these lives end with a node that is refused, after something was done to its disk.
fn refused(lives: u64, damage: impl Fn(&mut Cluster, u64)) -> usize {
    let is_refused = |seed: &u64| {
        let mut cluster = settled(*seed);
        let node = cluster.anybody();
        damage(&mut cluster, node);
        let is_damaged = cluster.nodes[&node].disk.is_damaged();
        // A start fails the test that refuses what was written, or takes what was not.
        cluster.run_for(Duration::from_millis(100));
        let is_refused = cluster.nodes[&node].is_refused;
        assert!(is_refused || !is_damaged, "seed {seed}");
        assert!(goes_on(&mut cluster), "seed {seed}: {}", cluster.standing());
        assert_linearizable(&cluster.history);
        is_refused
    };
    (0..lives).filter(is_refused).count()
}

#[test]
fn flipped_bit_is_refused_at_start() {
    let refused = refused(60, |cluster, node| {
        cluster.kill(node, Duration::from_millis(50));
        cluster.nodes[&node].disk.flip();
    });
    // Few of them lie in what a loss of power left of the last write.
    assert!(refused > 40, "{refused}");
}

#[test]
fn misdirected_write_is_refused_at_start() {
    let refused = refused(60, |cluster, node| {
        cluster.nodes[&node].disk.misdirect();
        let is_damaged = |cluster: &Cluster| cluster.nodes[&node].disk.is_damaged();
        assert!(
            cluster.run_until(PROGRESS_TIMEOUT, is_damaged),
            "nothing was written"
        );
        cluster.run_for(Duration::from_millis(30));
        cluster.kill(node, Duration::from_millis(50));
    });
    // Some were not synced by then, or were written once more.
    assert!(refused > 15, "{refused}");
}

#[test]
fn simultaneous_crash_of_all_loses_nothing() {
    for seed in 0..40 {
        let mut cluster = settled(seed);
        for node in 1..=3 {
            cluster.kill(node, Duration::from_millis(20));
        }
        assert!(goes_on(&mut cluster), "seed {seed}");
        assert_linearizable(&cluster.history);
    }
}

/// A leader that is cut off goes on writing what is not agreed on. Another's entries take the place of those, and it
/// dies just then.
#[test]
fn replaced_entries_never_return() {
    for seed in 0..80 {
        let mut cluster = settled(seed);
        let old = cluster.leader().expect("a leader answered");
        let others = (1..=3).filter(|&other| other != old);
        cluster.cut = others
            .flat_map(|other| [(old, other), (other, old)])
            .collect();
        let elsewhere = move |cluster: &Cluster| {
            let mut nodes = cluster.nodes.iter();
            nodes.any(|(&id, node)| id != old && node.leads().is_some())
        };
        assert!(
            cluster.run_until(PROGRESS_TIMEOUT, elsewhere),
            "seed {seed}"
        );
        cluster.cut.clear();
        let a_moment = cluster
            .chance
            .time(Duration::from_millis(1), Duration::from_millis(30));
        cluster.run_for(a_moment);
        cluster.kill(old, Duration::from_millis(10));
        assert!(goes_on(&mut cluster), "seed {seed}");
        assert_linearizable(&cluster.history);
    }
}

/// A follower that has lost its disk knows nothing of what it acknowledged, and another follower has missed just that. The
/// two are a majority, and neither may lead.
#[test]
fn lost_disk_elects_no_leader() {
    for seed in 0..10 {
        let mut cluster = settled(seed);
        let leader = cluster.leader().expect("a client was answered");
        let mut others = (1..=3).filter(|id| *id != leader);
        let (Some(late), Some(lost)) = (others.next(), others.next()) else {
            panic!("there are three");
        };
        cluster.isolate(late);
        assert!(goes_on(&mut cluster), "seed {seed}");
        cluster.cut.clear();
        cluster.isolate(leader);
        cluster.lose(lost);
        cluster.haunt(lost, 3);
        let leads_elsewhere = |cluster: &Cluster| {
            let leads = |id: &u64| cluster.nodes[id].leads().is_some();
            [late, lost].iter().any(leads)
        };
        let is_elected = cluster.run_until(Duration::from_secs(2), leads_elsewhere);
        assert!(!is_elected, "seed {seed}: {}", cluster.standing());
        let is_there = cluster.nodes[&lost].running.is_some();
        assert!(is_there, "seed {seed}: it gives its vote to any candidate");
        cluster.cut.clear();
        assert!(goes_on(&mut cluster), "seed {seed}: {}", cluster.standing());
        assert_linearizable(&cluster.history);
    }
}

/// All 64 ways in which lines between three may be cut, one direction at a time.
#[test]
fn connected_quorum_has_leader() {
    let lines = [(1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2)];
    for ways in 0_u64..64 {
        let mut cluster = settled(ways);
        let cut = lines
            .iter()
            .zip(0..)
            .filter(|(_, bit)| ways & (1 << bit) != 0);
        cluster.cut.extend(cut.map(|(line, _)| *line));
        let open =
            |a: u64, b: u64| !cluster.cut.contains(&(a, b)) && !cluster.cut.contains(&(b, a));
        let connected = open(1, 2) || open(1, 3) || open(2, 3);
        let went_on = goes_on(&mut cluster);
        assert!(
            went_on || !connected,
            "cut {:?}: {}",
            cluster.cut,
            cluster.standing()
        );
        cluster.cut.clear();
        assert!(
            goes_on(&mut cluster),
            "mended after {ways}: {}",
            cluster.standing()
        );
        assert_linearizable(&cluster.history);
    }
}

/// Half of what is said is lost.
#[test]
fn cluster_progresses_at_half_message_loss() {
    for seed in 0..10 {
        let mut cluster = settled(seed);
        cluster.weather.lost = 0.5;
        // Elections may be lost several times over.
        let went_on = (0..4).any(|_| goes_on(&mut cluster));
        assert!(went_on, "seed {seed}: {}", cluster.standing());
        assert_linearizable(&cluster.history);
    }
}

/// A former leader must not answer from what it knew then.
#[test]
fn stalled_leader_serves_nothing_stale() {
    for seed in 0..20 {
        let mut cluster = settled(seed);
        let leader = cluster.leader().expect("a leader answered");
        cluster.standing_still(leader, Duration::from_secs(2));
        assert!(
            goes_on(&mut cluster) && goes_on(&mut cluster),
            "seed {seed}"
        );
        cluster.run_for(Duration::from_secs(3));
        assert!(goes_on(&mut cluster), "seed {seed}");
        assert_linearizable(&cluster.history);
    }
}

/// It leads still, for all it knows when it goes on, and people have asked it meanwhile.
#[test]
fn stalled_leader_alone_serves_nothing_stale() {
    for seed in 0..120 {
        let mut cluster = settled(seed);
        let leader = cluster.leader().expect("a leader answered");
        cluster.isolate(leader);
        cluster.standing_still(leader, Duration::from_secs(1));
        let before = cluster.agreed.answers;
        cluster.run_for(Duration::from_secs(2));
        assert!(cluster.agreed.answers > before, "seed {seed}");
    }
}

/// Nothing is decided meanwhile, so nothing but the new member's need makes a snapshot that knows it.
#[test]
fn newcomer_votes_without_new_decisions() {
    for seed in 0..10 {
        let mut cluster = settled(seed);
        assert!(cluster.run_until(PROGRESS_TIMEOUT, |cluster| cluster.answered() > 200));
        cluster.is_closing = true;
        cluster.run_for(Duration::from_secs(1));
        let id = MemberId(4);
        cluster.enter(&Saved::joining(id, Vec::new(), Members::default()));
        let add = Change::Add {
            id,
            member: member(4),
        };
        assert!(cluster.change(&add), "seed {seed}");
        let votes = |cluster: &Cluster| {
            let members = cluster.members();
            members.is_some_and(|members| members.is_voter(MemberId(4)))
        };
        let came = cluster.run_until(PROGRESS_TIMEOUT, votes);
        assert!(came, "seed {seed}: {}", cluster.standing());
    }
}

/// Adds a coordinator, and takes out a follower, while the other follower is away. Gives the one that was away.
fn changed_while_away(cluster: &mut Cluster) -> u64 {
    let leader = cluster.leader().expect("a client was answered");
    let mut others = (1..=3).filter(|id| *id != leader);
    let (Some(away), Some(gone)) = (others.next(), others.next()) else {
        panic!("there are three");
    };
    let id = ADDED_ID;
    cluster.enter(&Saved::joining(id, Vec::new(), Members::default()));
    cluster.isolate(away);
    let add = Change::Add {
        id,
        member: member(id.0),
    };
    let votes = |members: Members| members.votes(ADDED_ID);
    comes_to_be(cluster, &add, votes);
    let gone = MemberId(gone);
    let remove = Change::Remove { id: gone };
    comes_to_be(cluster, &remove, |members| !members.of.contains_key(&gone));
    away
}

/// Asks again until it is so.
fn comes_to_be(cluster: &mut Cluster, change: &Change, is_so: impl Fn(Members) -> bool) {
    let is_done = |cluster: &Cluster| cluster.members().is_some_and(&is_so);
    let done = (0..20).any(|_| {
        cluster.change(change);
        cluster.run_until(Duration::from_millis(500), is_done)
    });
    assert!(done, "{change:?}: {}", cluster.standing());
}

/// Leaders lose power until it is this one that leads.
fn comes_to_lead(cluster: &mut Cluster, id: u64) {
    let leads = |cluster: &Cluster| cluster.leader() == Some(id);
    let any_leads = |cluster: &Cluster| cluster.leader().is_some();
    for _ in 0..20 {
        if leads(cluster) {
            return;
        }
        if let Some(leader) = cluster.leader() {
            cluster.kill(leader, Duration::from_millis(20));
        }
        assert!(cluster.run_until(PROGRESS_TIMEOUT, any_leads));
    }
    panic!("{id} never leads: {}", cluster.standing());
}

/// It has missed the entry that added the leader, and hears it once the third vouches for it. From then on those two decide.
#[test]
fn follower_hears_leader_it_missed() {
    for seed in 0..10 {
        let mut cluster = settled(seed);
        let away = changed_while_away(&mut cluster);
        comes_to_lead(&mut cluster, ADDED_ID.0);
        cluster.cut.clear();
        let knows = |cluster: &Cluster| {
            let running = cluster.nodes[&away].running.as_ref();
            running.is_some_and(|it| it.replica().members().votes(ADDED_ID))
        };
        let came = cluster.run_until(PROGRESS_TIMEOUT, knows);
        assert!(came, "seed {seed}: {}", cluster.standing());
        let third = (1..=3).find(|&id| {
            let is_member = |members: Members| members.of.contains_key(&MemberId(id));
            id != away && cluster.members().is_some_and(is_member)
        });
        cluster.lose(third.expect("three are left"));
        assert!(goes_on(&mut cluster), "seed {seed}: {}", cluster.standing());
        assert_linearizable(&cluster.history);
    }
}

/// A coordinator that was cut off needs a snapshot, of which some parts come. They are joined with nothing that comes over the
/// next connection.
#[test]
fn connection_is_lost_at_every_part() {
    for parts in 1..=20 {
        let mut cluster = settled(parts);
        let leader = cluster.leader().expect("a leader answered");
        let late = (1..=3).find(|&it| it != leader).expect("there are three");
        cluster.isolate(late);
        let before = cluster.answered();
        let is_behind = move |cluster: &Cluster| cluster.answered() > before + 150;
        assert!(
            cluster.run_until(PROGRESS_TIMEOUT, is_behind),
            "{parts} parts"
        );
        cluster.lines.part_bytes = 12;
        cluster.lines.lose_snapshot_after = Some(parts as usize);
        let cut_off = cluster.lines.cut_off;
        cluster.cut.clear();
        let is_cut_off = move |cluster: &Cluster| cluster.lines.cut_off > cut_off;
        assert!(
            cluster.run_until(PROGRESS_TIMEOUT, is_cut_off),
            "{parts} parts"
        );
        let is_restored = |cluster: &Cluster| cluster.laws.snapshots_restored > 0;
        assert!(
            cluster.run_until(PROGRESS_TIMEOUT, is_restored),
            "{parts} parts"
        );
        assert!(goes_on(&mut cluster), "{parts} parts");
        assert_linearizable(&cluster.history);
    }
}

/// It ends, and is not hurt by what it was sent.
#[test]
fn earlier_build_refuses_later_snapshot() {
    for seed in 0..5 {
        let mut cluster = settled(seed);
        let id = MemberId(4);
        cluster.enter_too_early(&Saved::joining(id, Vec::new(), Members::default()));
        let add = Change::Add {
            id,
            member: member(4),
        };
        assert!(cluster.change(&add), "seed {seed}");
        let ended = |cluster: &Cluster| cluster.nodes[&4].running.is_none();
        assert!(cluster.run_until(PROGRESS_TIMEOUT, ended), "seed {seed}");
        cluster.run_for(Duration::from_millis(100));
        assert!(ended(&cluster), "seed {seed}: it starts on what it refused");
        assert!(goes_on(&mut cluster), "seed {seed}");
        cluster.come_back_upgraded(4);
        let votes = |cluster: &Cluster| {
            let members = cluster.members();
            members.is_some_and(|members| members.is_voter(MemberId(4)))
        };
        assert!(cluster.run_until(PROGRESS_TIMEOUT, votes), "seed {seed}");
        assert_linearizable(&cluster.history);
    }
}

#[test]
fn earlier_build_refuses_later_log() {
    for seed in 0..5 {
        let mut cluster = settled(seed);
        let node = cluster.anybody();
        cluster.come_back_too_early(node);
        cluster.run_for(Duration::from_millis(100));
        assert!(cluster.nodes[&node].running.is_none(), "seed {seed}");
        assert!(goes_on(&mut cluster), "seed {seed}");
        cluster.come_back_upgraded(node);
        assert!(cluster.nodes[&node].running.is_some(), "seed {seed}");
        assert!(goes_on(&mut cluster), "seed {seed}");
        assert_linearizable(&cluster.history);
    }
}

/// Leaders die one after the other, lines are slow, and so there are often two candidates of one term. A member that
/// has voted for one forgets that if it was not written down.
#[test]
fn member_votes_once_per_term() {
    for seed in 0..60 {
        let mut cluster = Cluster::new(seed, 3, CLIENT_COUNT);
        cluster.weather.late = 0.5;
        cluster.weather.late_by = Duration::from_millis(60);
        cluster.voters_die = true;
        for _ in 0..20 {
            cluster.run_for(Duration::from_millis(400));
            if let Some(leader) = cluster.leader() {
                cluster.kill(leader, Duration::from_millis(300));
            }
        }
        cluster.voters_die = false;
        assert!(goes_on(&mut cluster), "seed {seed}: {}", cluster.standing());
        assert_linearizable(&cluster.history);
    }
}
