//! The driver as a service: it follows the coordinators' instructions for each optical switch, one after the other,
//! and no switch waits for another.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use reweave_common::circuit::{NotSwitched, OpticalName, Readback, Switchover};
use reweave_link::service::Watchdog;
use reweave_link::uplink::{self, MemberProtocol, Uplink};
use reweave_proto::hello::Version;
use reweave_proto::message::{DriverMessage, DriverOrder};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::config::Config;
use crate::error::DriverError;
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
    /// It says nothing unasked.
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
        operators.push(operate(operator, orders, answers.clone()));
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

async fn operate(
    mut operator: Operator<'_>,
    mut switchovers: mpsc::Receiver<Switchover>,
    answers: mpsc::Sender<DriverMessage>,
) {
    while let Some(switchover) = switchovers.recv().await {
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
}
