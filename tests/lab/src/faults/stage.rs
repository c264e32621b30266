//! Doing to the cluster what the timeline says.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reweave_common::ids::{LinkId, NodeId, Rank};
use reweave_common::scenario::Scenario;
use reweave_common::units::Rate;

use super::conditions::{Change, Victim};
use crate::cluster::Cluster;
use crate::error::LabError;
use crate::parallel::in_parallel;
use crate::sharing::Sharing;
use crate::tools::Tool;
use crate::wiring::rate_line;

/// Time limit for the processes of a host to end, or to stop starting others.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Applies faults to a cluster.
pub(crate) struct Stage<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) scenario: &'a Scenario,
    /// The process of a rank of a job, counted as in the scenario, while it runs.
    pub(crate) process_of: &'a (dyn Fn(usize, Rank) -> Option<Pid> + Sync),
}

impl Stage<'_> {
    pub(super) fn apply(&self, change: &Change) -> Result<(), LabError> {
        match change {
            Change::Kill(Victim::Host(host)) => self.kill_all(*host),
            Change::Kill(victim) => self.signal(*victim, Signal::SIGKILL),
            Change::Stop(Victim::Host(host)) => self.stop_all(*host),
            Change::Stop(victim) => self.signal(*victim, Signal::SIGSTOP),
            Change::Continue(Victim::Host(host), held) => self.continue_all(*host, held),
            Change::Continue(victim, _) => self.signal(*victim, Signal::SIGCONT),
            Change::Carrier { links, up } => self.cluster.wires().set_carrier(links, *up),
            Change::Loss(link, probability) => self.cluster.wires().set_loss(*link, *probability),
            Change::Rate(link, rate) => self.set_rate(*link, *rate),
            Change::Deaf(nodes) => {
                let nodes: Vec<_> = nodes.iter().collect();
                let set = |index: usize| self.set_deaf(*nodes[index].0, nodes[index].1);
                in_parallel(nodes.len(), set).map(|_| ())
            }
        }
    }

    /// Sets the rate; the queues of both ends keep their sizes.
    fn set_rate(&self, link: LinkId, rate: Rate) -> Result<(), LabError> {
        let fabric = &self.scenario.fabric;
        let sharing = Sharing::of(fabric);
        for port in fabric.link(link).ports() {
            let line = rate_line(&self.cluster.interface(port), rate, sharing);
            self.cluster.batch(port.node, Tool::Tc, &line)?;
        }
        Ok(())
    }

    fn set_deaf(&self, node: NodeId, to: &BTreeSet<NodeId>) -> Result<(), LabError> {
        let addresses = to.iter().flat_map(|node| self.cluster.addresses(*node));
        let script = deaf_script(&addresses.collect::<Vec<_>>());
        self.cluster.batch(node, Tool::Nft, &script).map(|_| ())
    }

    fn signal(&self, victim: Victim, signal: Signal) -> Result<(), LabError> {
        let Victim::Process(job, rank) = victim else {
            return Ok(());
        };
        let pid = (self.process_of)(job, rank).ok_or_else(|| LabError::NoSuchProcess {
            job: self.scenario.jobs[job].name.clone(),
            rank: rank.index(),
        })?;
        send(pid, signal)
    }

    /// Kills all processes of a host until none is left, because living ones may start others.
    fn kill_all(&self, host: NodeId) -> Result<(), LabError> {
        let deadline = Instant::now() + KILL_TIMEOUT;
        loop {
            let living = self.cluster.processes(host)?;
            if living.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(self.restless(host));
            }
            for pid in living {
                send(pid, Signal::SIGKILL)?;
            }
            // Killed processes take a moment to go.
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Stops all processes of a host, including those that they start meanwhile.
    fn stop_all(&self, host: NodeId) -> Result<(), LabError> {
        let deadline = Instant::now() + KILL_TIMEOUT;
        let mut stopped = BTreeSet::new();
        loop {
            let mut living = self.cluster.processes(host)?;
            living.retain(|pid| stopped.insert(*pid));
            if living.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(self.restless(host));
            }
            for pid in living {
                send(pid, Signal::SIGSTOP)?;
            }
        }
    }

    fn continue_all(&self, host: NodeId, held: &BTreeSet<Victim>) -> Result<(), LabError> {
        let held = held.iter().filter_map(|victim| match victim {
            Victim::Process(job, rank) => (self.process_of)(*job, *rank),
            Victim::Host(_) => None,
        });
        let held: Vec<_> = held.collect();
        let living = self.cluster.processes(host)?.into_iter();
        living
            .filter(|pid| !held.contains(pid))
            .try_for_each(|pid| send(pid, Signal::SIGCONT))
    }

    fn restless(&self, host: NodeId) -> LabError {
        LabError::Restless {
            node: self.scenario.fabric.name(host).to_owned(),
        }
    }
}

/// Sends a signal; a process that has ended is ignored.
fn send(pid: Pid, signal: Signal) -> Result<(), LabError> {
    match kill(pid, signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(source) => Err(LabError::Signal { pid, source }),
    }
}

/// Returns an nft script for a node that drops packets from these addresses to itself, and forwards others. It replaces
/// the previous drops.
fn deaf_script(addresses: &[Ipv4Addr]) -> String {
    let mut script = String::from("add table inet partition\ndelete table inet partition\n");
    if !addresses.is_empty() {
        let all: Vec<_> = addresses.iter().map(Ipv4Addr::to_string).collect();
        let all = all.join(", ");
        let _ = write!(
            script,
            "add table inet partition\n\
             add chain inet partition input {{ type filter hook input priority -300; }}\n\
             add rule inet partition input ip saddr {{ {all} }} drop\n"
        );
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_partition_replaces_old_one() {
        let script = deaf_script(&[Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 1, 0, 1)]);
        let lines: Vec<_> = script.lines().collect();
        assert_eq!(lines[1], "delete table inet partition");
        assert_eq!(
            lines[4],
            "add rule inet partition input ip saddr { 10.0.0.1, 10.1.0.1 } drop"
        );
        assert_eq!(deaf_script(&[]).lines().count(), 2);
    }
}
