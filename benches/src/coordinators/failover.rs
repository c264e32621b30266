//! For how long nothing is decided after a leader is lost: both systems in turns, one client.

use std::fmt;
use std::thread;
use std::time::Duration;

use crate::client::Running;
use crate::machine;
use crate::system::{Place, System};
use crate::times::{Spread, now};
use crate::trio::{Trio, must};

/// Before anything happens to it, a leader has led for so long, and all are together again.
const SETTLED: Duration = Duration::from_millis(1500);
/// A leader that comes back does so after another leads.
const AWAY: Duration = Duration::from_millis(500);

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

    fn strike(self, trio: &mut Trio, system: System, place: Place) {
        match self {
            Self::Killed => trio.kill(system, place),
            Self::Paused => must(trio.program(system, place).freeze()),
            Self::CutOff => trio.cut_off(system, place),
        }
    }

    fn mend(self, trio: &mut Trio, system: System, place: Place) {
        match self {
            Self::Killed => trio.start(system, place),
            Self::Paused => must(trio.program(system, place).thaw()),
            Self::CutOff => trio.heal(place),
        }
    }
}

pub(crate) fn race(losses: &[Loss], rounds: usize) {
    machine::introduce();
    let mut trio = Trio::up();
    let clients = System::ALL.map(|system| Running::start(&trio.stage, system));
    println!("loss system rounds p50_ms p90_ms max_ms");
    for &loss in losses {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for ((system, client), times) in System::ALL.into_iter().zip(&clients).zip(&mut times) {
                times.push(once(&mut trio, system, loss, client));
            }
        }
        let spreads = times.map(Spread::of);
        for (system, spread) in System::ALL.into_iter().zip(&spreads) {
            let [p50, p90, max] = [0.5, 0.9, 1.0].map(|share| spread.ms(share));
            let (name, count) = (system.name(), spread.count());
            println!("{loss} {name} {count} {p50:.0} {p90:.0} {max:.0}");
        }
        let ratio = spreads[0].ms(0.9) / spreads[1].ms(0.9);
        println!("# {loss}: p90 is {ratio:.2} of etcd's (goal: 1.0, and 2000 ms)");
    }
}

fn once(trio: &mut Trio, system: System, loss: Loss, client: &Running) -> Duration {
    let leader = trio.steady_leader(system, SETTLED);
    let lost = now();
    loss.strike(trio, system, leader);
    let outage = client.outage_after(lost);
    thread::sleep(AWAY);
    loss.mend(trio, system, leader);
    outage
}
