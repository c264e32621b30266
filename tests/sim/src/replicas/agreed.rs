//! What was agreed on, as one coordinator would know it that never failed, and what follows from that for all
//! receivers: operators, new members, agents.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::forwarding_state::ForwardingState;
use reweave_common::ids::NodeId;
use reweave_common::instruction::Install;
use reweave_common::member::{Admission, Digest, Member};
use reweave_common::operator::{Refused, Request, Response};
use reweave_common::plan::Generation;
use reweave_core::{Change, Command, Pass, State};

#[derive(Debug, Default)]
pub struct Agreed {
    commands: Vec<Command>,
    state: State,
    /// The last entry of the log that was applied anywhere.
    last: u64,
    invited: BTreeSet<Digest>,
    /// By which entry, and up to which admission.
    revoked: BTreeMap<Member, (u64, Admission)>,
    /// Tokens, and the keys that they let in.
    admitted: BTreeSet<[Digest; 2]>,
    approved: BTreeSet<Generation>,
    /// What each step wants nodes to hold.
    intended: BTreeMap<(Generation, NodeId), ForwardingState>,
    /// By token: with which key a member got the answer that it is admitted, and as whom.
    let_in: BTreeMap<Digest, (Digest, Pass)>,
    /// By term, how much was agreed on when its leader last answered.
    promised: BTreeMap<u64, u64>,
    /// This many got the answer that they are admitted, by one leader or another.
    pub passes: u64,
    pub answers: u64,
    /// This many plans were given up by people, and this often an earlier coordinator was in the way of that.
    pub steered: u64,
    pub too_early: u64,
    /// How often the cluster version was lowered.
    pub lowered: u64,
}

impl Agreed {
    /// In a cluster that was founded at this version.
    pub fn founded(version: u16) -> Self {
        Self {
            state: State::founded(version),
            ..Self::default()
        }
    }

    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// A member has applied this, which led it to this state. The first one has agreed with most of the others.
    pub fn applied(&mut self, index: u64, command: &Command, state: &State) {
        self.all_stay_out(state);
        if index <= self.last {
            return;
        }
        self.last = index;
        let version = self.state.cluster_version();
        self.state.apply(command.clone());
        let now = self.state.cluster_version();
        self.lowered += u64::from(now < version);
        assert!(
            now <= version || self.lowered == 0,
            "no operator has asked for 1.{now} since it was lowered: {command:?}"
        );
        assert_eq!(
            &self.state, state,
            "entry {index} led elsewhere: {command:?}"
        );
        self.commands.push(command.clone());
        let parts = command.change.parts();
        parts.iter().for_each(|part| self.note(part));
        self.all_stay_out(state);
    }

    fn note(&mut self, change: &Change) {
        match change {
            Change::Invited { token, .. } => {
                self.invited.insert(*token);
            }
            Change::Revoked { member, .. } => {
                self.revoke(member);
            }
            Change::Admitted { token, key, .. } => {
                self.admitted.insert([*token, *key]);
            }
            Change::PlanApproved { generation, .. } => {
                self.approved.insert(*generation);
            }
            Change::Steered { .. } => self.steered += 1,
            Change::StepIntent(intent) => {
                let of = |(node, holding): (&NodeId, &ForwardingState)| {
                    ((intent.generation, *node), holding.clone())
                };
                self.intended.extend(intent.targets.iter().map(of));
            }
            _ => {}
        }
    }

    /// All that it was admitted with before is worth nothing.
    fn revoke(&mut self, member: &Member) {
        let mut denied = self.state.membership().denied().iter();
        let named = denied.find(|(it, _)| *it == member);
        let (_, up_to) = named.expect("a revoked member is named");
        let passes = self.let_in.values().map(|(_, pass)| pass);
        for pass in passes.filter(|pass| pass.member == *member) {
            assert!(pass.admission <= up_to, "{member} stays in by {pass:?}");
        }
        let entry = self.state.applied();
        self.revoked.insert(member.clone(), (entry, up_to));
        self.let_in.retain(|_, (_, pass)| pass.member != *member);
    }

    /// A member that was ever revoked is so in every later state.
    fn all_stay_out(&self, state: &State) {
        let denied = state.membership().denied();
        for (member, (entry, up_to)) in &self.revoked {
            let is_later = *entry <= state.applied();
            assert!(
                !is_later || denied.denies(member, *up_to),
                "{member} is in again"
            );
        }
    }

    /// How much of it was answered.
    pub fn promised(&self) -> u64 {
        self.promised.values().max().copied().unwrap_or_default()
    }

    /// A coordinator that leads, or thinks so, answers what was asked when this much was promised.
    pub fn answers(
        &mut self,
        term: u64,
        state: &State,
        asked_at: u64,
        request: &Request,
        response: &Response,
    ) {
        let applied = state.applied();
        assert!(
            applied >= asked_at,
            "an old answer, of {applied} and not {asked_at}"
        );
        let is_kept = match (request, response) {
            (Request::Invite { token, .. }, Response::Invited { .. }) => {
                self.invited.contains(token)
            }
            (_, Response::Revoked { member }) => self.revoked.contains_key(member),
            (_, Response::ApplyStarted { generation }) => self.approved.contains(generation),
            (_, Response::ClusterVersion { minor, .. }) => *minor == self.state.cluster_version(),
            _ => true,
        };
        assert!(is_kept, "promised before it was agreed on: {response:?}");
        self.answers += 1;
        let too_low = Refused::ClusterVersionTooLow { needed: 1, has: 0 };
        self.too_early += u64::from(*response == Response::Refused(too_low));
        self.promise(term, applied);
    }

    /// A token lets in one, and says the same however often that one comes.
    pub fn lets_in(&mut self, term: u64, state: &State, by: [Digest; 2], pass: &Pass) {
        let [token, key] = by;
        let denied = self.state.membership().denied();
        // What a member was admitted with is worth nothing any longer: it may be invited again.
        if denied.denies(&pass.member, pass.admission) {
            return;
        }
        let issued = (key, pass.clone());
        let first = self.let_in.entry(token).or_insert_with(|| issued.clone());
        assert_eq!(*first, issued, "token {token} lets in two");
        let is_agreed = self.admitted.contains(&by);
        assert!(is_agreed, "let in before it was agreed on: {pass:?}");
        self.passes += 1;
        self.promise(term, state.applied());
    }

    fn promise(&mut self, term: u64, applied: u64) {
        let promised = self.promised.entry(term).or_default();
        *promised = applied.max(*promised);
    }

    /// A leader has all that was promised by leaders before.
    pub fn leads(&self, node: u64, term: u64, state: &State) {
        for (before, promised) in self.promised.range(..term) {
            let applied = state.applied();
            assert!(
                applied >= *promised,
                "{node} leads in term {term} with {applied} and not the {promised} of term {before}"
            );
        }
    }

    /// Nothing goes out to a switch before it is agreed on.
    pub fn instructs(&self, node: NodeId, install: &Install) {
        let intended = self.intended.get(&(install.generation, node));
        assert!(
            intended.is_some_and(|holding| holding.is_same_as(&install.holding)),
            "{node} gets {install:?}, which was not agreed on"
        );
    }

    /// Whether everything that was approved has ended, one way or the other.
    pub fn is_over(&self) -> bool {
        let ended: BTreeSet<_> = self.state.history().map(|it| it.plan.generation).collect();
        self.state.rollouts().next().is_none() && self.approved.is_subset(&ended)
    }

    /// How many plans were kept, and how many rolled back.
    pub fn ended(&self) -> [u64; 2] {
        use reweave_core::Outcome::{Committed, RolledBack};
        let count = |is: &dyn Fn(&reweave_core::Outcome) -> bool| {
            let ended = self.state.history().filter(|it| is(&it.outcome));
            ended.count() as u64
        };
        [
            count(&|it| matches!(it, Committed)),
            count(&|it| matches!(it, RolledBack { .. })),
        ]
    }
}
