//! Cost of a wiring, part by part.

use serde::Serialize;

/// Price of one part each, in any currency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// At either end of a cable.
    pub transceiver: f64,
    /// Port of a packet switch.
    pub switch_port: f64,
    pub panel_port: f64,
    /// Port of an optical circuit switch.
    pub optical_port: f64,
    /// Port of a network card.
    pub card_port: f64,
    /// A fibre from a host, or from a switch, to the next panel or switch.
    pub fibre: f64,
}

/// Cost of the same host ports in different wirings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bill {
    pub patch_panels: f64,
    pub optical_switches: f64,
    /// Non-blocking fat tree of three layers.
    pub fat_tree: f64,
}

/// TopoOpt (NSDI 2023) publishes no prices of parts, but the mean cost of fabrics relative to patch panels.
pub const PUBLISHED_PRICES: Bill = Bill {
    patch_panels: 1.0,
    optical_switches: 1.33,
    fat_tree: 3.2,
};

/// Number of cables per host port of a fat tree of three layers: its own and two more upwards. Each has a switch at one
/// end at least.
pub const TREE_CABLES_PER_PORT: usize = 3;
pub const TREE_SWITCH_PORTS_PER_PORT: usize = 5;

impl Prices {
    /// Returns the cost for this number of host ports. Each is joined to a port of a panel or optical switch, which
    /// passes the light on. A packet switch has a transceiver of its own.
    pub fn bill(&self, ports: usize) -> Bill {
        let ports = ports as f64;
        let circuit = self.card_port + self.transceiver + self.fibre;
        let tree = self.card_port
            + TREE_CABLES_PER_PORT as f64 * (2.0 * self.transceiver + self.fibre)
            + TREE_SWITCH_PORTS_PER_PORT as f64 * self.switch_port;
        Bill {
            patch_panels: ports * (circuit + self.panel_port),
            optical_switches: ports * (circuit + self.optical_port),
            fat_tree: ports * tree,
        }
    }
}

impl Bill {
    /// Returns the ratio to the cost with patch panels.
    pub fn times(&self, cost: f64) -> f64 {
        cost / self.patch_panels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bill_counts_every_part() {
        let prices = Prices {
            transceiver: 1.0,
            switch_port: 100.0,
            panel_port: 10_000.0,
            optical_port: 20_000.0,
            card_port: 1_000_000.0,
            fibre: 100_000_000.0,
        };
        let bill = prices.bill(2);
        assert_eq!(bill.patch_panels, 2.0 * 101_010_001.0);
        assert_eq!(bill.optical_switches, 2.0 * 101_020_001.0);
        assert_eq!(bill.fat_tree, 2.0 * 301_000_506.0);
        assert_eq!(bill.times(bill.patch_panels), 1.0);
        assert_eq!(PUBLISHED_PRICES.times(PUBLISHED_PRICES.fat_tree), 3.2);
    }
}
