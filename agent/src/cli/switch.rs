//! `switch`: shows and changes the agent's routes on a switch.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use reweave_agent::error::AgentError;
use reweave_agent::netlink::RouteSocket;
use reweave_agent::state::{ByHand, Store};
use reweave_agent::switch::{Difference, Software, Switch, SwitchError};
use reweave_common::exit_code;
use reweave_common::forwarding_state::ForwardingState;
use serde_json::json;

use super::{Form, Output, out};

#[derive(Debug, Args)]
pub(crate) struct OnSwitch {
    #[command(flatten)]
    software: Software,
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print Reweave's pins and routes in the kernel; the JSON form is input for --desired
    Read,
    /// Print the changes and the commands to the switch's software, without applying them
    Diff {
        #[command(flatten)]
        desired: Desired,
        /// Exit with 3 if there are changes
        #[arg(long)]
        detailed_exitcode: bool,
    },
    /// Apply the desired state, read it back, and roll back if it differs
    Apply {
        #[command(flatten)]
        desired: Desired,
        /// Required current state, as `read --output json` printed it; if it differs, nothing is changed
        #[arg(long, value_name = "FILE")]
        expected: Option<PathBuf>,
        #[command(flatten)]
        state: State,
    },
    /// Restore the state before the last `apply`, if nothing has changed since
    Revert {
        #[command(flatten)]
        state: State,
    },
}

#[derive(Debug, Args)]
struct Desired {
    /// Complete desired state, in the form of `read --output json`
    #[arg(long = "desired", value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Args)]
struct State {
    /// State folder of the agent; the agent must not be running
    #[arg(long, value_name = "DIR", default_value = "/var/lib/reweave/agent")]
    state: PathBuf,
}

struct Hand {
    switch: Switch,
    kernel: RouteSocket,
    form: Form,
}

impl OnSwitch {
    pub(crate) fn run(&self) -> Result<ExitCode, AgentError> {
        let mut hand = Hand {
            switch: Switch::new(&self.software),
            kernel: RouteSocket::open()?,
            form: self.output.form,
        };
        match &self.command {
            Command::Read => {
                let held = hand.read()?;
                hand.show_holding(&held);
            }
            Command::Diff {
                desired,
                detailed_exitcode,
            } => {
                let is_same = hand.diff(&load(&desired.file)?)?;
                if *detailed_exitcode && !is_same {
                    return Ok(ExitCode::from(exit_code::FOUND));
                }
            }
            Command::Apply {
                desired,
                expected,
                state,
            } => {
                let expected = expected.as_deref().map(load).transpose()?;
                hand.apply(load(&desired.file)?, expected.as_ref(), &state.state)?;
            }
            Command::Revert { state } => hand.revert(&state.state)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Hand {
    fn read(&mut self) -> Result<ForwardingState, SwitchError> {
        let held = self.switch.holding(&mut self.kernel)?;
        Ok(held.in_order())
    }

    /// Prints the changes. Returns whether there are none.
    fn diff(&mut self, desired: &ForwardingState) -> Result<bool, AgentError> {
        let words = self.switch.words_to(desired)?;
        let difference = Difference::between(&self.read()?, desired);
        if self.form == Form::Json {
            out::json(&json!({ "difference": difference, "commands": words }));
        } else {
            out::print(&difference);
            words.iter().for_each(out::line);
        }
        Ok(difference.is_empty() && words.is_empty())
    }

    fn apply(
        &mut self,
        desired: ForwardingState,
        expected: Option<&ForwardingState>,
        state: &Path,
    ) -> Result<(), AgentError> {
        let store = Store::open(state)?;
        let before = self.read()?;
        self.refuse_unless(&before, expected.unwrap_or(&before))?;
        let after = desired.in_order();
        let noted = ByHand {
            before: before.clone(),
            after: after.clone(),
        };
        store.note_by_hand(&noted)?;
        let held = self.switch.change(&mut self.kernel, &before, &after)?;
        self.show_holding(&held);
        Ok(())
    }

    fn revert(&mut self, state: &Path) -> Result<(), AgentError> {
        let store = Store::open(state)?;
        let last = store.load_by_hand()?.ok_or(AgentError::NothingToRevert)?;
        drop(store);
        self.apply(last.before, Some(&last.after), state)
    }

    fn refuse_unless(
        &self,
        held: &ForwardingState,
        expected: &ForwardingState,
    ) -> Result<(), AgentError> {
        let difference = Difference::between(expected, held);
        if difference.is_empty() {
            return Ok(());
        }
        Err(AgentError::HoldsOther { difference })
    }

    fn show_holding(&self, held: &ForwardingState) {
        if self.form == Form::Json {
            out::json(held);
        } else {
            out::print(Difference::between(&ForwardingState::default(), held).bare());
        }
    }
}

fn load(path: &Path) -> Result<ForwardingState, AgentError> {
    let failed = |source: std::io::Error| AgentError::Desired {
        path: path.to_owned(),
        source,
    };
    let text = fs::read_to_string(path).map_err(failed)?;
    let read = serde_json::from_str(&text);
    read.map_err(|error| failed(std::io::Error::from(error)))
}
