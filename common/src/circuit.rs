//! Optical switches: their circuits, and a driver's instructions and answers.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::instruction::Token;
use crate::plan::Generation;

/// A port of an optical switch, as the device numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct PortId(pub u16);

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Light that enters at either port leaves at the other. The lower port comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "[PortId; 2]", into = "[PortId; 2]")]
pub struct Circuit {
    a: PortId,
    b: PortId,
}

impl Circuit {
    pub fn new(one: PortId, other: PortId) -> Self {
        Self {
            a: one.min(other),
            b: one.max(other),
        }
    }

    fn from_text(text: &str) -> Result<Self, NoCircuit> {
        let port = |text: &str| text.trim().parse().ok().map(PortId);
        let ends = text.split_once('-');
        let ends = ends.and_then(|(a, b)| Some([port(a)?, port(b)?]));
        ends.map(Self::from)
            .ok_or_else(|| NoCircuit(text.to_owned()))
    }

    pub fn ports(self) -> [PortId; 2] {
        [self.a, self.b]
    }
}

/// The schema of a circuit is a pair of ports.
#[cfg(feature = "schema")]
impl utoipa::PartialSchema for Circuit {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        let ports = utoipa::openapi::ArrayBuilder::new().items(PortId::schema());
        let pair = ports.min_items(Some(2)).max_items(Some(2));
        pair.unique_items(true).into()
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for Circuit {}

impl From<[PortId; 2]> for Circuit {
    fn from([one, other]: [PortId; 2]) -> Self {
        Self::new(one, other)
    }
}

impl From<Circuit> for [PortId; 2] {
    fn from(circuit: Circuit) -> Self {
        circuit.ports()
    }
}

impl fmt::Display for Circuit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.a, self.b)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoCircuit(String);

impl fmt::Display for NoCircuit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a circuit such as 1-9", self.0)
    }
}

impl std::error::Error for NoCircuit {}

/// All circuits of one optical switch. The plan check, not this type, ensures that no port is in two circuits.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct CircuitSet(BTreeSet<Circuit>);

impl CircuitSet {
    /// Parses `1-9,2-10`; an empty text is the empty set.
    pub fn from_text(text: &str) -> Result<Self, NoCircuit> {
        let parts = text.split(',').map(str::trim).filter(|it| !it.is_empty());
        parts.map(Circuit::from_text).collect()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = Circuit> {
        self.0.iter().copied()
    }

    pub fn contains(&self, circuit: Circuit) -> bool {
        self.0.contains(&circuit)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether a switch with ports 1 to `ports` can hold these circuits: each port serves one of them at most.
    pub fn fits(&self, ports: u16) -> bool {
        let mut used = BTreeSet::new();
        let mut all = self.iter().flat_map(Circuit::ports);
        all.all(|port| (1..=ports).contains(&port.0) && used.insert(port))
    }
}

impl FromIterator<Circuit> for CircuitSet {
    fn from_iter<I: IntoIterator<Item = Circuit>>(circuits: I) -> Self {
        Self(circuits.into_iter().collect())
    }
}

impl fmt::Display for CircuitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no circuits");
        }
        let circuits: Vec<_> = self.iter().map(|circuit| circuit.to_string()).collect();
        f.write_str(&circuits.join(" "))
    }
}

/// The name of an optical switch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OpticalName(#[serde(deserialize_with = "crate::printable::text")] pub String);

impl fmt::Display for OpticalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Instructs the driver of an optical switch to move it from one set of circuits to another. It moves nothing unless it
/// reads back `expected`; circuits that have moved already are only read back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switchover {
    pub generation: Generation,
    pub token: Token,
    #[serde(deserialize_with = "crate::printable::text")]
    pub optical: String,
    pub expected: CircuitSet,
    pub desired: CircuitSet,
}

/// The answer: the circuits that the device reports afterwards, or the reason why they are unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readback {
    pub generation: Generation,
    pub token: Token,
    #[serde(with = "as_written")]
    pub outcome: Result<CircuitSet, NotSwitched>,
}

/// An outcome on the wire. It has a type of its own so that other results can be added.
#[derive(Serialize, Deserialize)]
pub enum SwitchOutcome {
    Ok(CircuitSet),
    Err(NotSwitched),
}

mod as_written {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::{CircuitSet, NotSwitched, SwitchOutcome};

    type Outcome = Result<CircuitSet, NotSwitched>;

    pub(super) fn serialize<S: Serializer>(outcome: &Outcome, to: S) -> Result<S::Ok, S::Error> {
        let written = match outcome.clone() {
            Ok(set) => SwitchOutcome::Ok(set),
            Err(why) => SwitchOutcome::Err(why),
        };
        written.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Outcome, D::Error> {
        Ok(match SwitchOutcome::deserialize(from)? {
            SwitchOutcome::Ok(set) => Ok(set),
            SwitchOutcome::Err(why) => Err(why),
        })
    }
}

impl Readback {
    /// Generation and token of circuits that are reported without an instruction. No instruction has generation 0, so
    /// no coordinator takes the report for an answer.
    const UNORDERED: (Generation, Token) = (Generation(0), Token(0));

    /// Reports the circuits that the device holds, without an instruction.
    pub fn unordered(found: CircuitSet) -> Self {
        let (generation, token) = Self::UNORDERED;
        Self {
            generation,
            token,
            outcome: Ok(found),
        }
    }

    /// Returns the reported circuits, if no instruction was answered.
    pub fn unordered_circuits(&self) -> Option<&CircuitSet> {
        let is_unordered = (self.generation, self.token) == Self::UNORDERED;
        self.outcome.as_ref().ok().filter(|_| is_unordered)
    }

    /// Returns the instruction that the driver has followed instead, if that is the reason of the refusal.
    pub fn followed(&self) -> Option<(Generation, Token)> {
        use NotSwitched::{DifferentContent, Older};
        match &self.outcome {
            Err(Older { held, token } | DifferentContent { held, token }) => Some((*held, *token)),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotSwitched {
    /// The driver has followed a later instruction already.
    Older { held: Generation, token: Token },
    /// The driver has this token with other circuits.
    DifferentContent { held: Generation, token: Token },
    /// The device holds neither the expected nor the desired circuits; nothing was moved.
    Mismatch { found: CircuitSet },
    /// The device did not answer, and the circuits read back, if any, are not the desired ones. It may still move them.
    TimedOut,
    /// The device refused. Its circuits were read back afterwards.
    Device {
        #[serde(deserialize_with = "crate::printable::text")]
        error: String,
        found: CircuitSet,
    },
    /// No device can hold the desired circuits.
    Impossible {
        #[serde(deserialize_with = "crate::printable::text")]
        error: String,
    },
    /// The driver could not write the instruction down before acting on it.
    NotDurable {
        #[serde(deserialize_with = "crate::printable::text")]
        error: String,
    },
    /// The driver controls no optical switch of this name.
    NoSuchSwitch,
    /// The device refused, and has not answered an earlier request yet, which may still take effect.
    Unclear {
        #[serde(deserialize_with = "crate::printable::text")]
        error: String,
    },
}

impl fmt::Display for NotSwitched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Older { held, token } => write!(
                f,
                "its driver has followed a later instruction, generation {held} under token {token}"
            ),
            Self::DifferentContent { held, .. } => {
                write!(
                    f,
                    "its driver has generation {held} with different circuits"
                )
            }
            Self::Mismatch { found } => write!(f, "it holds unexpected circuits {found}"),
            Self::TimedOut => f.write_str("it did not answer in time"),
            Self::Unclear { error } => {
                write!(
                    f,
                    "it refused, and may still apply the unanswered instruction: {error}"
                )
            }
            Self::Device { error, found } => write!(f, "it refused and holds {found}: {error}"),
            Self::Impossible { error } => f.write_str(error),
            Self::NotDurable { error } => {
                write!(f, "its driver could not write its state: {error}")
            }
            Self::NoSuchSwitch => f.write_str("its driver cannot reach it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circuit_is_same_from_either_end() {
        let [one, nine] = [PortId(1), PortId(9)];
        assert_eq!(Circuit::new(nine, one), Circuit::new(one, nine));
        let set: CircuitSet = [Circuit::new(nine, one)].into_iter().collect();
        let text = serde_json::to_string(&set).unwrap();
        assert_eq!(text, "[[1,9]]");
        assert_eq!(serde_json::from_str::<CircuitSet>("[[9,1]]").unwrap(), set);
        assert_eq!(set.to_string(), "1-9");
    }

    #[test]
    fn port_serves_one_circuit() {
        let fits = |text: &str| CircuitSet::from_text(text).unwrap().fits(8);
        assert!(fits("") && fits("1-8,2-3"));
        for bad in ["1-9", "0-1", "1-2,2-3", "4-4"] {
            assert!(!fits(bad), "{bad}");
        }
    }

    #[test]
    fn unordered_readback_answers_no_instruction() {
        let found = CircuitSet::from_text("1-8").unwrap();
        let report = Readback::unordered(found.clone());
        assert_eq!(report.unordered_circuits(), Some(&found));
        let answer = Readback {
            generation: Generation(1),
            ..report
        };
        assert_eq!(answer.unordered_circuits(), None);
    }

    #[test]
    fn circuits_parse_as_dashed_ports() {
        let circuits = CircuitSet::from_text;
        assert_eq!(circuits("9-1, 2-10").unwrap().to_string(), "1-9 2-10");
        assert!(circuits("").unwrap().is_empty());
        for bad in ["1", "1-", "a-b", "1-9;2-10", "1-70000"] {
            assert!(circuits(bad).is_err(), "{bad}");
        }
    }
}
