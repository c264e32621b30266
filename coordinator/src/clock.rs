//! Moments that never go backwards, not even over restarts.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use reweave_common::moment::Moment;

/// Starts at the time of day, so that the time between two runs counts too, and then follows the machine's monotonic
/// clock. Later changes of the time of day have no effect.
#[derive(Debug)]
pub(crate) struct Clock {
    origin: Moment,
    began: Instant,
}

impl Clock {
    /// `last` is the latest moment that an earlier run wrote down.
    pub(crate) fn after(last: Moment) -> Self {
        Self {
            origin: time_of_day().max(last),
            began: Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.origin + self.began.elapsed()
    }

    /// The difference by which moments are ahead of the time of day.
    pub(crate) fn ahead(&self) -> Duration {
        self.now().since(time_of_day())
    }
}

fn time_of_day() -> Moment {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since_epoch.unwrap_or_default().as_micros();
    Moment::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_never_goes_back() {
        let ahead = Clock::after(Moment::default()).now() + Duration::from_secs(86_400);
        let clock = Clock::after(ahead);
        let first = clock.now();
        assert!(first >= ahead);
        assert!(clock.now() >= first);
        let day = Duration::from_hours(24);
        let off = day.abs_diff(clock.ahead());
        assert!(off < Duration::from_mins(1), "{off:?}");
    }

    #[test]
    fn clock_includes_time_between_runs() {
        let long_ago = Moment::from_micros(1);
        let now = Clock::after(long_ago).now();
        assert!(now.since(long_ago) > Duration::from_secs(86_400));
        let ahead = Clock::after(long_ago).ahead();
        assert!(ahead < Duration::from_secs(1), "{ahead:?}");
    }
}
