//! `transport`: shows and changes source ports, DSCP and priority of this host's packets.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use reweave_agent::error::AgentError;
use reweave_agent::transport::{Hand, Marking, Network, Ports, Transport, Wanted};
use reweave_common::exit_code;

use super::{Form, Output, out};

#[derive(Debug, Args)]
pub(crate) struct OnTransport {
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the current settings of the kernel
    Read,
    /// Print the settings as `apply` would leave them, without a change
    Check {
        #[command(flatten)]
        desired: Desired,
        /// Exit with 3 if the settings would change
        #[arg(long)]
        detailed_exitcode: bool,
    },
    /// Apply the settings, read them back, and roll back if they differ
    Apply {
        #[command(flatten)]
        desired: Desired,
        #[command(flatten)]
        state: State,
    },
    /// Restore the settings before the first `apply`, also after an interrupted one; refused if they were changed by
    /// others since
    Revert {
        #[command(flatten)]
        state: State,
    },
}

#[derive(Debug, Args)]
struct Desired {
    /// Range of ephemeral source ports
    #[arg(long, value_name = "FIRST-LAST", required_unless_present = "dscp")]
    source_ports: Option<Ports>,
    /// DSCP of packets of this host to --to
    #[arg(long, value_name = "N", requires = "to")]
    dscp: Option<u8>,
    /// Priority of these packets, for queues and VLANs
    #[arg(long, value_name = "N", requires = "dscp")]
    priority: Option<u8>,
    /// Networks of the hosts that jobs run on
    #[arg(long, value_name = "NETWORK", requires = "dscp")]
    to: Vec<Network>,
}

#[derive(Debug, Args)]
struct State {
    /// Folder that survives a reboot, for the settings before the first `apply`
    #[arg(long, value_name = "DIR", default_value = "/var/lib/reweave/transport")]
    state: PathBuf,
}

impl OnTransport {
    pub(crate) fn run(&self) -> Result<ExitCode, AgentError> {
        match &self.command {
            Command::Read => self.show(&Transport::read()?),
            Command::Check {
                desired,
                detailed_exitcode,
            } => {
                let held = Transport::read()?;
                let after = held.with(desired.wanted()?);
                self.show(&after);
                if *detailed_exitcode && after != held {
                    return Ok(ExitCode::from(exit_code::FOUND));
                }
            }
            Command::Apply { desired, state } => {
                let wanted = desired.wanted()?;
                self.show(&Hand::open(&state.state)?.apply(wanted)?);
            }
            Command::Revert { state } => self.show(&Hand::open(&state.state)?.revert()?),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn show(&self, transport: &Transport) {
        match self.output.form {
            Form::Json => out::json(transport),
            Form::Table => out::line(transport),
        }
    }
}

impl Desired {
    fn wanted(&self) -> Result<Wanted, AgentError> {
        let marking = |dscp| Marking::new(dscp, self.priority, self.to.clone());
        Ok(Wanted {
            source_ports: self.source_ports,
            marking: self.dscp.map(marking).transpose()?,
        })
    }
}
