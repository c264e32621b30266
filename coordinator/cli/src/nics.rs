//! `reweave hosts --nics`: the NICs of hosts.

use reweave_common::fabric::NicUse;
use reweave_common::operator::{NicStatus, Request, Response};
use reweave_common::units::Rate;
use serde::Serialize;

use crate::ask::Coordinator;
use crate::error::CliError;
use crate::page::{Ink, Page};
use crate::report::Report;

/// Maximum number of NICs that fit into one answer.
const MAX_PAGE_NICS: u32 = 1000;

/// Returns all NICs of the fabric, page by page.
pub(crate) fn ask(coordinator: &mut Coordinator) -> Result<Vec<NicStatus>, CliError> {
    let mut nics = Vec::new();
    loop {
        let more = page_from(coordinator, nics.len())?;
        if more.is_empty() {
            return Ok(nics);
        }
        nics.extend(more);
    }
}

fn page_from(coordinator: &mut Coordinator, from: usize) -> Result<Vec<NicStatus>, CliError> {
    let from_nic = u32::try_from(from).unwrap_or(u32::MAX);
    let most = MAX_PAGE_NICS;
    match coordinator.ask(&Request::Nics { from_nic, most })? {
        Response::Nics(nics) => Ok(nics),
        Response::Refused(refused) => Err(CliError::Refused(refused)),
        other => Err(CliError::unexpected(&other)),
    }
}

#[derive(Serialize)]
pub(crate) struct NicsAnswer {
    nics: Vec<NicStatus>,
}

impl NicsAnswer {
    /// Those that are down come first.
    pub(crate) fn new(mut nics: Vec<NicStatus>) -> Self {
        nics.sort_by_key(|nic| nic.up != Some(false));
        Self { nics }
    }
}

const HEADINGS: [&str; 10] = [
    "host", "NIC", "rail", "use", "state", "link", "address", "NUMA", "GPU", "PCI",
];

impl Report for NicsAnswer {
    fn lay_out(&self, page: &mut Page) {
        if self.nics.is_empty() {
            return page.line("no NICs: the fabric has only fibres and links of relays");
        }
        let rows: Vec<_> = self.nics.iter().map(|nic| row(page, nic)).collect();
        page.table(HEADINGS, rows);
    }

    fn lay_out_wide(&self, page: &mut Page) {
        if self.nics.is_empty() {
            return self.lay_out(page);
        }
        let wide = |nic: &NicStatus| {
            let [
                host,
                name,
                rail,
                purpose,
                state,
                link,
                address,
                numa,
                gpu,
                pci,
            ] = row(page, nic);
            let rate = |rate: Option<Rate>| or_dash(rate.map(|rate| rate.to_string()));
            [
                host,
                name,
                rail,
                purpose,
                state,
                link,
                address,
                numa,
                gpu,
                pci,
                number(nic.plane),
                nic.capacity_bits_per_s.to_string(),
                rate(nic.sent_bits_per_s),
                rate(nic.received_bits_per_s),
            ]
        };
        let rows: Vec<_> = self.nics.iter().map(wide).collect();
        let [
            host,
            name,
            rail,
            purpose,
            state,
            link,
            address,
            numa,
            gpu,
            pci,
        ] = HEADINGS;
        let headings = [
            host, name, rail, purpose, state, link, address, numa, gpu, pci, "plane", "capacity",
            "sent", "received",
        ];
        page.table(headings, rows);
    }

    /// Returns the links, since other commands take no NICs.
    fn names(&self) -> Vec<String> {
        self.nics.iter().map(|nic| nic.link.clone()).collect()
    }
}

fn row(page: &Page, nic: &NicStatus) -> [String; 10] {
    let purpose = match nic.purpose {
        NicUse::Training => nic.purpose.name().to_owned(),
        NicUse::Storage | NicUse::Management => page.ink(Ink::Grey, nic.purpose.name()),
    };
    let state = match nic.up {
        Some(true) => page.ink(Ink::Green, "up"),
        Some(false) => page.ink(Ink::Red, "down"),
        None => page.ink(Ink::Grey, "unknown"),
    };
    [
        nic.host.clone(),
        or_dash(nic.interface.clone()),
        nic.rail.to_string(),
        purpose,
        state,
        nic.link.clone(),
        or_dash(nic.address.map(|address| address.to_string())),
        number(nic.numa),
        gpu(nic),
        or_dash(nic.pci.map(|pci| pci.to_string())),
    ]
}

/// Formats the GPU of the file, else the nearest ones with their kind of path.
fn gpu(nic: &NicStatus) -> String {
    let nearest = nic.gpus.first().map(|first| {
        let indices: Vec<_> = nic.gpus.iter().map(|gpu| gpu.index.to_string()).collect();
        format!("{} ({})", indices.join(","), first.path)
    });
    or_dash(nic.gpu.map(|gpu| gpu.to_string()).or(nearest))
}

fn number(number: Option<u16>) -> String {
    or_dash(number.map(|number| number.to_string()))
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

#[cfg(test)]
mod tests {
    use reweave_common::pci::{NearGpu, PciAddress, PciPath};

    use super::*;

    fn nic(interface: &str, purpose: NicUse, up: Option<bool>) -> NicStatus {
        NicStatus {
            host: "h0".to_owned(),
            interface: Some(interface.to_owned()),
            rail: 1,
            plane: None,
            purpose,
            link: "h0-leaf1".to_owned(),
            address: None,
            pci: None,
            numa: None,
            gpu: None,
            gpus: vec![],
            up,
            capacity_bits_per_s: Rate::from_bits_per_s(400_000_000_000),
            sent_bits_per_s: Some(Rate::from_bits_per_s(1_000_000_000)),
            received_bits_per_s: None,
        }
    }

    fn answer() -> NicsAnswer {
        let near = |index| NearGpu {
            pci: PciAddress::new(0, 0x1b, 0),
            index,
            path: PciPath::Pxb,
            hops: 2,
        };
        let placed = NicStatus {
            address: Some([10, 1, 0, 1].into()),
            pci: Some(PciAddress::new(0, 0x18, 0)),
            numa: Some(0),
            gpus: vec![near(0), near(1)],
            ..nic("eth0", NicUse::Training, Some(true))
        };
        let of_file = NicStatus {
            gpu: Some(5),
            gpus: vec![near(0)],
            ..nic("eth1", NicUse::Storage, Some(false))
        };
        NicsAnswer::new(vec![placed, of_file])
    }

    fn words(line: &str) -> Vec<&str> {
        line.split_whitespace().collect()
    }

    #[test]
    fn nics_that_are_down_come_first() {
        let mut page = Page::default();
        answer().lay_out(&mut page);
        let lines: Vec<_> = page.text.lines().collect();
        let down = [
            "h0", "eth1", "1", "storage", "down", "h0-leaf1", "-", "-", "5", "-",
        ];
        assert_eq!(words(lines[1]), down);
        let up = [
            "h0",
            "eth0",
            "1",
            "training",
            "up",
            "h0-leaf1",
            "10.1.0.1",
            "0",
            "0,1",
            "(PXB)",
            "0000:18:00.0",
        ];
        assert_eq!(words(lines[2]), up);
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn wide_nics_have_rates() {
        let mut page = Page::default();
        answer().lay_out_wide(&mut page);
        let line = page.text.lines().nth(1).unwrap_or_default();
        let rates = ["-", "400.0", "Gb/s", "1.0", "Gb/s", "-"];
        assert!(words(line).ends_with(&rates), "{line}");
        assert_eq!(answer().names(), ["h0-leaf1", "h0-leaf1"]);
    }
}
