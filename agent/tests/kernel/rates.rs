//! Tests that judge a measured rate, CPU cost or interval. A busy machine distorts these measurements:
//! `make test` skips them, `make test-lab` runs them.

use crate::flows::{pausing_flow_is_rated_while_sending, rate_matches_link};
use crate::serving::sixteen_flows_cost_little;
use crate::tests;
use crate::trains::{bandwidth_test_reports_its_cost, timed_trains_keep_to_gaps};

tests! {
    rate_matches_link needs "tc",
    pausing_flow_is_rated_while_sending needs "tc",
    timed_trains_keep_to_gaps,
    bandwidth_test_reports_its_cost needs "tc",
    sixteen_flows_cost_little,
}
