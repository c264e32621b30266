//! What an operator can name for a drain: a link, a node, or an optical switch.

use std::collections::BTreeSet;

use reweave_common::fabric::Fabric;
use reweave_common::ids::{LinkId, NodeId, OpticalId};
use reweave_common::operator::Refused;
use serde::{Deserialize, Serialize};

/// A device at which links meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[serde(rename = "Place")]
pub enum Device {
    Node(NodeId),
    Optical(OpticalId),
}

impl Device {
    pub(crate) fn find(fabric: &Fabric, name: &str) -> Option<Self> {
        let optical = || fabric.find_optical(name).map(Self::Optical);
        fabric.find(name).map(Self::Node).or_else(optical)
    }

    pub(crate) fn name(self, fabric: &Fabric) -> &str {
        match self {
            Self::Node(node) => fabric.name(node),
            Self::Optical(optical) => &fabric.optical(optical).name,
        }
    }

    /// All links of the device. For an optical switch, the links that any of its circuits can make.
    pub(crate) fn links(self, fabric: &Fabric) -> BTreeSet<LinkId> {
        match self {
            Self::Node(node) => fabric.links_of(node).iter().copied().collect(),
            Self::Optical(optical) => {
                let links = fabric.links().map(|(link, _)| link);
                let of_it = |link: &LinkId| {
                    let crossing = fabric.crossing(*link);
                    crossing.is_some_and(|crossing| crossing.optical == optical)
                };
                links.filter(of_it).collect()
            }
        }
    }
}

/// All links that these names stand for.
pub(crate) fn links(fabric: &Fabric, names: &[String]) -> Result<BTreeSet<LinkId>, Refused> {
    let find = |name: &String| {
        let place = || Some(Device::find(fabric, name)?.links(fabric));
        let link = fabric.find_link(name).map(|link| BTreeSet::from([link]));
        let found = link.or_else(place);
        found.ok_or_else(|| Refused::NoSuchLink { name: name.clone() })
    };
    let found: Result<Vec<_>, _> = names.iter().map(find).collect();
    Ok(found?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FABRIC: &str = "kind = \"graph\"\n\
        node = [{ name = \"a\", role = \"relay\", address = \"10.0.0.1\" }, \
                { name = \"b\", role = \"relay\", address = \"10.0.0.2\" }, \
                { name = \"s\", role = \"switch\" }]\n\
        optical = [{ name = \"ocs0\", ports = 4 }, { name = \"ocs1\", ports = 4 }]\n\
        fibre = [{ node = \"a\", interface = \"f0\", optical = \"ocs0\", port = 1, gbps = 1 }, \
                 { node = \"b\", interface = \"f0\", optical = \"ocs0\", port = 2, gbps = 1 }]\n\
        link = [{ a = \"a\", b = \"s\", gbps = 1 }, { a = \"b\", b = \"s\", gbps = 1 }]\n";

    fn named(names: &[&str]) -> Result<Vec<String>, Refused> {
        let fabric = Fabric::parse("fabric.toml", FABRIC).unwrap();
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let links = links(&fabric, &names)?;
        Ok(links.iter().map(|link| fabric.link_name(*link)).collect())
    }

    #[test]
    fn device_name_resolves_to_its_links() {
        assert_eq!(named(&["a-s"]).unwrap(), ["a-s"]);
        assert_eq!(named(&["s-a"]).unwrap(), ["a-s"], "from its other end");
        assert_eq!(named(&["s", "b-s"]).unwrap(), ["a-s", "b-s"]);
        assert_eq!(named(&["ocs0"]).unwrap(), ["a-b"]);
        assert_eq!(named(&["a"]).unwrap().len(), 2);
        let name = "spine9".to_owned();
        assert_eq!(named(&["s", "spine9"]), Err(Refused::NoSuchLink { name }));
    }
}
