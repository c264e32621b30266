//! Screen layout: problems at the top, one list in the middle, key bindings at the bottom.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Tabs, Wrap};
use reweave_common::operator::AgentState;

use super::rows::draw_list;
use super::view::{Tab, View};
use crate::names::Names;
use crate::show;
use crate::trouble;

/// Maximum number of problem lines.
const MAX_TROUBLES: usize = 6;

pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let mut troubles = troubles(view);
    let more = troubles.len().saturating_sub(MAX_TROUBLES);
    if more > 0 {
        troubles.truncate(MAX_TROUBLES - 1);
        troubles.push(Line::from(format!("and {} more", more + 1)));
    }
    let height = troubles.len() as u16 + 2;
    let [head, wrong, tabs, list, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(height),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(head_line(view), head);
    let troubles = Paragraph::new(troubles).wrap(Wrap { trim: true });
    frame.render_widget(
        troubles.block(Block::bordered().title(" Attention ")),
        wrong,
    );
    let at = Tab::ALL.iter().position(|tab| *tab == view.tab);
    let titles = Tabs::new(Tab::ALL.map(Tab::title)).select(at);
    frame.render_widget(titles.highlight_style(Style::new().bold().reversed()), tabs);
    draw_list(frame, view, list);
    let keys = "Tab next list   ↑↓ scroll   P pause   Q quit";
    frame.render_widget(Line::from(keys).dark_gray(), foot);
}

fn head_line(view: &View) -> Line<'static> {
    let status = &view.shown.status;
    let up = status.agents.iter();
    let up = up.filter(|agent| agent.state == AgentState::Up).count();
    let words = format!(
        "Reweave  generation {}  {up} of {} agents  {} flows  {}  ",
        status.generation,
        status.agents.len(),
        status.flows.len(),
        counted(view.shown.findings.findings.len()),
    );
    let state = match (&view.away, view.paused) {
        (Some(why), _) => Span::from(why.clone()).red(),
        (None, true) => Span::from("paused").yellow(),
        (None, false) => Span::from("live").green(),
    };
    Line::from(vec![Span::from(words).bold(), state])
}

fn counted(findings: usize) -> String {
    match findings {
        1 => "1 finding".to_owned(),
        many => format!("{many} findings"),
    }
}

/// Returns the problems, the worst first.
fn troubles(view: &View) -> Vec<Line<'static>> {
    let status = &view.shown.status;
    let names = Names::of(status);
    let alarms = status.alarms.iter().map(|it| Line::from(it.clone()).red());
    let changes = status.changes.iter().map(show::phase);
    let changes = changes.map(|it| Line::from(it).yellow());
    let findings = trouble::by_badness(&view.shown.findings.findings).into_iter();
    let findings = findings.map(|it| Line::from(show::in_a_sentence(it, &names)).yellow());
    let warnings = status.warnings.iter().map(|it| Line::from(it.clone()));
    let all: Vec<_> = alarms
        .chain(findings)
        .chain(changes)
        .chain(warnings)
        .collect();
    if all.is_empty() {
        return vec![Line::from("no alarms").green()];
    }
    all
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
