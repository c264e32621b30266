//! The core on a network of a few nodes.

mod autopilot;
mod bad_answers;
mod bad_input;
mod capacity_weights;
mod change_freeze;
mod change_window;
mod cluster;
mod cluster_version;
mod concurrent_plans;
mod diagnosis;
mod direct;
mod discovery;
mod drain_routes;
mod failing_links;
mod faulty_switches;
mod fibre_macs;
#[path = "../../../../proto/src/tests/heap.rs"]
mod heap;
mod imbalance;
mod iterations;
mod jobs;
mod lanes;
mod maintenance;
mod measurements;
mod membership;
mod message_limits;
mod migration_check;
#[path = "../../../../proto/src/tests/minors.rs"]
mod minors;
mod mock_switch;
mod network;
mod nics;
mod operator;
mod overloads;
mod parallel_links;
mod plan_control;
mod policy;
mod probing;
mod rail_jobs;
mod rails;
mod rank_order;
mod rank_reports;
mod readings;
mod registered;
mod replay;
mod restart;
mod rollback_plan;
mod rollout;
mod scene;
mod shape;
#[path = "../../../../proto/src/tests/shapes.rs"]
mod shapes;
mod spoofed_samples;
mod stale_pins;
mod switch_limits;
mod traced_flows;
