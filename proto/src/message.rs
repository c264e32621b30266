//! The messages between an agent or a driver and the coordinator, and between coordinators. A later minor version
//! adds kinds at the end, and [`crate::since_version`] has the version of each: a session does not carry it to a peer
//! of an earlier one. A sender with an alternative asks before.

use std::net::SocketAddr;

use reweave_common::circuit::{OpticalName, Readback, Switchover};
use reweave_common::instruction::{Ack, FastSampling, Install, Instruction, Unconfirmed, Watch};
use reweave_common::member::{DenyList, RemovedCoordinators};
use reweave_common::probing::ProbeList;
use reweave_common::sample::Sample;
use serde::{Deserialize, Serialize};

pub const MAX_COORDINATORS: usize = 16;

/// Where a coordinator listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinatorAddress {
    /// As in its certificate.
    pub name: String,
    pub address: SocketAddr,
}

/// From an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentMessage {
    Sample(Sample),
    Ack(Ack),
    /// What the agent's clock shows.
    Clock {
        time_of_day_us: u64,
    },
    /// Certify this new key for me.
    Renew {
        request: Vec<u8>,
    },
}

/// To an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CoordinatorMessage {
    Watch(Watch),
    Install(Install),
    /// Revoked members: none of these is a coordinator any longer.
    Denied(DenyList),
    /// The new certificate and that of its signer, in PEM; none when there will be none, and the
    /// reason is the coordinator's own.
    Renewed {
        chain_pem: Option<String>,
    },
    Probe(ProbeList),
    /// This coordinator does not lead: another does, at this address where that is known. A member that stays is called
    /// when that changes.
    Elsewhere(Option<SocketAddr>),
    /// This one has come to lead.
    Here,
    /// All coordinators, at most [`MAX_COORDINATORS`]: any other is none any longer.
    Coordinators(Vec<CoordinatorAddress>),
    /// These are revoked in addition to those sent before over this session.
    DeniedMore(DenyList),
    Closely(FastSampling),
    Unconfirmed(Unconfirmed),
    /// All removed coordinators: their own certificates are refused, and what their signers signed is not.
    Removed(RemovedCoordinators),
}

impl From<Instruction> for CoordinatorMessage {
    fn from(instruction: Instruction) -> Self {
        match instruction {
            Instruction::Watch(watch) => Self::Watch(watch),
            Instruction::Install(install) => Self::Install(install),
            Instruction::Probe(list) => Self::Probe(list),
            Instruction::Closely(closely) => Self::Closely(closely),
            Instruction::Unconfirmed(unconfirmed) => Self::Unconfirmed(unconfirmed),
        }
    }
}

/// From the driver of optical switches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DriverMessage {
    /// The optical switches it reaches, by name. Nothing is heard from it before.
    Drives(Vec<OpticalName>),
    /// The answer to an instruction, or the circuits of the device without one ([`Readback::unordered`]).
    Readback {
        optical: OpticalName,
        readback: Readback,
    },
    Clock {
        time_of_day_us: u64,
    },
    /// Certify this new key for me.
    Renew {
        request: Vec<u8>,
    },
}

/// To a driver.
pub type DriverOrder = Order<Switchover>;

/// To a member with an uplink: an instruction, or a notice for any member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order<T> {
    #[serde(rename = "Told")]
    Instructed(T),
    /// Revoked members: none of these is a coordinator any longer.
    Denied(DenyList),
    /// The new certificate and that of its signer, in PEM; none when there will be none, and the
    /// reason is the coordinator's own.
    Renewed { chain_pem: Option<String> },
    /// This coordinator does not lead: another does, at this address where that is known. A member that stays is called
    /// when that changes.
    Elsewhere(Option<SocketAddr>),
    /// This one has come to lead.
    Here,
    /// All coordinators, at most [`MAX_COORDINATORS`]: any other is none any longer.
    Coordinators(Vec<CoordinatorAddress>),
    /// These are revoked in addition to those sent before over this session.
    DeniedMore(DenyList),
    /// All removed coordinators: their own certificates are refused, and what their signers signed is not.
    Removed(RemovedCoordinators),
}

impl From<Order<Instruction>> for CoordinatorMessage {
    fn from(order: Order<Instruction>) -> Self {
        match order {
            Order::Instructed(instruction) => instruction.into(),
            Order::Denied(list) => Self::Denied(list),
            Order::Renewed { chain_pem } => Self::Renewed { chain_pem },
            Order::Elsewhere(there) => Self::Elsewhere(there),
            Order::Here => Self::Here,
            Order::Coordinators(seats) => Self::Coordinators(seats),
            Order::DeniedMore(list) => Self::DeniedMore(list),
            Order::Removed(list) => Self::Removed(list),
        }
    }
}

impl From<CoordinatorMessage> for Order<Instruction> {
    fn from(message: CoordinatorMessage) -> Self {
        match message {
            CoordinatorMessage::Watch(watch) => Self::Instructed(Instruction::Watch(watch)),
            CoordinatorMessage::Install(install) => Self::Instructed(Instruction::Install(install)),
            CoordinatorMessage::Probe(list) => Self::Instructed(Instruction::Probe(list)),
            CoordinatorMessage::Closely(it) => Self::Instructed(Instruction::Closely(it)),
            CoordinatorMessage::Unconfirmed(it) => Self::Instructed(Instruction::Unconfirmed(it)),
            CoordinatorMessage::Denied(list) => Self::Denied(list),
            CoordinatorMessage::Renewed { chain_pem } => Self::Renewed { chain_pem },
            CoordinatorMessage::Elsewhere(there) => Self::Elsewhere(there),
            CoordinatorMessage::Here => Self::Here,
            CoordinatorMessage::Coordinators(seats) => Self::Coordinators(seats),
            CoordinatorMessage::DeniedMore(list) => Self::DeniedMore(list),
            CoordinatorMessage::Removed(list) => Self::Removed(list),
        }
    }
}

/// Between coordinators: a part of a message that only they decode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerPart {
    pub is_last: bool,
    pub bytes: Vec<u8>,
}
