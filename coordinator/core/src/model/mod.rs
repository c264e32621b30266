//! The measured cluster at one moment: links, flows, jobs, imbalance, and the evidence of a diagnosis.
//! Uses `estimate` and what is below it.

pub(crate) mod circuit_drift;
pub(crate) mod discovery;
pub(crate) mod evidence;
pub(crate) mod exchange;
pub(crate) mod fibre_macs;
pub(crate) mod idle_flows;
pub(crate) mod imbalance;
pub(crate) mod imbalance_history;
pub(crate) mod jobs;
pub(crate) mod probe_summary;
pub(crate) mod world;
