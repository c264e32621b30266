//! Time without decisions after the loss of a leader: both systems in turn, with one client.

use std::fmt;
use std::thread;
use std::time::Duration;

use reweave_tests::StageError;

use crate::client::Running;
use crate::machine;
use crate::system::{Place, System};
use crate::times::{Spread, now};
use crate::trio::Trio;

/// Minimum time for which a leader has led, with all members connected, before it is lost.
const MIN_STEADY_TIME: Duration = Duration::from_millis(1500);
/// Downtime of a leader, so that another leads when it returns.
const LEADER_DOWNTIME: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy)]
pub(crate) enum Loss {
    Killed,
    Paused,
    CutOff,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Loss {
    pub(crate) const ALL: [Self; 3] = [Self::Killed, Self::Paused, Self::CutOff];

    fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Paused => "paused",
            Self::CutOff => "cut-off",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|loss| loss.name() == name)
    }

    fn strike(self, trio: &mut Trio, system: System, place: Place) -> Result<(), StageError> {
        match self {
            Self::Killed => trio.kill(system, place),
            Self::Paused => trio.program(system, place).freeze()?,
            Self::CutOff => trio.cut_off(system, place)?,
        }
        Ok(())
    }

    fn mend(self, trio: &mut Trio, system: System, place: Place) -> Result<(), StageError> {
        match self {
            Self::Killed => trio.start(system, place),
            Self::Paused => trio.program(system, place).thaw(),
            Self::CutOff => trio.heal(place),
        }
    }
}

/// Prints each round as it ends, because all of them take many minutes.
pub(crate) fn race(losses: &[Loss], rounds: usize) -> Result<(), StageError> {
    machine::introduce();
    let mut trio = Trio::up()?;
    let clients = System::ALL.map(|system| {
        let client = Running::start(&trio.stage, system);
        client.inspect_err(|_| eprintln!("{}", trio.last_words(system)))
    });
    let [reweave, etcd] = clients;
    let clients = [reweave?, etcd?];
    println!("loss system rounds p50_ms p90_ms max_ms");
    for &loss in losses {
        let mut times = [Vec::new(), Vec::new()];
        for round in 1..=rounds {
            for ((system, client), times) in System::ALL.into_iter().zip(&clients).zip(&mut times) {
                let outage = once(&mut trio, system, loss, client);
                let outage = outage.inspect_err(|_| {
                    eprintln!("{loss}, round {round}:\n{}", trio.last_words(system));
                })?;
                let (name, ms) = (system.name(), outage.as_millis());
                println!("# {loss} {name}, {round} of {rounds}: {ms} ms");
                times.push(outage);
            }
        }
        sum_up(loss, &times.map(Spread::of));
    }
    Ok(())
}

fn sum_up(loss: Loss, spreads: &[Spread; 2]) {
    for (system, spread) in System::ALL.into_iter().zip(spreads) {
        let [p50, p90, max] = [0.5, 0.9, 1.0].map(|share| spread.ms(share));
        let (name, count) = (system.name(), spread.count());
        println!("{loss} {name} {count} {p50:.0} {p90:.0} {max:.0}");
    }
    let ratio = spreads[0].ms(0.9) / spreads[1].ms(0.9);
    println!("# {loss}: p90 is {ratio:.2} of etcd's (goal: 1.0, and 2000 ms)");
}

fn once(
    trio: &mut Trio,
    system: System,
    loss: Loss,
    client: &Running,
) -> Result<Duration, StageError> {
    let leader = trio.steady_leader(system, MIN_STEADY_TIME)?;
    let lost = now();
    loss.strike(trio, system, leader)?;
    let outage = client.outage_after(lost)?;
    thread::sleep(LEADER_DOWNTIME);
    loss.mend(trio, system, leader)?;
    Ok(outage)
}
