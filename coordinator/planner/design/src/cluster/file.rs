//! Cluster files: blocks of hosts with their ports, and the jobs that are to run.

use std::collections::BTreeSet;
use std::time::Duration;

use reweave_common::input::{Document, InputError, Number, Table};
use reweave_common::names;
use reweave_common::units::Bytes;
use serde::Deserialize;
use toml::Spanned;

use super::ground::{Block, Ground, Host, Switching, Trunk};

const MAX_HOSTS: i64 = 1 << 14;
const MAX_PORTS: i64 = 1 << 10;
const MAX_ITERATIONS: i64 = 1 << 40;
const MAX_MEMORY_GB: f64 = 1e6;
/// A month.
const MAX_JOB_TIME: Duration = Duration::from_secs(30 * 86_400);

/// Content of a cluster file.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterFile {
    pub ground: Ground,
    /// Jobs in the order of their arrival.
    pub jobs: Vec<JobEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEntry {
    pub name: String,
    /// A job file, whose name is relative to the cluster file's folder.
    pub file: String,
    /// The fewest it can do with, and the most it can use.
    pub servers: [usize; 2],
    pub iterations: u64,
    /// File with the bytes that each server sent to each other in past iterations, relative to the folder of this file.
    pub gates: Option<String>,
    /// Ports per server that are reserved for circuits of these experts.
    pub gate_ports: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    gbps: Spanned<f64>,
    memory_gb: Option<Spanned<f64>>,
    restart_s: Option<Spanned<f64>>,
    switching: Spanned<String>,
    reconfigure_ms: Option<Spanned<f64>>,
    flip_ms: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockEntry {
    name: Spanned<String>,
    hosts: Spanned<i64>,
    ports: Spanned<i64>,
    switches: Option<Spanned<i64>>,
    slices: Option<Spanned<i64>>,
    switched_gbps: Option<Spanned<f64>>,
    #[serde(default)]
    storage_ports: Vec<Spanned<i64>>,
    #[serde(default)]
    control_ports: Vec<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrunkEntry {
    blocks: Spanned<[String; 2]>,
    fibres: Spanned<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobTable {
    name: Spanned<String>,
    file: String,
    servers: Spanned<i64>,
    most_servers: Option<Spanned<i64>>,
    iterations: Spanned<i64>,
    gates: Option<Spanned<String>>,
    gate_ports: Option<Spanned<i64>>,
}

const NO_SWITCHES_ERROR: &str = "what finds no circuit goes over packet switches: say under [[block]] how fast, as switched_gbps";

/// Default restart time of a job.
const DEFAULT_RESTART_TIME: Duration = Duration::from_secs(30);

impl ClusterFile {
    /// Reads a cluster file; `file` is the name that errors call it by.
    pub fn parse(file: &str, text: &str) -> Result<Self, InputError> {
        let mut table = Document::new(file, text).table()?;
        let reader = Reader(table.document());
        let (blocks, jobs) = (table.take_tables("block")?, table.take_tables("job")?);
        let trunks = table.take_tables("trunk")?;
        if blocks.is_empty() {
            return Err(table.lacks("block"));
        }
        let mut ground = reader.head(&table.finish()?)?;
        let mut known = BTreeSet::new();
        for block in blocks {
            reader.block(&block.finish()?, &mut ground, &mut known)?;
        }
        for trunk in trunks {
            let trunk = reader.trunk(&trunk.finish()?, &ground)?;
            ground.trunks.push(trunk);
        }
        known.clear();
        let has_switches = ground.blocks.iter().any(|block| block.switched.is_some());
        let job = |job: Table<'_>| {
            let entry: JobTable = job.finish()?;
            match &entry.gates {
                Some(gates) if !has_switches => {
                    Err(reader.0.error(gates.span(), NO_SWITCHES_ERROR))
                }
                _ => reader.job(entry, &mut known),
            }
        };
        let jobs = jobs.into_iter().map(job).collect::<Result<_, _>>()?;
        Ok(Self { ground, jobs })
    }
}

struct Reader<'t>(Document<'t>);

impl Reader<'_> {
    fn head(&self, head: &Head) -> Result<Ground, InputError> {
        let millis = |value: &Spanned<f64>| {
            let time = self.0.time(value, Duration::from_millis(1), MAX_JOB_TIME)?;
            Ok::<_, InputError>(time.as_secs_f64() * 1e3)
        };
        let mut switching = self.switching(&head.switching)?;
        if let Some(once) = &head.reconfigure_ms {
            switching.once_ms = millis(once)?;
        }
        let restart = head.restart_s.as_ref();
        let restart = restart.map(|time| self.0.time(time, Duration::from_secs(1), MAX_JOB_TIME));
        let restart = restart.transpose()?.unwrap_or(DEFAULT_RESTART_TIME);
        Ok(Ground {
            blocks: Vec::new(),
            trunks: Vec::new(),
            hosts: Vec::new(),
            rate: self.0.rate(&head.gbps)?,
            memory: self.memory(head.memory_gb.as_ref())?,
            switching,
            flip_ms: head.flip_ms.as_ref().map(millis).transpose()?,
            restart_ms: restart.as_secs_f64() * 1e3,
        })
    }

    fn switching(&self, name: &Spanned<String>) -> Result<Switching, InputError> {
        Switching::named(name.get_ref()).ok_or_else(|| {
            let known = Switching::SWITCHING_TIMES.map(|(name, _)| name).join(", ");
            let problem = format!("{:?} is unknown here; use one of {known}", name.get_ref());
            self.0.error(name.span(), problem)
        })
    }

    fn memory(&self, gb: Option<&Spanned<f64>>) -> Result<Option<Bytes>, InputError> {
        gb.map(|gb| match *gb.get_ref() {
            some if some > 0.0 && some <= MAX_MEMORY_GB => Ok(Bytes::new((some * 1e9) as u64)),
            other => {
                let report = Number(other);
                let problem = format!("{report} is not above 0, and at most {MAX_MEMORY_GB}");
                Err(self.0.error(gb.span(), problem))
            }
        })
        .transpose()
    }

    fn name(&self, name: &Spanned<String>, known: &mut BTreeSet<String>) -> Result<(), InputError> {
        if !names::is_plain(name.get_ref(), names::MAX_NAME_BYTES) {
            let problem = names::refusal(name.get_ref(), "block or a job");
            return Err(self.0.error(name.span(), problem));
        }
        if !known.insert(name.get_ref().clone()) {
            let problem = format!("there are two of the name {:?}", name.get_ref());
            return Err(self.0.error(name.span(), problem));
        }
        Ok(())
    }

    fn block(
        &self,
        entry: &BlockEntry,
        ground: &mut Ground,
        known: &mut BTreeSet<String>,
    ) -> Result<(), InputError> {
        self.name(&entry.name, known)?;
        let count = |value: &Option<Spanned<i64>>, most| {
            let value = value.as_ref().map(|value| self.0.whole(value, 1..=most));
            Ok::<_, InputError>(value.transpose()?.unwrap_or(1) as usize)
        };
        let ports = self.0.whole(&entry.ports, 1..=MAX_PORTS)?;
        let others = entry.storage_ports.iter().chain(&entry.control_ports);
        let left_alone = others.map(|port| self.port(port, ports));
        let left_alone = left_alone.collect::<Result<Vec<_>, _>>()?;
        let free = |port: &u32| !left_alone.contains(port);
        let host = Host {
            block: ground.blocks.len(),
            ports: (0..ports as u32).filter(free).collect(),
            left_alone: left_alone.clone(),
            slices: count(&entry.slices, MAX_PORTS)?,
        };
        self.slices(entry, &host)?;
        let hosts = self.0.whole(&entry.hosts, 1..=MAX_HOSTS)?;
        let all = ground.hosts.len() + hosts as usize;
        if all > MAX_HOSTS as usize {
            let problem = format!("{all} hosts in all are more than {MAX_HOSTS}");
            return Err(self.0.error(entry.hosts.span(), problem));
        }
        ground.hosts.resize(all, host);
        ground.blocks.push(Block {
            name: entry.name.get_ref().clone(),
            switches: count(&entry.switches, MAX_PORTS)?,
            switched: entry
                .switched_gbps
                .as_ref()
                .map(|gbps| self.0.rate(gbps))
                .transpose()?,
        });
        Ok(())
    }

    fn trunk(&self, entry: &TrunkEntry, ground: &Ground) -> Result<Trunk, InputError> {
        let wrong = |problem: String| self.0.error(entry.blocks.span(), problem);
        let find = |name: &String| {
            let block = ground.blocks.iter().position(|block| block.name == *name);
            block.ok_or_else(|| wrong(format!("no block {name:?}")))
        };
        let [a, b] = entry.blocks.get_ref();
        let [a, b] = [find(a)?, find(b)?];
        let blocks = [a.min(b), a.max(b)];
        if a == b {
            return Err(wrong("a trunk joins two blocks".to_owned()));
        }
        if ground.trunks.iter().any(|known| known.blocks == blocks) {
            let problem = "there is a trunk between these already: give it all their fibres";
            return Err(wrong(problem.to_owned()));
        }
        let fibres = self.0.whole(&entry.fibres, 1..=MAX_PORTS)?;
        Ok(Trunk {
            blocks,
            fibres: fibres as u32,
        })
    }

    fn port(&self, port: &Spanned<i64>, ports: u64) -> Result<u32, InputError> {
        Ok(self.0.whole(port, 0..=ports as i64 - 1)? as u32)
    }

    /// Each slice has ports of its own, and as many as the others.
    fn slices(&self, entry: &BlockEntry, host: &Host) -> Result<(), InputError> {
        let (ports, slices) = (host.ports.len(), host.slices);
        if ports > 0 && ports.is_multiple_of(slices) {
            return Ok(());
        }
        let span = entry
            .slices
            .as_ref()
            .map_or(entry.ports.span(), Spanned::span);
        let fits = (1..=ports).filter(|&it| ports.is_multiple_of(it));
        let fits: Vec<_> = fits.map(|it| it.to_string()).collect();
        let problem = match ports {
            0 => "storage and control leave no port for circuits".to_owned(),
            _ => format!(
                "{slices} slices cannot share {ports} ports alike; possible are {}",
                fits.join(", ")
            ),
        };
        Err(self.0.error(span, problem))
    }

    fn job(&self, job: JobTable, known: &mut BTreeSet<String>) -> Result<JobEntry, InputError> {
        self.name(&job.name, known)?;
        let servers = |value| self.0.whole(value, 1..=MAX_HOSTS * MAX_PORTS);
        let least = servers(&job.servers)? as usize;
        let most = job.most_servers.as_ref().map(servers).transpose()?;
        let most = most.map_or(least, |most| most as usize);
        if let Some(value) = job.most_servers.as_ref().filter(|_| most < least) {
            let problem = format!("{most} is fewer than the {least} under `servers`");
            return Err(self.0.error(value.span(), problem));
        }
        let gate_ports = job.gate_ports.as_ref();
        if let Some(ports) = gate_ports.filter(|_| job.gates.is_none()) {
            let problem = "it has no gates: say where they are, as gates = \"gates.csv\"";
            return Err(self.0.error(ports.span(), problem));
        }
        let gate_ports = gate_ports.map(|ports| self.0.whole(ports, 1..=MAX_PORTS));
        Ok(JobEntry {
            gate_ports: gate_ports.transpose()?.map(|ports| ports as usize),
            iterations: self.0.whole(&job.iterations, 1..=MAX_ITERATIONS)?,
            name: job.name.into_inner(),
            file: job.file,
            servers: [least, most],
            gates: job.gates.map(Spanned::into_inner),
        })
    }
}
