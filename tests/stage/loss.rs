//! Packets that are lost on purpose.

use crate::Stage;
use crate::error::StageError;

/// Until this is dropped.
#[derive(Debug)]
pub struct Loss<'s> {
    stage: &'s Stage,
    switch: String,
    table: String,
}

impl<'s> Loss<'s> {
    /// One in this many of the packets that a switch forwards over one direction of a link.
    pub fn on(stage: &'s Stage, [switch, to]: [&str; 2], one_in: u32) -> Result<Self, StageError> {
        Self::leaving(stage, [switch, &stage.port(switch, to)], one_in)
    }

    /// The same by its port.
    pub fn leaving(
        stage: &'s Stage,
        [switch, port]: [&str; 2],
        one_in: u32,
    ) -> Result<Self, StageError> {
        let forwarded = format!("filter hook forward priority 0; oifname {port}");
        let table = format!("loss-{port}");
        stage.lose_by(&table, switch, &["ip", &forwarded], one_in)?;
        Ok(Self {
            stage,
            switch: switch.to_owned(),
            table,
        })
    }
}

impl Drop for Loss<'_> {
    fn drop(&mut self) {
        let words = ["nft", "delete", "table", "ip", &self.table];
        let ended = self.stage.output(&self.switch, &words);
        ended.expect("what was added can be taken away");
    }
}

impl Stage {
    /// One in this many of these packets is lost at a node: a family of tables, and which packets, of what hook.
    pub fn lose(&self, node: &str, packets: &[&str; 2], one_in: u32) -> Result<(), StageError> {
        self.lose_by("loss", node, packets, one_in)
    }

    fn lose_by(
        &self,
        table: &str,
        node: &str,
        [family, which]: &[&str; 2],
        one_in: u32,
    ) -> Result<(), StageError> {
        let table = format!(
            "table {family} {table} {{ chain some {{ type {which} numgen random mod {one_in} == 0 drop; }}; }}"
        );
        self.output(node, &["nft", &table]).map(drop)
    }

    /// From now on one in this many of what a switch sends to the next is lost where it comes in.
    pub fn lose_coming(&self, [from, to]: [&str; 2], one_in: u32) -> Result<(), StageError> {
        let port = self.port(to, from);
        let coming = format!("type filter hook ingress device {port} priority 0;");
        let lost = format!("numgen random mod {one_in} == 0");
        let table = format!(
            "table netdev loss {{ chain some {{ {coming} ip protocol tcp {lost} counter drop; ip protocol != tcp {lost} drop; }}; }}"
        );
        self.output(to, &["nft", &table]).map(drop)
    }

    /// How many packets of TCP were lost there.
    pub fn lost(&self, to: &str) -> Result<u64, StageError> {
        let table = self.output(to, &["nft", "list", "table", "netdev", "loss"])?;
        let count = table.split_once("counter packets ").and_then(|(_, rest)| {
            let count = rest.split_whitespace().next()?;
            count.parse().ok()
        });
        Ok(count.unwrap_or_default())
    }
}
