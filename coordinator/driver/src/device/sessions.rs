//! Sessions that stay open between requests, for devices with a slow login. Requests run one after the other.

use reweave_common::circuit::{Circuit, CircuitSet};
use tokio::sync::Mutex;

use super::Verb;
use crate::error::DeviceError;

pub(super) trait Opens {
    type Session: Session;

    async fn open(&self) -> Result<Self::Session, DeviceError>;
}

/// What has failed once is not asked again: its answers may be those to earlier requests.
pub(super) trait Session {
    async fn read(&mut self) -> Result<CircuitSet, DeviceError>;

    async fn change(&mut self, verb: Verb, circuits: &[Circuit]) -> Result<(), DeviceError>;
}

pub(super) struct Sessions<O: Opens> {
    device: O,
    kept: Mutex<Option<O::Session>>,
}

impl<O: Opens> Sessions<O> {
    pub(super) fn of(device: O) -> Self {
        let kept = Mutex::new(None);
        Self { device, kept }
    }

    /// Devices hang up on those who were silent for long, and start again. They are called again.
    pub(super) async fn read(&self) -> Result<CircuitSet, DeviceError> {
        let mut kept = self.kept.lock().await;
        if let Some(mut session) = kept.take()
            && let Ok(found) = session.read().await
        {
            *kept = Some(session);
            return Ok(found);
        }
        let mut session = self.device.open().await?;
        let found = session.read().await?;
        *kept = Some(session);
        Ok(found)
    }

    /// Never repeated: a failed change may have been made. The caller has read just before.
    pub(super) async fn change(&self, verb: Verb, circuits: &[Circuit]) -> Result<(), DeviceError> {
        let mut kept = self.kept.lock().await;
        let mut session = match kept.take() {
            Some(session) => session,
            None => self.device.open().await?,
        };
        session.change(verb, circuits).await?;
        *kept = Some(session);
        Ok(())
    }
}
