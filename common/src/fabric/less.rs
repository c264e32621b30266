//! A fabric without some of its links.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fabric, FabricBuilder};
use crate::ids::LinkId;

impl Fabric {
    /// Returns the fabric with the links that the circuits of its file light, and without optical switches.
    pub fn lit_alone(&self) -> Self {
        self.less(&self.dark(self.first_circuits()))
    }

    /// Returns the fabric without these links and without optical switches. The other links keep their names, but not
    /// their numbers. NICs keep their rails.
    pub fn less(&self, taken: &BTreeSet<LinkId>) -> Self {
        let mut less = FabricBuilder {
            fabric: Self {
                nodes: self.nodes.clone(),
                by_name: self.by_name.clone(),
                links_of: vec![Vec::new(); self.nodes.len()],
                optics: self.optics.addresses_alone(),
                ..Self::default()
            },
            ..FabricBuilder::default()
        };
        let mut numbers = BTreeMap::new();
        for (id, link) in self.links().filter(|(id, _)| !taken.contains(id)) {
            let ends = link.ports().map(|port| port.node);
            let left = less.add_link(ends, link.rate, link.latency);
            numbers.insert(id, left);
            if self.parallel.contains(&id) || self.nths.contains_key(&id) {
                less.fabric.nths.insert(left, self.nth(id));
            }
        }
        less.fabric.nics = self.nics.on_links(&numbers);
        less.build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_links_keep_their_names() {
        let text = "kind = \"graph\"\nnode = [{ name = \"a\", role = \"host\" }, { name = \"b\", role = \"host\" }]\n\
                    link = [{ a = \"a\", b = \"b\", gbps = 1, count = 3 }]\n";
        let fabric = Fabric::parse("f.toml", text).unwrap();
        let less = fabric.less(&[LinkId::from_index(1)].into());
        let names =
            |of: &Fabric| -> Vec<_> { of.links().map(|(id, _)| of.link_name(id)).collect() };
        assert_eq!(names(&less), ["a-b", "a-b.2"]);
        let last = less.find_link("a-b.2").unwrap();
        assert_eq!(
            names(&less.less(&[LinkId::from_index(0)].into())),
            ["a-b.2"]
        );
        assert_eq!(less.links_of(less.find("a").unwrap())[1], last);
        assert_eq!(fabric.less(&BTreeSet::new()).links_of, fabric.links_of);
    }

    #[test]
    fn fibres_without_circuit_are_left_out() {
        let text = r#"
            kind = "graph"
            node = [{ name = "a", role = "relay", address = "10.0.0.1" }, { name = "b", role = "relay" },
                    { name = "c", role = "relay" }]
            optical = [{ name = "ocs0", ports = 4, circuits = [[1, 3]] }]
            fibre = [{ node = "a", interface = "f0", optical = "ocs0", port = 1, gbps = 1 },
                     { node = "b", interface = "f0", optical = "ocs0", port = 2, gbps = 1 },
                     { node = "c", interface = "f0", optical = "ocs0", port = 3, gbps = 1 }]
        "#;
        let fabric = Fabric::parse("f.toml", text).unwrap();
        assert_eq!(fabric.links().len(), 3);
        let lit = fabric.lit_alone();
        let names: Vec<_> = lit.links().map(|(id, _)| lit.link_name(id)).collect();
        assert_eq!(names, ["a-c"]);
        let a = lit.find("a").unwrap();
        assert_eq!(lit.address(a), fabric.address(a));
        assert_eq!(lit.opticals().len(), 0);
    }
}
