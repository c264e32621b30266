//! Scenario features that no lab supports; they are refused before anything is created.

use reweave_common::fabric::Fabric;
use reweave_common::ids::LinkId;
use reweave_common::scenario::{FaultKind, Scenario};
use reweave_common::units::Rate;

use crate::addressing::Addressing;
use crate::error::LabError;
use crate::management::{self, MANAGEMENT_INTERFACE};
use crate::wiring::{MAX_LINK_RATE, interface, ports};

pub(crate) fn check(scenario: &Scenario) -> Result<(), LabError> {
    Addressing::new(&scenario.fabric)?;
    check_interfaces(&scenario.fabric)?;
    if scenario.management {
        management::check_size(&scenario.fabric)?;
    }
    let links = scenario.fabric.links().map(|(id, link)| (id, link.rate));
    let mut rates = links.chain(faulty_rates(scenario));
    match rates.find(|(_, rate)| *rate > MAX_LINK_RATE) {
        None => Ok(()),
        Some((link, rate)) => Err(LabError::RateTooHigh {
            link: scenario.fabric.link_name(link),
            rate,
            most: MAX_LINK_RATE,
        }),
    }
}

/// Refuses an interface name in the file that the lab gives to another interface of the host.
fn check_interfaces(fabric: &Fabric) -> Result<(), LabError> {
    for (_, nic) in fabric.nics() {
        let Some(name) = &nic.interface else { continue };
        let mut others = ports(fabric, nic.host).filter(|(_, link)| *link != nic.link);
        let is_of_lab = ["lo", MANAGEMENT_INTERFACE].contains(&name.as_str());
        if is_of_lab || others.any(|(port, _)| interface(fabric, port) == *name) {
            return Err(LabError::InterfaceTaken {
                host: fabric.name(nic.host).to_owned(),
                interface: name.clone(),
            });
        }
    }
    Ok(())
}

/// The rates that links come to have.
fn faulty_rates(scenario: &Scenario) -> impl Iterator<Item = (LinkId, Rate)> {
    let faults = scenario.faults.iter();
    faults.filter_map(|fault| match fault.kind {
        FaultKind::LinkRate { link, rate } => Some((link, rate)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(gbps: &str, rest: &str) -> Result<(), String> {
        let text =
            format!("name = 'n'\n[fabric]\nkind = 'ideal'\nhosts = 2\nnic_gbps = {gbps}\n{rest}");
        let scenario = Scenario::parse("s.toml", &text, |_| Err(String::new())).unwrap();
        check(&scenario).map_err(|error| error.to_string())
    }

    #[test]
    fn too_fast_links_are_named() {
        assert_eq!(said("30000", ""), Ok(()));
        let words = "h0-switch at 100000.0 Gb/s: a lab shapes links up to 34359.7 Gb/s";
        assert_eq!(said("1e5", ""), Err(words.to_owned()));
        let fault = "[[fault]]\nkind = 'link-rate'\nat_s = 0\nlink = ['h0', 'switch']\ngbps = 1e5";
        assert_eq!(said("1", fault), Err(words.to_owned()));
    }

    #[test]
    fn interface_names_of_lab_are_refused() {
        let refusal = |name: &str| {
            let text = format!(
                "name = 'n'\n[fabric]\nkind = 'graph'\n\
                 node = [{{ name = 'a', role = 'host' }}, {{ name = 's', role = 'switch' }}]\n\
                 nic = [{{ host = 'a', to = 's', gbps = 1, interface = '{name}' }}, \
                 {{ host = 'a', to = 's', gbps = 1 }}]\n"
            );
            let scenario = Scenario::parse("s.toml", &text, |_| Err(String::new())).unwrap();
            check(&scenario).map_err(|error| error.to_string())
        };
        // The second NIC is eth1.
        for name in ["eth1", "mgmt0"] {
            let words =
                format!("another interface of \"a\" is named \"{name}\" in a lab: rename this NIC");
            assert_eq!(refusal(name), Err(words));
        }
        assert_eq!(refusal("eth0"), Ok(()));
    }
}
