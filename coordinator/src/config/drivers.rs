//! The tables `[[driver]]`: the driver of each optical switch. A switch without an entry has no driver.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::ids::OpticalId;
use reweave_common::input::{Document, InputError};
use serde::Deserialize;
use toml::Spanned;

use super::Config;
use super::said::Said;
use crate::error::CoordinatorError;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DriverFile {
    /// Name in its certificate.
    name: String,
    switches: Vec<Spanned<String>>,
}

/// An optical switch and its driver, by name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DriverAssignment {
    switch: Said<String>,
    driver: String,
}

pub(super) fn read(
    document: Document<'_>,
    drivers: Vec<DriverFile>,
) -> Result<Vec<DriverAssignment>, InputError> {
    let mut all: Vec<DriverAssignment> = Vec::new();
    for DriverFile { name, switches } in drivers {
        for switch in switches {
            if all.iter().any(|it| it.switch.value == *switch.get_ref()) {
                let problem = format!("{:?} already has a driver", switch.get_ref());
                return Err(document.error(switch.span(), problem));
            }
            all.push(DriverAssignment {
                switch: Said::in_file(document, switch),
                driver: name.clone(),
            });
        }
    }
    Ok(all)
}

impl Config {
    /// Returns the optical switches without a driver: their circuits cannot be moved.
    pub(crate) fn undriven(&self) -> impl Iterator<Item = &str> {
        let is_undriven = move |id: &OpticalId| !self.assigned_driver.contains_key(id);
        let undriven = self
            .fabric
            .opticals()
            .filter(move |(id, _)| is_undriven(id));
        undriven.map(|(_, switch)| switch.name.as_str())
    }
}

/// Replaces names by the ids of the fabric.
pub(super) fn resolve(
    fabric: &Fabric,
    all: Vec<DriverAssignment>,
) -> Result<BTreeMap<OpticalId, String>, CoordinatorError> {
    all.into_iter()
        .map(|DriverAssignment { switch, driver }| {
            let Some(optical) = fabric.find_optical(&switch.value) else {
                let name = switch.value.clone();
                return Err(switch.wrong(CoordinatorError::NoSuchOptical { name }));
            };
            Ok((optical, driver))
        })
        .collect()
}
