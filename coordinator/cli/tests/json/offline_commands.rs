//! Commands that print JSON and ask no cluster. They are run in this order in one folder.

/// One line of each.
pub(crate) const OFFLINE_JSON_COMMANDS: [&str; 18] = [
    "version --client",
    "cluster init --name lab lab",
    "cluster issue --dir lab --role agent --name h0",
    "--coordinator 10.0.9.1 context set lab",
    "context use lab",
    "context show lab",
    "context list",
    "context remove lab",
    "audit verify audit",
    "sim flows flows.csv --fabric fabric.toml",
    "sim collective --op allreduce --bytes 1000000 --fabric fabric.toml",
    "sim job job.toml --fabric fabric.toml",
    "sim raw problem.raw",
    "plan balance --fabric fabric.toml --flows flows.csv",
    "plan ranks --fabric fabric.toml --job job.toml",
    "plan probes --fabric fabric.toml",
    "plan tuner --fabric fabric.toml --most-bytes 4096",
    "plan topology --job job.toml --hosts 4 --degree 2 --gbps 100 --keep",
];
