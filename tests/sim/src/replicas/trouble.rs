//! Everything that may go wrong, several things at once, as chance wants it: with coordinators and
//! their disks and lines, and with the agents that they lead.

use std::collections::BTreeSet;
use std::time::Duration;

use reweave_common::moment::Moment;
use reweave_common::operator::Mode;
use reweave_replica::{Change, Member, MemberId, Members, Saved};

use super::cluster::{Cluster, Weather, member};
use super::fabric::{JOB, policy, scenario};
use super::node::Node;
use crate::chance::Chance;
use crate::counts;
use crate::faults::plague;
use crate::wire;
use crate::{SimulatedDelays, World};

const MIN_PAUSE: Duration = Duration::from_millis(20);
/// Agents notice and come back sooner than usual, so that a short life sees more.
const FAST_DELAYS: SimulatedDelays = SimulatedDelays {
    reports: Duration::from_millis(200),
    comes_back: [Duration::from_millis(20), Duration::from_millis(300)],
    idle: [Duration::from_millis(1), Duration::from_millis(300)],
    echoes: Duration::from_secs(1),
};
/// Everything works again; then this long at most until all is well.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(10);
const REST_TIME: Duration = Duration::from_millis(500);
/// One strike is this many troubles, at most.
const MAX_FAULTS_PER_STRIKE: usize = 3;
/// Bytes that others leave of a disk: nothing, less and more than the log keeps ahead of it, and nearly enough.
const FREE_BYTES: [u64; 4] = [0, 1 << 20, 3 << 20, 17 << 20];

counts! {
    /// Counts of one simulated life.
    pub struct Life {
        events,
        answered,
        gave_up,
        terms,
        restored,
        killed,
        replaced,
        haunted,
        /// Members that knew none of the remaining members.
        stranded,
        added,
        removed,
        /// Number of answered operators, and of admitted members.
        heard,
        let_in,
        instructed,
        kept,
        taken_back,
        /// Number of leader changes during a rollout.
        inherited,
        /// Number of plans aborted by operators, of changes of the policy, and of attempts that an earlier coordinator
        /// prevented.
        steered,
        policy_changes,
        too_early,
        /// Number of times that the cluster version was lowered, and of coordinators downgraded under faults.
        lowered,
        went_back,
        /// Disks that were full at a look, and disks that were refused because they were damaged.
        filled_up,
        refused,
        /// Messages of several parts that arrived, and messages that were cut off with their connection.
        in_parts,
        cut_off,
        /// Number of times that most disks were full and nothing was decided.
        undecided,
    }
    max {
        /// Kinds of trouble that were there at one moment.
        together,
    }
}

/// A change of the members; the next begins when it is complete.
#[derive(Debug, Clone, Copy)]
enum Errand {
    /// The disk of the old one is gone, and the new one takes its place.
    Replace {
        old: u64,
        new: u64,
    },
    Add {
        new: u64,
    },
    Remove {
        old: u64,
    },
}

pub struct Trouble {
    pub world: World<Cluster>,
    /// Between two strikes, at most.
    every: Duration,
    founders: u64,
    life: Life,
    errand: Option<Errand>,
    /// Node whose disk may be damaged, with the number of its restarts. Until the next start shows the damage, no other
    /// disk is lost.
    suspect: Option<(u64, u64)>,
    may_damage: bool,
    may_replace: bool,
    may_change: bool,
}

impl Trouble {
    pub fn new(seed: u64) -> Self {
        Self::of(seed, Cluster::new)
    }

    /// While coordinators are upgraded, one after the other.
    pub fn amid_upgrade(seed: u64) -> Self {
        Self::of(seed, Cluster::upgraded)
    }

    /// While coordinators go back to the release before.
    pub fn amid_downgrade(seed: u64) -> Self {
        Self::of(seed, Cluster::downgraded)
    }

    fn of(seed: u64, founded: fn(u64, u64, usize) -> Cluster) -> Self {
        let mut chance = Chance::of(seed ^ 0x5eed);
        let nodes = *chance.one_of(&[3, 3, 3, 5]);
        let mut cluster = founded(seed, nodes, 2 + chance.below(4));
        cluster.policy = policy(*chance.one_of(&[Mode::Auto, Mode::Auto, Mode::Manual]));
        cluster.weather = weather(&mut chance);
        let now = cluster.now();
        let lines = lines(&mut chance);
        Self {
            world: World::led_by(cluster, now, scenario(), seed, lines, FAST_DELAYS),
            every: Duration::from_millis(*chance.one_of(&[250, 600, 1500])),
            founders: nodes,
            life: Life::default(),
            errand: None,
            suspect: None,
            may_replace: chance.happens(0.4),
            may_change: chance.happens(0.4),
            may_damage: chance.happens(0.6),
        }
    }

    /// Adds flows that collide, and agents with faults of their own.
    pub fn with_agents(mut self, seed: u64, duration: Duration) -> Self {
        let mut chance = Chance::of(seed ^ 0xa6e27);
        self.world.laws.may_trade = true;
        self.world.start_job(JOB);
        let troubles = chance.below(6);
        plague(&mut self.world, &mut chance, duration, troubles);
        self
    }

    /// Trouble for this long, then calm: then every client is answered, and all become the same.
    pub fn live(self, duration: Duration) -> (Life, Cluster) {
        let end = self.world.now() + duration;
        self.live_while(|cluster| cluster.now() < end)
    }

    pub fn live_while(mut self, goes_on: impl Fn(&Cluster) -> bool) -> (Life, Cluster) {
        while goes_on(self.cluster()) {
            let most = self.every;
            let pause = self.cluster().chance.time(MIN_PAUSE, most);
            self.world.run_for(pause);
            self.note_troubles();
            for _ in 0..1 + self.cluster().chance.below(MAX_FAULTS_PER_STRIKE) {
                self.strike();
            }
            self.note_troubles();
            self.follow_suspect();
            self.run_errand();
            self.cluster().go_back_now_and_then();
        }
        self.life.went_back = self.cluster().went_back;
        self.mend();
        self.come_to_rest();
        self.world.look_at_rest();
        (self.life(), self.world.coordinator)
    }

    pub fn cluster(&mut self) -> &mut Cluster {
        &mut self.world.coordinator
    }

    fn life(&self) -> Life {
        let cluster = &self.world.coordinator;
        let [kept, taken_back] = cluster.agreed.ended();
        Life {
            events: self.world.events(),
            answered: cluster.answered(),
            gave_up: cluster.clients.iter().map(|client| client.gave_up).sum(),
            terms: cluster.laws.terms(),
            restored: cluster.laws.snapshots_restored,
            heard: cluster.agreed.answers,
            let_in: cluster.agreed.passes,
            instructed: self.world.laws.looks.acts,
            kept,
            taken_back,
            inherited: cluster.inherited,
            steered: cluster.agreed.steered,
            policy_changes: cluster.agreed.policy_changes,
            too_early: cluster.agreed.too_early,
            lowered: cluster.agreed.lowered,
            in_parts: cluster.lines.in_parts,
            cut_off: cluster.lines.cut_off,
            filled_up: cluster.laws.full_disks(),
            undecided: cluster.laws.undecided,
            ..self.life
        }
    }

    fn strike(&mut self) {
        let cluster = &mut self.world.coordinator;
        let node = cluster.anybody();
        let away = cluster
            .chance
            .time(Duration::from_millis(10), Duration::from_millis(600));
        match cluster.chance.below(20) {
            0 | 1 => {
                let other = cluster.anybody();
                cluster.cut.insert((node, other));
            }
            2 => cluster.isolate(node),
            3..=7 => cluster.cut.clear(),
            8 => {
                self.life.killed += 1;
                cluster.kill(node, away);
            }
            9 => self.die_at_an_operation(node),
            10 => {
                cluster.standing_still(node, away);
                if cluster.chance.happens(0.5) {
                    cluster.isolate(node);
                }
            }
            11 => self.jump(node),
            12 => self.slow_down(node),
            13 => self.fill_up(node),
            14 => cluster.make_room(),
            15 => self.flip(node, away),
            16 => self.misdirect(node),
            17 => self.replace(node),
            18 => self.add(),
            _ => self.remove(node),
        }
    }

    fn note_troubles(&mut self) {
        self.life.together = self.life.together.max(self.kinds_of_trouble());
    }

    /// Returns the kinds of active faults: crash, partition, pause, full disk, damaged disk.
    fn kinds_of_trouble(&self) -> u64 {
        let cluster = &self.world.coordinator;
        let now = cluster.now();
        let any = |is_so: fn(&Node, Moment) -> bool| {
            let mut nodes = cluster.nodes.values();
            nodes.any(|node| !node.is_lost && is_so(node, now))
        };
        let runs = |id: &u64| cluster.nodes.get(id).is_some_and(|it| it.running.is_some());
        let is_cut = |(from, to): &(u64, u64)| from != to && runs(from) && runs(to);
        let kinds = [
            any(|node, _| node.running.is_none()),
            cluster.cut.iter().any(is_cut),
            any(|node, now| node.running.is_some() && node.stands_still_until > now),
            any(|node, _| node.is_full()),
            any(|node, _| node.disk.is_damaged()),
        ];
        kinds.into_iter().map(u64::from).sum()
    }

    fn die_at_an_operation(&mut self, node: u64) {
        self.life.killed += 1;
        let operation = 1 + self.world.coordinator.chance.below(20) as u64;
        if let Some(node) = self.world.coordinator.nodes.get(&node) {
            node.disk.die_at(operation);
        }
    }

    /// Fills the disk of a node, or of all nodes if they share one storage.
    fn fill_up(&mut self, node: u64) {
        let cluster = &mut self.world.coordinator;
        let left = *cluster.chance.one_of(&FREE_BYTES);
        let is_shared = cluster.chance.happens(0.25);
        for (id, found) in &cluster.nodes {
            if is_shared || *id == node {
                found.disk.fill_up(left);
            }
        }
    }

    /// Flips a bit, so that the next start reads something else than was written.
    fn flip(&mut self, node: u64, away: Duration) {
        if self.suspects(node) {
            self.world.coordinator.nodes[&node].disk.flip();
            self.world.coordinator.kill(node, away);
        }
    }

    /// Makes a write go to a wrong place; the node loses power during or soon after it.
    fn misdirect(&mut self, node: u64) {
        let runs = self.world.coordinator.nodes[&node].running.is_some();
        if runs && self.suspects(node) {
            let node = &self.world.coordinator.nodes[&node];
            node.disk.misdirect();
            node.disk.die_within(12);
        }
    }

    /// Whether its disk may be damaged from here on: once in a life, while others could do without it.
    fn suspects(&mut self, node: u64) -> bool {
        if !self.may_damage || !self.is_idle() || !self.can_spare(node) {
            return false;
        }
        self.may_damage = false;
        self.suspect = Some((node, self.world.coordinator.nodes[&node].life));
        true
    }

    /// A coordinator that refuses its disk is replaced by another, with a new number and an empty disk. One that starts
    /// again has no damage: it never got to the disk, or was overwritten.
    fn follow_suspect(&mut self) {
        let Some((suspect, life)) = self.suspect else {
            return;
        };
        let node = &self.world.coordinator.nodes[&suspect];
        if node.is_refused {
            self.suspect = None;
            self.life.refused += 1;
            let new = self.newcomer();
            self.errand = Some(Errand::Replace { old: suspect, new });
        } else if node.life > life {
            self.suspect = None;
        }
    }

    /// Whether all members have everything that they ever synced, and no change of members is in progress.
    fn is_idle(&self) -> bool {
        self.errand.is_none() && self.suspect.is_none()
    }

    fn jump(&mut self, node: u64) {
        let hours = *self.world.coordinator.chance.one_of(&[-1, 0, 1]);
        if let Some(node) = self.world.coordinator.nodes.get_mut(&node) {
            node.clock_ahead_h = hours;
        }
    }

    fn slow_down(&mut self, node: u64) {
        let slowest = *self.world.coordinator.chance.one_of(&[1, 3, 60]);
        if let Some(node) = self.world.coordinator.nodes.get_mut(&node) {
            node.sync_takes[1] = Duration::from_millis(slowest);
        }
    }

    /// Whether this one votes, and others would be left that can decide.
    fn can_spare(&self, node: u64) -> bool {
        let members = self.world.coordinator.members();
        members.is_some_and(|members| {
            members.is_voter(MemberId(node)) && members.configuration.voters.len() >= 3
        })
    }

    /// Replaces a coordinator, once in a life, and only while no other replacement is in progress.
    fn replace(&mut self, old: u64) {
        if !self.may_replace || !self.is_idle() || !self.can_spare(old) {
            return;
        }
        self.may_replace = false;
        self.life.replaced += 1;
        self.world.coordinator.lose(old);
        let new = self.newcomer();
        self.errand = Some(Errand::Replace { old, new });
        if self.world.coordinator.chance.happens(0.5) {
            self.life.haunted += 1;
            self.world.coordinator.haunt(old, self.founders);
        }
    }

    fn add(&mut self) {
        if self.may_change && self.is_idle() && self.life.added < 3 {
            let new = self.newcomer();
            self.errand = Some(Errand::Add { new });
        }
    }

    fn remove(&mut self, old: u64) {
        if self.may_change && self.is_idle() && self.can_spare(old) {
            self.errand = Some(Errand::Remove { old });
        }
    }

    /// Adds a coordinator with an empty disk.
    fn newcomer(&mut self) -> u64 {
        let new = self
            .world
            .coordinator
            .nodes
            .keys()
            .max()
            .map_or(1, |last| last + 1);
        let saved = Saved::joining(MemberId(new), Vec::new(), Members::default());
        self.world.coordinator.enter(&saved);
        new
    }

    /// Asks again until it is done.
    fn run_errand(&mut self) {
        let (Some(errand), Some(members)) = (self.errand, self.world.coordinator.members()) else {
            return;
        };
        if errand.is_done(&members) {
            self.errand = None;
            match errand {
                Errand::Replace { .. } => {}
                Errand::Add { .. } => self.life.added += 1,
                Errand::Remove { .. } => self.life.removed += 1,
            }
        } else {
            self.world.coordinator.change(&errand.change());
        }
    }

    /// Everything works again.
    fn mend(&mut self) {
        let cluster = &mut self.world.coordinator;
        cluster.cut.clear();
        cluster.weather = Weather::FAULT_FREE;
        cluster.upgrade_all();
        let now = cluster.now();
        let all: Vec<_> = cluster.nodes.keys().copied().collect();
        for id in all {
            if let Some(node) = cluster.nodes.get_mut(&id) {
                node.disk.mend();
                node.stands_still_until = now.min(node.stands_still_until);
            }
            cluster.start(id);
        }
        if let Some((suspect, _)) = self.suspect {
            cluster.kill(suspect, Duration::ZERO);
            cluster.start(suspect);
            self.follow_suspect();
        }
        self.world.heal();
    }

    fn come_to_rest(&mut self) {
        let clients = self.cluster().clients.iter();
        let before: Vec<_> = clients.map(|client| client.answered).collect();
        let all_answered = |cluster: &Cluster| {
            let mut pairs = cluster.clients.iter().zip(&before);
            pairs.all(|(client, before)| client.answered > before + 2)
        };
        self.comes_to_be("clients are answered", all_answered);
        self.finish_errand();
        self.replace_stranded();
        if self.cluster().goes_back() {
            self.go_back();
        } else {
            self.comes_to_be("entries have the latest version", Cluster::is_upgraded);
        }
        self.cluster().is_closing = true;
        // Former leaders may still be heard for a while.
        self.world.run_for(FAST_DELAYS.echoes);
        self.comes_to_be("nothing is under way", |cluster| cluster.agreed.is_over());
        self.world.look_at_rest();
        self.comes_to_be("states are the same", same_everywhere);
    }

    fn finish_errand(&mut self) {
        let end = self.world.now() + RECOVERY_TIMEOUT;
        while self.world.now() < end && self.errand.is_some() {
            self.world.run_for(REST_TIME);
            self.run_errand();
        }
        let errand = format!("{:?} is done", self.errand);
        let is_done = self.errand.is_none();
        self.comes_to_be(&errand, |_| is_done);
    }

    /// Replaces a coordinator that was away while all members that it knows were replaced, so that no member can vouch
    /// for the new ones.
    fn replace_stranded(&mut self) {
        while let Some(old) = stranded(self.cluster()) {
            self.life.stranded += 1;
            self.cluster().lose(old);
            let new = self.newcomer();
            self.errand = Some(Errand::Replace { old, new });
            self.finish_errand();
        }
    }

    /// The rest of them do, too.
    fn go_back(&mut self) {
        self.cluster().insist_on_going_back();
        self.comes_to_be("no plan is on its way", Cluster::is_idle);
        self.comes_to_be("the version is lowered", Cluster::is_lowered);
        let end = self.world.now() + RECOVERY_TIMEOUT;
        while self.world.now() < end && !self.cluster().may_all_go_back() {
            self.world.run_for(REST_TIME);
        }
        let may_all = self.cluster().may_all_go_back();
        self.comes_to_be("the release before reads all logs", |_| may_all);
        self.cluster().go_back_all();
        self.comes_to_be("the release before leads", Cluster::is_led_by_earlier);
    }

    /// Everything works, so it must be so soon.
    fn comes_to_be(&mut self, what: &str, is_so: impl Fn(&Cluster) -> bool) {
        let end = self.world.now() + RECOVERY_TIMEOUT;
        while !is_so(self.cluster()) {
            let standing = || self.world.coordinator.standing();
            if self.world.now() >= end {
                let why = format!(
                    "everything works, and it is not so that {what}: {}",
                    standing()
                );
                self.world.fail(&why);
            }
            self.world.step();
        }
    }
}

impl Errand {
    fn change(self) -> Change {
        let add = |new, replaces: Option<u64>| Change::Add {
            id: MemberId(new),
            member: Member {
                replaces: replaces.map(MemberId),
                ..member(new)
            },
        };
        match self {
            Self::Replace { old, new } => add(new, Some(old)),
            Self::Add { new } => add(new, None),
            Self::Remove { old } => Change::Remove { id: MemberId(old) },
        }
    }

    fn is_done(self, members: &Members) -> bool {
        let is_gone = |old| !members.of.contains_key(&MemberId(old));
        match self {
            Self::Replace { old, new } => is_gone(old) && members.is_voter(MemberId(new)),
            Self::Add { new } => members.is_voter(MemberId(new)),
            Self::Remove { old } => is_gone(old),
        }
    }
}

/// Returns a coordinator that knows neither the leader nor a member that leads to it.
fn stranded(cluster: &Cluster) -> Option<u64> {
    let (members, leader) = (cluster.members()?, cluster.leader()?);
    let mut reached = BTreeSet::from([MemberId(leader)]);
    let knows_any = |id: &MemberId, reached: &BTreeSet<MemberId>| {
        let running = cluster.nodes.get(&id.0).and_then(|it| it.running.as_ref());
        running.is_none_or(|it| {
            let known = &it.replica().members().of;
            known.is_empty() || known.keys().any(|other| reached.contains(other))
        })
    };
    let mut found = usize::MAX;
    while found > 0 {
        let left = members.of.keys().filter(|id| !reached.contains(id));
        let more: Vec<_> = left.filter(|id| knows_any(id, &reached)).copied().collect();
        found = more.len();
        reached.extend(more);
    }
    let mut left = members.of.keys().filter(|id| !reached.contains(id));
    left.next().map(|id| id.0)
}

/// Whether all members have applied the same entries, and no client waits.
fn same_everywhere(cluster: &Cluster) -> bool {
    let Some(members) = cluster.members() else {
        return false;
    };
    let machine = |id: &MemberId| {
        let running = cluster.nodes.get(&id.0)?.running.as_ref()?;
        Some(running.encode())
    };
    let machines: Vec<_> = members.of.keys().map(machine).collect();
    cluster.clients.iter().all(|client| client.asked.is_none())
        && machines.iter().all(|it| it.is_some() && *it == machines[0])
}

/// Between agents and coordinators.
fn lines(chance: &mut Chance) -> wire::Weather {
    let foul = wire::Weather {
        latest_ghost: FAST_DELAYS.echoes,
        ..wire::Weather::FOUL_WEATHER
    };
    *chance.one_of(&[wire::Weather::FAIR_WEATHER, foul])
}

fn weather(chance: &mut Chance) -> Weather {
    let lost = *chance.one_of(&[0.0, 0.02, 0.1, 0.3, 0.5]);
    Weather {
        lost,
        repeated: *chance.one_of(&[0.0, 0.1, 0.3]),
        late: *chance.one_of(&[0.0, 0.05, 0.3]),
        late_by: Duration::from_millis(*chance.one_of(&[20, 100, 500])),
    }
}
