//! The trains of one flow. They grow until they exceed the token buckets on their path and the program's sending time,
//! and shrink when they are lost.

use reweave_common::bandwidth::{Bandwidth, Unclear};

use super::{BandwidthEstimate, MAX_PACKETS, TrainShape, TrainVerdict};

/// The initial number of packets.
const INITIAL_PACKETS: u32 = 64;
const MIN_PACKETS: u32 = 32;
/// This many trains without a rate change the length.
const TRAINS_PER_RESIZE: u32 = 3;

#[derive(Debug, Clone)]
pub struct TrainSequence {
    shape: TrainShape,
    most_packets: u32,
    estimate: BandwidthEstimate,
    too_short: u32,
    too_long: u32,
}

impl TrainSequence {
    /// Creates a sequence with packets of this many bytes and at most `most_packets` per train.
    pub fn new(bytes: u16, most_packets: u32) -> Self {
        let most_packets = most_packets.clamp(MIN_PACKETS, MAX_PACKETS);
        Self {
            shape: TrainShape {
                packets: INITIAL_PACKETS.min(most_packets),
                bytes,
            },
            most_packets,
            estimate: BandwidthEstimate::default(),
            too_short: 0,
            too_long: 0,
        }
    }

    /// The shape of the next train.
    pub fn shape(&self) -> TrainShape {
        self.shape
    }

    /// The number of trains of the present shape.
    pub fn trains(&self) -> u32 {
        self.estimate.trains()
    }

    pub fn bandwidth(&self) -> Bandwidth {
        self.estimate.bandwidth()
    }

    pub fn handle_verdict(&mut self, verdict: TrainVerdict) {
        self.estimate.handle_verdict(verdict);
        match verdict {
            TrainVerdict::Rate(_) => {
                self.too_short = self.too_short.saturating_sub(1);
                self.too_long = self.too_long.saturating_sub(1);
            }
            TrainVerdict::Unclear(Unclear::Lost) => self.too_long += 1,
            TrainVerdict::AtLeast(_) | TrainVerdict::Unclear(_) => self.too_short += 1,
        }
        if self.too_long >= TRAINS_PER_RESIZE {
            // Later trains are limited as well.
            self.most_packets = (self.shape.packets / 2).max(MIN_PACKETS);
            self.take_shape(self.most_packets);
        } else if self.too_short >= TRAINS_PER_RESIZE {
            self.take_shape((self.shape.packets * 2).min(self.most_packets));
        }
    }

    fn take_shape(&mut self, packets: u32) {
        if packets != self.shape.packets {
            self.shape.packets = packets;
            self.estimate = BandwidthEstimate::default();
        }
        (self.too_short, self.too_long) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(verdicts: &[(TrainVerdict, usize)]) -> TrainSequence {
        let mut sequence = TrainSequence::new(1472, 1000);
        for (verdict, times) in verdicts {
            (0..*times).for_each(|_| sequence.handle_verdict(*verdict));
        }
        sequence
    }

    #[test]
    fn trains_grow_until_rate_is_known() {
        let short = TrainVerdict::AtLeast(9e9);
        let sequence = after(&[(short, 6), (TrainVerdict::Rate(1e9), 6)]);
        assert_eq!((sequence.shape().packets, sequence.trains()), (256, 6));
        assert!(matches!(
            sequence.bandwidth(),
            Bandwidth::Known { trains: 6, .. }
        ));
        let sequence = after(&[(short, 30)]);
        assert_eq!(sequence.shape().packets, 1000);
        assert!(matches!(sequence.bandwidth(), Bandwidth::AtLeast { .. }));
    }

    #[test]
    fn few_failed_trains_change_nothing() {
        let wrong = TrainVerdict::Unclear(Unclear::Unsteady);
        let sequence = after(&[(wrong, 2), (TrainVerdict::Rate(1e9), 4), (wrong, 2)]);
        assert_eq!((sequence.shape().packets, sequence.trains()), (64, 8));
    }

    #[test]
    fn lost_trains_become_shorter() {
        let lost = TrainVerdict::Unclear(Unclear::Lost);
        let sequence = after(&[(TrainVerdict::AtLeast(9e9), 6), (lost, 3)]);
        assert_eq!(sequence.shape().packets, 128);
        let sequence = after(&[(lost, 3), (TrainVerdict::AtLeast(9e9), 9)]);
        assert_eq!(sequence.shape().packets, 32);
    }
}
