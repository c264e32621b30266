//! State of the view, and its key handling.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use reweave_common::operator::{Findings, JobStatus, Matrix, Status};

use crate::trouble;

/// Data of one moment.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) status: Status,
    pub(super) findings: Findings,
    /// Present only for views that show both.
    pub(super) jobs: Option<Vec<JobStatus>>,
    pub(super) matrix: Option<Matrix>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Links,
    Flows,
    Jobs,
    Changes,
    Matrix,
    Agents,
}

impl Tab {
    pub(super) const ALL: [Self; 6] = [
        Self::Links,
        Self::Flows,
        Self::Jobs,
        Self::Changes,
        Self::Matrix,
        Self::Agents,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Links => "Links",
            Self::Flows => "Flows",
            Self::Jobs => "Jobs",
            Self::Changes => "Changes",
            Self::Matrix => "Matrix",
            Self::Agents => "Agents",
        }
    }

    fn step(self, by: usize) -> Self {
        let at = Self::ALL.iter().position(|tab| *tab == self);
        Self::ALL[(at.unwrap_or(0) + by) % Self::ALL.len()]
    }
}

#[derive(Debug)]
pub(super) struct View {
    pub(super) shown: Shown,
    pub(super) tab: Tab,
    /// Number of rows above the first visible one.
    pub(super) above: usize,
    pub(super) paused: bool,
    /// The terminal has no colours.
    pub(super) plain: bool,
    /// Reason why the data are old.
    pub(super) away: Option<String>,
}

impl View {
    pub(super) fn new(shown: Shown) -> Self {
        let mut view = Self {
            shown,
            tab: Tab::Links,
            above: 0,
            paused: false,
            plain: false,
            away: None,
        };
        view.put_in_order();
        view
    }

    pub(super) fn refresh(&mut self, shown: Shown) {
        self.away = None;
        if !self.paused {
            self.shown = shown;
            self.put_in_order();
        }
    }

    pub(super) fn away(&mut self, why: String) {
        self.away = Some(why);
    }

    /// Sorts the lists, those in trouble first.
    fn put_in_order(&mut self) {
        let Shown {
            status,
            findings,
            jobs,
            ..
        } = &mut self.shown;
        status
            .links
            .sort_by_cached_key(|link| trouble::rank(link, findings));
        status
            .flows
            .sort_by_key(|flow| std::cmp::Reverse(flow.rate_bits_per_s));
        status.agents.sort_by_key(|agent| !agent.is_in_trouble());
        let jobs = jobs.iter_mut();
        jobs.for_each(|jobs| jobs.sort_by_key(|job| std::cmp::Reverse(job.rate_bits_per_s)));
    }

    /// Handles a key. Returns whether to continue.
    pub(super) fn handle_key(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('c') if control => return false,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Tab | KeyCode::Right => self.turn_to(self.tab.step(1)),
            KeyCode::BackTab | KeyCode::Left => self.turn_to(self.tab.step(Tab::ALL.len() - 1)),
            KeyCode::Down => self.scroll(1),
            KeyCode::PageDown => self.scroll(20),
            KeyCode::Up => self.above = self.above.saturating_sub(1),
            KeyCode::PageUp => self.above = self.above.saturating_sub(20),
            KeyCode::Home => self.above = 0,
            _ => {}
        }
        true
    }

    fn turn_to(&mut self, tab: Tab) {
        self.tab = tab;
        self.above = 0;
    }

    fn scroll(&mut self, by: usize) {
        let status = &self.shown.status;
        let rows = match self.tab {
            Tab::Links => status.links.len(),
            Tab::Flows => status.flows.len(),
            Tab::Jobs => self.shown.jobs.as_ref().map_or(0, Vec::len),
            Tab::Changes => status.changes.len(),
            Tab::Agents => status.agents.len(),
            Tab::Matrix => 0,
        };
        self.above = (self.above + by).min(rows.saturating_sub(1));
    }
}
