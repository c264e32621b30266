//! Tests that judge a measured rate, CPU cost or interval. A busy machine distorts these measurements:
//! `make test` skips them, `make test-lab` runs them.

use crate::flows::{
    a_flow_that_pauses_is_rated_while_it_sends, the_rate_is_what_the_link_lets_through,
};
use crate::serving::sixteen_flows_cost_little;
use crate::tests;
use crate::trains::{
    a_person_measures_and_is_told_what_a_saturating_test_costs,
    a_train_tells_the_rate_of_a_shaped_link, trains_go_in_gaps_and_by_a_fresh_list_only,
};

tests! {
    the_rate_is_what_the_link_lets_through needs "tc",
    a_flow_that_pauses_is_rated_while_it_sends needs "tc",
    a_train_tells_the_rate_of_a_shaped_link needs "tc",
    trains_go_in_gaps_and_by_a_fresh_list_only,
    a_person_measures_and_is_told_what_a_saturating_test_costs needs "tc",
    sixteen_flows_cost_little,
}
