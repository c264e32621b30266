//! Timings of operators, as FlexFlow's measuring writes them: JSON.

use std::time::Duration;

use reweave_common::time_span::TimeSpan;
use reweave_common::timings::{Timing, Timings};
use reweave_common::units::Bytes;
use serde::Deserialize;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum ProfileError {
    #[error("not a profile of operators")]
    Json(#[from] serde_json::Error),
    #[error("{name} {split}: {problem}")]
    Measurement {
        name: String,
        split: String,
        problem: &'static str,
    },
    #[error(
        "measured with a batch of {measured}: one of {batch} has no parts of the same size; take a \
         multiple of {measured}, or a divisor"
    )]
    Batch { measured: u64, batch: u64 },
}

#[derive(Deserialize)]
struct Profile {
    batch_size: u64,
    measurements: Vec<Measurement>,
}

#[derive(Deserialize)]
struct Measurement {
    name: String,
    /// The number of dimensions, then how often each is split; the batch is the last of them.
    pc_str: String,
    fw_time: f64,
    bw_time: f64,
    mem_req: u64,
}

/// Longer takes no operator.
const MAX_TIME_MS: f64 = 1e8;

/// For a model whose batch, over all servers, has this many samples.
pub fn read_profile(text: &str, batch: u64) -> Result<Timings, ProfileError> {
    let profile: Profile = serde_json::from_str(text)?;
    let mut timings = Timings::default();
    for measurement in profile.measurements {
        let taken = take(&mut timings, &measurement);
        taken.map_err(|problem| ProfileError::Measurement {
            name: measurement.name,
            split: measurement.pc_str,
            problem,
        })?;
    }
    let measured = profile.batch_size;
    resized(&timings, measured, batch).ok_or(ProfileError::Batch { measured, batch })
}

fn resized(timings: &Timings, measured: u64, batch: u64) -> Option<Timings> {
    let times = |larger: u64, smaller: u64| {
        let divides = smaller > 0 && larger.is_multiple_of(smaller);
        divides.then(|| u32::try_from(larger / smaller).ok())?
    };
    let larger = times(batch, measured).map(|it| timings.of_a_larger_batch(it));
    larger.or_else(|| times(measured, batch).map(|it| timings.of_a_smaller_batch(it)))
}

fn take(timings: &mut Timings, measurement: &Measurement) -> Result<(), &'static str> {
    let split = split(&measurement.pc_str)?;
    let timing = Timing {
        forward: time(measurement.fw_time)?,
        backward: time(measurement.bw_time)?,
        memory: Bytes::new(measurement.mem_req),
    };
    let new = timings.insert(&measurement.name, split, timing);
    new.then_some(()).ok_or("it was measured twice")
}

fn split(text: &str) -> Result<u32, &'static str> {
    let unreadable = "its split is not written as COUNT-1-...-BATCH";
    let numbers = text.split('-').map(str::parse::<u32>);
    let numbers: Vec<_> = numbers.collect::<Result<_, _>>().map_err(|_| unreadable)?;
    match numbers.as_slice() {
        [count, others @ .., batch] if *count as usize == others.len() + 1 && *batch > 0 => {
            let whole = others.iter().all(|&other| other == 1);
            whole
                .then_some(*batch)
                .ok_or("something else than its batch is split")
        }
        _ => Err(unreadable),
    }
}

fn time(ms: f64) -> Result<Duration, &'static str> {
    let fits = (0.0..=MAX_TIME_MS).contains(&ms);
    fits.then(|| TimeSpan::from_secs_f64(ms / 1e3).get())
        .ok_or("its time is invalid")
}
