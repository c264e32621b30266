//! Linearizability: whether a history can be explained as if each call had happened at one moment between its start and
//! its return, judged only by calls, returns and a model.
//!
//! The method is that of Wing and Gong, breadth first: all orders that explain the history so far are kept, each as a
//! state with the pending calls. When a call returns, it must have happened by then with this answer; orders in which
//! it cannot have are dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// Effect of a call at its linearization point.
pub trait Model {
    type State: Clone + Ord + Debug;
    type Call: Clone + Debug;
    type Answer: Clone + Ord + Debug;
    fn carry_out(state: &Self::State, call: &Self::Call) -> (Self::State, Self::Answer);
}

/// One step of a history. Each call has a number of its own, and returns once or never.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<C, A> {
    Called { id: u64, call: C },
    Returned { id: u64, answer: A },
}

/// No order of the calls explains this event.
#[derive(Debug, PartialEq)]
pub struct NotLinearizable {
    pub event: usize,
    pub said: String,
}

/// A state, and the pending calls that have led to it, with the answers they have to get.
type Linearization<M> = (<M as Model>::State, BTreeMap<u64, <M as Model>::Answer>);

pub struct Judge<M: Model> {
    ways: BTreeSet<Linearization<M>>,
    /// A call that never returns may happen at any time, or never.
    pending: BTreeMap<u64, M::Call>,
    events: usize,
}

impl<M: Model> Judge<M> {
    pub fn new(beginning: M::State) -> Self {
        Self {
            ways: BTreeSet::from([(beginning, BTreeMap::new())]),
            pending: BTreeMap::new(),
            events: 0,
        }
    }

    pub fn hear(&mut self, event: &Event<M::Call, M::Answer>) -> Result<(), NotLinearizable> {
        self.events += 1;
        match event {
            Event::Called { id, call } => {
                self.pending.insert(*id, call.clone());
            }
            Event::Returned { id, answer } => self.returned(*id, answer),
        }
        if self.ways.is_empty() {
            let said = format!("{event:?}");
            let event = self.events;
            return Err(NotLinearizable { event, said });
        }
        Ok(())
    }

    fn returned(&mut self, id: u64, answer: &M::Answer) {
        let mut open: Vec<_> = std::mem::take(&mut self.ways).into_iter().collect();
        let mut seen = BTreeSet::new();
        while let Some((state, mut happened)) = open.pop() {
            if happened.get(&id) == Some(answer) {
                happened.remove(&id);
                self.ways.insert((state, happened));
            } else if !happened.contains_key(&id) && seen.insert((state.clone(), happened.clone()))
            {
                self.go_on(&state, &happened, &mut open);
            }
        }
        self.pending.remove(&id);
    }

    /// Any of the pending calls may be the next to happen.
    fn go_on(
        &self,
        state: &M::State,
        happened: &BTreeMap<u64, M::Answer>,
        open: &mut Vec<Linearization<M>>,
    ) {
        for (next, call) in &self.pending {
            if happened.contains_key(next) {
                continue;
            }
            let (state, answer) = M::carry_out(state, call);
            let mut happened = happened.clone();
            happened.insert(*next, answer);
            open.push((state, happened));
        }
    }
}

/// Whether a whole history is linearizable.
pub fn judge<M: Model>(
    beginning: M::State,
    history: &[Event<M::Call, M::Answer>],
) -> Result<(), NotLinearizable> {
    let mut judge = Judge::<M>::new(beginning);
    history.iter().try_for_each(|event| judge.hear(event))
}
