//! The agent, which runs on every host and switch.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic when their reader is gone"
)]

mod cli;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use reweave_agent::agent::Agent;
use reweave_agent::error::AgentError;
use reweave_agent::role::Role;
use reweave_agent::run::run;
use reweave_agent::session::AgentUplink;
use reweave_agent_core::probe::ProbeMark;
use reweave_link::join::Token;
use reweave_link::uplink::{self, Certificate};
use reweave_link::{self as link, Dialer};

use cli::{Cli, Command, Run};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(said) => return cli::instead(&said),
    };
    cli.log.start();
    let outcome = match cli.command {
        Command::Show(what) => cli::show(&what).map(|()| ExitCode::SUCCESS),
        Command::Switch(what) => what.run(),
        Command::Transport(what) => what.run(),
        Command::Nccl(what) => what.run(),
        Command::Run(settings) => serve(&settings).map(|()| ExitCode::SUCCESS),
        Command::Man { into } => manual(into).map(|()| ExitCode::SUCCESS),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            cli::end(&cli.log, &error);
            ExitCode::from(error.exit_code())
        }
    }
}

fn serve(settings: &Run) -> Result<(), AgentError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|source| AgentError::Loop { source })?;
    if let Some(token) = &settings.join {
        runtime.block_on(join(settings, token))?;
    }
    let certificate = Certificate::load(&settings.identity, link::Role::Agent)?;
    let role = settings.role.map_or_else(Role::detect, Ok)?;
    settings.fibres.settle()?;
    let mut agent = Agent::start(
        role,
        &settings.software,
        &settings.state,
        ProbeMark(rand::random()),
    )?;
    agent.hear_jobs(settings.collectives.as_deref())?;
    if let Some(root) = &settings.root {
        agent.read_copy(root);
    }
    runtime.block_on(async {
        let coordinators = settings.coordinator.clone();
        let ours = certificate.identity();
        let dialer = Dialer::new(ours, coordinators, link::Role::Coordinator);
        let dialer = dialer.map_err(|source| AgentError::Link {
            source: Box::new(source),
        })?;
        let uplink = AgentUplink::start(dialer, certificate);
        run(agent, uplink, settings.interval_ms).await
    })
}

async fn join(settings: &Run, token: &Token) -> Result<(), AgentError> {
    let doors = uplink::doors(&settings.coordinator, &settings.door);
    let obtained = Certificate::obtain(&settings.identity, &doors, token).await;
    obtained.map_err(|source| AgentError::Join {
        source: Box::new(source),
    })
}

fn manual(folder: PathBuf) -> Result<(), AgentError> {
    let written = fs::create_dir_all(&folder);
    let written = written.and_then(|()| clap_mangen::generate_to(Cli::command(), &folder));
    written.map_err(|source| AgentError::Manual { folder, source })
}

#[cfg(test)]
#[path = "../../tests/tidy/commands.rs"]
mod commands;

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn command_docs_match_cli() {
        super::commands::arguments_are_documented(super::Cli::command(), "..");
    }
}
