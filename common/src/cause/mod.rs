//! Classes and subjects of findings, with their confidence.

mod failure_class;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use failure_class::Class;

/// Subject of a finding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    Host(String),
    Switch(String),
    /// One direction of a link, named by the sending node.
    Hop {
        from: String,
        to: String,
        link: String,
    },
    Link {
        ends: [String; 2],
        link: String,
    },
    Job(String),
    Pair([String; 2]),
    /// The evidence fits each of these suspects.
    Ambiguous(Vec<Suspect>),
    /// The evidence concerns all of these.
    All(Vec<Suspect>),
}

/// One of several subjects of a finding. It is a [`Subject`] without the composite kinds, so that input cannot nest it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Suspect {
    Host(String),
    Switch(String),
    Hop {
        from: String,
        to: String,
        link: String,
    },
    Link {
        ends: [String; 2],
        link: String,
    },
    Job(String),
    Pair([String; 2]),
}

impl From<Suspect> for Subject {
    fn from(suspect: Suspect) -> Self {
        match suspect {
            Suspect::Host(name) => Self::Host(name),
            Suspect::Switch(name) => Self::Switch(name),
            Suspect::Hop { from, to, link } => Self::Hop { from, to, link },
            Suspect::Link { ends, link } => Self::Link { ends, link },
            Suspect::Job(name) => Self::Job(name),
            Suspect::Pair(hosts) => Self::Pair(hosts),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Cause {
    pub class: Class,
    pub subject: Subject,
    pub evidence: Vec<String>,
    /// From 0 to 1.
    pub confidence: f64,
    /// Recommended action.
    pub remedy: String,
    pub jobs: Vec<String>,
}

impl Subject {
    /// Returns a subject for evidence that fits all suspects of these subjects.
    pub fn either(subjects: impl IntoIterator<Item = Self>) -> Self {
        Self::Ambiguous(subjects.into_iter().flat_map(Self::suspects).collect())
    }

    /// Returns a subject for evidence that concerns all of these subjects.
    pub fn all(subjects: impl IntoIterator<Item = Self>) -> Self {
        Self::All(subjects.into_iter().flat_map(Self::suspects).collect())
    }

    fn suspects(self) -> Vec<Suspect> {
        vec![match self {
            Self::Host(name) => Suspect::Host(name),
            Self::Switch(name) => Suspect::Switch(name),
            Self::Hop { from, to, link } => Suspect::Hop { from, to, link },
            Self::Link { ends, link } => Suspect::Link { ends, link },
            Self::Job(name) => Suspect::Job(name),
            Self::Pair(hosts) => Suspect::Pair(hosts),
            Self::Ambiguous(all) | Self::All(all) => return all,
        }]
    }

    /// Returns every part or suspect of the subject.
    pub fn each(&self) -> Vec<Self> {
        let suspects = self.clone().suspects();
        suspects.into_iter().map(Self::from).collect()
    }

    /// Whether both have a part in common.
    pub fn touches(&self, other: &Self) -> bool {
        match (self, other) {
            (several @ (Self::Ambiguous(_) | Self::All(_)), one)
            | (one, several @ (Self::Ambiguous(_) | Self::All(_))) => {
                several.each().iter().any(|it| it.touches(one))
            }
            (Self::Host(node) | Self::Switch(node), link)
            | (link, Self::Host(node) | Self::Switch(node)) => match link {
                Self::Hop { from, to, .. } => node == from || node == to,
                Self::Link { ends, .. } => ends.contains(node),
                Self::Host(other) | Self::Switch(other) => node == other,
                _ => false,
            },
            (
                Self::Link { link: a, .. },
                Self::Hop { link: b, .. } | Self::Link { link: b, .. },
            )
            | (Self::Hop { link: a, .. }, Self::Link { link: b, .. }) => a == b,
            (a, b) => a == b,
        }
    }
}

impl Class {
    pub fn cause(self, subject: Subject, confidence: f64, evidence: String) -> Cause {
        Cause {
            class: self,
            subject,
            evidence: vec![evidence],
            confidence,
            remedy: self.remedy().to_owned(),
            jobs: Vec::new(),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(name) | Self::Switch(name) | Self::Link { link: name, .. } => {
                f.write_str(name)
            }
            Self::Job(name) => write!(f, "job {name}"),
            Self::Hop { from, link, .. } => write!(f, "{link} from {from}"),
            Self::Pair([a, b]) => write!(f, "{a} and {b}"),
            Self::Ambiguous(_) => {
                let all: Vec<_> = self.each().iter().map(Self::to_string).collect();
                write!(f, "ambiguous: {}", all.join(" or "))
            }
            Self::All(_) => {
                let all: Vec<_> = self.each().iter().map(Self::to_string).collect();
                f.write_str(&all.join(", "))
            }
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let evidence = self.evidence.join("; ");
        write!(f, "{}: {}, {evidence}", self.class, self.subject)
    }
}
