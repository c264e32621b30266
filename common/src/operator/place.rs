//! Places in the fabric, by the names of the fabric file.

use crate::fabric::Fabric;
use crate::snapshot;
use serde::{Deserialize, Serialize};

/// One direction of a link.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Hop {
    pub from: String,
    pub to: String,
    /// Distinguishes parallel links.
    pub link: String,
}

impl Hop {
    pub fn named(hop: snapshot::Hop, fabric: &Fabric) -> Self {
        let far = fabric.link(hop.link).far(hop.from).node;
        Self {
            from: fabric.name(hop.from).to_owned(),
            to: fabric.name(far).to_owned(),
            link: fabric.link_name(hop.link),
        }
    }
}

pub fn hops(hops: &[snapshot::Hop], fabric: &Fabric) -> Vec<Hop> {
    hops.iter().map(|&hop| Hop::named(hop, fabric)).collect()
}
