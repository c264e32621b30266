//! The course of events: what is ready begins, what is done lets others be ready.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;

use super::certificate::Running;
use super::late::Patience;
use super::problem::{Problem, TaskIndex, Work};
use super::shares::Shares;
use super::time::SimTime;
use super::waits::{self, Followers};

/// Reason why a simulation did not end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SimError {
    /// These tasks wait for one another, each for the one before it and the first for the last.
    Cycle {
        tasks: Vec<TaskIndex>,
    },
    TooLong,
    TooMuchWork {
        limit: u64,
    },
    /// It would end after the deadline of the caller.
    TooLate,
    /// The watcher did not want to go on.
    Stopped(Progress),
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cycle { tasks } => {
                let names: Vec<_> = tasks.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "flows wait for one another in a circle: {}",
                    names.join(", ")
                )
            }
            Self::TooLong => f.write_str("it would last longer than 51 hours"),
            Self::TooLate => f.write_str("it would last longer than it may"),
            Self::TooMuchWork { limit } => {
                write!(
                    f,
                    "it takes more than the {limit} units of work it was given"
                )
            }
            Self::Stopped(Progress { done, tasks }) => {
                write!(f, "it was stopped when {done} of {tasks} tasks were done")
            }
        }
    }
}

impl std::error::Error for SimError {}

/// Progress of a simulation: completed tasks, and all tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub done: usize,
    pub tasks: usize,
}

/// When each task began and ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The end of what it waits for, and its delay.
    pub starts: Vec<SimTime>,
    pub finishes: Vec<SimTime>,
    /// Number of events.
    pub events: u64,
    /// Units of work spent.
    pub work: u64,
}

impl Outcome {
    pub fn makespan(&self) -> SimTime {
        self.finishes.iter().copied().max().unwrap_or_default()
    }
}

/// Events at known times. Ends come before starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timed {
    End(TaskIndex),
    Begin(TaskIndex),
}

#[derive(Debug, Clone, Default)]
struct Device {
    busy: bool,
    line: VecDeque<TaskIndex>,
}

/// A simulation in progress.
#[derive(Debug)]
pub struct Run<'p> {
    problem: &'p Problem,
    shares: Shares<'p>,
    /// Number of unfinished predecessors of each task.
    missing: Vec<u32>,
    followers: Followers,
    /// Deadline of a caller that does not need a late result.
    patience: Option<Patience>,
    timed: BinaryHeap<Reverse<(SimTime, Timed)>>,
    devices: Vec<Device>,
    starts: Vec<SimTime>,
    finishes: Vec<SimTime>,
    beginning: Vec<TaskIndex>,
    ended: Vec<TaskIndex>,
    now: SimTime,
    events: u64,
    done: usize,
    limit: u64,
}

impl<'p> Run<'p> {
    /// Work is counted in links looked at; more than `limit` of it is an error.
    pub fn new(problem: &'p Problem, limit: u64) -> Result<Self, SimError> {
        Self::begun(problem, limit, None)
    }

    /// The same; it is an error as well, as soon as that is known, that it ends after `latest`.
    pub fn within(problem: &'p Problem, limit: u64, latest: SimTime) -> Result<Self, SimError> {
        Self::begun(problem, limit, Some(latest))
    }

    fn begun(problem: &'p Problem, limit: u64, latest: Option<SimTime>) -> Result<Self, SimError> {
        let mut missing = vec![0; problem.tasks()];
        for &[_, after] in problem.waits() {
            missing[after as usize] += 1;
        }
        let tasks = 0..problem.tasks() as u32;
        let first: Vec<_> = tasks.filter(|&task| missing[task as usize] == 0).collect();
        let followers = Followers::of(problem);
        let mut run = Self {
            problem,
            shares: Shares::new(problem, &first),
            missing,
            patience: latest.map(|latest| Patience::new(problem, &followers, latest)),
            followers,
            timed: BinaryHeap::new(),
            devices: vec![Device::default(); problem.devices()],
            starts: vec![SimTime::MAX; problem.tasks()],
            finishes: vec![SimTime::MAX; problem.tasks()],
            beginning: Vec::new(),
            ended: Vec::new(),
            now: SimTime::ZERO,
            events: 0,
            done: 0,
            limit,
        };
        for task in first {
            run.make_ready(task)?;
        }
        run.work_off()?;
        Ok(run)
    }

    /// Advances to the next event. Returns false when all is done.
    pub fn step(&mut self) -> Result<bool, SimError> {
        let timed = self.timed.peek().map(|Reverse((time, _))| *time);
        let shared = self.shares.next().map(SimTime);
        let Some(now) = timed.into_iter().chain(shared).min() else {
            return self.is_over();
        };
        if now == SimTime::MAX {
            return Err(SimError::TooLong);
        }
        self.now = now;
        self.patience.iter_mut().for_each(|it| it.at(now));
        self.shares.end_due(now.0, &mut self.ended);
        while let Some(&Reverse((time, timed))) = self.timed.peek()
            && time == now
        {
            self.timed.pop();
            match timed {
                Timed::Begin(task) => self.beginning.push(task),
                Timed::End(task) => self.ended.push(task),
            }
        }
        self.work_off()?;
        Ok(true)
    }

    /// Lets all end and begin that does so now, and finds the rates that follow.
    fn work_off(&mut self) -> Result<(), SimError> {
        self.events += 1;
        loop {
            self.end_all()?;
            if self.beginning.is_empty() {
                break;
            }
            let mut beginning = std::mem::take(&mut self.beginning);
            beginning.sort_unstable();
            for task in beginning.drain(..) {
                self.begin(task)?;
            }
            self.beginning = beginning;
        }
        if self.patience.as_ref().is_some_and(Patience::is_over) {
            return Err(SimError::TooLate);
        }
        self.shares.settle(self.now.0);
        self.debug_certificate();
        if self.shares.work > self.limit {
            Err(SimError::TooMuchWork { limit: self.limit })
        } else {
            Ok(())
        }
    }

    fn end_all(&mut self) -> Result<(), SimError> {
        // Devices take their next in an order that does not depend on how the ends were found.
        self.ended.sort_unstable();
        for nth in 0..self.ended.len() {
            self.end(self.ended[nth])?;
        }
        self.ended.clear();
        Ok(())
    }

    fn end(&mut self, task: TaskIndex) -> Result<(), SimError> {
        self.finishes[task as usize] = self.now;
        self.done += 1;
        // Without devices nothing computes, and what a task does need not be looked up.
        if !self.devices.is_empty()
            && let Work::Compute { device, .. } = self.problem.work(task)
        {
            self.devices[device as usize].busy = false;
            self.serve(device)?;
        }
        for nth in self.followers.range_of(task) {
            let follower = self.followers.tasks[nth];
            let missing = &mut self.missing[follower as usize];
            *missing -= 1;
            if *missing == 0 {
                self.make_ready(follower)?;
            }
        }
        Ok(())
    }

    /// All that the task waits for is done; what is left is its delay.
    fn make_ready(&mut self, task: TaskIndex) -> Result<(), SimError> {
        if let Some(patience) = &mut self.patience {
            patience.ready(task, self.now);
        }
        match self.problem.delay(task) {
            SimTime::ZERO => self.beginning.push(task),
            delay => self.enter(delay, Timed::Begin(task))?,
        }
        Ok(())
    }

    fn enter(&mut self, delay: SimTime, timed: Timed) -> Result<(), SimError> {
        let time = self.now.checked_add(delay).ok_or(SimError::TooLong)?;
        self.timed.push(Reverse((time, timed)));
        Ok(())
    }

    fn begin(&mut self, task: TaskIndex) -> Result<(), SimError> {
        match self.problem.work(task) {
            Work::Compute { device, .. } => {
                self.devices[device as usize].line.push_back(task);
                return self.serve(device);
            }
            Work::Transfer { path, bits } if bits == 0.0 || self.problem.path(path).is_empty() => {
                self.ended.push(task);
            }
            Work::Transfer { path, bits } => {
                if let Some(patience) = &mut self.patience {
                    let links = self.problem.path(path);
                    patience.begins(self.problem, links, bits, self.now);
                }
                self.shares.join(task, path, bits, self.now.0);
            }
        }
        self.starts[task as usize] = self.now;
        Ok(())
    }

    fn serve(&mut self, device: u32) -> Result<(), SimError> {
        let it = &mut self.devices[device as usize];
        if it.busy {
            return Ok(());
        }
        let Some(task) = it.line.pop_front() else {
            return Ok(());
        };
        it.busy = true;
        self.starts[task as usize] = self.now;
        match self.problem.work(task) {
            Work::Compute { time, .. } => self.enter(time, Timed::End(task)),
            Work::Transfer { .. } => Ok(()),
        }
    }

    /// Tests prove every solution that is small enough to be proved in no time.
    fn debug_certificate(&self) {
        if cfg!(debug_assertions) && self.problem.tasks() <= 5000 {
            let running: Vec<_> = self.rates().collect();
            let verdict = super::certificate::check(self.problem, &running);
            assert_eq!(verdict, Ok(()), "the rates at {} are not fair", self.now);
        }
    }

    fn is_over(&self) -> Result<bool, SimError> {
        if self.done == self.problem.tasks() {
            Ok(false)
        } else {
            Err(SimError::Cycle {
                tasks: waits::circle(self.problem).unwrap_or_default(),
            })
        }
    }

    pub fn now(&self) -> SimTime {
        self.now
    }

    pub fn progress(&self) -> Progress {
        Progress {
            done: self.done,
            tasks: self.problem.tasks(),
        }
    }

    /// Returns the running tasks with their rates.
    pub fn rates(&self) -> impl Iterator<Item = Running> {
        self.shares.rates()
    }

    pub fn finish(mut self) -> Result<Outcome, SimError> {
        while self.step()? {}
        Ok(Outcome {
            starts: self.starts,
            finishes: self.finishes,
            events: self.events,
            work: self.shares.work,
        })
    }
}
