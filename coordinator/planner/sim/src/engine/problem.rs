//! The input of a simulation: links, paths over them, and dependent tasks.

use std::collections::BTreeSet;
use std::fmt;

use reweave_common::units::Rate;

use super::SimTime;

/// A directed link, by the order in which it was added.
pub type LinkIndex = u32;
/// A list of links that tasks share. Tasks on the same path are simulated together: use one path
/// for all of them.
pub type PathIndex = u32;
/// A transfer or a computation, by the order in which it was added.
pub type TaskIndex = u32;
/// Something that does one computation after the other, in the order in which they become ready.
pub type DeviceIndex = u32;

/// More bits than this are a slip of the keyboard: an exabyte.
const MAX_BITS: f64 = 8e18;

/// A thousand times what any link can do.
const MAX_BITS_PER_S: u64 = 1 << 60;

/// Set in the path of a task that computes; the rest is its device.
const COMPUTE_FLAG: u32 = 1 << 31;

/// Work of a task after its predecessors and its delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Work {
    /// Moves bits over all links of a path at once.
    Transfer { path: PathIndex, bits: f64 },
    /// Occupies a device.
    Compute { device: DeviceIndex, time: SimTime },
}

/// Links, paths, tasks and what waits for what. Kept in flat lists, as there may be millions.
#[derive(Debug, Clone)]
pub struct Problem {
    capacities: Vec<Rate>,
    hops: Vec<LinkIndex>,
    /// End of each path in `hops`, after an initial zero.
    path_ends: Vec<u32>,
    places: Vec<u32>,
    /// Bits, or the ticks of a computation.
    sizes: Vec<f64>,
    delays: Vec<SimTime>,
    /// Empty while all are one.
    weights: Vec<u32>,
    /// `[before, after]`
    waits: Vec<[TaskIndex; 2]>,
    devices: u32,
}

impl Default for Problem {
    fn default() -> Self {
        Self {
            capacities: Vec::new(),
            hops: Vec::new(),
            path_ends: vec![0],
            places: Vec::new(),
            sizes: Vec::new(),
            delays: Vec::new(),
            weights: Vec::new(),
            waits: Vec::new(),
            devices: 0,
        }
    }
}

impl Problem {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn add_link(&mut self, capacity: Rate) -> Result<LinkIndex, ProblemError> {
        if !(1..=MAX_BITS_PER_S).contains(&capacity.bits_per_s()) {
            return Err(ProblemError::BadCapacity { capacity });
        }
        let index = next_index(self.capacities.len())?;
        self.capacities.push(capacity);
        Ok(index)
    }

    /// An empty path is one that takes no time.
    pub fn add_path(&mut self, links: &[LinkIndex]) -> Result<PathIndex, ProblemError> {
        self.must_be_path(links)?;
        let index = next_index(self.path_ends.len() - 1)?;
        let end = u32::try_from(self.hops.len() + links.len());
        self.path_ends.push(end.map_err(|_| ProblemError::TooMany)?);
        self.hops.extend_from_slice(links);
        Ok(index)
    }

    fn must_be_path(&self, links: &[LinkIndex]) -> Result<(), ProblemError> {
        let unknown = |&&link: &&LinkIndex| link as usize >= self.capacities.len();
        if let Some(&link) = links.iter().find(unknown) {
            return Err(ProblemError::NoSuchLink { link });
        }
        match repeated(links) {
            Some(link) => Err(ProblemError::LinkTwice { link }),
            None => Ok(()),
        }
    }

    pub fn add_device(&mut self) -> Result<DeviceIndex, ProblemError> {
        let index = next_index(self.devices as usize)?;
        self.devices += 1;
        Ok(index)
    }

    /// A task that moves `bits`, `delay` after all that it waits for is done.
    pub fn add_transfer(
        &mut self,
        path: PathIndex,
        bits: f64,
        delay: SimTime,
    ) -> Result<TaskIndex, ProblemError> {
        if path as usize >= self.path_ends.len() - 1 {
            return Err(ProblemError::NoSuchPath { path });
        }
        if !(0.0..=MAX_BITS).contains(&bits) {
            return Err(ProblemError::BadSize { bits });
        }
        self.add_task(path, bits, delay)
    }

    pub fn add_compute(
        &mut self,
        device: DeviceIndex,
        time: SimTime,
    ) -> Result<TaskIndex, ProblemError> {
        if device >= self.devices {
            return Err(ProblemError::NoSuchDevice { device });
        }
        self.add_task(device | COMPUTE_FLAG, time.0 as f64, SimTime::ZERO)
    }

    fn add_task(
        &mut self,
        place: u32,
        size: f64,
        delay: SimTime,
    ) -> Result<TaskIndex, ProblemError> {
        must_fit(self.places.len() + 1)?;
        let index = next_index(self.places.len())?;
        self.places.push(place);
        self.sizes.push(size);
        self.delays.push(delay);
        if !self.weights.is_empty() {
            self.weights.push(1);
        }
        Ok(index)
    }

    /// Lets a transfer count as `weight` ones where links are shared.
    pub fn set_weight(&mut self, task: TaskIndex, weight: u32) -> Result<(), ProblemError> {
        self.must_be_task(task)?;
        if weight == 0 {
            return Err(ProblemError::NoWeight { task });
        }
        if self.weights.is_empty() && weight != 1 {
            self.weights = vec![1; self.places.len()];
        }
        if let Some(slot) = self.weights.get_mut(task as usize) {
            *slot = weight;
        }
        Ok(())
    }

    /// Lets `after` wait for the end of `before`.
    pub fn add_wait(&mut self, before: TaskIndex, after: TaskIndex) -> Result<(), ProblemError> {
        self.must_be_task(before)?;
        self.must_be_task(after)?;
        if before == after {
            return Err(ProblemError::WaitsForItself { task: after });
        }
        next_index(self.waits.len())?;
        self.waits.push([before, after]);
        Ok(())
    }

    /// Appends the paths, devices and tasks of another problem. `link` maps its links to links of this problem.
    pub fn append(
        &mut self,
        other: &Self,
        link: impl Fn(LinkIndex) -> Option<LinkIndex>,
    ) -> Result<(), ProblemError> {
        let [tasks, devices, paths] = [self.tasks(), self.devices(), self.paths()];
        must_fit(tasks + other.tasks())?;
        next_index(devices + other.devices())?;
        for path in 0..other.paths() as PathIndex {
            let here = |&there| link(there).ok_or(ProblemError::NoSuchLink { link: there });
            let links: Result<Vec<_>, _> = other.path(path).iter().map(here).collect();
            self.add_path(&links?)?;
        }
        self.devices += other.devices;
        for task in 0..other.tasks() as TaskIndex {
            let place = match other.work(task) {
                Work::Transfer { path, .. } => path + paths as u32,
                Work::Compute { device, .. } => (device + devices as u32) | COMPUTE_FLAG,
            };
            let size = other.sizes[task as usize];
            let added = self.add_task(place, size, other.delay(task))?;
            self.set_weight(added, other.weight(task))?;
        }
        for &[before, after] in &other.waits {
            self.add_wait(before + tasks as u32, after + tasks as u32)?;
        }
        Ok(())
    }

    fn must_be_task(&self, task: TaskIndex) -> Result<(), ProblemError> {
        let known = (task as usize) < self.places.len();
        known.then_some(()).ok_or(ProblemError::NoSuchTask { task })
    }

    pub fn capacities(&self) -> &[Rate] {
        &self.capacities
    }

    pub fn tasks(&self) -> usize {
        self.places.len()
    }

    pub fn paths(&self) -> usize {
        self.path_ends.len() - 1
    }

    pub fn devices(&self) -> usize {
        self.devices as usize
    }

    pub fn path(&self, path: PathIndex) -> &[LinkIndex] {
        let [start, end] = [path as usize, path as usize + 1].map(|at| self.path_ends[at] as usize);
        &self.hops[start..end]
    }

    pub fn work(&self, task: TaskIndex) -> Work {
        let (place, size) = (self.places[task as usize], self.sizes[task as usize]);
        match place & COMPUTE_FLAG {
            0 => Work::Transfer {
                path: place,
                bits: size,
            },
            _ => Work::Compute {
                device: place & !COMPUTE_FLAG,
                time: SimTime(size as u64),
            },
        }
    }

    pub fn delay(&self, task: TaskIndex) -> SimTime {
        self.delays[task as usize]
    }

    pub fn weight(&self, task: TaskIndex) -> u32 {
        self.weights.get(task as usize).copied().unwrap_or(1)
    }

    /// `[before, after]` of all that waits.
    pub fn waits(&self) -> &[[TaskIndex; 2]] {
        &self.waits
    }
}

/// Paths are short; a long one is a mistake in the input, and must not take long to find out.
fn repeated(links: &[LinkIndex]) -> Option<LinkIndex> {
    let mut nth_and_link = links.iter().enumerate();
    if links.len() <= 16 {
        let repeated = nth_and_link.find(|&(nth, link)| links[..nth].contains(link));
        return repeated.map(|(_, &link)| link);
    }
    let mut seen = BTreeSet::new();
    links.iter().copied().find(|&link| !seen.insert(link))
}

/// Maximum number of tasks: data of this size take about 8 GiB.
const MAX_TASKS: usize = 1 << 26;

/// Whether this many tasks may be in one problem.
pub(crate) fn must_fit(tasks: usize) -> Result<(), ProblemError> {
    if tasks <= MAX_TASKS {
        Ok(())
    } else {
        Err(ProblemError::TooManyTasks)
    }
}

/// Half of all indices is enough, and leaves a bit to mark them with.
fn next_index(count: usize) -> Result<u32, ProblemError> {
    let index = u32::try_from(count).ok();
    index
        .filter(|&index| index < COMPUTE_FLAG - 1)
        .ok_or(ProblemError::TooMany)
}

/// Reason why an element is invalid.
#[derive(Debug, Clone, PartialEq)]
pub enum ProblemError {
    BadCapacity { capacity: Rate },
    NoSuchLink { link: LinkIndex },
    LinkTwice { link: LinkIndex },
    NoSuchPath { path: PathIndex },
    NoSuchDevice { device: DeviceIndex },
    NoSuchTask { task: TaskIndex },
    BadSize { bits: f64 },
    NoWeight { task: TaskIndex },
    WaitsForItself { task: TaskIndex },
    TooManyTasks,
    TooMany,
}

impl fmt::Display for ProblemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadCapacity { capacity } => {
                write!(
                    f,
                    "{} bit/s is not a capacity of a link",
                    capacity.bits_per_s()
                )
            }
            Self::NoSuchLink { link } => write!(f, "no link {link}"),
            Self::LinkTwice { link } => write!(f, "the path crosses link {link} twice"),
            Self::NoSuchPath { path } => write!(f, "no path {path}"),
            Self::NoSuchDevice { device } => write!(f, "no device {device}"),
            Self::NoSuchTask { task } => write!(f, "no flow {task}"),
            Self::BadSize { bits } => write!(f, "{:?} bytes is not a flow size", bits / 8.0),
            Self::NoWeight { task } => write!(f, "the weight of flow {task} is zero"),
            Self::WaitsForItself { task } => write!(f, "flow {task} waits for itself"),
            Self::TooManyTasks => write!(
                f,
                "one simulation takes no more than {MAX_TASKS} flows and computations"
            ),
            Self::TooMany => write!(f, "more than {COMPUTE_FLAG} of a kind"),
        }
    }
}

impl std::error::Error for ProblemError {}
