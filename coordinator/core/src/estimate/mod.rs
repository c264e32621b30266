//! Estimators over observations: link latency and loss, counters, the paths of probes, what ranks report.
//! Uses `ingest` and `log`.

pub(crate) mod allreduce_time;
pub(crate) mod counter_trends;
pub(crate) mod interval_timer;
pub(crate) mod job_names;
pub(crate) mod link_latency;
pub(crate) mod link_loss;
pub(crate) mod loss_history;
pub(crate) mod probe_paths;
pub(crate) mod rank_groups;
pub(crate) mod rank_reports;
