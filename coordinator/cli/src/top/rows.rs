//! Rows of each tab.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::Line;
use ratatui::widgets::{Row, Table};
use reweave_common::operator::{
    AgentState, AgentStatus, FlowStatus, JobStatus, LinkStatus, Phase, RunningChange,
};

use super::heat::Heat;
use super::view::{Tab, View};
use crate::page::age;
use crate::show;
use crate::show::links::load;
use crate::trouble;

const BAR_CELLS: usize = 16;

pub(super) fn draw_list(frame: &mut Frame<'_>, view: &View, area: Rect) {
    match view.tab {
        Tab::Links => links(frame, view, area),
        Tab::Flows => flows(frame, view, area),
        Tab::Jobs => jobs(frame, view, area),
        Tab::Changes => changes(frame, view, area),
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
    let rest = area.width.saturating_sub(91).max(16);
    let headings = ["link", "load", "", "trouble", "of", "spare", "age"];
    let row = |it| link(it, trouble::describe(it, &view.shown.findings));
    let widths = [26, 10, 22, rest, 10, 10, 6];
    table(frame, area, headings, widths, links.map(row));
}

fn link(link: &LinkStatus, trouble: String) -> Row<'static> {
    let full = load(link);
    let cells = ((full * BAR_CELLS as f64).round() as usize).min(BAR_CELLS);
    let bar = format!(
        "{}{} {:.0} %",
        "█".repeat(cells),
        "·".repeat(BAR_CELLS - cells),
        full * 1e2
    );
    let colour = match full {
        _ if !link.up => Color::Red,
        0.9.. => Color::Red,
        _ if !trouble.is_empty() && !link.drained => Color::Red,
        0.6.. => Color::Yellow,
        _ => Color::Reset,
    };
    let row = Row::new([
        format!("{} > {}", link.hop.from, link.hop.to),
        link.rate_bits_per_s.to_string(),
        bar,
        trouble,
        link.capacity_bits_per_s.to_string(),
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
    let way = flow.path.as_deref().map(show::flows::whole);
    Row::new([
        flow.from.clone(),
        flow.to.clone(),
        flow.rate_bits_per_s.to_string(),
        way.unwrap_or_else(show::flows::unknown),
        age(flow.age_ms),
    ])
}

fn jobs(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let all = view.shown.jobs.as_deref().unwrap_or_default();
    if all.is_empty() {
        let words = "no large flows are seen now";
        return frame.render_widget(Line::from(words), area);
    }
    let headings = ["job", "hosts", "iteration", "rate", "slowest", "promised"];
    let rest = area.width.saturating_sub(64).max(20);
    let rows = all.iter().skip(view.above).map(job);
    table(frame, area, headings, [20, 6, 10, 11, 11, rest], rows);
}

/// Red if a promise is not kept.
fn job(job: &JobStatus) -> Row<'static> {
    let promise = job.promise.as_ref();
    let is_broken = promise.is_some_and(|it| it.achieved_bits_per_s < it.predicted_bits_per_s[0]);
    let promised = promise.map(|it| {
        let [low, high] = it.predicted_bits_per_s;
        format!("{low} .. {high}, has {}", it.achieved_bits_per_s)
    });
    let iteration = job.iteration_ms.map(|ms| format!("{ms:.0} ms"));
    let slowest = job.slowest_bits_per_s.map(|rate| rate.to_string());
    let row = Row::new([
        job.job.clone(),
        job.hosts.len().to_string(),
        iteration.unwrap_or_else(dash),
        job.rate_bits_per_s.to_string(),
        slowest.unwrap_or_else(dash),
        promised.unwrap_or_else(dash),
    ]);
    row.style(if is_broken { Color::Red } else { Color::Reset })
}

fn changes(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let all = &view.shown.status.changes;
    if all.is_empty() {
        return frame.render_widget(Line::from("no change in progress"), area);
    }
    let headings = ["plan", "upon", "since", "where it is"];
    let rest = area.width.saturating_sub(25).max(20);
    let rows = all.iter().skip(view.above).map(change);
    table(frame, area, headings, [6, 6, 8, rest], rows);
}

fn change(change: &RunningChange) -> Row<'static> {
    let row = Row::new([
        change.generation.to_string(),
        change.parent.to_string(),
        age(change.age_ms),
        show::phase(change),
    ]);
    row.style(match change.phase {
        Phase::Held | Phase::RollingBack => Color::Red,
        Phase::Applying | Phase::Verifying | Phase::Approved => Color::Yellow,
        Phase::Proposed => Color::Reset,
    })
}

fn matrix(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let Some(matrix) = &view.shown.matrix else {
        return;
    };
    let heat = Heat {
        matrix,
        figure: |cell| cell.median_us,
        plain: view.plain,
    };
    let [words, map] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Line::from(heat.heading(map)), words);
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
