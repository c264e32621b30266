//! The program that runs on every host and switch.

mod cli;

use std::process::ExitCode;

use clap::Parser;
use reweave_agent::agent::Agent;
use reweave_agent::error::{AgentError, told};
use reweave_agent::role::Role;
use reweave_agent::run::run;
use reweave_agent::session::Uplink;
use reweave_agent_core::probe::Mark;
use reweave_link::{self as link, Dialer, Identity};

use cli::{Cli, Command, Run};

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time()
        .init();
    let outcome = match Cli::parse().command {
        Command::Show(what) => cli::show(&what),
        Command::Run(settings) => serve(&settings),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", told(&error));
            ExitCode::FAILURE
        }
    }
}

fn serve(settings: &Run) -> Result<(), AgentError> {
    let identity = Identity::load(&settings.identity).map_err(|source| AgentError::Identity {
        folder: settings.identity.clone(),
        source: Box::new(source),
    })?;
    let role = settings.role.map_or_else(Role::detect, Ok)?;
    let agent = Agent::start(role, &settings.state, Mark(rand::random()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|source| AgentError::Loop { source })?;
    runtime.block_on(async {
        let coordinators = settings.coordinator.clone();
        let dialer = Dialer::new(&identity, coordinators, link::Role::Coordinator);
        let dialer = dialer.map_err(|source| AgentError::Link {
            source: Box::new(source),
        })?;
        run(agent, Uplink::start(dialer), settings.interval_ms).await
    })
}
