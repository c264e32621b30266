//! The command line.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use reweave_common::api_version::Versioned;
use reweave_common::circuit::{CircuitSet, NotSwitched, Switchover};
use reweave_common::exit_code;
use reweave_common::instruction::Token;
use reweave_common::plan::Generation;
use reweave_driver::config::{Config, Optical};
use reweave_driver::device::Device;
use reweave_driver::error::DriverError;
use reweave_driver::moves::{Moves, impossible};
use reweave_driver::operate::Operator;
use reweave_driver::serve::{DriverUplink, serve};
use reweave_driver::state::{Store, Whose};
use reweave_link::join;
use reweave_link::log::LogOptions;
use reweave_link::uplink::{self, Certificate};
use reweave_link::{Dialer, Role};
use serde::Serialize;

use crate::voice;

const DEFAULT_CONFIG_PATH: &str = "/etc/reweave/driver.toml";

/// Read and move the circuits of optical switches.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Cli {
    /// Settings with the optical switches; deploy/driver.toml explains each
    #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG_PATH, global = true)]
    config: PathBuf,
    #[arg(long, value_enum, default_value_t = Output::Text, global = true)]
    output: Output,
    #[command(flatten)]
    log: LogOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Follow the instructions of coordinators until stopped
    Run(Service),
    /// Print the circuits of a device
    Read {
        /// What its settings call it
        name: String,
    },
    /// Print the moves, without applying them
    Diff {
        /// What its settings call it
        name: String,
        #[command(flatten)]
        desired: Desired,
        /// Exit with 3 if there are moves
        #[arg(long)]
        detailed_exitcode: bool,
    },
    /// Move to these circuits, if the device holds the expected ones
    Apply {
        /// What its settings call it
        name: String,
        #[command(flatten)]
        desired: Desired,
        /// Required current circuits, such as 1-9,2-10 [default: what the device holds]
        #[arg(long, value_name = "CIRCUITS", value_parser = CircuitSet::from_text)]
        expected: Option<CircuitSet>,
    },
    /// Restore the circuits before the last `apply`, if nothing was moved since
    Revert {
        /// What its settings call it
        name: String,
    },
    /// Write the manual pages, one per command, into a folder for `man`
    Man {
        /// Output folder
        #[arg(long, value_name = "DIR")]
        into: PathBuf,
    },
}

#[derive(Debug, Args)]
struct Service {
    /// Addresses of the coordinators, separated by commas; tried in this order
    #[arg(
        long,
        required = true,
        value_name = "ADDRESS[:PORT]",
        value_delimiter = ',',
        value_parser = uplink::coordinator
    )]
    coordinator: Vec<SocketAddr>,
    /// Folder with the driver's certificate and key, and the certificate of the authority
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/lib/reweave/driver/identity"
    )]
    identity: PathBuf,
    /// Join token printed by `reweave cluster token`; used only if there is no certificate
    #[arg(
        long,
        value_name = "TOKEN",
        env = "REWEAVE_JOIN",
        hide_env_values = true
    )]
    join: Option<join::Token>,
    /// Join address of the coordinators [default: the port after that of --coordinator]
    #[arg(long, value_name = "ADDRESS:PORT")]
    door: Vec<SocketAddr>,
}

#[derive(Debug, Args)]
struct Desired {
    /// All desired circuits, such as 1-9,2-10; none is written as ""
    #[arg(long = "desired", value_name = "CIRCUITS", value_parser = CircuitSet::from_text)]
    circuits: CircuitSet,
}

/// All circuits of one switch, as an object for scripts.
#[derive(Serialize)]
struct SwitchCircuits<'c> {
    circuits: &'c CircuitSet,
}

impl Cli {
    /// Whether it is a service whose log machines read.
    pub(crate) fn logs_json(&self) -> bool {
        matches!(self.command, Command::Run(_)) && self.log.is_json()
    }

    #[tokio::main(flavor = "current_thread")]
    pub(crate) async fn run(self) -> Result<ExitCode, DriverError> {
        match &self.command {
            Command::Man { into } => return manual(into),
            Command::Run(_) => self.log.start(),
            _ => {}
        }
        let config = Config::load(&self.config)?;
        match &self.command {
            Command::Man { .. } => {}
            Command::Run(service) => service.run(&config).await?,
            Command::Read { name } => {
                let found = self.read(self.find(&config, name)?).await?;
                self.show_circuits(&found)?;
            }
            Command::Diff {
                name,
                desired,
                detailed_exitcode,
            } => {
                let optical = self.find(&config, name)?;
                expect_possible(optical, &desired.circuits)?;
                let found = self.read(optical).await?;
                let moves = Moves::between(&found, &desired.circuits);
                self.show(&moves.to_string(), &moves)?;
                if *detailed_exitcode && !moves.is_empty() {
                    return Ok(ExitCode::from(exit_code::FOUND));
                }
            }
            Command::Apply {
                name,
                desired,
                expected,
            } => {
                let optical = self.find(&config, name)?;
                let desired = desired.circuits.clone();
                self.apply(&config, optical, Order::To(desired, expected.clone()))
                    .await?;
            }
            Command::Revert { name } => {
                let optical = self.find(&config, name)?;
                self.apply(&config, optical, Order::Back).await?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn read(&self, optical: &Optical) -> Result<CircuitSet, DriverError> {
        let found = Device::open(optical)?.read().await;
        found.map_err(|source| DriverError::Device {
            name: optical.name.clone(),
            source,
        })
    }

    /// By hand, and so only while no driver serves a coordinator.
    async fn apply(
        &self,
        config: &Config,
        optical: &Optical,
        order: Order,
    ) -> Result<(), DriverError> {
        let store = Store::open(&config.state)?;
        let last = store.load(Whose::Operators, &optical.name)?;
        let token = last.promised.as_ref().map_or(0, |last| last.token.0) + 1;
        let (expected, desired) = match order {
            Order::To(desired, Some(expected)) => (expected, desired),
            Order::To(desired, None) => (self.read(optical).await?, desired),
            Order::Back => last.way_back().ok_or_else(|| {
                let name = optical.name.clone();
                DriverError::NothingToRevert { name }
            })?,
        };
        let switchover = Switchover {
            generation: Generation(token),
            token: Token(token),
            optical: optical.name.clone(),
            expected,
            desired: desired.clone(),
        };
        let mut operator = Operator::new(optical, Whose::Operators, &store)?;
        for answer in operator.follow(switchover).await {
            self.tell(optical, &desired, answer.outcome)?;
        }
        Ok(())
    }

    /// What came of it; anything but what was wanted is an error.
    fn tell(
        &self,
        optical: &Optical,
        desired: &CircuitSet,
        outcome: Result<CircuitSet, NotSwitched>,
    ) -> Result<(), DriverError> {
        let name = || optical.name.clone();
        match outcome {
            Ok(found) if found == *desired => self.show_circuits(&found),
            Ok(found) => Err(DriverError::Elsewhere {
                name: name(),
                found,
            }),
            Err(why) => Err(DriverError::NotSwitched { name: name(), why }),
        }
    }

    fn find<'c>(&self, config: &'c Config, name: &str) -> Result<&'c Optical, DriverError> {
        config.find(name).ok_or_else(|| DriverError::NoSuchSwitch {
            path: self.config.clone(),
            name: name.to_owned(),
            known: config.optical.iter().map(|it| it.name.clone()).collect(),
        })
    }

    fn show_circuits(&self, circuits: &CircuitSet) -> Result<(), DriverError> {
        self.show(&circuits.to_string(), &SwitchCircuits { circuits })
    }

    fn show(&self, text: &str, value: &impl Serialize) -> Result<(), DriverError> {
        let said = match self.output {
            Output::Text => voice::say(text),
            Output::Json => {
                let json = serde_json::to_string(&Versioned::new(value));
                json.map_err(io::Error::from).and_then(voice::say)
            }
        };
        said.map_err(|source| DriverError::Print { source })
    }
}

impl Service {
    async fn run(&self, config: &Config) -> Result<(), DriverError> {
        // Its holder is the one driver there is, before anything hears of it.
        let store = Store::open(&config.state)?;
        if let Some(token) = &self.join {
            let doors = uplink::doors(&self.coordinator, &self.door);
            let obtained = Certificate::obtain(&self.identity, &doors, token).await;
            obtained.map_err(|source| DriverError::Join {
                source: Box::new(source),
            })?;
        }
        let certificate = Certificate::load(&self.identity, Role::Driver)?;
        let (ours, addresses) = (certificate.identity(), self.coordinator.clone());
        let dialer = Dialer::new(ours, addresses, Role::Coordinator);
        let dialer = dialer.map_err(|source| DriverError::Link {
            source: Box::new(source),
        })?;
        serve(config, &store, DriverUplink::start(dialer, certificate)).await
    }
}

/// Refuses circuits that the switch cannot hold, as the fence does before it moves any.
fn expect_possible(optical: &Optical, circuits: &CircuitSet) -> Result<(), DriverError> {
    match impossible(circuits, optical.ports) {
        Some(error) => Err(DriverError::NotSwitched {
            name: optical.name.clone(),
            why: NotSwitched::Impossible { error },
        }),
        None => Ok(()),
    }
}

/// Where circuits should be moved by hand.
enum Order {
    /// To these, from those if they are known.
    To(CircuitSet, Option<CircuitSet>),
    Back,
}

fn manual(folder: &Path) -> Result<ExitCode, DriverError> {
    let written = fs::create_dir_all(folder);
    let written = written.and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    let describe = |source| DriverError::Manual {
        folder: folder.to_owned(),
        source,
    };
    written.map(|()| ExitCode::SUCCESS).map_err(describe)
}

#[cfg(test)]
#[path = "../../../tests/tidy/commands.rs"]
mod commands;

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::{CommandFactory as _, Parser as _};

    use super::Cli;

    /// The device does not answer: it is not asked.
    #[test]
    fn diff_refuses_impossible_circuits() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("driver.toml");
        let switch =
            "[[optical]]\nname = \"ocs0\"\nports = 10\nspeaks.exec.program = \"/bin/false\"\n";
        fs::write(&config, switch).unwrap();
        for (desired, says) in [
            ("2-3,2-5", "port 2 is in two circuits"),
            ("1-99", "no port 99, only 1 to 10"),
            ("0-3", "no port 0, only 1 to 10"),
            ("3-3", "a circuit connects port 3 to itself"),
        ] {
            let config = config.display().to_string();
            let words = ["reweave-driver", "--config", &config, "diff", "ocs0"];
            let words = words.into_iter().chain(["--desired", desired]);
            let refused = Cli::try_parse_from(words).unwrap().run().unwrap_err();
            assert_eq!(refused.exit_code(), 2, "{refused}");
            assert_eq!(refused.to_string(), format!("optical switch ocs0: {says}"));
        }
    }

    #[test]
    fn command_docs_match_cli() {
        super::commands::arguments_are_documented(super::Cli::command(), "../..");
    }
}
