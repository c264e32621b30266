//! What was seen in many lives.

use reweave_sim_cluster::seeds;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) worlds: u64,
    pub(crate) events: u64,
    pub(crate) coordinators_died: u64,
    pub(crate) walks: u64,
    pub(crate) acts: u64,
    pub(crate) moves: u64,
    pub(crate) asked_closely: u64,
    pub(crate) kept: u64,
    pub(crate) taken_back: u64,
    pub(crate) beside: u64,
    pub(crate) steered: u64,
    /// All that might.
    pub(crate) all_went_wrong: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.worlds += other.worlds;
        self.events += other.events;
        self.coordinators_died += other.coordinators_died;
        self.walks += other.walks;
        self.acts += other.acts;
        self.moves += other.moves;
        self.asked_closely += other.asked_closely;
        self.kept += other.kept;
        self.taken_back += other.taken_back;
        self.beside += other.beside;
        self.steered += other.steered;
        self.all_went_wrong += other.all_went_wrong;
    }
}

pub(crate) fn play_all(seeds: &[u64], live: impl Fn(u64) -> Tally + Sync) -> Tally {
    let mut sum = Tally::default();
    seeds::play_all(seeds, live, |seen| sum.add(seen));
    eprintln!("{sum:?}");
    sum
}
