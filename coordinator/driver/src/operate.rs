//! One optical switch: its fence, its record and its session.

use reweave_common::circuit::{Readback, Switchover};
use reweave_common::error::error_chain;
use reweave_link::durable_files::LockedFolderError;

use crate::config::Optical;
use crate::device::Device;
use crate::error::DriverError;
use crate::fence::{Effect, Fence, Record};
use crate::state::{Store, Whose};

pub struct Operator<'s> {
    device: Device,
    fence: Fence,
    store: &'s Store,
    whose: Whose,
}

impl<'s> Operator<'s> {
    pub fn new(optical: &Optical, whose: Whose, store: &'s Store) -> Result<Self, DriverError> {
        let record = store.load(whose, &optical.name)?;
        Ok(Self {
            device: Device::open(optical)?,
            fence: Fence::new(record, optical.ports),
            store,
            whose,
        })
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Follows an instruction to its end, unless it must not.
    pub async fn follow(&mut self, switchover: Switchover) -> Vec<Readback> {
        let mut answers = vec![];
        self.fence.handle_switchover(switchover);
        while let Some(effect) = self.fence.poll_effect() {
            match effect {
                Effect::Note(record) => {
                    let noted = self.note(&record);
                    self.fence
                        .handle_noted(noted.map_err(|error| error_chain(&error)));
                }
                Effect::Read { until } => {
                    let found = self.device.read_until(until.as_ref()).await;
                    self.fence.handle_read(found.ok());
                }
                Effect::Move(moves) => {
                    let moved = self.device.carry_out(&moves).await;
                    self.fence.handle_moved(moved);
                }
                Effect::Send(answer) => answers.push(answer),
            }
        }
        answers
    }

    fn note(&self, record: &Record) -> Result<(), LockedFolderError> {
        self.store.note(self.whose, self.device.name(), record)
    }
}
