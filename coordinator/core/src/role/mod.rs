//! Leader/follower role: a follower applies the log; the leader also runs the core, which decides.
//!
//! The driver hands in log entries and Raft's state, and executes effects like those of the [`Core`]. An
//! [`Effect::Append`] is proposed under the number that [`ClusterRole::name_proposal`] gives it. It comes back as
//! applied, or this coordinator no longer leads. Answers go through [`ClusterRole::handle_answer`], which releases
//! them once it is certain that no other coordinator had become leader.

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
use crate::log::state::State;
use read_index::ReadIndex;

#[derive(Debug, Clone)]
pub struct ClusterRole {
    policy: Policy,
    fabric: Arc<Fabric>,
    part: Part,
    waiting: ReadIndex,
    /// The latest minor version that this build reads entries of.
    reads: u16,
    /// As the core heard it last.
    min_version: u16,
    /// Coordinators, as the core heard it last, if it did.
    removed: Option<BTreeSet<String>>,
    /// The log has no room for decisions.
    disk_is_full: bool,
}

/// What this coordinator is in its cluster.
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
    /// How many commands it has proposed in this term.
    proposed: u64,
    /// How many of these are agreed on, one after the other.
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
    /// It follows, until it is elected. This build reads entries up to this minor version.
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

    pub fn leads(&self) -> bool {
        matches!(self.part, Part::Leads(_))
    }

    /// Whether an entry is not agreed on yet, or a request waits.
    pub fn is_busy(&self) -> bool {
        let is_proposing = match &self.part {
            Part::Leads(leading) => leading.applied < leading.proposed,
            Part::Follows(_) => false,
        };
        is_proposing || !self.waiting.is_empty()
    }

    /// Knows what was decided, and nothing of how things are: agents will tell. Gives what the core is to hear before
    /// anything else: agents and drivers that have a session already are new to it.
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

    /// All waiting requests are redirected.
    pub fn handle_deposed(&mut self, elsewhere: &Response) {
        let state = self.take_state();
        self.part = Part::Follows(Box::new(state));
        self.waiting.dismiss_all(elsewhere);
    }

    /// Everything applied so far is replaced by what stands in this snapshot.
    pub fn handle_restored(&mut self, snapshot: &[u8]) -> Result<(), UnreadableLog> {
        let state = State::decode(snapshot, self.reads)?;
        self.part = Part::Follows(Box::new(state));
        Ok(())
    }

    /// The next entry that is agreed on. Gives the version that the cluster goes back to by it, if it does: then the log is
    /// to begin behind it, for builds that do not read what stands before.
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

    /// Whether the log has room for decisions. Gives what the core is to hear of that now; the next core hears it first.
    pub fn handle_disk(&mut self, is_full: bool) -> Input {
        self.disk_is_full = is_full;
        Input::Disk { is_full }
    }

    /// The core hears what all coordinators read, while the cluster's version is less than there is. None is found where one
    /// of them was not heard.
    pub fn handle_min_version(&mut self, find: impl FnOnce() -> Option<u16>) -> Option<Input> {
        let decided = self.state().cluster_version();
        if decided >= self.reads || !self.leads() {
            return None;
        }
        let minor = find().unwrap_or(decided);
        let before = mem::replace(&mut self.min_version, minor);
        (minor != before).then_some(Input::MinVersion { minor })
    }

    /// The core of each term hears which coordinators are removed, and whenever others are.
    pub fn handle_removed(&mut self, coordinators: &BTreeSet<String>) -> Option<Input> {
        let is_known = self.removed.as_ref() == Some(coordinators);
        if is_known || !self.leads() {
            return None;
        }
        let coordinators = coordinators.clone();
        self.removed = Some(coordinators.clone());
        Some(Input::Removed { coordinators })
    }

    /// Only a leader handles inputs.
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

    /// Whether another [`Input::Tick`] is to come as soon as nothing is more urgent.
    pub fn is_amid_tick(&self) -> bool {
        match &self.part {
            Part::Leads(leading) => leading.core.is_amid_tick(),
            Part::Follows(_) => false,
        }
    }

    /// Whether another [`Input::Tick`] is to come as soon as there is nothing else.
    pub fn is_judging(&self) -> bool {
        match &self.part {
            Part::Leads(leading) => leading.core.is_judging(),
            Part::Follows(_) => false,
        }
    }

    /// How evenly flows are spread, each time that this was looked at again.
    pub fn poll_evenness(&mut self) -> Option<(Moment, Imbalances)> {
        match &mut self.part {
            Part::Leads(leading) => leading.core.poll_evenness(),
            Part::Follows(_) => None,
        }
    }

    /// What is for the audit log, besides answers to people. Others write nothing down.
    pub fn poll_record(&mut self) -> Option<AuditRecord> {
        match &mut self.part {
            Part::Leads(leading) => leading.core.poll_record(),
            Part::Follows(_) => None,
        }
    }

    /// The seal of the plan that this request approves, as the plan was when that was decided.
    pub fn take_seal(&mut self, id: u64) -> Option<String> {
        match &mut self.part {
            Part::Leads(leading) => leading.core.take_seal(id),
            Part::Follows(_) => None,
        }
    }

    /// No number is given twice by one coordinator: terms have one leader each.
    pub fn name_proposal(&mut self) -> Option<u64> {
        match &mut self.part {
            Part::Leads(leading) => {
                leading.proposed += 1;
                Some((leading.term << 32) + leading.proposed)
            }
            Part::Follows(_) => None,
        }
    }

    /// A client waits for an answer from now on, unless no coordinator leads here. `is_sought` when the others are
    /// asked at once whether another leads.
    ///
    /// If no other had come to lead when this was asked, then the core knew all that was agreed on; what the client
    /// wants done now is not agreed on where another leads. Where nothing will be decided, that is found out while the
    /// core is at it.
    pub fn handle_asker(&mut self, id: u64, is_sought: bool) -> bool {
        let Part::Leads(leading) = &self.part else {
            return false;
        };
        self.waiting.push(id, leading.proposed, is_sought);
        true
    }

    /// Whether the others must be asked now if another leads.
    pub fn handle_answer(&mut self, id: u64, response: Response) -> bool {
        let applied = match &self.part {
            Part::Leads(leading) => leading.applied,
            Part::Follows(_) => 0,
        };
        self.waiting.handle_answer(id, response, applied)
    }

    /// No other had come to lead when this was asked.
    pub fn handle_certain(&mut self, id: u64) {
        self.waiting.handle_certain(id);
    }

    /// That is not to be found out any longer.
    pub fn handle_uncertain(&mut self, id: u64, elsewhere: Response) {
        self.waiting.dismiss(id, elsewhere);
    }

    /// An answer that may be given now.
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
