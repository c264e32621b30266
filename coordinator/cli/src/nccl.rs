//! NCCL settings for a job that follow from the fabric: NICs, queue pairs, algorithm and protocol.

use std::fmt::Write as _;

use reweave_common::fabric::Fabric;
use reweave_common::operator::{Lanes, Request, Response};
use reweave_formats::nccl::Environment;
use reweave_formats::nccl_rails::{CrossNic, cross_nic};
use reweave_sim::tuning::{Combination, Protocol};

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::plan::measured::Cluster;
use crate::plan::tuner::quickest;

/// Settings derived from the fabric. Unset fields leave the choice to NCCL.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Derived {
    pub(crate) devices: Vec<String>,
    pub(crate) cross_nic: Option<CrossNic>,
    pub(crate) queue_pairs: Option<u32>,
    pub(crate) algorithm: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) remarks: Vec<String>,
}

pub(crate) fn derived(
    reach: &Reach,
    hosts: &[String],
    all_reduce_bytes: Option<u64>,
    ranks_per_host: u16,
) -> Result<Derived, CliError> {
    let mut found = Derived::default();
    found.take_lanes(lanes(reach, hosts)?);
    let Some(bytes) = all_reduce_bytes else {
        return Ok(found);
    };
    let cluster = Cluster::among(hosts, reach)?;
    found.remarks.extend(cluster.remarks);
    let ranks = usize::from(ranks_per_host);
    let best = quickest(&cluster.fabric, ranks, bytes as f64)?;
    best.into_iter().for_each(|best| found.take_best(best));
    Ok(found)
}

fn lanes(reach: &Reach, hosts: &[String]) -> Result<Lanes, CliError> {
    let hosts = hosts.to_vec();
    match Coordinator::reach(reach)?.ask(&Request::Lanes { hosts })? {
        Response::Lanes(lanes) => Ok(lanes),
        Response::Refused(refused) => Err(CliError::Refused(refused)),
        other => Err(CliError::unexpected(&other)),
    }
}

impl Derived {
    fn take_lanes(&mut self, Lanes { lanes, left_out }: Lanes) {
        self.queue_pairs = lanes.iter().map(|lane| lane.ways).max();
        self.devices = lanes.into_iter().map(|lane| lane.device).collect();
        let left_out = left_out.into_iter();
        self.remarks
            .extend(left_out.map(|why| format!("left out: {why}")));
        if self.devices.is_empty() {
            let nothing = "no RDMA device has a usable link on all of these hosts: NICs and queue \
                           pairs stay NCCL's choice";
            self.remarks.push(nothing.to_owned());
        }
    }

    /// Lets NCCL change rails between hosts unless each rail connects them by itself. A rail without a device in use is
    /// down, drained, or absent at one of them.
    pub(crate) fn take_rails(&mut self, fabric: &Fabric, hosts: &[String]) -> Result<(), CliError> {
        let find = |name: &String| {
            let unknown = || CliError::NoHost { name: name.clone() };
            fabric.find(name).ok_or_else(unknown)
        };
        let hosts: Vec<_> = hosts.iter().map(find).collect::<Result<_, _>>()?;
        let rails = hosts.iter().map(|&host| fabric.training_nics(host).len());
        let used = self.devices.len();
        let is_any_unused = used > 0 && rails.max().is_some_and(|rails| rails > used);
        let by_file = cross_nic(fabric, &hosts);
        self.cross_nic = by_file.map(|by_file| {
            if is_any_unused {
                CrossNic::Allowed
            } else {
                by_file
            }
        });
        Ok(())
    }

    /// Sets algorithm and protocol. NCCL picks LL128 by itself on tested hardware, and no setting may force it
    /// elsewhere.
    fn take_best(&mut self, (algorithm, protocol): Combination) {
        self.algorithm = Some(algorithm.to_string());
        match protocol {
            Protocol::LowLatency128 => self.remarks.push(
                "ll128 is fastest: the protocol stays NCCL's choice, which enables it on tested \
                 hardware"
                    .to_owned(),
            ),
            other => self.protocol = Some(other.word().to_owned()),
        }
    }

    /// Fills in the settings that no option names.
    pub(crate) fn complete(self, environment: &mut Environment) {
        if environment.devices.is_empty() {
            environment.devices = self.devices;
        }
        environment.cross_nic = environment.cross_nic.or(self.cross_nic);
        environment.queue_pairs = environment.queue_pairs.or(self.queue_pairs);
        if environment.algorithms.is_empty() {
            environment.algorithms.extend(self.algorithm);
        }
        if environment.protocols.is_empty() {
            environment.protocols.extend(self.protocol);
        }
    }

    /// Removes the settings that must be equal on both ends or on all ranks, for jobs whose hosts are set one by one.
    pub(crate) fn forget_common(&mut self) {
        let common = [
            ("queue pairs", self.queue_pairs.take().is_some()),
            ("algorithm", self.algorithm.take().is_some()),
            ("protocol", self.protocol.take().is_some()),
        ];
        let mut names = String::new();
        for (name, _) in common.into_iter().filter(|(_, was_there)| *was_there) {
            let comma = if names.is_empty() { "" } else { ", " };
            let _ = write!(names, "{comma}{name}");
        }
        if !names.is_empty() {
            self.remarks.push(format!(
                "{names} stay NCCL's choice: all ranks need the same values, and no single \
                 launcher sets them"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::operator::Lane;
    use reweave_sim::collectives::Algorithm;

    use super::*;

    fn found() -> Derived {
        let lane = |device: &str, ways| Lane {
            device: device.to_owned(),
            ways,
        };
        let mut found = Derived::default();
        found.take_lanes(Lanes {
            lanes: vec![lane("mlx5_0", 4), lane("mlx5_2", 2)],
            left_out: vec!["mlx5_1: h0-leaf1 of h0 is down, or drained".to_owned()],
        });
        found
    }

    #[test]
    fn named_settings_override_derived_ones() {
        let mut found = found();
        found.take_best((Algorithm::Tree, Protocol::LowLatency));
        let mut environment = Environment {
            queue_pairs: Some(1),
            protocols: vec!["simple".to_owned()],
            ..Environment::default()
        };
        found.complete(&mut environment);
        let emitted = environment.emit("2.28".parse().unwrap()).unwrap();
        let expected = "NCCL_IB_HCA==mlx5_0,mlx5_2\nNCCL_IB_QPS_PER_CONNECTION=1\n\
                        NCCL_ALGO=allreduce:tree\nNCCL_PROTO=simple\n";
        assert_eq!(emitted, expected);
    }

    /// Two devices are in use.
    #[test]
    fn unused_rail_lets_nccl_cross() {
        let rails = |count: u32| {
            let text = format!(
                "kind = \"rails\"\npods = 1\nhosts_per_pod = 2\nrails = {count}\nspines = 1\n\
                 host_gbps = 100\nuplink_gbps = 100"
            );
            let fabric = Fabric::parse("fabric.toml", &text).unwrap();
            let mut found = found();
            let hosts = ["h0", "h1"].map(str::to_owned);
            found.take_rails(&fabric, &hosts).unwrap();
            found.cross_nic
        };
        assert_eq!(rails(2), Some(CrossNic::Never));
        assert_eq!(rails(3), Some(CrossNic::Allowed));
    }

    #[test]
    fn per_host_settings_omit_common_ones() {
        let mut found = found();
        found.take_best((Algorithm::Ring, Protocol::Simple));
        found.forget_common();
        assert_eq!(
            (found.queue_pairs, found.algorithm, found.protocol),
            (None, None, None)
        );
        assert_eq!(found.devices, ["mlx5_0", "mlx5_2"]);
        let said = found.remarks.last().unwrap();
        assert!(
            said.starts_with("queue pairs, algorithm, protocol stay NCCL's choice"),
            "{said}"
        );
    }

    /// Large all-reduces are sent as they are; small ones must not wait for memory fences.
    #[test]
    fn all_reduce_size_decides_protocol() {
        let text = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n\
                    host_gbps = 100\nuplink_gbps = 200";
        let fabric = Fabric::parse("fabric.toml", text).unwrap();
        let protocol = |bytes| quickest(&fabric, 8, bytes).unwrap().map(|best| best.1);
        assert_eq!(protocol(1e9), Some(Protocol::Simple));
        assert_eq!(protocol(1024.0), Some(Protocol::LowLatency));
    }

    #[test]
    fn ll128_is_never_recommended() {
        let mut found = found();
        found.take_best((Algorithm::Ring, Protocol::LowLatency128));
        assert_eq!(
            (found.algorithm.as_deref(), found.protocol),
            (Some("ring"), None)
        );
    }
}
