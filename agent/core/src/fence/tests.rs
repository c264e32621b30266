//! The fence with a simulated disk and kernel that fail and crash where a test says.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use proptest::prelude::*;
use reweave_common::forwarding_state::{RouteHop, RouteRule};
use reweave_common::instruction::Token;
use reweave_common::sample::PinRule;

use super::*;
use crate::examples::rule;

fn install(generation: u64, token: u64, rules: &[PinRule]) -> Install {
    Install {
        generation: Generation(generation),
        token: Token(token),
        holding: pins(rules),
    }
}

fn pins(rules: &[PinRule]) -> ForwardingState {
    ForwardingState::of_pins(rules.to_vec())
}

/// A switch: its disk and kernel survive a crash of its agent.
#[derive(Default)]
struct Switch {
    disk: Record,
    kernel: Vec<PinRule>,
    disk_full: bool,
    /// A rule that the kernel refuses.
    refused: Option<PinRule>,
    /// Interfaces over which the kernel takes no rule.
    down: BTreeSet<String>,
    acks: Vec<Ack>,
}

impl Switch {
    /// Executes effects until none is left, or `most` were executed.
    fn carry_out(&mut self, fence: &mut Fence, most: usize) {
        for _ in 0..most {
            let Some(effect) = fence.poll_effect() else {
                return;
            };
            match effect {
                FenceEffect::Note(record) => fence.handle_noted(self.note(record)),
                FenceEffect::Apply(holding) => fence.handle_applied(self.apply(&holding.rules)),
                FenceEffect::ReadBack => {
                    fence.handle_read_back_without(Ok(pins(&self.kernel)), &self.down);
                }
                FenceEffect::Send(ack) => self.acks.push(ack),
            }
        }
    }

    fn note(&mut self, record: Record) -> Result<(), String> {
        if self.disk_full {
            return Err("no space".to_owned());
        }
        self.disk = record;
        Ok(())
    }

    /// Applies rule by rule, so that a refusal leaves a partial state.
    fn apply(&mut self, rules: &[PinRule]) -> Result<(), String> {
        let noted = self.disk.promised.as_ref();
        let promised = noted.is_some_and(|install| install.holding.rules == rules);
        let fallback = self.disk.fallback.as_ref();
        let falls_back = fallback.is_some_and(|it| it.in_force.holding.rules == rules);
        assert!(
            promised || falls_back || self.disk.in_force.holding.rules == rules,
            "the agent acts on what it has not noted down"
        );
        let down = &self.down;
        let is_up = |rule: &&PinRule| !down.contains(&rule.interface);
        for rule in rules.iter().filter(is_up) {
            if self.refused.as_ref() == Some(rule) {
                return Err("no such interface".to_owned());
            }
            if !self.kernel.contains(rule) {
                self.kernel.push(rule.clone());
            }
        }
        self.kernel
            .retain(|rule| rules.contains(rule) && !down.contains(&rule.interface));
        Ok(())
    }

    fn instruct(&mut self, fence: &mut Fence, install: Install) -> Ack {
        fence.handle_install(install);
        self.carry_out(fence, usize::MAX);
        self.acks.pop().expect("each instruction is answered")
    }

    /// A new agent on the same machine: it restores the state in force, then serves.
    fn restart(&mut self) -> Fence {
        let text = serde_json::to_string(&self.disk).expect("a record is JSON");
        let record: Record = serde_json::from_str(&text).expect("and is read again");
        let fence = Fence::new(record);
        let in_force = fence.in_force().holding.rules.clone();
        self.apply(&in_force).expect("the kernel held these before");
        fence
    }
}

fn new_switch() -> (Switch, Fence) {
    (Switch::default(), Fence::new(Record::default()))
}

#[test]
fn install_is_durable_before_ack() {
    let mut fence = Fence::new(Record::default());
    fence.handle_install(install(1, 1, &[rule(1, 0)]));
    let mut switch = Switch::default();
    let mut order = vec![];
    while let Some(effect) = fence.effects.front() {
        order.push(match effect {
            FenceEffect::Note(_) => "note",
            FenceEffect::Apply(_) => "apply",
            FenceEffect::ReadBack => "read back",
            FenceEffect::Send(_) => "send",
        });
        switch.carry_out(&mut fence, 1);
    }
    assert_eq!(order, ["note", "apply", "read back", "note", "send"]);
    assert_eq!(switch.acks[0].outcome, Ok(pins(&[rule(1, 0)])));
    assert_eq!(fence.in_force().generation, Generation(1));
}

const CONFIRM_TIMEOUT: Duration = Duration::from_secs(15);

fn unconfirmed(generation: u64, token: u64, rules: &[PinRule]) -> Unconfirmed {
    Unconfirmed {
        install: install(generation, token, rules),
        confirm_timeout_ms: CONFIRM_TIMEOUT.as_millis() as u32,
    }
}

impl Switch {
    fn instruct_unconfirmed(&mut self, fence: &mut Fence, unconfirmed: Unconfirmed) -> Ack {
        fence.handle_unconfirmed(unconfirmed);
        self.carry_out(fence, usize::MAX);
        self.acks.pop().expect("each instruction is answered")
    }

    /// Calls `handle_time` twice a second from this moment on.
    fn waits(&mut self, fence: &mut Fence, from: Moment, span: Duration) -> Moment {
        let look = Duration::from_millis(500);
        let looks = (span.as_millis() / look.as_millis()) as u32;
        for count in 0..=looks {
            fence.handle_time(from + look * count);
            self.carry_out(fence, usize::MAX);
        }
        from + span
    }
}

const START_MOMENT: Moment = Moment::from_micros(1_000_000);
const ALMOST_TIMED_OUT: Duration = Duration::from_millis(14_500);
const ONE_SECOND: Duration = Duration::from_secs(1);

/// A switch with generation 1 confirmed and generation 2 unconfirmed.
fn unsure_switch() -> (Switch, Fence) {
    let (mut switch, mut fence) = new_switch();
    switch.instruct(&mut fence, install(1, 1, &[rule(1, 0)]));
    let ack = switch.instruct_unconfirmed(&mut fence, unconfirmed(2, 2, &[rule(2, 0)]));
    assert_eq!(ack.outcome, Ok(pins(&[rule(2, 0)])));
    (switch, fence)
}

#[test]
fn unconfirmed_install_is_rolled_back() {
    let (mut switch, mut fence) = unsure_switch();
    let now = switch.waits(&mut fence, START_MOMENT, ALMOST_TIMED_OUT);
    assert_eq!(switch.kernel, [rule(2, 0)]);
    assert!(fence.is_unconfirmed());
    switch.waits(&mut fence, now, ONE_SECOND);
    assert_eq!(switch.kernel, [rule(1, 0)]);
    assert_eq!(fence.in_force().generation, Generation(1));
    assert!(!fence.is_unconfirmed() && switch.acks.is_empty());
    // Older instructions are still refused, and the same one is applied again.
    let older = switch
        .instruct(&mut fence, install(1, 1, &[rule(1, 0)]))
        .outcome;
    assert!(
        matches!(older, Err(InstallRefusal::Older { .. })),
        "{older:?}"
    );
    switch.instruct_unconfirmed(&mut fence, unconfirmed(2, 2, &[rule(2, 0)]));
    assert_eq!(switch.kernel, [rule(2, 0)]);
}

#[test]
fn confirmed_install_stays() {
    let (mut switch, mut fence) = unsure_switch();
    let now = switch.waits(&mut fence, START_MOMENT, ALMOST_TIMED_OUT);
    let ack = switch.instruct(&mut fence, install(2, 3, &[rule(2, 0)]));
    assert_eq!(
        (ack.token, ack.outcome),
        (Token(3), Ok(pins(&[rule(2, 0)])))
    );
    switch.waits(&mut fence, now, 10 * CONFIRM_TIMEOUT);
    assert_eq!(switch.kernel, [rule(2, 0)]);
    // An earlier instruction may arrive late, and changes nothing.
    let late = switch.instruct_unconfirmed(&mut fence, unconfirmed(2, 2, &[rule(2, 0)]));
    assert!(
        matches!(late.outcome, Err(InstallRefusal::Older { .. })),
        "{late:?}"
    );
    assert!(!fence.is_unconfirmed());
}

#[test]
fn restart_rolls_back_unconfirmed_install() {
    let (mut switch, _) = unsure_switch();
    let mut fence = switch.restart();
    assert_eq!(switch.kernel, [rule(1, 0)]);
    switch.carry_out(&mut fence, usize::MAX);
    assert_eq!(switch.disk.fallback, None);
    // It may still be confirmed.
    let ack = switch.instruct(&mut fence, install(2, 3, &[rule(2, 0)]));
    assert_eq!(ack.outcome, Ok(pins(&[rule(2, 0)])));
    switch.waits(&mut fence, START_MOMENT, 2 * CONFIRM_TIMEOUT);
    assert_eq!(switch.kernel, [rule(2, 0)]);
}

/// The rollback at a start is recorded first; its result says nothing about later instructions.
#[test]
fn install_waits_for_startup_note() {
    let (mut switch, _) = unsure_switch();
    let mut fence = switch.restart();
    fence.handle_install(install(3, 3, &[rule(3, 0)]));
    switch.carry_out(&mut fence, 1);
    switch.disk_full = true;
    switch.carry_out(&mut fence, usize::MAX);
    let outcome = switch.acks.pop().expect("an answer").outcome;
    assert!(
        matches!(outcome, Err(InstallRefusal::NotDurable { .. })),
        "{outcome:?}"
    );
    assert_eq!(switch.kernel, [rule(1, 0)]);

    let (mut switch, _) = unsure_switch();
    let mut fence = switch.restart();
    fence.handle_install(install(3, 3, &[rule(3, 0)]));
    switch.disk_full = true;
    switch.carry_out(&mut fence, 1);
    switch.disk_full = false;
    switch.carry_out(&mut fence, usize::MAX);
    let outcomes = switch.acks.iter().map(|ack| ack.outcome.is_ok());
    assert_eq!(outcomes.collect::<Vec<_>>(), [true]);
    assert_eq!(switch.kernel, [rule(3, 0)]);
}

/// The agent dies before each step of the rollback.
#[test]
fn rollback_survives_crashes() {
    for steps in 0..4 {
        let (mut switch, mut fence) = unsure_switch();
        let now = switch.waits(&mut fence, START_MOMENT, ALMOST_TIMED_OUT);
        fence.handle_time(now + ONE_SECOND);
        switch.carry_out(&mut fence, steps);
        let fence = switch.restart();
        assert_eq!(switch.kernel, [rule(1, 0)], "after {steps}");
        assert_eq!(fence.in_force().generation, Generation(1));
    }
}

#[test]
fn stopped_time_does_not_count() {
    let (mut switch, mut fence) = unsure_switch();
    let now = switch.waits(&mut fence, START_MOMENT, ONE_SECOND);
    let resumed = now + 10 * CONFIRM_TIMEOUT;
    fence.handle_time(resumed);
    switch.carry_out(&mut fence, usize::MAX);
    assert_eq!(switch.kernel, [rule(2, 0)]);
}

#[test]
fn repeated_instructions_revert_to_confirmed() {
    let (mut switch, mut fence) = unsure_switch();
    let now = switch.waits(&mut fence, START_MOMENT, ALMOST_TIMED_OUT);
    switch.instruct_unconfirmed(&mut fence, unconfirmed(3, 3, &[rule(2, 0), rule(3, 0)]));
    let now = switch.waits(&mut fence, now, ALMOST_TIMED_OUT);
    assert_eq!(switch.kernel, [rule(2, 0), rule(3, 0)]);
    switch.waits(&mut fence, now, ONE_SECOND);
    assert_eq!(switch.kernel, [rule(1, 0)]);
}

#[test]
fn full_disk_allows_rollback() {
    let (mut switch, mut fence) = unsure_switch();
    switch.disk_full = true;
    switch.waits(&mut fence, START_MOMENT, CONFIRM_TIMEOUT);
    assert_eq!(switch.kernel, [rule(1, 0)]);
    assert_eq!(fence.in_force().generation, Generation(1));
}

#[test]
fn refused_install_leaves_timeout_running() {
    let (mut switch, mut fence) = unsure_switch();
    let now = switch.waits(&mut fence, START_MOMENT, ALMOST_TIMED_OUT);
    switch.refused = Some(rule(9, 0));
    let refused = switch
        .instruct(&mut fence, install(3, 3, &[rule(9, 0)]))
        .outcome;
    assert!(
        matches!(refused, Err(InstallRefusal::Kernel { .. })),
        "{refused:?}"
    );
    assert_eq!(switch.kernel, [rule(2, 0)]);
    switch.waits(&mut fence, now, ONE_SECOND);
    assert_eq!(switch.kernel, [rule(1, 0)]);
}

#[test]
fn agent_rejects_older_generation_or_token() {
    let (mut switch, mut fence) = new_switch();
    let newest = install(5, 50, &[rule(1, 0)]);
    assert!(switch.instruct(&mut fence, newest).outcome.is_ok());
    let older = Err(InstallRefusal::Older {
        held: Generation(5),
        token: Token(50),
    });
    for stale in [
        install(4, 51, &[]),
        install(6, 49, &[]),
        install(4, 49, &[]),
    ] {
        assert_eq!(switch.instruct(&mut fence, stale).outcome, older);
    }
    let mut restarted = switch.restart();
    let stale = install(4, 51, &[]);
    assert_eq!(switch.instruct(&mut restarted, stale).outcome, older);
    assert_eq!(switch.kernel, [rule(1, 0)]);
}

#[test]
fn instruction_beyond_refusal_is_followed() {
    let (mut switch, mut fence) = new_switch();
    switch.instruct(&mut fence, install(5, 50, &[rule(1, 0)]));
    let refused = switch.instruct(&mut fence, install(1, 2, &[rule(2, 0)]));
    let Err(InstallRefusal::Older { held, token }) = refused.outcome else {
        panic!("{refused:?}")
    };
    let beyond = install(held.0 + 1, token.0 + 1, &[rule(2, 0)]);
    assert_eq!(
        switch.instruct(&mut fence, beyond).outcome,
        Ok(pins(&[rule(2, 0)]))
    );
}

#[test]
fn pending_instruction_gets_no_earlier_ack() {
    let (mut switch, mut fence) = new_switch();
    switch.instruct(&mut fence, install(1, 1, &[rule(1, 0)]));
    fence.handle_install(install(2, 2, &[rule(2, 0)]));
    fence.handle_install(install(2, 2, &[rule(2, 0)]));
    switch.carry_out(&mut fence, usize::MAX);
    let tokens: Vec<_> = switch.acks.iter().map(|ack| ack.token.0).collect();
    assert_eq!(tokens, [2, 2]);
}

#[test]
fn generation_has_one_content() {
    let (mut switch, mut fence) = new_switch();
    switch.instruct(&mut fence, install(5, 50, &[rule(1, 0), rule(2, 0)]));
    let other = Err(InstallRefusal::DifferentContent {
        held: Generation(5),
        token: Token(50),
    });
    for token in [50, 51] {
        let ack = switch.instruct(&mut fence, install(5, token, &[rule(1, 1)]));
        assert_eq!(ack.outcome, other, "token {token}");
    }
    let next = switch.instruct(&mut fence, install(6, 50, &[rule(1, 0), rule(2, 0)]));
    assert_eq!(next.outcome, other, "a token stands for one generation");
    let same = switch.instruct(&mut fence, install(5, 51, &[rule(2, 0), rule(1, 0)]));
    assert!(same.outcome.is_ok(), "order is no content: {same:?}");
}

#[test]
fn repeated_token_gets_same_ack() {
    let (mut switch, mut fence) = new_switch();
    let first = switch.instruct(&mut fence, install(1, 1, &[rule(1, 0)]));
    fence.handle_install(install(1, 1, &[rule(1, 0)]));
    assert_eq!(fence.poll_effect(), Some(FenceEffect::Send(first)));
    assert_eq!(fence.poll_effect(), None);

    switch.refused = Some(rule(9, 0));
    let refused = switch.instruct(&mut fence, install(2, 2, &[rule(9, 0)]));
    assert!(matches!(
        refused.outcome,
        Err(InstallRefusal::Kernel { .. })
    ));
    fence.handle_install(install(2, 2, &[rule(9, 0)]));
    assert_eq!(fence.poll_effect(), Some(FenceEffect::Send(refused)));
}

#[test]
fn kernel_refusal_is_undone() {
    let (mut switch, mut fence) = new_switch();
    switch.instruct(&mut fence, install(1, 1, &[rule(1, 0)]));
    switch.refused = Some(rule(9, 0));
    let ack = switch.instruct(&mut fence, install(2, 2, &[rule(1, 1), rule(9, 0)]));
    let error = "no such interface".to_owned();
    assert_eq!(ack.outcome, Err(InstallRefusal::Kernel { error }));
    assert_eq!(switch.kernel, [rule(1, 0)]);
    assert_eq!(fence.in_force().generation, Generation(1));
    let mut restarted = switch.restart();
    assert_eq!(
        switch.kernel,
        [rule(1, 0)],
        "nor does a restart bring it back"
    );
    let ack = switch.instruct(&mut restarted, install(3, 3, &[rule(2, 0)]));
    assert_eq!(ack.outcome, Ok(pins(&[rule(2, 0)])));
}

#[test]
fn failed_restore_is_reported_separately() {
    let mut fence = Fence::new(Record::default());
    fence.handle_install(install(1, 1, &[rule(1, 0)]));
    fence.handle_noted(Ok(()));
    fence.handle_applied(Err("no space".to_owned()));
    fence.handle_applied(Err("no such interface".to_owned()));
    let sent = std::iter::from_fn(|| fence.poll_effect()).last();
    let error = "its kernel refused: no space, then: no such interface".to_owned();
    let refused = Err(InstallRefusal::RestoreFailed { error });
    assert!(
        matches!(&sent, Some(FenceEffect::Send(ack)) if ack.outcome == refused),
        "{sent:?}"
    );
}

/// A permanently refused instruction also fences older ones, even after a restart.
#[test]
fn host_without_pins_is_fenced() {
    let mut switch = Switch::default();
    let mut fence = Fence::of_host(Record::default());
    let refused = switch.instruct(&mut fence, install(5, 50, &[rule(1, 0)]));
    assert_eq!(refused.outcome, Err(InstallRefusal::NotASwitch));
    let older = Err(InstallRefusal::Older {
        held: Generation(5),
        token: Token(50),
    });
    assert_eq!(
        switch.instruct(&mut fence, install(4, 49, &[])).outcome,
        older
    );
    let mut restarted = switch.restart();
    assert_eq!(
        switch.instruct(&mut restarted, install(4, 49, &[])).outcome,
        older
    );
    assert_eq!(
        switch.instruct(&mut fence, install(6, 51, &[])).outcome,
        Ok(pins(&[]))
    );
}

#[test]
fn mismatched_kernel_readback_is_refused() {
    let mut fence = Fence::new(Record::default());
    fence.handle_install(install(1, 1, &[rule(1, 0)]));
    fence.handle_noted(Ok(()));
    fence.handle_applied(Ok(()));
    fence.handle_read_back(Ok(pins(&[rule(1, 1)])));
    fence.handle_applied(Ok(()));
    let sent: Vec<_> = std::iter::from_fn(|| fence.poll_effect()).collect();
    let Some(FenceEffect::Send(ack)) = sent.last() else {
        panic!("no answer among {sent:?}");
    };
    let error = "read back, 1 rules were missing and 1 too many".to_owned();
    assert_eq!(ack.outcome, Err(InstallRefusal::Kernel { error }));
}

/// It is installed with the next repair after its interface is up.
#[test]
fn pin_over_dead_interface_is_accepted() {
    let (mut switch, mut fence) = new_switch();
    switch.down.insert("swp1".to_owned());
    let both = [rule(1, 0), rule(2, 1)];
    let ack = switch.instruct(&mut fence, install(1, 1, &both));
    assert_eq!(ack.outcome, Ok(pins(&both)));
    assert_eq!(switch.kernel, [rule(1, 0)]);
    assert_eq!(fence.in_force().holding, pins(&both), "to be completed");
    // Nor does it stop a confirmed commit and what returns without one.
    let ack = switch.instruct_unconfirmed(&mut fence, unconfirmed(2, 2, &[rule(2, 1)]));
    assert_eq!(ack.outcome, Ok(pins(&[rule(2, 1)])));
    assert!(switch.kernel.is_empty() && fence.is_unconfirmed());
    let restarted = switch.restart();
    assert_eq!(restarted.in_force().holding, pins(&both));
    assert_eq!(switch.kernel, [rule(1, 0)]);
}

/// The kernel accepts a route and drops it.
#[test]
fn missing_route_is_refused() {
    let mut fence = Fence::new(Record::default());
    let hops = vec![RouteHop {
        interface: "swp0".to_owned(),
        next_hop: Ipv4Addr::new(10, 1, 0, 0),
        weight: 1,
    }];
    let route = RouteRule {
        destination: Ipv4Addr::new(10, 0, 0, 2),
        hops,
    };
    fence.handle_install(Install {
        holding: ForwardingState {
            routes: vec![route],
            ..ForwardingState::default()
        },
        ..install(1, 1, &[])
    });
    fence.handle_noted(Ok(()));
    fence.handle_applied(Ok(()));
    fence.handle_read_back(Ok(ForwardingState::default()));
    fence.handle_applied(Ok(()));
    let sent = std::iter::from_fn(|| fence.poll_effect()).last();
    let error = "read back, 1 routes were missing and 0 too many".to_owned();
    let refused = Err(InstallRefusal::Kernel { error });
    assert!(
        matches!(&sent, Some(FenceEffect::Send(ack)) if ack.outcome == refused),
        "{sent:?}"
    );
}

#[test]
fn install_requires_durable_record() {
    let (mut switch, mut fence) = new_switch();
    switch.instruct(&mut fence, install(1, 1, &[rule(1, 0)]));
    switch.disk_full = true;
    let ack = switch.instruct(&mut fence, install(2, 2, &[rule(1, 1)]));
    let error = "no space".to_owned();
    assert_eq!(ack.outcome, Err(InstallRefusal::NotDurable { error }));
    assert_eq!(switch.kernel, [rule(1, 0)]);
    switch.disk_full = false;
    let again = switch.instruct(&mut fence, install(2, 2, &[rule(1, 1)]));
    assert_eq!(
        again.outcome,
        Ok(pins(&[rule(1, 1)])),
        "it can be instructed again"
    );
}

/// The rollback was not recorded, and the rolled back instruction arrives again from a former leader.
#[test]
fn undurable_rollback_still_fences_older() {
    let (mut switch, mut fence) = new_switch();
    switch.disk_full = true;
    for report in [install(1, 1, &[rule(1, 0)]), install(2, 2, &[])] {
        let ack = switch.instruct(&mut fence, report);
        assert!(matches!(
            ack.outcome,
            Err(InstallRefusal::NotDurable { .. })
        ));
    }
    switch.disk_full = false;
    let late = switch.instruct(&mut fence, install(1, 1, &[rule(1, 0)]));
    let (held, token) = (Generation(2), Token(2));
    assert_eq!(late.outcome, Err(InstallRefusal::Older { held, token }));
    assert_eq!(switch.kernel, []);
}

#[test]
fn install_undone_when_record_fails() {
    let (mut switch, mut fence) = new_switch();
    switch.instruct(&mut fence, install(1, 1, &[rule(1, 0)]));
    fence.handle_install(install(2, 2, &[rule(1, 1)]));
    switch.carry_out(&mut fence, 3);
    assert_eq!(switch.kernel, [rule(1, 1)]);
    switch.disk_full = true;
    switch.carry_out(&mut fence, usize::MAX);
    let outcome = &switch.acks.last().expect("an answer").outcome;
    assert!(matches!(outcome, Err(InstallRefusal::NotDurable { .. })));
    assert_eq!(switch.kernel, [rule(1, 0)]);
}

#[test]
fn queued_instructions_run_in_order() {
    let (mut switch, mut fence) = new_switch();
    fence.handle_install(install(1, 1, &[rule(1, 0)]));
    fence.handle_install(install(2, 2, &[rule(1, 1)]));
    fence.handle_install(install(1, 1, &[rule(1, 0)]));
    switch.carry_out(&mut fence, usize::MAX);
    let answered = switch
        .acks
        .iter()
        .map(|ack| (ack.generation.0, ack.outcome.is_ok()));
    assert_eq!(
        answered.collect::<Vec<_>>(),
        [(1, true), (2, true), (1, false)]
    );
    assert_eq!(switch.kernel, [rule(1, 1)]);
}

fn some_rules() -> impl Strategy<Value = Vec<PinRule>> {
    let choices = proptest::collection::btree_map(1u16..5, 0u8..2, 0..4);
    choices.prop_map(|choice| {
        choice
            .into_iter()
            .map(|(port, spine)| rule(port, spine))
            .collect()
    })
}

proptest! {
    /// Some generations are confirmed and some are not, and the agent may crash anywhere: it holds what was confirmed
    /// last, or, while it runs, what it acknowledged since.
    #[test]
    fn crash_leaves_last_confirmed_rules(
        contents in proptest::collection::vec((some_rules(), 0usize..9, any::<bool>()), 1..6),
    ) {
        let (mut switch, mut fence) = new_switch();
        let (mut confirmed, mut token) = (InForce::default(), 0);
        for (number, (rules, crash_after, is_confirmed)) in (1..).zip(contents) {
            fence.handle_unconfirmed(unconfirmed(number, token + 1, &rules));
            switch.carry_out(&mut fence, crash_after);

            fence = switch.restart();
            prop_assert_eq!(fence.in_force(), &confirmed);
            prop_assert!(!fence.is_unconfirmed());

            let ack = switch.instruct_unconfirmed(&mut fence, unconfirmed(number, token + 2, &rules));
            prop_assert_eq!(ack.outcome, Ok(pins(&rules)));
            prop_assert!(fence.is_unconfirmed());
            if is_confirmed {
                switch.instruct(&mut fence, install(number, token + 3, &rules));
                confirmed = fence.in_force().clone();
            } else {
                switch.waits(&mut fence, START_MOMENT, 2 * CONFIRM_TIMEOUT);
            }
            prop_assert_eq!(fence.in_force(), &confirmed);
            let mut held = switch.kernel.clone();
            held.sort();
            prop_assert_eq!(&held, &confirmed.holding.rules);
            token += 3;
        }
    }

    /// Generations follow each other; the agent may crash anywhere in each, and the coordinator repeats what was not
    /// acknowledged.
    #[test]
    fn crash_leaves_one_generation(
        contents in proptest::collection::vec((some_rules(), 0usize..7), 1..6),
    ) {
        let (mut switch, mut fence) = new_switch();
        for (number, (rules, crash_after)) in (1..).zip(contents) {
            let instruction = install(number, number, &rules);
            fence.handle_install(instruction.clone());
            let before = fence.in_force().clone();
            switch.carry_out(&mut fence, crash_after);

            fence = switch.restart();
            let in_force = fence.in_force().clone();
            let mut held = switch.kernel.clone();
            held.sort();
            prop_assert_eq!(&held, &in_force.holding.rules, "generations are mixed");
            prop_assert!(in_force == before || in_force.generation == Generation(number));

            let ack = switch.instruct(&mut fence, instruction);
            prop_assert_eq!(ack.outcome, Ok(pins(&rules)));
            prop_assert_eq!(fence.in_force().generation, Generation(number));
        }
    }
}
