//! Optical switches and fibres in the `graph` form of a fabric file.

use std::net::Ipv4Addr;

use serde::Deserialize;
use toml::Spanned;

use super::super::Fibre;
use super::{FabricBuilder, Reader};
use crate::circuit::{Circuit, PortId};
use crate::ids::NodeId;
use crate::input::InputError;
use crate::names;
use crate::units::Loss;

/// Maximum number of ports; the largest devices have some hundreds.
const MAX_PORTS: i64 = 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Optical {
    name: Spanned<String>,
    ports: Spanned<i64>,
    #[serde(default)]
    circuits: Vec<Spanned<Vec<Spanned<i64>>>>,
    loss_db: Option<Spanned<f64>>,
    budget_db: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GraphFibre {
    node: Spanned<String>,
    interface: Spanned<String>,
    optical: Spanned<String>,
    port: Spanned<i64>,
    gbps: Spanned<f64>,
    latency_us: Option<Spanned<f64>>,
    loss_db: Option<Spanned<f64>>,
}

impl Reader<'_> {
    pub(super) fn add_address(
        &self,
        builder: &mut FabricBuilder,
        node: NodeId,
        address: &Spanned<String>,
    ) -> Result<(), InputError> {
        let parsed = self.ipv4(address)?;
        self.fit(address, builder.set_address(node, parsed))
    }

    pub(super) fn ipv4(&self, address: &Spanned<String>) -> Result<Ipv4Addr, InputError> {
        let text = address.get_ref();
        text.parse().map_err(|_| {
            let problem = format!("{text:?} is not an IPv4 address");
            self.0.error(address.span(), problem)
        })
    }

    /// Adds optical switches first, then fibres, and then circuits.
    pub(super) fn add_optics(
        &self,
        builder: &mut FabricBuilder,
        opticals: &[Optical],
        fibres: &[GraphFibre],
    ) -> Result<(), InputError> {
        for optical in opticals {
            let ports = self.0.whole(&optical.ports, 1..=MAX_PORTS)? as u16;
            let added = builder.add_optical(optical.name.get_ref(), ports);
            let added = self.fit(&optical.name, added)?;
            let budget = optical.budget_db.as_ref().map(|it| self.0.loss(it));
            builder.set_loss(
                added,
                self.loss(optical.loss_db.as_ref())?,
                budget.transpose()?,
            );
        }
        let mut links = 0;
        for (before, fibre) in fibres.iter().enumerate() {
            links += before as u64;
            self.affordable([links, self.1.links], "links", &fibre.port)?;
            self.add_fibre(builder, fibre)?;
        }
        for optical in opticals {
            self.add_circuits(builder, optical)?;
        }
        Ok(())
    }

    fn add_fibre(&self, builder: &mut FabricBuilder, fibre: &GraphFibre) -> Result<(), InputError> {
        let missing = |at: &Spanned<String>, what: &str| {
            let problem = format!("no {what} named {:?}", at.get_ref());
            self.0.error(at.span(), problem)
        };
        let node = builder.find(fibre.node.get_ref());
        let optical = builder.find_optical(fibre.optical.get_ref());
        let added = builder.add_fibre(Fibre {
            node: node.ok_or_else(|| missing(&fibre.node, "node"))?,
            interface: self.interface(&fibre.interface)?,
            optical: optical.ok_or_else(|| missing(&fibre.optical, "optical switch"))?,
            port: self.port(&fibre.port)?,
            rate: self.0.rate(&fibre.gbps)?,
            latency: self.latency(fibre.latency_us.as_ref())?,
            loss: self.loss(fibre.loss_db.as_ref())?,
        });
        self.fit(&fibre.port, added)
    }

    /// Returns the loss; zero if the file has none.
    fn loss(&self, db: Option<&Spanned<f64>>) -> Result<Loss, InputError> {
        db.map_or(Ok(Loss::default()), |db| self.0.loss(db))
    }

    pub(super) fn interface(&self, name: &Spanned<String>) -> Result<String, InputError> {
        let text = name.get_ref();
        if names::is_interface(text) {
            return Ok(text.clone());
        }
        let problem = format!("{text:?} is not an interface name");
        Err(self.0.error(name.span(), problem))
    }

    fn add_circuits(
        &self,
        builder: &mut FabricBuilder,
        optical: &Optical,
    ) -> Result<(), InputError> {
        let id = builder.find_optical(optical.name.get_ref());
        for circuit in &optical.circuits {
            let pair = self.0.pair(circuit.clone())?;
            let [a, b] = pair.get_ref();
            let circuit = Circuit::new(self.port(a)?, self.port(b)?);
            let set = id.map_or(Ok(()), |id| builder.set_circuit(id, circuit));
            self.fit(&pair, set)?;
        }
        Ok(())
    }

    fn port(&self, port: &Spanned<i64>) -> Result<PortId, InputError> {
        Ok(PortId(self.0.whole(port, 1..=MAX_PORTS)? as u16))
    }
}

#[cfg(test)]
mod tests {
    use crate::circuit::{Circuit, PortId};
    use crate::fabric::Fabric;
    use crate::ids::LinkId;
    use crate::units::Loss;

    const TRIANGLE_FABRIC: &str = r#"
kind = "graph"
node = [
  { name = "a", role = "relay", address = "10.255.0.1" },
  { name = "b", role = "relay" },
  { name = "c", role = "relay" },
]
[[optical]]
name = "ocs0"
ports = 4
circuits = [[1, 2]]
[[fibre]]
node = "a"
interface = "fab0"
optical = "ocs0"
port = 1
gbps = 100
[[fibre]]
node = "b"
interface = "fab0"
optical = "ocs0"
port = 2
gbps = 50
[[fibre]]
node = "c"
interface = "fab0"
optical = "ocs0"
port = 4
gbps = 100
"#;

    fn error(from: &str, to: &str) -> String {
        assert!(TRIANGLE_FABRIC.contains(from));
        let text = TRIANGLE_FABRIC.replacen(from, to, 1);
        Fabric::parse("f.toml", &text).unwrap_err().to_string()
    }

    #[test]
    fn fibre_pairs_are_dark_without_circuit() {
        let fabric = Fabric::parse("f.toml", TRIANGLE_FABRIC).unwrap();
        let names: Vec<_> = fabric.links().map(|(id, _)| fabric.link_name(id)).collect();
        assert_eq!(names, ["a-b", "a-c", "b-c"]);
        let dark = fabric.dark(fabric.first_circuits());
        let [ab, ac, bc] = [0, 1, 2].map(LinkId::from_index);
        assert_eq!(dark.into_iter().collect::<Vec<_>>(), [ac, bc]);
        assert_eq!(fabric.link(ab).rate, fabric.link(bc).rate);
        assert!(fabric.link(ac).rate > fabric.link(ab).rate);
        let crossing = fabric.crossing(bc).unwrap();
        assert_eq!(crossing.circuit, Circuit::new(PortId(2), PortId(4)));
        let [a, c] = ["a", "c"].map(|name| fabric.find(name).unwrap());
        assert_eq!(fabric.fibre_of(c, ac).unwrap().port, PortId(4));
        assert_eq!(fabric.address(a).unwrap().to_string(), "10.255.0.1");
    }

    #[test]
    fn optical_loss_is_optional_and_bounded() {
        let fabric = |from: &str, to: &str| {
            let text = TRIANGLE_FABRIC.replacen(from, to, 1);
            Fabric::parse("f.toml", &text).unwrap()
        };
        let of_switch = |fabric: &Fabric| {
            let (_, optical) = fabric.opticals().next().unwrap();
            (optical.loss.db(), optical.budget.map(Loss::db))
        };
        assert_eq!(of_switch(&fabric("", "")), (0.0, None));
        let report = fabric("ports = 4", "ports = 4\nloss_db = 1.5\nbudget_db = 4");
        assert_eq!(of_switch(&report), (1.5, Some(4.0)));
        let report = fabric("port = 2", "port = 2\nloss_db = 0.25");
        let losses: Vec<_> = report.fibres().map(|fibre| fibre.loss.db()).collect();
        assert_eq!(losses, [0.0, 0.25, 0.0]);
        let said = error("ports = 4", "ports = 4\nloss_db = -1");
        assert_eq!(
            said,
            "f.toml:11: loss_db: -1 dB is not a valid optical loss: 0 to 100"
        );
    }

    #[test]
    fn invalid_fibre_port_is_named() {
        let said = error("port = 4", "port = 5");
        assert_eq!(
            said,
            "f.toml:28: port: \"ocs0\" has ports 1 to 4, but no port 5"
        );
        let said = error("port = 4", "port = 2");
        assert_eq!(said, "f.toml:28: port: port 2 of \"ocs0\" is taken already");
        let said = error("[[1, 2]]", "[[1, 2], [2, 4]]");
        assert_eq!(
            said,
            "f.toml:11: circuits: port 2 of \"ocs0\" is taken already"
        );
        let said = error("name = \"ocs0\"", "name = \"ocs1\"");
        assert!(
            said.contains("optical: no optical switch named \"ocs0\""),
            "{said}"
        );
        let said = error("10.255.0.1", "10.255.0");
        assert!(
            said.contains("\"10.255.0\" is not an IPv4 address"),
            "{said}"
        );
        let said = error("interface = \"fab0\"", "interface = \"fab 0\"");
        assert!(
            said.contains("\"fab 0\" is not an interface name"),
            "{said}"
        );
    }
}
