//! Several coordinators in the simulated cluster, in any trouble and in each trouble alone. What holds after every event, and
//! in the end, stands at [`reweave_sim_cluster::replicas`]; what clients saw is judged here.

#[path = "replication/judging.rs"]
mod judging;
#[path = "replication/points.rs"]
mod points;
#[path = "replication/seeds.rs"]
mod seeds;
