//! `reweave top`: a live view of the cluster in a terminal, until Q.

mod draw;
mod heat;
mod rows;
mod view;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::style::force_color_output;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::matrix;
use crate::page::Color;
use view::{Shown, Tab, View};

/// Interval of requests. Keys are handled at once.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Watch the cluster live in this terminal
///
/// Live view in this terminal: links by trouble, flows, jobs, running changes, latency between hosts, and agents
#[derive(Debug, Args)]
pub(crate) struct Top {}

impl Top {
    pub(crate) fn run(&self, reach: &Reach) -> Result<ExitCode, CliError> {
        if !io::stdout().is_terminal() {
            return Err(CliError::NoTerminal);
        }
        let mut coordinator = Coordinator::reach(reach)?;
        let mut view = View::new(look(&mut coordinator, Tab::Links)?);
        view.plain = !Color::is_wanted();
        force_color_output(!view.plain);
        let mut terminal = ratatui::init();
        let outcome = show(&mut terminal, &mut view, reach, coordinator);
        ratatui::restore();
        outcome.map(|()| ExitCode::SUCCESS)
    }
}

/// Runs the view. If the coordinator is lost, the last data stay on the screen while it is searched.
fn show(
    terminal: &mut DefaultTerminal,
    view: &mut View,
    reach: &Reach,
    coordinator: Coordinator,
) -> Result<(), CliError> {
    let mut coordinator = Some(coordinator);
    loop {
        terminal
            .draw(|frame| draw::draw(frame, view))
            .map_err(CliError::Say)?;
        if !handle_keys(view)? {
            return Ok(());
        }
        let seen = match &mut coordinator {
            Some(coordinator) => look(coordinator, view.tab),
            None => Coordinator::reach(reach)
                .and_then(|again| look(coordinator.insert(again), view.tab)),
        };
        match seen {
            Ok(shown) => view.refresh(shown),
            Err(error) if error.is_of_the_session() || coordinator.is_none() => {
                coordinator = None;
                view.away(error.error_chain());
            }
            Err(error) => return Err(error),
        }
    }
}

/// Handles keys until the next request is due. Returns whether to continue.
fn handle_keys(view: &mut View) -> Result<bool, CliError> {
    let until = Instant::now() + REFRESH_INTERVAL;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if !event::poll(left).map_err(CliError::Say)? {
            return Ok(true);
        }
        match event::read().map_err(CliError::Say)? {
            Event::Key(key) if key.is_press() => return Ok(view.handle_key(key)),
            Event::Resize(..) => return Ok(true),
            _ => {}
        }
    }
}

/// Requests the data of the current list. Data that only one list needs are requested for that list alone.
fn look(coordinator: &mut Coordinator, tab: Tab) -> Result<Shown, CliError> {
    Ok(Shown {
        status: coordinator.status()?,
        findings: coordinator.findings()?,
        jobs: match tab {
            Tab::Jobs => Some(coordinator.jobs()?),
            _ => None,
        },
        matrix: match tab {
            Tab::Matrix => Some(matrix::ask(coordinator, None)?),
            _ => None,
        },
    })
}
