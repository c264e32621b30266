//! Faults: each is one event at one moment.

use std::time::Duration;

use reweave_common::ids::OpticalId;
use reweave_common::operator::{Request, Steering};
use reweave_core::State;

use super::cluster::Cluster;
use super::device::Ailment;
use super::light::{Plug, Port};
use super::world::{DELAYS, Event, PLAN_TIMEOUT, World};
use crate::chance::Chance;
use crate::coordinator::{Death, Guest};
use crate::wire::Weather;

/// Maximum duration of a fault of a device.
const MAX_FAULT_TIME: Duration = Duration::from_secs(14);

#[derive(Debug, Clone, Copy)]
pub enum Fault {
    CoordinatorDies,
    /// The coordinator dies at the entry that is this far ahead.
    CoordinatorDiesAfter {
        entries: usize,
        is_durable: bool,
    },
    Dies(Guest),
    /// The program dies while following an instruction, after this number of further steps.
    DiesAfter(Guest, usize),
    SessionBreaks(Guest),
    /// The program does nothing for this time.
    Hangs(Guest, Duration),
    DiskIsFull(Guest, bool),
    /// The kernel accepts this number of further changes, or any number again.
    KernelRefuses(Guest, Option<usize>),
    Ails(OpticalId, Ailment),
    /// Some node's packets go out by this port under any table, or no node's do.
    IsStubborn(Option<Port>),
    WeatherTurns(Weather),
    /// A cable or a fibre, which is whole again after some time.
    Breaks(Plug),
    IsWhole(Plug),
    /// An operator requests this of any running plan.
    Steers(Steering),
}

impl World {
    pub fn afflict(&mut self, delay: Duration, fault: Fault) {
        self.schedule.after(delay, Event::Fault(fault));
    }

    pub fn strike(&mut self, fault: Fault) {
        self.note(format!("{fault:?}"));
        match fault {
            Fault::CoordinatorDies if self.cluster.coordinator.is_running() => {
                self.cluster.coordinator.die();
                self.mourn_coordinator();
            }
            Fault::CoordinatorDies => {}
            Fault::CoordinatorDiesAfter {
                entries,
                is_durable,
            } => {
                let entry = self.cluster.coordinator.log().len() + entries;
                let death = Death { entry, is_durable };
                self.cluster.coordinator.will_die(death);
            }
            Fault::Dies(guest) if self.cluster.is_running(guest) => {
                self.cluster.die(guest);
                self.mourn(guest);
            }
            Fault::Dies(_) => {}
            Fault::DiesAfter(guest, steps) => self.cluster.life(guest).left = Some(steps),
            Fault::SessionBreaks(guest) => {
                if let Some(&session) = self.sessions.get(&guest) {
                    self.lose(guest, session);
                }
            }
            Fault::Hangs(guest, span) => {
                let until = self.now() + span;
                self.hangs_until.insert(guest, until);
            }
            Fault::DiskIsFull(guest, is_full) => self.fill_disk(guest, is_full),
            Fault::KernelRefuses(Guest::Agent(node), patience) => {
                self.cluster.node(node).patience = patience;
            }
            Fault::KernelRefuses(Guest::Driver(_), _) => {}
            Fault::Ails(optical, Ailment::None) => self.cure(optical),
            Fault::Ails(optical, ails) => self.cluster.driver(optical).device.ails = ails,
            Fault::IsStubborn(port) => {
                self.cluster.laws.stubborn = port.into_iter().collect();
                self.cluster.look_at_ways(self.schedule.now());
            }
            Fault::Breaks(plug) => {
                let Cluster {
                    cabling, drivers, ..
                } = &mut self.cluster;
                cabling.breaks(drivers, plug);
                self.cluster.look_at_ways(self.schedule.now());
            }
            Fault::IsWhole(plug) => {
                self.cluster.cabling.mend(plug);
                self.cluster.look_at_ways(self.schedule.now());
            }
            Fault::WeatherTurns(weather) => self.wire.weather = weather,
            Fault::Steers(how) => self.steer(how),
        }
    }

    /// Without a leader it is not heard.
    fn steer(&mut self, how: Steering) {
        let rollouts = self.state().into_iter().flat_map(State::rollouts);
        let under_way: Vec<_> = rollouts.map(|it| it.plan.generation).collect();
        for generation in under_way {
            self.ask(Request::Steer { generation, how });
        }
    }

    fn fill_disk(&mut self, guest: Guest, is_full: bool) {
        match guest {
            Guest::Agent(node) => self.cluster.node(node).disk_is_full = is_full,
            Guest::Driver(optical) => self.cluster.driver(optical).disk_is_full = is_full,
        }
    }

    /// Repairs the light of a switch.
    fn cure(&mut self, optical: OpticalId) {
        self.cluster.driver(optical).device.heal();
        self.cluster.look_at_ways(self.schedule.now());
    }

    /// Everything works again from now on, and an operator looks after what does not by itself.
    pub fn heal(&mut self) {
        self.note("all is well again".to_owned());
        self.wire.weather = Weather::FAIR_WEATHER;
        self.hangs_until.clear();
        self.cluster.laws.stubborn.clear();
        self.cluster.cabling.mend_all();
        for guest in self.cluster.guests() {
            self.fill_disk(guest, false);
            self.cluster.life(guest).left = None;
            match guest {
                Guest::Agent(node) => self.cluster.node(node).patience = None,
                Guest::Driver(optical) => self.cure(optical),
            }
        }
        self.cluster.coordinator.will_live();
        self.schedule.after(Duration::ZERO, Event::LetGoOn);
    }

    /// L1: a running plan ends in time. Then every node holds the state in force, and keeps it after late copies of
    /// messages.
    pub fn rest(&mut self) {
        self.heal();
        if !self.run_until(PLAN_TIMEOUT, |world| !world.is_busy()) {
            self.fail("it never ends");
        }
        self.run_for(DELAYS.echoes);
        self.cluster.look_at_rest(self.schedule.now());
        self.run_for(Duration::from_millis(1));
    }
}

/// Troubles of all kinds over some time, most of which pass.
pub fn plague(world: &mut World, chance: &mut Chance, span: Duration, count: usize) {
    let guests = world.cluster.guests();
    if chance.happens(0.1) {
        stand_in_the_way(world, chance, span);
    }
    for _ in 0..count {
        let at = chance.time(Duration::ZERO, span);
        let until = at + chance.time(Duration::from_millis(200), MAX_FAULT_TIME);
        let guest = *chance.one_of(&guests);
        let (fault, cure) = trouble(world, chance, guest);
        world.afflict(at, fault);
        if let Some(cure) = cure {
            world.afflict(until, cure);
        }
    }
}

/// Fills ports from the beginning: traffic that begins just after a port was seen idle cannot be known.
fn stand_in_the_way(world: &mut World, chance: &mut Chance, span: Duration) {
    let ports: Vec<_> = world.cluster.lit_ports().collect();
    let port = *chance.one_of(&ports);
    world.strike(Fault::IsStubborn(Some(port)));
    let until = chance.time(Duration::ZERO, 2 * span);
    world.afflict(until, Fault::IsStubborn(None));
}

fn trouble(world: &World, chance: &mut Chance, guest: Guest) -> (Fault, Option<Fault>) {
    let once = |fault| (fault, None);
    match chance.below(17) {
        0 => once(Fault::CoordinatorDies),
        1 | 2 => once(Fault::CoordinatorDiesAfter {
            entries: chance.below(12),
            is_durable: chance.happens(0.5),
        }),
        3 => once(Fault::Dies(guest)),
        4 => once(Fault::DiesAfter(guest, chance.below(24))),
        5 => once(Fault::SessionBreaks(guest)),
        6 => {
            let span = chance.time(Duration::from_millis(100), Duration::from_secs(9));
            once(Fault::Hangs(guest, span))
        }
        7 => (
            Fault::DiskIsFull(guest, true),
            Some(Fault::DiskIsFull(guest, false)),
        ),
        9 => (
            Fault::Steers(Steering::Hold),
            Some(Fault::Steers(Steering::Resume)),
        ),
        10 => once(Fault::Steers(Steering::Abort)),
        15 | 16 => {
            let plugs: Vec<_> = world.cluster.cabling.plugs().into_iter().collect();
            let plug = *chance.one_of(&plugs);
            (Fault::Breaks(plug), Some(Fault::IsWhole(plug)))
        }
        8 => (
            Fault::KernelRefuses(guest, Some(chance.below(6))),
            Some(Fault::KernelRefuses(guest, None)),
        ),
        _ => {
            let opticals: Vec<_> = world.cluster.drivers.keys().copied().collect();
            let optical = *chance.one_of(&opticals);
            let ails = *chance.one_of(&[
                Ailment::Silent,
                Ailment::Unreachable,
                Ailment::Delays,
                Ailment::Refuses,
                Ailment::MovesHalf,
                Ailment::WrongPort,
                Ailment::StaysDark,
                Ailment::Flaps,
            ]);
            (
                Fault::Ails(optical, ails),
                Some(Fault::Ails(optical, Ailment::None)),
            )
        }
    }
}
