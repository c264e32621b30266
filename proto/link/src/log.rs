//! What programs log to standard error: which levels, and in which format.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::str::FromStr;
use std::{env, io};

use clap::{Args, ValueEnum};
use thiserror::Error;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{fmt, registry};

/// systemd sets it to device and inode of the journal's socket. The journal has a time for each line.
const JOURNAL_VARIABLE: &str = "JOURNAL_STREAM";
const DEFAULT_LEVELS: &str = "info";

#[derive(Debug, Clone, Args)]
pub struct LogOptions {
    /// What to log: off, error, warn, info, debug or trace; also per module, as in info,reweave_link=debug
    #[arg(
        long,
        env = "REWEAVE_LOG",
        value_name = "LEVELS",
        default_value = DEFAULT_LEVELS,
        global = true
    )]
    log: LogLevels,
    /// Format of the log on standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Text, global = true)]
    log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people; with the time, unless the journal adds it
    Text,
    /// One JSON object per line, with time, level, module and fields
    Json,
}

impl LogOptions {
    /// To be called once in a program.
    pub fn start(&self) {
        let filtered = registry().with(self.log.0.clone());
        // The layer would otherwise report its write errors, and panic.
        let lines = fmt::layer()
            .with_writer(io::stderr)
            .log_internal_errors(false);
        let is_journal = is_journal();
        match self.log_format {
            LogFormat::Json => filtered.with(lines.json()).init(),
            LogFormat::Text if is_journal => {
                let lines = lines.with_target(false).without_time();
                filtered.with(lines).init();
            }
            LogFormat::Text => filtered.with(lines.with_target(false)).init(),
        }
    }

    /// Whether the log is JSON.
    pub fn is_json(&self) -> bool {
        self.log_format == LogFormat::Json
    }
}

/// Programs inherit the variable even if their standard error is a terminal or a file, so the device is compared.
fn is_journal() -> bool {
    let Ok(stream) = io::stderr().as_fd().try_clone_to_owned() else {
        return false;
    };
    env::var(JOURNAL_VARIABLE).is_ok_and(|named| is_named(&named, &File::from(stream)))
}

fn is_named(named: &str, stream: &File) -> bool {
    let metadata = stream.metadata();
    metadata.is_ok_and(|it| named == format!("{}:{}", it.dev(), it.ino()))
}

/// The directives of `tracing`'s filters.
#[derive(Debug, Clone)]
struct LogLevels(Targets);

#[derive(Debug, Error)]
#[error(
    "not levels of a log: write off, error, warn, info, debug or trace, or MODULE=LEVEL, with \
     commas between; --log-format sets the format"
)]
struct LogLevelsError;

impl FromStr for LogLevels {
    type Err = LogLevelsError;

    /// An empty variable counts as unset.
    fn from_str(text: &str) -> Result<Self, LogLevelsError> {
        let text = if text.is_empty() {
            DEFAULT_LEVELS
        } else {
            text
        };
        if !text.split(',').all(has_level) {
            return Err(LogLevelsError);
        }
        let targets = text.parse().map_err(|_| LogLevelsError)?;
        Ok(Self(targets))
    }
}

/// `Targets` would take any other word for a module and log everything of it.
fn has_level(directive: &str) -> bool {
    let (_, level) = directive.rsplit_once('=').unwrap_or(("", directive));
    !level.is_empty() && level.parse::<LevelFilter>().is_ok()
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    fn enables(levels: &str, module: &str, level: Level) -> bool {
        let LogLevels(targets) = levels.parse().unwrap();
        targets.would_enable(module, &level)
    }

    #[test]
    fn log_levels_apply_per_module() {
        assert!(enables("debug", "reweave_agent", Level::DEBUG));
        assert!(!enables("", "reweave_agent", Level::DEBUG));
        assert!(enables("", "reweave_agent", Level::INFO));
        let mixed = "warn,reweave_link=debug";
        assert!(enables(mixed, "reweave_link::dialer", Level::DEBUG));
        assert!(!enables(mixed, "reweave_agent", Level::INFO));
        assert!(enables(mixed, "reweave_agent", Level::WARN));
        assert!(!enables("off", "reweave_agent", Level::ERROR));
    }

    #[test]
    fn journal_is_known_by_its_socket() {
        let [journal, other] = [tempfile::tempfile(), tempfile::tempfile()].map(Result::unwrap);
        let metadata = journal.metadata().unwrap();
        let named = format!("{}:{}", metadata.dev(), metadata.ino());
        assert!(is_named(&named, &journal));
        assert!(!is_named(&named, &other));
        assert!(!is_named("", &journal));
    }

    #[test]
    fn unknown_log_level_is_refused() {
        for wrong in [
            "json",
            "text",
            "loud",
            "info,",
            "reweave_link=",
            "reweave_link=loud",
            "=",
        ] {
            assert!(wrong.parse::<LogLevels>().is_err(), "{wrong}");
        }
    }
}
