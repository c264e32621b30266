//! How it is laid out: what is wrong above, one list in the middle, what keys do below.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Table, Tabs, Wrap};
use reweave_common::operator::{AgentState, AgentStatus, FlowStatus, LinkStatus};

use super::heat::Heat;
use super::view::{Tab, View, fullness};
use crate::names::Names;
use crate::page::age;
use crate::show;

/// Nobody reads more lines of troubles at once.
const MOST_TROUBLES: usize = 6;
const BAR_CELLS: usize = 16;

pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let troubles = troubles(view);
    let height = troubles.len().clamp(1, MOST_TROUBLES) as u16 + 2;
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
        "Reweave  generation {}  {up} of {} agents  {} flows  ",
        status.generation,
        status.agents.len(),
        status.flows.len(),
    );
    let state = match (&view.away, view.paused) {
        (Some(why), _) => Span::from(why.clone()).red(),
        (None, true) => Span::from("paused").yellow(),
        (None, false) => Span::from("live").green(),
    };
    Line::from(vec![Span::from(words).bold(), state])
}

/// The worst first.
fn troubles(view: &View) -> Vec<Line<'static>> {
    let status = &view.shown.status;
    let names = Names::of(status);
    let alarms = status.alarms.iter().map(|it| Line::from(it.clone()).red());
    let changes = status.changes.iter().map(show::phase);
    let changes = changes.map(|it| Line::from(it).yellow());
    let findings = view.shown.findings.findings.iter();
    let findings = findings.map(|it| Line::from(show::in_a_sentence(it, &names)).yellow());
    let warnings = status.warnings.iter().map(|it| Line::from(it.clone()));
    let all: Vec<_> = alarms
        .chain(changes)
        .chain(findings)
        .chain(warnings)
        .collect();
    if all.is_empty() {
        return vec![Line::from("nothing needs a person").green()];
    }
    all
}

fn draw_list(frame: &mut Frame<'_>, view: &View, area: Rect) {
    match view.tab {
        Tab::Links => links(frame, view, area),
        Tab::Flows => flows(frame, view, area),
        Tab::Matrix => matrix(frame, view, area),
        Tab::Agents => agents(frame, view, area),
    }
}

fn table<const N: usize>(
    frame: &mut Frame<'_>,
    area: Rect,
    headings: [&'static str; N],
    widths: [u16; N],
    rows: impl Iterator<Item = Row<'static>>,
) {
    let seen = rows.take(area.height.into());
    let widths = widths.map(Constraint::Length);
    let headings = Row::new(headings).style(Style::new().dark_gray());
    frame.render_widget(Table::new(seen, widths).header(headings), area);
}

fn links(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let links = view.shown.status.links.iter().skip(view.above);
    let headings = ["link", "load", "of", "", "spare", "age"];
    table(
        frame,
        area,
        headings,
        [28, 12, 12, 24, 12, 8],
        links.map(link),
    );
}

fn link(link: &LinkStatus) -> Row<'static> {
    let full = fullness(link);
    let cells = ((full * BAR_CELLS as f64).round() as usize).min(BAR_CELLS);
    let bar = match (link.up, link.drained) {
        (false, _) => "down".to_owned(),
        (true, true) => "drained".to_owned(),
        (true, false) => format!(
            "{}{} {:.0} %",
            "█".repeat(cells),
            "·".repeat(BAR_CELLS - cells),
            full * 1e2
        ),
    };
    let colour = match full {
        _ if !link.up => Color::Red,
        0.9.. => Color::Red,
        0.6.. => Color::Yellow,
        _ => Color::Reset,
    };
    let row = Row::new([
        format!("{} > {}", link.hop.from, link.hop.to),
        link.rate_bits_per_s.to_string(),
        link.capacity_bits_per_s.to_string(),
        bar,
        link.spare_bits_per_s
            .map_or_else(dash, |rate| rate.to_string()),
        age(link.age_ms),
    ]);
    row.style(colour)
}

fn dash() -> String {
    "-".to_owned()
}

fn flows(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let flows = view.shown.status.flows.iter().skip(view.above);
    let rest = area.width.saturating_sub(50).max(20);
    let headings = ["from", "to", "rate", "way", "age"];
    table(
        frame,
        area,
        headings,
        [12, 12, 12, rest, 8],
        flows.map(flow),
    );
}

fn flow(flow: &FlowStatus) -> Row<'static> {
    let way = flow.path.as_ref().map(|path| {
        let links: Vec<_> = path.iter().map(|hop| hop.link.as_str()).collect();
        links.join(" ")
    });
    Row::new([
        flow.from.clone(),
        flow.to.clone(),
        flow.rate_bits_per_s.to_string(),
        way.unwrap_or_else(|| "not known".to_owned()),
        age(flow.age_ms),
    ])
}

fn matrix(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let heat = Heat {
        matrix: &view.shown.matrix,
        figure: |cell| cell.median_us,
    };
    let [words, map] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let told = match heat.range() {
        Some([least, most]) => format!(
            "latency from each host (row) to each other (column): {least:.0} us, blue, to {most:.0} us, red"
        ),
        None => "nothing was measured lately".to_owned(),
    };
    frame.render_widget(Line::from(told), words);
    frame.render_widget(&heat, map);
}

fn agents(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let agents = view.shown.status.agents.iter().skip(view.above);
    let headings = ["node", "state", "last report", "links known", "build"];
    table(
        frame,
        area,
        headings,
        [24, 10, 14, 14, 12],
        agents.map(agent),
    );
}

fn agent(agent: &AgentStatus) -> Row<'static> {
    let (state, colour) = match agent.state {
        AgentState::Up => ("up", Color::Reset),
        AgentState::Silent => ("silent", Color::Yellow),
        AgentState::Down => ("down", Color::Red),
        AgentState::Unseen => ("unseen", Color::Red),
    };
    let row = Row::new([
        agent.node.clone(),
        state.to_owned(),
        agent.age_ms.map_or_else(dash, age),
        format!("{} of {}", agent.known_links, agent.links),
        agent.build.clone().unwrap_or_else(dash),
    ]);
    row.style(colour)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
