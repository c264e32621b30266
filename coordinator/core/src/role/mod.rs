//! Leader/follower role: a follower applies the log; the leader also runs the core, which decides.
//!
//! The driver hands in log entries and Raft's state, and executes effects like those of the [`Core`]. An
//! [`Effect::Append`] is proposed under the number from [`ClusterRole::name_proposal`]: it is applied later, unless
//! this coordinator no longer leads. Replies go through [`ClusterRole::handle_answer`], which releases them once it is
//! certain that no other coordinator had become leader.

mod read_index;

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;

use reweave_common::fabric::Fabric;
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::moment::Moment;
use reweave_common::operator::{Imbalances, Response};

use crate::core::Core;
use crate::log::codec::{UnreadableLog, expect_version};
use crate::log::command::Command;
use crate::log::effect::{AuditRecord, Effect, Input};
use crate::log::policy::Policy;
use crate::log::policy_settings::EffectivePolicy;
use crate::log::state::State;
use read_index::ReadIndex;

#[derive(Debug, Clone)]
pub struct ClusterRole {
    /// The policy of this coordinator's file.
    policy: Policy,
    fabric: Arc<Fabric>,
    part: Part,
    waiting: ReadIndex,
    /// The latest minor version whose entries this build reads.
    reads: u16,
    /// The value that the core got last.
    min_version: u16,
    /// The removed coordinators that the core got last, if any.
    removed: Option<BTreeSet<String>>,
    /// The disk is full.
    disk_is_full: bool,
}

/// The part of this coordinator in its cluster.
#[derive(Debug, Clone)]
enum Part {
    Leads(Box<Leader>),
    Follows(Box<State>),
}

/// State that exists only while this coordinator leads.
#[derive(Debug, Clone)]
struct Leader {
    core: Core,
    term: u64,
    /// The number of commands that it has proposed in this term.
    proposed: u64,
    /// The number of these that are committed, in order.
    applied: u64,
}

impl Leader {
    fn new(core: Core, term: u64) -> Self {
        Self {
            core,
            term,
            proposed: 0,
            applied: 0,
        }
    }
}

impl ClusterRole {
    /// A follower. This build reads entries up to this minor version.
    pub fn new(policy: Policy, fabric: Arc<Fabric>, state: State, reads: u16) -> Self {
        Self {
            policy,
            fabric,
            part: Part::Follows(Box::new(state)),
            waiting: ReadIndex::default(),
            reads,
            min_version: 0,
            removed: None,
            disk_is_full: false,
        }
    }

    pub fn state(&self) -> &State {
        match &self.part {
            Part::Leads(leading) => leading.core.state(),
            Part::Follows(state) => state,
        }
    }

    /// The policy in force, or what it would be under this coordinator.
    pub fn policy(&self) -> Policy {
        match &self.part {
            Part::Leads(leading) => leading.core.policy().clone(),
            Part::Follows(state) => {
                EffectivePolicy::new(self.policy.clone(), state.policy()).into_policy()
            }
        }
    }

    pub fn leads(&self) -> bool {
        matches!(self.part, Part::Leads(_))
    }

    /// Whether an entry is not committed yet, or a request waits.
    pub fn is_busy(&self) -> bool {
        let is_proposing = match &self.part {
            Part::Leads(leading) => leading.applied < leading.proposed,
            Part::Follows(_) => false,
        };
        is_proposing || !self.waiting.is_empty()
    }

    /// Becomes leader, with the log's decisions and without measurements, which agents will report. Returns the first
    /// inputs of the core: agents and drivers that are already connected are new to it.
    pub fn handle_elected(
        &mut self,
        term: u64,
        agents: impl IntoIterator<Item = NodeId>,
        drivers: impl IntoIterator<Item = OpticalId>,
    ) -> Vec<Input> {
        let state = self.take_state();
        let core = Core::resume(self.policy.clone(), Arc::clone(&self.fabric), state);
        self.part = Part::Leads(Box::new(Leader::new(core, term)));
        self.min_version = 0;
        self.removed = None;
        let is_full = self.disk_is_full;
        let disk = is_full.then_some(Input::Disk { is_full });
        let agents = agents.into_iter().map(|node| Input::AgentUp { node });
        let drivers = drivers.into_iter();
        let drivers = drivers.map(|optical| Input::DriverUp { optical });
        disk.into_iter().chain(agents).chain(drivers).collect()
    }

    /// Redirects all waiting requests.
    pub fn handle_deposed(&mut self, elsewhere: &Response) {
        let state = self.take_state();
        self.part = Part::Follows(Box::new(state));
        self.waiting.dismiss_all(elsewhere);
    }

    /// Replaces the state with this snapshot.
    pub fn handle_restored(&mut self, snapshot: &[u8]) -> Result<(), UnreadableLog> {
        let state = State::decode(snapshot, self.reads)?;
        self.part = Part::Follows(Box::new(state));
        Ok(())
    }

    /// Applies the next committed entry. If it lowers the cluster version, that version is returned: the log must then
    /// be compacted up to this entry, for builds that cannot read earlier ones.
    pub fn apply(&mut self, command: Command) -> Result<Option<u16>, UnreadableLog> {
        let before = self.state().cluster_version();
        match &mut self.part {
            Part::Follows(state) => state.apply(command),
            Part::Leads(leading) => {
                leading.applied = leading.proposed;
                leading.core.apply(command);
            }
        }
        let version = self.state().cluster_version();
        expect_version(version, self.reads)?;
        Ok((version < before).then_some(version))
    }

    /// Records whether the disk is full. Returns the input for the core; a later core gets it first.
    pub fn handle_disk(&mut self, is_full: bool) -> Input {
        self.disk_is_full = is_full;
        Input::Disk { is_full }
    }

    /// Passes on the lowest version of all coordinators while it exceeds the cluster's version. `find` has no result
    /// while a coordinator's version is unknown.
    pub fn handle_min_version(&mut self, find: impl FnOnce() -> Option<u16>) -> Option<Input> {
        let decided = self.state().cluster_version();
        if decided >= self.reads || !self.leads() {
            return None;
        }
        let minor = find().unwrap_or(decided);
        let before = mem::replace(&mut self.min_version, minor);
        (minor != before).then_some(Input::MinVersion { minor })
    }

    /// Passes removed coordinators on to the core, once per term and whenever they change.
    pub fn handle_removed(&mut self, coordinators: &BTreeSet<String>) -> Option<Input> {
        let is_known = self.removed.as_ref() == Some(coordinators);
        if is_known || !self.leads() {
            return None;
        }
        let coordinators = coordinators.clone();
        self.removed = Some(coordinators.clone());
        Some(Input::Removed { coordinators })
    }

    /// Handles an input, as leader only.
    pub fn handle(&mut self, at: Moment, input: Input) {
        if let Part::Leads(leading) = &mut self.part {
            leading.core.handle(at, input);
        }
    }

    pub fn poll_effect(&mut self) -> Option<Effect> {
        match &mut self.part {
            Part::Leads(leading) => leading.core.poll_effect(),
            Part::Follows(_) => None,
        }
    }

    /// Whether the current tick needs another [`Input::Tick`] as soon as nothing is more urgent.
    pub fn is_amid_tick(&self) -> bool {
        match &self.part {
            Part::Leads(leading) => leading.core.is_amid_tick(),
            Part::Follows(_) => false,
        }
    }

    /// Whether a check continues with another [`Input::Tick`] as soon as nothing else is to be done.
    pub fn is_judging(&self) -> bool {
        match &self.part {
            Part::Leads(leading) => leading.core.is_judging(),
            Part::Follows(_) => false,
        }
    }

    /// The flow imbalance, each time that it was computed.
    pub fn poll_evenness(&mut self) -> Option<(Moment, Imbalances)> {
        match &mut self.part {
            Part::Leads(leading) => leading.core.poll_evenness(),
            Part::Follows(_) => None,
        }
    }

    /// The next record for the audit log, besides replies to operators. Followers have none.
    pub fn poll_record(&mut self) -> Option<AuditRecord> {
        match &mut self.part {
            Part::Leads(leading) => leading.core.poll_record(),
            Part::Follows(_) => None,
        }
    }

    /// The seal of the plan that this request approved, as the plan was then.
    pub fn take_seal(&mut self, id: u64) -> Option<String> {
        match &mut self.part {
            Part::Leads(leading) => leading.core.take_seal(id),
            Part::Follows(_) => None,
        }
    }

    /// The number of the next proposal. Numbers are unique: each term has one leader.
    pub fn name_proposal(&mut self) -> Option<u64> {
        match &mut self.part {
            Part::Leads(leading) => {
                leading.proposed += 1;
                Some((leading.term << 32) + leading.proposed)
            }
            Part::Follows(_) => None,
        }
    }

    /// Registers a client's request, unless this coordinator follows. `is_sought` if the others are already being
    /// asked whether another one leads. If none had become leader when the request was made, the core knew everything
    /// committed, and the client's change is not committed under another leader. Requests that decide nothing are
    /// confirmed while the core handles them.
    pub fn handle_asker(&mut self, id: u64, is_sought: bool) -> bool {
        let Part::Leads(leading) = &self.part else {
            return false;
        };
        self.waiting.push(id, leading.proposed, is_sought);
        true
    }

    /// Takes the reply. Returns whether the others must be asked now whether another one leads.
    pub fn handle_answer(&mut self, id: u64, response: Response) -> bool {
        let applied = match &self.part {
            Part::Leads(leading) => leading.applied,
            Part::Follows(_) => 0,
        };
        self.waiting.handle_answer(id, response, applied)
    }

    /// No other coordinator had become leader when the request was made.
    pub fn handle_certain(&mut self, id: u64) {
        self.waiting.handle_certain(id);
    }

    /// The question cannot be answered any more.
    pub fn handle_uncertain(&mut self, id: u64, elsewhere: Response) {
        self.waiting.dismiss(id, elsewhere);
    }

    /// A reply that may be sent now.
    pub fn poll_answer(&mut self) -> Option<(u64, Response)> {
        self.waiting.poll_answer()
    }

    fn take_state(&mut self) -> State {
        match mem::replace(&mut self.part, Part::Follows(Box::default())) {
            Part::Leads(leading) => {
                let Leader { core, .. } = *leading;
                core.into_state()
            }
            Part::Follows(state) => *state,
        }
    }
}
