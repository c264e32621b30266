//! Coordinators say to each other which members they have applied, over the sessions between them, as those of the product do.

use reweave_replica::{Answer, FolderId, MemberId, Members};

use super::Cluster;

/// Interval of requests.
const HELLO_INTERVAL_TICKS: u64 = 10;

impl Cluster {
    pub(super) fn hear_members(&mut self, id: u64) {
        let Some(running) = self.alive(id) else {
            return;
        };
        running.ticks += 1;
        if !running.ticks.is_multiple_of(HELLO_INTERVAL_TICKS) {
            return;
        }
        let peers = running.replica().members().of.keys();
        let peers: Vec<_> = peers.copied().filter(|peer| peer.0 != id).collect();
        for by in peers {
            let list = self.list_of(by, id);
            if let (Some(list), Some(running)) = (list, self.alive(id)) {
                running.replica_mut().handle_reported_members(by, list);
            }
        }
        self.carry_out(id);
    }

    /// Returns the member list of this member, if both reach each other and it answers.
    fn list_of(&self, MemberId(by): MemberId, to: u64) -> Option<Members> {
        let is_cut = [(by, to), (to, by)].iter().any(|it| self.cut.contains(it));
        let node = self.nodes.get(&by)?;
        let is_there = node.stands_still_until <= self.now() && node.folder == FolderId(by);
        let running = node.running.as_ref().filter(|_| is_there && !is_cut)?;
        let folder = self.nodes.get(&to)?.folder;
        match Answer::of(running.replica().members(), &format!("c{to}"), folder) {
            Answer::Member { members, .. } => Some(members),
            _ => None,
        }
    }
}
