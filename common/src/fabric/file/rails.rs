//! The `rails` form of a fabric file: NIC r of each host of a pod hangs on the leaf of rail r.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::super::{NicSpec, NicUse};
use super::nics::MAX_INDEX;
use super::{Fabric, FabricBuilder, Reader, Role};
use crate::ids::NodeId;
use crate::input::InputError;
use crate::units::Rate;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rails {
    pods: Spanned<i64>,
    hosts_per_pod: Spanned<i64>,
    rails: Spanned<i64>,
    /// As many as rails by default.
    leaves_per_pod: Option<Spanned<i64>>,
    spines: Spanned<i64>,
    host_gbps: Spanned<f64>,
    uplink_gbps: Spanned<f64>,
    latency_us: Option<Spanned<f64>>,
    storage_nics: Option<Spanned<i64>>,
}

/// The numbers of a file, within their limits.
struct RailsShape {
    pods: u64,
    hosts_per_pod: u64,
    rails: u64,
    leaves_per_pod: u64,
    spines: u64,
    storage_nics: u64,
}

impl RailsShape {
    fn hosts(&self) -> u64 {
        self.pods * self.hosts_per_pod
    }

    fn leaves(&self) -> u64 {
        self.pods * self.leaves_per_pod
    }

    fn storage_switches(&self) -> u64 {
        if self.storage_nics == 0 { 0 } else { self.pods }
    }
}

/// The cables between hosts and switches of one pod.
struct Pod<'n> {
    hosts: &'n [NodeId],
    leaves: &'n [NodeId],
    storage: Option<NodeId>,
    rate: Rate,
    latency: Duration,
}

impl Reader<'_> {
    /// Storage NICs hang on a switch of their own in each pod, which has no uplinks.
    pub(super) fn rails(&self, file: &Rails) -> Result<Fabric, InputError> {
        let shape = self.shape(file)?;
        let rate = self.0.rate(&file.host_gbps)?;
        let uplink_rate = self.0.rate(&file.uplink_gbps)?;
        let latency = self.latency(file.latency_us.as_ref())?;

        let (mut builder, at) = (FabricBuilder::new(), &file.pods);
        let hosts = self.numbered(&mut builder, "h", Role::Host, shape.hosts(), at)?;
        let mut leaves = Vec::new();
        for pod in 0..shape.pods {
            let (prefix, count) = (format!("leaf{pod}-"), shape.leaves_per_pod);
            leaves.extend(self.numbered(&mut builder, &prefix, Role::Switch, count, at)?);
        }
        let spines = self.numbered(&mut builder, "spine", Role::Switch, shape.spines, at)?;
        let storage = shape.storage_switches();
        let storage = self.numbered(&mut builder, "storage", Role::Switch, storage, at)?;

        let hosts = hosts.chunks(shape.hosts_per_pod as usize);
        let pods = hosts.zip(leaves.chunks(shape.leaves_per_pod as usize));
        for (pod, (hosts, leaves)) in pods.enumerate() {
            let pod = Pod {
                hosts,
                leaves,
                storage: storage.get(pod).copied(),
                rate,
                latency,
            };
            self.add_pod(&mut builder, file, &shape, &pod)?;
        }
        for &leaf in &leaves {
            for &spine in &spines {
                let joined = builder.connect([leaf, spine], 1, uplink_rate, latency);
                self.fit(&file.spines, joined)?;
            }
        }
        Ok(builder.build())
    }

    /// Adds the NICs of each host: those for training by rail, then those for storage.
    fn add_pod(
        &self,
        builder: &mut FabricBuilder,
        file: &Rails,
        shape: &RailsShape,
        pod: &Pod<'_>,
    ) -> Result<(), InputError> {
        let leaves = pod.leaves.iter().copied().cycle();
        let training = (0..shape.rails).zip(leaves);
        let training = training.map(|(rail, leaf)| (rail, leaf, NicUse::Training));
        let storage = pod.storage.into_iter().flat_map(|switch| {
            (0..shape.storage_nics).map(move |rail| (rail, switch, NicUse::Storage))
        });
        let nics: Vec<_> = training.chain(storage).collect();
        for &host in pod.hosts {
            for &(rail, to, purpose) in &nics {
                let spec = NicSpec {
                    rail: Some(rail as u16),
                    purpose,
                    ..NicSpec::default()
                };
                let added = builder.add_nic(host, to, pod.rate, pod.latency, spec);
                self.fit(&file.rails, added)?;
            }
        }
        Ok(())
    }

    fn shape(&self, file: &Rails) -> Result<RailsShape, InputError> {
        let most_rails = MAX_INDEX + 1;
        let rails = self.0.whole(&file.rails, 1..=most_rails)?;
        let leaves = file.leaves_per_pod.as_ref();
        let storage_nics = file.storage_nics.as_ref();
        let storage_nics = storage_nics.map(|it| self.0.whole(it, 0..=most_rails));
        let shape = RailsShape {
            pods: self.count(&file.pods)?,
            hosts_per_pod: self.count(&file.hosts_per_pod)?,
            rails,
            leaves_per_pod: leaves.map_or(Ok(rails), |leaves| self.spread(rails, leaves))?,
            spines: self.count(&file.spines)?,
            storage_nics: storage_nics.transpose()?.unwrap_or_default(),
        };
        let switches = shape.leaves() + shape.spines + shape.storage_switches();
        let nodes = shape.hosts() + switches;
        self.affordable([nodes, self.1.nodes], "nodes", &file.hosts_per_pod)?;
        let nics = shape.hosts() * (shape.rails + shape.storage_nics);
        let links = nics + shape.leaves() * shape.spines;
        self.affordable([links, self.1.links], "links", &file.rails)?;
        Ok(shape)
    }

    /// Returns the number of leaves of a pod, on which all have the same number of rails.
    fn spread(&self, rails: u64, leaves: &Spanned<i64>) -> Result<u64, InputError> {
        let count = self.count(leaves)?;
        if rails.is_multiple_of(count) {
            return Ok(count);
        }
        let problem = format!("{rails} rails do not spread over {count} leaves");
        Err(self.0.error(leaves.span(), problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LinkId;

    const RAILS: &str = r#"
kind = "rails"
pods = 2
hosts_per_pod = 2
rails = 4
leaves_per_pod = 2
spines = 3
host_gbps = 400
uplink_gbps = 800
latency_us = 1
storage_nics = 1
"#;

    fn fabric(from: &str, to: &str) -> Fabric {
        Fabric::parse("f.toml", &RAILS.replacen(from, to, 1)).unwrap()
    }

    fn error(from: &str, to: &str) -> String {
        assert!(RAILS.contains(from));
        let text = RAILS.replacen(from, to, 1);
        Fabric::parse("f.toml", &text).unwrap_err().to_string()
    }

    #[test]
    fn rails_form_gives_its_graph() {
        let fabric = fabric("", "");
        assert_eq!(fabric.nodes().len(), 4 + 4 + 3 + 2);
        assert_eq!(fabric.links().len(), 4 * 5 + 4 * 3);
        let names: Vec<_> = fabric.links().map(|(id, _)| fabric.link_name(id)).collect();
        let of_h0 = [
            "h0-leaf0-0",
            "h0-leaf0-1",
            "h0-leaf0-0.1",
            "h0-leaf0-1.1",
            "h0-storage0",
        ];
        assert_eq!(names[..5], of_h0);
        assert_eq!(
            names[20..23],
            ["leaf0-0-spine0", "leaf0-0-spine1", "leaf0-0-spine2"]
        );
        assert_eq!(names[31], "leaf1-1-spine2");
        let h3 = fabric.find("h3").unwrap();
        let nics = fabric.nics_of(h3).iter().map(|&id| {
            let nic = fabric.nic(id);
            let leaf = fabric.leaf_of(id).map(|leaf| fabric.name(leaf));
            (nic.purpose, nic.rail, leaf.unwrap())
        });
        let expected = [
            (NicUse::Training, 0, "leaf1-0"),
            (NicUse::Training, 1, "leaf1-1"),
            (NicUse::Training, 2, "leaf1-0"),
            (NicUse::Training, 3, "leaf1-1"),
            (NicUse::Storage, 0, "storage1"),
        ];
        assert_eq!(nics.collect::<Vec<_>>(), expected);
        assert_eq!(fabric.rail_count(), 4);
        assert!(fabric.has_declared_nics());
        let rates = [0, 20].map(|link| fabric.link(LinkId::from_index(link)).rate.gbps());
        assert_eq!(rates, [400.0, 800.0]);
    }

    #[test]
    fn each_rail_has_leaf_by_default() {
        let fabric = fabric("leaves_per_pod = 2\n", "");
        assert_eq!(fabric.nodes().len(), 4 + 8 + 3 + 2);
        assert!(fabric.find("leaf1-3").is_some());
        assert!(fabric.links().all(|(link, _)| !fabric.is_parallel(link)));
    }

    #[test]
    fn rails_errors_name_line_and_key() {
        let said = error(
            "rails = 4\nleaves_per_pod = 2",
            "rails = 8\nleaves_per_pod = 3",
        );
        assert_eq!(
            said,
            "f.toml:6: leaves_per_pod: 8 rails do not spread over 3 leaves"
        );
        let said = error("leaves_per_pod = 2", "leaves_per_pod = 8");
        assert_eq!(
            said,
            "f.toml:6: leaves_per_pod: 4 rails do not spread over 8 leaves"
        );
        let said = error("rails = 4", "rails = 0");
        assert_eq!(said, "f.toml:5: rails: 0 is not between 1 and 1024");
        let said = error("hosts_per_pod = 2", "hosts_per_pod = 1000000");
        assert_eq!(
            said,
            "f.toml:4: hosts_per_pod: 2000009 nodes are more than 1048576"
        );
        let said = error("spines = 3", "spines = 1000000\nplanes = 2");
        assert!(
            said.starts_with("f.toml:8: planes: this key is unknown"),
            "{said}"
        );
        let said = error(
            "hosts_per_pod = 2\nrails = 4",
            "hosts_per_pod = 400000\nrails = 8",
        );
        assert_eq!(said, "f.toml:5: rails: 7200012 links are more than 4194304");
    }
}
