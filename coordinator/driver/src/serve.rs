//! The driver as a service: it follows the coordinators' instructions for each optical switch, one after the other,
//! and no switch waits for another.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use reweave_common::circuit::{CircuitSet, NotSwitched, OpticalName, Readback, Switchover};
use reweave_common::error::error_chain;
use reweave_link::service::Watchdog;
use reweave_link::uplink::{self, MemberProtocol, Uplink};
use reweave_proto::hello::Version;
use reweave_proto::message::{DriverMessage, DriverOrder};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::config::Config;
use crate::error::{DeviceError, DriverError};
use crate::operate::Operator;
use crate::state::{Store, Whose};

/// Coordinators tell again what was not answered, so no more than a few ever wait.
const MAX_QUEUED_REQUESTS: usize = 16;

pub type DriverUplink = Uplink<OfDrivers>;
type Event = uplink::UplinkEvent<Switchover>;

pub enum OfDrivers {}

impl MemberProtocol for OfDrivers {
    type Said = DriverMessage;
    type Heard = DriverOrder;
    type Instruction = Switchover;
    /// Its reports go with its answers, whose order counts.
    type Measured = DriverMessage;
    type Report = ();

    fn clock(time_of_day_us: u64) -> DriverMessage {
        DriverMessage::Clock { time_of_day_us }
    }

    fn renew(request: Vec<u8>) -> DriverMessage {
        DriverMessage::Renew { request }
    }

    fn report((): &mut (), message: DriverMessage, _: Version) -> DriverMessage {
        message
    }
}

/// Serves until the process is asked to end. The devices keep the circuits they hold then.
pub async fn serve(
    config: &Config,
    store: &Store,
    uplink: DriverUplink,
) -> Result<(), DriverError> {
    let (answers, answered) = mpsc::channel(MAX_QUEUED_REQUESTS);
    let mut desks = BTreeMap::new();
    let mut operators = vec![];
    for optical in &config.optical {
        let operator = Operator::new(optical, Whose::Coordinators, store)?;
        let (tell, orders) = mpsc::channel(MAX_QUEUED_REQUESTS);
        let reads = interval(optical.read_interval());
        operators.push(operate(operator, reads, orders, answers.clone()));
        desks.insert(OpticalName(optical.name.clone()), tell);
    }
    let ends = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [terminate, interrupt] = ends.map(|end| end.map_err(|source| DriverError::Loop { source }));
    let desk = Desk { uplink, desks };
    tokio::select! {
        served = desk.serve(answered, [terminate?, interrupt?]) => served,
        _ = join_all(operators) => Err(DriverError::LineGone),
    }
}

struct Desk {
    uplink: DriverUplink,
    desks: BTreeMap<OpticalName, mpsc::Sender<Switchover>>,
}

impl Desk {
    async fn serve(
        mut self,
        mut answered: mpsc::Receiver<DriverMessage>,
        [mut terminate, mut interrupt]: [Signal; 2],
    ) -> Result<(), DriverError> {
        let mut watchdog = Watchdog::ready();
        loop {
            tokio::select! {
                () = watchdog.due() => watchdog.feed(),
                event = self.uplink.next() => self.handle(event.ok_or(DriverError::LineGone)?),
                Some(answer) = answered.recv() => self.uplink.answer(answer),
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
            }
        }
        self.uplink.close().await;
        Ok(())
    }

    fn handle(&self, event: Event) {
        match event {
            Event::Connected => {
                let names = self.desks.keys().cloned();
                self.uplink.answer(DriverMessage::Drives(names.collect()));
            }
            Event::Instructed(switchover) => self.pass_on(switchover),
            Event::Lost => {}
        }
    }

    /// Instructions that do not fit are sent again.
    fn pass_on(&self, switchover: Switchover) {
        let optical = OpticalName(switchover.optical.clone());
        match self.desks.get(&optical) {
            Some(desk) => drop(desk.try_send(switchover)),
            None => self.uplink.answer(DriverMessage::Readback {
                optical,
                readback: Readback {
                    generation: switchover.generation,
                    token: switchover.token,
                    outcome: Err(NotSwitched::NoSuchSwitch),
                },
            }),
        }
    }
}

/// Follows instructions, and reads the device between them: its circuits may change without an instruction. Answers
/// and reports are sent in the order in which the device was read.
async fn operate(
    mut operator: Operator<'_>,
    mut reads: Interval,
    mut switchovers: mpsc::Receiver<Switchover>,
    answers: mpsc::Sender<DriverMessage>,
) {
    reads.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = LastRead::default();
    loop {
        tokio::select! {
            biased;
            switchover = switchovers.recv() => match switchover {
                Some(switchover) => follow(&mut operator, switchover, &answers).await,
                None => return,
            },
            _ = reads.tick() => report(&operator, &mut last, &answers).await,
        }
    }
}

async fn follow(
    operator: &mut Operator<'_>,
    switchover: Switchover,
    answers: &mpsc::Sender<DriverMessage>,
) {
    let optical = OpticalName(switchover.optical.clone());
    tracing::info!("{optical}: set circuits {}", switchover.desired);
    for readback in operator.follow(switchover).await {
        match &readback.outcome {
            Ok(found) => tracing::info!("{optical} holds {found}"),
            Err(why) => tracing::warn!("{optical}: {why}"),
        }
        let optical = optical.clone();
        let _ = answers
            .send(DriverMessage::Readback { optical, readback })
            .await;
    }
}

/// Reports the circuits at each read, whether or not they have changed: the session may have been lost meanwhile, or
/// another coordinator may lead.
async fn report(
    operator: &Operator<'_>,
    last: &mut LastRead,
    answers: &mpsc::Sender<DriverMessage>,
) {
    let optical = OpticalName(operator.device().name().to_owned());
    match operator.device().read().await {
        Ok(found) => {
            last.note_found(&optical, &found);
            let readback = Readback::unordered(found);
            let _ = answers
                .send(DriverMessage::Readback { optical, readback })
                .await;
        }
        Err(error) => last.note_error(&optical, &error),
    }
}

/// The last read without an instruction, so that the log names each change once.
#[derive(Default)]
struct LastRead {
    found: Option<CircuitSet>,
    is_silent: bool,
}

impl LastRead {
    fn note_found(&mut self, optical: &OpticalName, found: &CircuitSet) {
        if self.found.as_ref() != Some(found) {
            tracing::info!("{optical}: read circuits {found}");
        }
        (self.found, self.is_silent) = (Some(found.clone()), false);
    }

    fn note_error(&mut self, optical: &OpticalName, error: &DeviceError) {
        if !self.is_silent {
            tracing::warn!("{optical} cannot be read: {}", error_chain(error));
        }
        self.is_silent = true;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::{ExecSettings, Optical, Speaks};
    use crate::examples::circuits;

    /// A device whose circuits are what the file holds.
    fn device_of(file: &std::path::Path) -> Optical {
        let script = format!("read -r request; cat {}", file.display());
        Optical {
            name: "ocs0".to_owned(),
            ports: 8,
            patience_ms: 30_000,
            read_interval_ms: 0,
            speaks: Speaks::Exec(ExecSettings {
                program: "/bin/sh".into(),
                arguments: vec!["-c".to_owned(), script],
            }),
        }
    }

    fn unordered(pairs: &[(u16, u16)]) -> Option<DriverMessage> {
        Some(DriverMessage::Readback {
            optical: OpticalName("ocs0".to_owned()),
            readback: Readback::unordered(circuits(pairs)),
        })
    }

    #[tokio::test]
    async fn circuit_lost_by_device_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("circuits");
        fs::write(&file, "{\"circuits\":[[1,5],[2,6]]}\n").unwrap();
        let optical = device_of(&file);
        let store = Store::open(&folder.path().join("state")).unwrap();
        let operator = Operator::new(&optical, Whose::Coordinators, &store).unwrap();
        let (_tell, orders) = mpsc::channel(1);
        let (answers, mut answered) = mpsc::channel(1);
        let heard = async {
            assert_eq!(answered.recv().await, unordered(&[(1, 5), (2, 6)]));
            fs::write(&file, "{\"circuits\":[[2,6]]}\n").unwrap();
            // A report may wait, another may be about to be sent.
            for _ in 0..3 {
                answered.recv().await;
            }
            assert_eq!(answered.recv().await, unordered(&[(2, 6)]));
        };
        tokio::select! {
            () = operate(operator, interval(optical.read_interval()), orders, answers) => {
                panic!("it reads no longer")
            }
            () = heard => {}
        }
    }
}
