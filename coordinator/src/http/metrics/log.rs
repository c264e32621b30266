//! Metrics of the log and of replication, which all coordinators report.

use reweave_replica::{MemberId, Status};

use super::page::{Kind, Page, count};
use crate::replication::{RaftCounts, WRITE_BUCKETS_S};

pub(in crate::http) struct Log<'s> {
    pub(in crate::http) status: &'s Status,
    pub(in crate::http) raft_counts: &'s RaftCounts,
}

impl Log<'_> {
    pub(super) fn write(&self, page: &mut Page) {
        self.agreement(page);
        self.reach(page);
        self.peers(page);
        self.writes(page);
    }

    fn agreement(&self, page: &mut Page) {
        let status = self.status;
        let help = "Raft term of this coordinator.";
        page.single(Kind::Gauge, "reweave_term", help, status.term as f64);
        let help = "Elections in which this coordinator took part, since its start.";
        let elections = self.raft_counts.elections as f64;
        page.single(Kind::Counter, "reweave_elections_total", help, elections);
        let help = "Number of the leader as known here; 0 without a leader.";
        let leader = status.leader.unwrap_or(MemberId(0)).0 as f64;
        page.single(Kind::Gauge, "reweave_leader_number", help, leader);
        let name = "reweave_coordinators";
        let help = "Coordinators of the cluster, voters and learners.";
        page.family(Kind::Gauge, name, help);
        let all = status.members.of.keys();
        let votes = all.filter(|&&id| status.members.votes(id)).count();
        let learn = status.members.of.len() - votes;
        for (role, members) in [("voter", votes), ("learner", learn)] {
            page.sample(name, &[("role", role)], count(members));
        }
    }

    fn reach(&self, page: &mut Page) {
        let status = self.status;
        for (name, help, index) in [
            (
                "reweave_log_last_index",
                "Last entry in the log.",
                status.last,
            ),
            (
                "reweave_log_committed_index",
                "Index of the last committed entry.",
                status.committed,
            ),
            (
                "reweave_log_applied_index",
                "Index of the last applied entry.",
                status.applied,
            ),
        ] {
            page.single(Kind::Gauge, name, help, index as f64);
        }
    }

    /// Writes the progress of the peers, which only the leader knows.
    fn peers(&self, page: &mut Page) {
        let status = self.status;
        let name = "reweave_log_behind_entries";
        let help = "Replication lag of another coordinator in entries, on the leader.";
        page.family(Kind::Gauge, name, help);
        for (id, matched) in &status.matched {
            if let Some(member) = status.members.of.get(id).filter(|_| *id != status.id) {
                let number = id.0.to_string();
                let labels = [("coordinator", &*member.name), ("number", &number)];
                let behind = status.last.saturating_sub(*matched);
                page.sample(name, &labels, behind as f64);
            }
        }
    }

    fn writes(&self, page: &mut Page) {
        let raft_counts = self.raft_counts;
        let help = "Snapshots taken since the start.";
        let snapshots = raft_counts.snapshots as f64;
        page.single(
            Kind::Counter,
            "reweave_log_snapshots_total",
            help,
            snapshots,
        );
        let name = "reweave_log_write_seconds";
        let help = "Time of a log write including fsync.";
        page.family(Kind::Histogram, name, help);
        let bucket = format!("{name}_bucket");
        let mut within = 0;
        for (most, writes) in WRITE_BUCKETS_S.iter().zip(&raft_counts.writes) {
            within += writes;
            page.sample(&bucket, &[("le", &most.to_string())], within as f64);
        }
        let all: u64 = raft_counts.writes.iter().sum();
        page.sample(&bucket, &[("le", "+Inf")], all as f64);
        page.sample(
            &format!("{name}_sum"),
            &[],
            raft_counts.writing.as_secs_f64(),
        );
        page.sample(&format!("{name}_count"), &[], all as f64);
    }
}
