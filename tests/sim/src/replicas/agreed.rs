//! The committed decisions, as one coordinator that never failed would know them, and what follows for operators, new
//! members and agents.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::forwarding_state::ForwardingState;
use reweave_common::ids::NodeId;
use reweave_common::instruction::Install;
use reweave_common::member::{Admission, Digest, Member};
use reweave_common::operator::{Refused, Request, Response};
use reweave_common::plan::Generation;
use reweave_core::{Change, Command, LATEST_MINOR, Pass, State};

#[derive(Debug, Default)]
pub struct Agreed {
    commands: Vec<Command>,
    state: State,
    /// The last entry of the log that was applied anywhere.
    last: u64,
    invited: BTreeSet<Digest>,
    /// Entry of each revocation, and the last revoked admission.
    revoked: BTreeMap<Member, (u64, Admission)>,
    /// Tokens, and the keys that they let in.
    admitted: BTreeSet<[Digest; 2]>,
    approved: BTreeSet<Generation>,
    /// Settings of each change of the policy.
    policies: BTreeSet<BTreeMap<String, Option<String>>>,
    /// Desired state of nodes in each step.
    intended: BTreeMap<(Generation, NodeId), ForwardingState>,
    /// Public key and admission that a member got for each token.
    let_in: BTreeMap<Digest, (Digest, Pass)>,
    /// Committed index by term, at the leader's last answer.
    promised: BTreeMap<u64, u64>,
    /// Number of members that were admitted.
    pub passes: u64,
    pub answers: u64,
    /// Number of plans aborted by operators, of changes of the policy, and of attempts that an earlier coordinator
    /// prevented.
    pub steered: u64,
    pub policy_changes: u64,
    pub too_early: u64,
    /// Number of times that the cluster version was lowered.
    pub lowered: u64,
}

impl Agreed {
    /// Creates the state of a cluster that was founded at this version.
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
            Change::PolicySet { settings, .. } => {
                self.policy_changes += 1;
                self.policies.insert(settings.clone());
            }
            Change::StepIntent(intent) => {
                let of = |(node, holding): (&NodeId, &ForwardingState)| {
                    ((intent.generation, *node), holding.clone())
                };
                self.intended.extend(intent.targets.iter().map(of));
            }
            _ => {}
        }
    }

    /// Revokes all earlier admissions of a member.
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

    /// Returns the index up to which decisions were answered.
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
            (Request::PolicySet { settings, .. }, Response::Policy(_)) => {
                let is_reset = settings.values().all(Option::is_none);
                is_reset || self.policies.contains(settings)
            }
            _ => true,
        };
        assert!(is_kept, "promised before it was agreed on: {response:?}");
        self.answers += 1;
        let too_low = Refused::ClusterVersionTooLow {
            needed: LATEST_MINOR,
            has: LATEST_MINOR - 1,
        };
        self.too_early += u64::from(*response == Response::Refused(too_low));
        self.promise(term, applied);
    }

    /// Checks that a token admits one member, with the same answer to repeated requests.
    pub fn lets_in(&mut self, term: u64, state: &State, by: [Digest; 2], pass: &Pass) {
        let [token, key] = by;
        let denied = self.state.membership().denied();
        // Earlier admissions of a revoked member are invalid: it may be invited again.
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

    /// Checks that an instruction to a switch is committed.
    pub fn instructs(&self, node: NodeId, install: &Install) {
        let intended = self.intended.get(&(install.generation, node));
        assert!(
            intended.is_some_and(|holding| holding.is_same_as(&install.holding)),
            "{node} gets {install:?}, which was not agreed on"
        );
    }

    /// Whether all approved plans have ended.
    pub fn is_over(&self) -> bool {
        let ended: BTreeSet<_> = self.state.history().map(|it| it.plan.generation).collect();
        self.state.rollouts().next().is_none() && self.approved.is_subset(&ended)
    }

    /// Returns the numbers of kept and of rolled back plans.
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
