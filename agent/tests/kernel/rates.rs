//! Tests that judge a measured rate, CPU cost or interval. A busy machine distorts these measurements:
//! `make test` skips them, `make test-lab` runs them.

use crate::flows::{
    a_flow_that_pauses_is_rated_while_it_sends, the_rate_is_what_the_link_lets_through,
};
use crate::serving::sixteen_flows_cost_little;
use crate::tests;
use crate::trains::{
    a_person_measures_and_is_told_what_a_saturating_test_costs, timed_trains_keep_to_gaps,
};

tests! {
    the_rate_is_what_the_link_lets_through needs "tc",
    a_flow_that_pauses_is_rated_while_it_sends needs "tc",
    timed_trains_keep_to_gaps,
    a_person_measures_and_is_told_what_a_saturating_test_costs needs "tc",
    sixteen_flows_cost_little,
}
