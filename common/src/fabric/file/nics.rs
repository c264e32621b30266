//! NICs in the `graph` form of a fabric file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::super::{NicSpec, NicUse};
use super::{Fabric, FabricBuilder, Reader, WiringError};
use crate::ids::NodeId;
use crate::input::InputError;

/// Maximum number of a rail, a plane, a GPU or a NUMA node; Linux knows 1 024 NUMA nodes, and hosts have fewer NICs.
pub(super) const MAX_INDEX: i64 = 1023;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GraphNic {
    host: Spanned<String>,
    to: Spanned<String>,
    gbps: Spanned<f64>,
    latency_us: Option<Spanned<f64>>,
    interface: Option<Spanned<String>>,
    address: Option<Spanned<String>>,
    rail: Option<Spanned<i64>>,
    plane: Option<Spanned<i64>>,
    #[serde(rename = "use")]
    purpose: Option<Spanned<String>>,
    gpu: Option<Spanned<i64>>,
    numa: Option<Spanned<i64>>,
}

impl GraphNic {
    /// Returns the place of the value that an error is about.
    fn place(&self, error: &WiringError) -> Range<usize> {
        let place = match error {
            WiringError::DuplicateNicAddress { .. } | WiringError::DuplicateAddress { .. } => {
                self.address.as_ref().map(Spanned::span)
            }
            WiringError::DuplicateInterface { .. } => self.interface.as_ref().map(Spanned::span),
            WiringError::DuplicateRail { .. } => self.rail.as_ref().map(Spanned::span),
            WiringError::NoHost { .. } => Some(self.host.span()),
            _ => None,
        };
        place.unwrap_or_else(|| self.to.span())
    }
}

impl Reader<'_> {
    /// Adds the NICs after `links` other links.
    pub(super) fn add_nics(
        &self,
        builder: &mut FabricBuilder,
        nics: &[GraphNic],
        links: u64,
    ) -> Result<(), InputError> {
        for (count, nic) in (links + 1..).zip(nics) {
            self.affordable([count, self.1.links], "links", &nic.host)?;
            self.add_nic(builder, nic)?;
        }
        Ok(())
    }

    /// Refuses a declared rail that only one host has, and at whose leaf nothing else ends: a mistyped number. While no
    /// other host has a NIC, the file is still being written.
    pub(super) fn rails_lead_somewhere(
        &self,
        fabric: &Fabric,
        nics: &[GraphNic],
    ) -> Result<(), InputError> {
        if nics.iter().all(|nic| nic.rail.is_none()) {
            return Ok(());
        }
        let hosts = hosts_of_rails(fabric);
        // No cable comes after those of the file's NICs.
        let implied = fabric.nics().len() - nics.len();
        for ((id, nic), declared) in fabric.nics().skip(implied).zip(nics) {
            let is_training = nic.purpose == NicUse::Training;
            let Some(rail) = declared.rail.as_ref().filter(|_| is_training) else {
                continue;
            };
            let is_own = |host: &NodeId| *host == nic.host;
            let is_rail_own = hosts.get(&nic.rail).is_some_and(|it| it.iter().all(is_own));
            let is_leaf_own = fabric.leaf_of(id).is_some_and(|leaf| {
                let mut links = fabric.links_of(leaf).iter();
                links.all(|&link| fabric.link(link).far(leaf).node == nic.host)
            });
            if is_rail_own && is_leaf_own && !hosts.values().flatten().all(is_own) {
                let (number, host) = (nic.rail, fabric.name(nic.host));
                let problem =
                    format!("{host:?} alone has rail {number}, and nothing else ends at its leaf");
                return Err(self.0.error(rail.span(), problem));
            }
        }
        Ok(())
    }

    fn add_nic(&self, builder: &mut FabricBuilder, nic: &GraphNic) -> Result<(), InputError> {
        let host = self.node(builder, &nic.host)?;
        let to = self.node(builder, &nic.to)?;
        let rate = self.0.rate(&nic.gbps)?;
        let latency = self.latency(nic.latency_us.as_ref())?;
        let spec = self.nic_spec(nic)?;
        match builder.add_nic(host, to, rate, latency, spec) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.0.error(nic.place(&error), error.to_string())),
        }
    }

    fn nic_spec(&self, nic: &GraphNic) -> Result<NicSpec, InputError> {
        let interface = nic.interface.as_ref().map(|it| self.interface(it));
        let address = nic.address.as_ref().map(|it| self.ipv4(it));
        let purpose = nic.purpose.as_ref().map(|it| self.purpose(it));
        Ok(NicSpec {
            interface: interface.transpose()?,
            address: address.transpose()?,
            rail: self.small(nic.rail.as_ref())?,
            plane: self.small(nic.plane.as_ref())?,
            purpose: purpose.transpose()?.unwrap_or_default(),
            numa: self.small(nic.numa.as_ref())?,
            gpu: self.small(nic.gpu.as_ref())?,
        })
    }

    fn small(&self, number: Option<&Spanned<i64>>) -> Result<Option<u16>, InputError> {
        let number = number.map(|number| self.0.whole(number, 0..=MAX_INDEX));
        Ok(number.transpose()?.map(|number| number as u16))
    }

    fn purpose(&self, name: &Spanned<String>) -> Result<NicUse, InputError> {
        let mut uses = NicUse::ALL.into_iter();
        uses.find(|it| it.name() == name.get_ref()).ok_or_else(|| {
            let text = name.get_ref();
            let problem = format!("{text:?} is unknown; use training, storage or management");
            self.0.error(name.span(), problem)
        })
    }
}

/// Returns the hosts with a training NIC of each rail.
fn hosts_of_rails(fabric: &Fabric) -> BTreeMap<u16, BTreeSet<NodeId>> {
    let mut hosts: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let nics = fabric.nics().map(|(_, nic)| nic);
    for nic in nics.filter(|nic| nic.purpose == NicUse::Training) {
        hosts.entry(nic.rail).or_default().insert(nic.host);
    }
    hosts
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::fabric::Nic;
    use crate::ids::LinkId;

    const TWO_HOSTS: &str = r#"
kind = "graph"
node = [
  { name = "h0", role = "host" },
  { name = "h1", role = "host" },
  { name = "leaf0", role = "switch" },
  { name = "spine0", role = "switch" },
]
link = [{ a = "leaf0", b = "spine0", gbps = 400 }]
[[nic]]
host = "h0"
to = "leaf0"
gbps = 400
interface = "eth1"
address = "10.1.0.1"
rail = 3
plane = 0
gpu = 4
numa = 1
[[nic]]
host = "h0"
to = "leaf0"
gbps = 100
interface = "eth2"
address = "10.2.0.1"
use = "storage"
[[nic]]
host = "h1"
to = "leaf0"
gbps = 400
rail = 3
plane = 0
[[nic]]
host = "h0"
to = "leaf0"
gbps = 400
"#;

    fn parse(changes: &[(&str, &str)]) -> Result<Fabric, InputError> {
        let mut text = TWO_HOSTS.to_owned();
        for &(from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replacen(from, to, 1);
        }
        Fabric::parse("f.toml", &text)
    }

    fn assert_error((from, to, expected): (&str, &str, &str)) {
        let error = parse(&[(from, to)]).unwrap_err().to_string();
        assert_eq!(error, format!("f.toml:{expected}"));
    }

    #[test]
    fn nic_is_a_link_with_rail() {
        let fabric = parse(&[]).unwrap();
        let names: Vec<_> = fabric.links().map(|(id, _)| fabric.link_name(id)).collect();
        let expected = [
            "leaf0-spine0",
            "h0-leaf0",
            "h0-leaf0.1",
            "h1-leaf0",
            "h0-leaf0.2",
        ];
        assert_eq!(names, expected);
        let [h0, leaf0] = ["h0", "leaf0"].map(|name| fabric.find(name).unwrap());
        let first = fabric.nic_at(LinkId::from_index(1)).unwrap();
        let expected = Nic {
            host: h0,
            link: LinkId::from_index(1),
            interface: Some("eth1".to_owned()),
            address: Some(Ipv4Addr::new(10, 1, 0, 1)),
            rail: 3,
            plane: Some(0),
            purpose: NicUse::Training,
            numa: Some(1),
            gpu: Some(4),
        };
        assert_eq!(*fabric.nic(first), expected);
        assert_eq!(fabric.leaf_of(first), Some(leaf0));
        assert_eq!(fabric.nic_with(Ipv4Addr::new(10, 1, 0, 1)), Some(first));
        assert_eq!(fabric.nic_at(LinkId::from_index(0)), None);
        let of_h0 = fabric.nics_of(h0).iter().map(|&id| fabric.nic(id));
        let of_h0: Vec<_> = of_h0.map(|nic| (nic.purpose, nic.rail)).collect();
        let (training, storage) = (NicUse::Training, NicUse::Storage);
        assert_eq!(of_h0, [(training, 0), (training, 3), (storage, 0)]);
        assert!(fabric.nics_of(leaf0).is_empty());
        assert_eq!(fabric.rail_count(), 2);
        assert!(fabric.has_declared_nics());
    }

    #[test]
    fn nic_errors_name_line_and_key() {
        let linked = (
            r#"a = "leaf0", b = "spine0""#,
            r#"a = "h0", b = "leaf0""#,
            "12: to: h0 and leaf0 are linked by a [[link]] already; write the NIC alone",
        );
        let in_plane = (
            r#"use = "storage""#,
            "rail = 3\nplane = 0",
            r#"26: rail: "h0" has two training NICs of rail 3 in plane 0"#,
        );
        for case in [
            (
                "10.2.0.1",
                "10.1.0.1",
                "25: address: two NICs have the address 10.1.0.1",
            ),
            (
                "eth2",
                "eth1",
                r#"24: interface: "h0" has two NICs named "eth1""#,
            ),
            (
                r#"to = "leaf0""#,
                r#"to = "leaf-x""#,
                r#"12: to: no node named "leaf-x""#,
            ),
            (
                r#"to = "leaf0""#,
                r#"to = "h1""#,
                r#"12: to: "h1" is no switch"#,
            ),
            (
                r#"host = "h0""#,
                r#"host = "spine0""#,
                r#"11: host: "spine0" is no host"#,
            ),
            in_plane,
            linked,
        ] {
            assert_error(case);
        }
    }

    #[test]
    fn nic_values_are_checked() {
        let node = (
            r#""h1", role = "host""#,
            r#""h1", role = "host", address = "10.1.0.1""#,
            "15: address: two nodes have the address 10.1.0.1",
        );
        let mapped = (
            "10.1.0.1",
            "::ffff:10.1.0.1",
            r#"15: address: "::ffff:10.1.0.1" is not an IPv4 address"#,
        );
        let zoned = (
            "10.1.0.1",
            "10.1.0.1%eth1",
            r#"15: address: "10.1.0.1%eth1" is not an IPv4 address"#,
        );
        let purpose = (
            r#"use = "storage""#,
            r#"use = "gpu""#,
            r#"26: use: "gpu" is unknown; use training, storage or management"#,
        );
        let planeless = (
            r#"use = "storage""#,
            "rail = 3",
            r#"26: rail: "h0" has two training NICs of rail 3"#,
        );
        for case in [
            node,
            mapped,
            zoned,
            purpose,
            planeless,
            (
                "eth2",
                "eth 2",
                r#"24: interface: "eth 2" is not an interface name"#,
            ),
            (
                "rail = 3",
                "rail = -1",
                "16: rail: -1 is not between 0 and 1023",
            ),
            (
                "gpu = 4",
                "gpu = 1024",
                "18: gpu: 1024 is not between 0 and 1023",
            ),
        ] {
            assert_error(case);
        }
    }

    #[test]
    fn rail_of_one_host_is_refused() {
        let spare = (
            "{ name = \"spine0\"",
            "{ name = \"spare\", role = \"switch\" },\n  { name = \"spine0\"",
        );
        let rail = ("rail = 3", "rail = 31");
        parse(&[spare, rail]).unwrap();
        let to = ("to = \"leaf0\"", "to = \"spare\"");
        parse(&[spare, to]).unwrap();
        let said = parse(&[spare, rail, to]).unwrap_err().to_string();
        assert_eq!(
            said,
            "f.toml:17: rail: \"h0\" alone has rail 31, and nothing else ends at its leaf"
        );
        let of_h1 = ("host = \"h1\"", "host = \"h0\"");
        parse(&[spare, rail, to, of_h1]).unwrap();
    }
}
