//! The minor version since which each kind of message is understood. Sessions check this for every message, and carry
//! nothing that the peer does not understand. Readings within a sample have versions of their own, and a sample for an
//! earlier peer leaves the later ones out.

use reweave_common::operator::{Refused, Request, Response};
use reweave_common::sample::{HostReading, Reading, Sample};

use crate::message::{AgentMessage, CoordinatorMessage, DriverMessage, Order, PeerPart};
use crate::protocol_version::{PROTOCOL_VERSION, Version};

/// Messages of a minor version have its number here; all others exist since the first version.
pub trait SinceVersion {
    /// The minor version that it came with.
    fn since(&self) -> u16;

    /// Whether a peer of this version understands it.
    fn is_known_at(&self, spoken: Version) -> bool {
        spoken >= came_with(self.since())
    }
}

/// The version that has this minor.
pub fn came_with(minor: u16) -> Version {
    Version {
        minor,
        ..PROTOCOL_VERSION
    }
}

/// The sample without the readings that a peer of this version does not understand.
pub fn sample_for_version(mut sample: Sample, spoken: Version) -> Sample {
    let readings = &mut sample.readings;
    readings.retain(|reading| reading.is_known_at(spoken));
    sample
}

/// The response, in which a refusal that a peer of this version does not understand is in words.
pub fn response_for_version(response: Response, spoken: Version) -> Response {
    match response {
        Response::Refused(refused) if !refused.is_known_at(spoken) => {
            let reasons = vec![refused.to_string()];
            Response::Refused(Refused::Unfit { reasons })
        }
        other => other,
    }
}

impl SinceVersion for Refused {
    fn since(&self) -> u16 {
        match self {
            Self::BadSetting { .. }
            | Self::PolicyChanged { .. }
            | Self::SettingInUse { .. }
            | Self::UnderMaintenance { .. } => 2,
            _ => 0,
        }
    }
}

impl SinceVersion for Reading {
    fn since(&self) -> u16 {
        match self {
            Self::Host(HostReading::NicPlace(_)) => 2,
            _ => 0,
        }
    }
}

impl SinceVersion for AgentMessage {
    fn since(&self) -> u16 {
        match self {
            Self::Sample(sample) => {
                let readings = sample.readings.iter().map(SinceVersion::since);
                readings.max().unwrap_or_default()
            }
            _ => 0,
        }
    }
}

impl SinceVersion for CoordinatorMessage {
    fn since(&self) -> u16 {
        let is_later = matches!(
            self,
            Self::Coordinators(_)
                | Self::DeniedMore(_)
                | Self::Closely(_)
                | Self::Unconfirmed(_)
                | Self::Removed(_)
        );
        u16::from(is_later)
    }
}

impl SinceVersion for DriverMessage {
    fn since(&self) -> u16 {
        0
    }
}

impl<T> SinceVersion for Order<T> {
    fn since(&self) -> u16 {
        let is_later = matches!(
            self,
            Self::Coordinators(_) | Self::DeniedMore(_) | Self::Removed(_)
        );
        u16::from(is_later)
    }
}

impl SinceVersion for PeerPart {
    fn since(&self) -> u16 {
        0
    }
}

impl SinceVersion for Request {
    fn since(&self) -> u16 {
        match self {
            Self::Policy
            | Self::PolicySet { .. }
            | Self::Nics { .. }
            | Self::Traffic { .. }
            | Self::RailMatrix { .. }
            | Self::TakeOver { .. } => 2,
            Self::Standing
            | Self::Steer { .. }
            | Self::Lanes { .. }
            | Self::Reorder { .. }
            | Self::ClusterVersion { .. }
            | Self::DenyLists => 1,
            _ => 0,
        }
    }
}

impl SinceVersion for Response {
    fn since(&self) -> u16 {
        match self {
            Self::Policy(_) | Self::Nics(_) | Self::Traffic(_) => 2,
            Self::Standing(_)
            | Self::Steered { .. }
            | Self::Lanes(_)
            | Self::ClusterVersion { .. }
            | Self::DenyLists(_) => 1,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::hardware::Lack;
    use reweave_common::moment::Moment;
    use reweave_common::operator::MaintenanceStage;

    use super::*;

    #[test]
    fn mixed_sample_is_filtered() {
        let lack = Reading::Host(HostReading::Lack(Lack::default()));
        let place = Reading::Host(HostReading::NicPlace(Box::default()));
        let mixed = Sample {
            taken: Moment::default(),
            readings: vec![place, lack.clone()],
        };
        let [earlier, later] = [1, 2].map(|minor| {
            let sample = sample_for_version(mixed.clone(), came_with(minor));
            AgentMessage::Sample(sample)
        });
        let old = Sample {
            readings: vec![lack],
            ..mixed.clone()
        };
        assert_eq!((earlier.since(), &earlier), (0, &AgentMessage::Sample(old)));
        assert_eq!((later.since(), &later), (2, &AgentMessage::Sample(mixed)));
    }

    #[test]
    fn earlier_peer_gets_refusal_in_words() {
        let refused = Refused::UnderMaintenance {
            name: "spine0".to_owned(),
            by: "ann".to_owned(),
            stage: MaintenanceStage::Working,
            age_s: 25,
        };
        let [earlier, later] = [1, 2].map(|minor| {
            response_for_version(Response::Refused(refused.clone()), came_with(minor))
        });
        let Response::Refused(Refused::Unfit { reasons }) = earlier else {
            panic!("1.1 has no other kind for it: {earlier:?}");
        };
        assert_eq!(reasons, [refused.to_string()]);
        assert_eq!(later, Response::Refused(refused));
        let old = Response::Refused(Refused::NoPlan);
        assert_eq!(response_for_version(old.clone(), came_with(1)), old);
    }
}
