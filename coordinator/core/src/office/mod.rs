//! What a coordinator does in a cluster of those that agree: it applies what was decided, and while it
//! leads, there is a core that decides.
//!
//! Whoever drives it hands in what the log says and how this coordinator stands, and carries out
//! effects as those of the [`Core`] are: an [`Effect::Append`] is proposed under the number that
//! [`Office::name_proposal`] gives it, and comes back as applied, or this coordinator leads no more.
//! Answers go by way of [`Office::handle_answer`], which gives them when it is certain that nobody
//! else had come to lead.

mod leading;
mod waiting;

use std::mem;
use std::sync::Arc;

use reweave_common::fabric::Fabric;
use reweave_common::moment::Moment;
use reweave_common::operator::{Imbalances, Response};

use crate::command::Command;
use crate::core::Core;
use crate::effect::{Effect, Input};
use crate::policy::Policy;
use crate::state::State;
use leading::Leading;
use waiting::Waiting;

#[derive(Debug, Clone)]
pub struct Office {
    policy: Policy,
    fabric: Arc<Fabric>,
    part: Part,
    waiting: Waiting,
}

/// What this coordinator is in its cluster.
#[derive(Debug, Clone)]
enum Part {
    Leads(Box<Leading>),
    Follows(Box<State>),
}

impl Office {
    /// It follows, until it is elected.
    pub fn new(policy: Policy, fabric: Arc<Fabric>, state: State) -> Self {
        Self {
            policy,
            fabric,
            part: Part::Follows(Box::new(state)),
            waiting: Waiting::default(),
        }
    }

    pub fn state(&self) -> &State {
        match &self.part {
            Part::Leads(leading) => leading.state(),
            Part::Follows(state) => state,
        }
    }

    pub fn leads(&self) -> bool {
        matches!(self.part, Part::Leads(_))
    }

    /// Whether something is not agreed on yet, or somebody waits.
    pub fn is_busy(&self) -> bool {
        let is_proposing = match &self.part {
            Part::Leads(leading) => leading.is_proposing(),
            Part::Follows(_) => false,
        };
        is_proposing || !self.waiting.is_empty()
    }

    /// Knows what was decided, and nothing of how things are: agents will tell.
    pub fn handle_elected(&mut self, term: u64) {
        let state = self.take_state();
        let core = Core::resume(self.policy.clone(), Arc::clone(&self.fabric), state);
        self.part = Part::Leads(Box::new(Leading::new(core, term)));
    }

    /// All who wait are told where to ask.
    pub fn handle_deposed(&mut self, elsewhere: &Response) {
        let state = self.take_state();
        self.part = Part::Follows(Box::new(state));
        self.waiting.dismiss_all(elsewhere);
    }

    /// Everything applied so far is replaced by this.
    pub fn handle_restored(&mut self, state: State) {
        self.part = Part::Follows(Box::new(state));
    }

    /// The next entry that is agreed on.
    pub fn apply(&mut self, command: Command) {
        match &mut self.part {
            Part::Follows(state) => state.apply(command),
            Part::Leads(leading) => leading.apply(command),
        }
    }

    /// Who does not lead has nobody who would hear it.
    pub fn handle(&mut self, at: Moment, input: Input) {
        if let Part::Leads(leading) = &mut self.part {
            leading.handle(at, input);
        }
    }

    pub fn poll_effect(&mut self) -> Option<Effect> {
        match &mut self.part {
            Part::Leads(leading) => leading.poll_effect(),
            Part::Follows(_) => None,
        }
    }

    /// Whether another [`Input::Tick`] is to come as soon as nothing is more urgent.
    pub fn is_amid_tick(&self) -> bool {
        match &self.part {
            Part::Leads(leading) => leading.is_amid_tick(),
            Part::Follows(_) => false,
        }
    }

    /// Whether another [`Input::Tick`] is to come as soon as there is nothing else.
    pub fn is_judging(&self) -> bool {
        match &self.part {
            Part::Leads(leading) => leading.is_judging(),
            Part::Follows(_) => false,
        }
    }

    /// How evenly flows are spread, each time that this was looked at anew.
    pub fn poll_evenness(&mut self) -> Option<(Moment, Imbalances)> {
        match &mut self.part {
            Part::Leads(leading) => leading.poll_evenness(),
            Part::Follows(_) => None,
        }
    }

    /// No number is given twice by one coordinator.
    pub fn name_proposal(&mut self) -> Option<u64> {
        match &mut self.part {
            Part::Leads(leading) => Some(leading.name_proposal()),
            Part::Follows(_) => None,
        }
    }

    /// Somebody waits for an answer from now on, unless nobody leads here. `is_sought` when the others
    /// are asked at once whether anybody else leads.
    ///
    /// If nobody else had come to lead when this was asked, then the core knew all that was agreed
    /// on; what it wants done now is not agreed on where another leads. Where nothing will be
    /// decided, that is found out while the core is at it.
    pub fn handle_asker(&mut self, id: u64, is_sought: bool) -> bool {
        let Part::Leads(leading) = &self.part else {
            return false;
        };
        self.waiting.push(id, leading.proposed(), is_sought);
        true
    }

    /// Whether the others must be asked now if anybody else leads.
    pub fn handle_answer(&mut self, id: u64, response: Response) -> bool {
        let applied = match &self.part {
            Part::Leads(leading) => leading.applied(),
            Part::Follows(_) => 0,
        };
        self.waiting.handle_answer(id, response, applied)
    }

    /// Nobody else had come to lead when this was asked.
    pub fn handle_certain(&mut self, id: u64) {
        self.waiting.handle_certain(id);
    }

    /// That is not to be found out any more.
    pub fn handle_uncertain(&mut self, id: u64, elsewhere: Response) {
        self.waiting.dismiss(id, elsewhere);
    }

    /// An answer that may be given now.
    pub fn poll_answer(&mut self) -> Option<(u64, Response)> {
        self.waiting.poll_answer()
    }

    fn take_state(&mut self) -> State {
        match mem::replace(&mut self.part, Part::Follows(Box::default())) {
            Part::Leads(leading) => leading.into_state(),
            Part::Follows(state) => *state,
        }
    }
}
