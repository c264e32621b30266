//! How this host's kernel sends what jobs send, looked at and changed by hand.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use reweave_agent::error::AgentError;
use reweave_agent::transport::{Hand, Marking, Network, Ports, Transport, Wanted};
use serde_json::json;

use super::{Form, Output, out};

/// There are changes, and it was asked to say so.
const EXIT_CHANGES_PENDING: u8 = 3;

#[derive(Debug, Args)]
pub(crate) struct OnTransport {
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// What the kernel does now
    Read,
    /// What would be there after `apply`; changes nothing
    Check {
        #[command(flatten)]
        desired: Desired,
        /// Exit with 3 if that is something else than now
        #[arg(long)]
        detailed_exitcode: bool,
    },
    /// Changes what is named, reads it back, and takes it back where the kernel does something else
    Apply {
        #[command(flatten)]
        desired: Desired,
        #[command(flatten)]
        state: State,
    },
    /// As it was before the first `apply`, also where one was cut short; not where somebody else has changed it since
    Revert {
        #[command(flatten)]
        state: State,
    },
}

#[derive(Debug, Args)]
struct Desired {
    /// Sockets that ask for no port are given one of these
    #[arg(long, value_name = "FIRST-LAST", required_unless_present = "dscp")]
    source_ports: Option<Ports>,
    /// Packets of this host to --to bear this DSCP
    #[arg(long, value_name = "N", requires = "to")]
    dscp: Option<u8>,
    /// And this priority, by which queues and VLANs are chosen
    #[arg(long, value_name = "N", requires = "dscp")]
    priority: Option<u8>,
    /// Networks of the hosts that jobs run on
    #[arg(long, value_name = "NETWORK", requires = "dscp")]
    to: Vec<Network>,
}

#[derive(Debug, Args)]
struct State {
    /// A folder that is there after the next start of the machine, for what was there before
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
                    return Ok(ExitCode::from(EXIT_CHANGES_PENDING));
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
            Form::Json => out::line(json!(transport)),
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
