//! Coordinators that agree, in a simulated world: the replicas of the product, with disks that lose
//! power, lines that lose, repeat and delay, processes that die and stand still. The laws are looked
//! at after every event, and what clients saw is judged at the end.

#[path = "replication/agreed.rs"]
mod agreed;
#[path = "replication/client.rs"]
mod client;
#[path = "replication/cluster/mod.rs"]
mod cluster;
#[path = "replication/disk.rs"]
mod disk;
#[path = "replication/fabric.rs"]
mod fabric;
#[path = "replication/judging.rs"]
mod judging;
#[path = "replication/laws.rs"]
mod laws;
#[path = "replication/linear.rs"]
mod linear;
#[path = "replication/machine.rs"]
mod machine;
#[path = "replication/node.rs"]
mod node;
#[path = "replication/people.rs"]
mod people;
#[path = "replication/points.rs"]
mod points;
#[path = "replication/seeds.rs"]
mod seeds;
#[path = "replication/trouble.rs"]
mod trouble;
