//! The session of a driver: it first names the optical switches that it reaches, and reports for those.

use std::collections::BTreeMap;
use std::sync::Mutex;

use reweave_common::circuit::{OpticalName, Switchover};
use reweave_common::ids::OpticalId;
use reweave_common::lock::lock;
use reweave_link::{Channel, EncodedMessage, Session, TokenBucket};
use reweave_proto::message::{DriverMessage, DriverOrder};
use tokio::sync::mpsc;

use super::Ending;
use super::deny_list_updates::EncodedLists;
use super::identity_locks::IdentityLock;
use super::member::{self, Kind};
use crate::intake::{Event, Outbox, SessionId};
use crate::server_context::ServerContext;

/// It answers what it is asked, reports circuits every few seconds, and the clock ticks.
const RATE_BYTES_PER_S: u32 = 64 << 10;
const BURST_BYTES: u32 = 256 << 10;

enum OfDrivers {}

impl Kind for OfDrivers {
    type Instruction = Switchover;
    type Message = DriverOrder;
    const ROLE_NAME: &'static str = "driver";

    fn said(words: &EncodedLists) -> &EncodedMessage {
        &words.drivers
    }
}

pub(super) async fn serve(session: Session, id: SessionId, context: ServerContext) {
    if let Err(ending) = member::stand_by::<OfDrivers>(&session, &context).await {
        return member::part::<OfDrivers>(session, &context, ending).await;
    }
    let driver = Driver {
        session: &session,
        id,
        context: &context,
        drives: Mutex::default(),
        renewals: member::renewals(),
    };
    let ending = driver.serve().await;
    // The event has no receiver if the queue is closed.
    let left = Event::DriverLeft { session: id };
    let _ = context.intake.put(left).await;
    drop(driver);
    member::part::<OfDrivers>(session, &context, ending).await;
}

struct Driver<'s> {
    session: &'s Session,
    id: SessionId,
    context: &'s ServerContext,
    /// What it reaches, each with the lock it holds for as long as the session lasts.
    drives: Mutex<BTreeMap<OpticalName, IdentityLock<OpticalId>>>,
    renewals: TokenBucket,
}

impl Driver<'_> {
    async fn serve(&self) -> Ending {
        let (outbox, instructions) = mpsc::channel(member::OUTBOX_LENGTH);
        let session = self.session;
        session
            .pace(
                Channel::Commands,
                TokenBucket::new(RATE_BYTES_PER_S, BURST_BYTES),
            )
            .await;
        tokio::select! {
            ending = self.hear(outbox) => ending,
            ending = member::instruct::<OfDrivers>(session, instructions) => ending,
            ending = member::send_deny_lists::<OfDrivers>(session, self.context) => ending,
            ending = member::send_coordinators::<OfDrivers>(session, self.context) => ending,
            error = session.revoked() => error.into(),
            error = session.expired() => error.into(),
        }
    }

    /// The session ends when the last copy of the outbox is dropped.
    async fn hear(&self, outbox: Outbox<Switchover>) -> Ending {
        let mut outbox = Some(outbox);
        loop {
            let heard = match self.session.receive(Channel::Commands).await {
                Ok(DriverMessage::Drives(names)) => match outbox.take() {
                    Some(outbox) => self.seat(names, outbox).await,
                    None => Ok(()),
                },
                Ok(other) => self.take(other).await,
                Err(error) => Err(error.into()),
            };
            if let Err(ending) = heard {
                return ending;
            }
        }
    }

    async fn seat(
        &self,
        names: Vec<OpticalName>,
        outbox: Outbox<Switchover>,
    ) -> Result<(), Ending> {
        let reached: Vec<_> = names.into_iter().filter_map(|it| self.reach(it)).collect();
        let session = self.id;
        for optical in reached {
            let outbox = outbox.clone();
            let arrived = Event::DriverArrived {
                optical,
                session,
                outbox,
            };
            self.context.intake.put(arrived).await?;
        }
        Ok(())
    }

    /// Unless the fabric has no such switch, or no table names this driver for it, or another speaks for it under that
    /// name. A certificate alone is no right to move circuits.
    fn reach(&self, name: OpticalName) -> Option<OpticalId> {
        let driver = &self.session.peer().name;
        let Some(optical) = self.context.fabric.find_optical(&name.0) else {
            tracing::warn!(
                "driver {driver}: the fabric has no optical switch named {:?}",
                name.0
            );
            return None;
        };
        let named = self.context.assigned_driver.get(&optical);
        if named != Some(driver) {
            let why = match named {
                Some(named) => format!("only {named} may"),
                None => "no [[driver]] names it".to_owned(),
            };
            tracing::warn!("driver {driver} may not drive {name}: {why}");
            return None;
        }
        let (address, admission) = (self.session.address(), self.session.credentials().admission);
        match self
            .context
            .driver_locks
            .take(optical, self.id, address, admission)
        {
            Ok(held) => {
                tracing::info!("driver {driver} at {address} drives {name}");
                lock(&self.drives).insert(name, held);
                Some(optical)
            }
            Err(other) => {
                tracing::warn!("driver {driver} at {address}: {other} already drives {name}");
                None
            }
        }
    }

    async fn take(&self, message: DriverMessage) -> Result<(), Ending> {
        match message {
            DriverMessage::Readback { optical, readback } => {
                let held = lock(&self.drives).get(&optical).map(IdentityLock::identity);
                if let Some(optical) = held {
                    let session = self.id;
                    let answered = Event::ReadBack {
                        optical,
                        session,
                        readback,
                    };
                    self.context.intake.put(answered).await?;
                }
            }
            DriverMessage::Renew { request } => {
                self.renewals.take_one().await;
                member::renew::<OfDrivers>(self.session, self.context, &request).await?;
            }
            // The first makes sense once, and the second is there to be acknowledged.
            DriverMessage::Drives(_) | DriverMessage::Clock { .. } => {}
        }
        Ok(())
    }
}
