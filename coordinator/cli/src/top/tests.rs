use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Cell;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use reweave_common::cause::{Class, Subject};
use reweave_common::operator::{
    Finding, Findings, JobStatus, Matrix, MatrixCell, NotSeen, Promise,
};
use reweave_common::plan::Generation;

use super::super::view::{Shown, Tab, View};
use super::draw;
use crate::show::tests::{collision, mbps, status};

fn shown() -> Shown {
    let cell = |from, to, median_us| MatrixCell {
        from,
        to,
        median_us: Some(median_us),
        ..MatrixCell::default()
    };
    Shown {
        status: status(),
        findings: Findings {
            generation: Generation(0),
            findings: vec![Finding::EcmpCollision(collision())],
            not_seen: NotSeen::default(),
        },
        jobs: Some(vec![job()]),
        matrix: Some(Matrix {
            hosts: ["h0", "h1"].map(str::to_owned).to_vec(),
            cells: vec![cell(0, 1, 10.0), cell(1, 0, 900.0)],
        }),
    }
}

/// Draws the view on a terminal of this size.
fn on(width: u16, height: u16, view: &View) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, view)).unwrap();
    terminal
}

fn text(terminal: &Terminal<TestBackend>) -> String {
    let buffer = terminal.backend().buffer();
    let symbols = buffer.content().iter().map(Cell::symbol);
    symbols.collect()
}

fn press(view: &mut View, code: KeyCode) -> bool {
    view.handle_key(KeyEvent::new(code, KeyModifiers::NONE))
}

/// Returns a job that was promised a higher rate than it has.
fn job() -> JobStatus {
    JobStatus {
        job: "h0 and h4".to_owned(),
        hosts: ["h0", "h4"].map(str::to_owned).to_vec(),
        flows: 2,
        sending: 2,
        rate_bits_per_s: mbps(198),
        slowest_bits_per_s: Some(mbps(99)),
        iteration_ms: Some(651.2),
        rest_share: None,
        seen_for_ms: 1000,
        promise: Some(Promise {
            generation: Generation(3),
            flows: 2,
            predicted_bits_per_s: [mbps(190), mbps(200)],
            achieved_bits_per_s: mbps(99),
        }),
    }
}

/// Returns the lines from the first link on.
fn link_lines(text: &str, width: usize) -> Vec<String> {
    let text: Vec<_> = text.chars().collect();
    let lines = text.chunks(width).map(|line| line.iter().collect());
    let lines = lines.skip_while(|line: &String| !line.starts_with("link "));
    lines.skip(1).take(3).collect()
}

#[test]
fn alarms_and_worst_link_show_first() {
    let mut view = View::new(shown());
    let before = text(&on(120, 30, &view));
    let shared = "leaf0 > spine0 is 99 % full and shared by 2 flows";
    assert!(before.contains(shared), "{before}");
    let lines = link_lines(&before, 120);
    let firsts: Vec<_> = lines.iter().map(|line| &line[..14]).collect();
    assert_eq!(
        firsts,
        ["leaf1 > spine1", "leaf0 > spine0", "leaf0 > spine1"]
    );
    let troubles = ["down", "ECMP collision", ""];
    for (line, trouble) in lines.iter().zip(troubles) {
        assert!(line.contains(trouble), "{trouble}: {line}");
    }
    view.away("the coordinator did not answer".to_owned());
    assert!(text(&on(100, 30, &view)).contains("did not answer"));
}

/// A full link is busy; one that loses packets is in trouble even with little load.
#[test]
fn link_with_finding_outranks_full_one() {
    let mut shown = shown();
    let [from, to] = ["leaf0", "spine1"].map(str::to_owned);
    let empty = shown.status.links.iter().find(|link| link.hop.to == to);
    let link = empty.map(|link| link.hop.link.clone()).unwrap();
    let suspects = [(1, "lossy link"), (2, "lossy link")];
    for (others, words) in suspects {
        let named = Subject::Hop {
            from: from.clone(),
            to: to.clone(),
            link: link.clone(),
        };
        let hosts = (1..others).map(|nth| Subject::Host(format!("h{nth}")));
        let subject = match others {
            1 => named,
            _ => Subject::either(hosts.chain([named])),
        };
        let cause = Class::LossyLink.cause(subject, 0.9, "1 in 20".to_owned());
        shown.findings.findings = vec![Finding::Cause(cause)];
        let view = View::new(Shown {
            status: shown.status.clone(),
            findings: shown.findings.clone(),
            jobs: None,
            matrix: None,
        });
        let lines = link_lines(&text(&on(120, 30, &view)), 120);
        assert!(lines[0].starts_with("leaf1 > spine1"), "{lines:?}");
        assert!(lines[1].starts_with("leaf0 > spine1"), "{lines:?}");
        assert!(lines[1].contains(words), "{lines:?}");
        assert!(lines[2].contains("full"), "{lines:?}");
    }
}

#[test]
fn jobs_show_promises_changes_show_waits() {
    let mut view = View::new(shown());
    view.tab = Tab::Jobs;
    let jobs = text(&on(110, 30, &view));
    for words in [
        "h0 and h4",
        "651 ms",
        "190.0 Mb/s .. 200.0 Mb/s, has 99.0 Mb/s",
    ] {
        assert!(jobs.contains(words), "{words}\n{jobs}");
    }
    view.shown.jobs = Some(Vec::new());
    assert!(text(&on(110, 30, &view)).contains("no large flows"));
    view.tab = Tab::Changes;
    let changes = text(&on(110, 30, &view));
    let running = crate::show::phase(&view.shown.status.changes[0]);
    // Once among the problems, and once in the list.
    assert_eq!(changes.matches(&running).count(), 2, "{running}\n{changes}");
    view.shown.status.changes.clear();
    assert!(text(&on(110, 30, &view)).contains("no change in progress"));
}

#[test]
fn keys_turn_scroll_pause_and_end() {
    let mut view = View::new(shown());
    for heading in ["from", "promised", "where it is", "latency", "node", "link"] {
        assert!(press(&mut view, KeyCode::Tab));
        let text = text(&on(100, 30, &view));
        assert!(text.contains(heading), "{heading}\n{text}");
    }
    press(&mut view, KeyCode::PageDown);
    assert_eq!(view.above, view.shown.status.links.len() - 1);
    press(&mut view, KeyCode::Home);
    press(&mut view, KeyCode::Char('p'));
    let mut later = shown();
    later.status.generation = Generation(99);
    view.refresh(later);
    assert!(text(&on(100, 30, &view)).contains("paused"));
    assert_ne!(view.shown.status.generation, Generation(99));
    assert!(!press(&mut view, KeyCode::Char('q')));
}

/// Returns the lines of the screen.
fn lines(terminal: &Terminal<TestBackend>) -> Vec<String> {
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(buffer.area.width.into());
    let row = |row: &[Cell]| row.iter().map(Cell::symbol).collect::<String>();
    rows.map(|it| row(it).trim_end().to_owned()).collect()
}

#[test]
fn matrix_shows_figures_where_they_fit() {
    let mut view = View::new(shown());
    view.tab = Tab::Matrix;
    let terminal = on(100, 30, &view);
    let all = lines(&terminal);
    for line in ["       h0     h1", "h0      -     10", "h1    900      -"] {
        assert!(
            all.iter().any(|it| it == line),
            "{line}\n{}",
            all.join("\n")
        );
    }
    let buffer = terminal.backend().buffer();
    let grounds = |words: &str| -> Vec<_> {
        let figures = buffer.content().windows(words.len());
        let of = figures.filter(|it| it.iter().map(Cell::symbol).collect::<String>() == words);
        of.map(|it| it[1].bg).collect()
    };
    assert_eq!(grounds(" 900"), [Color::Indexed(160)]);
}

/// The row of h0 stands above that of h1. A host does not measure itself. Names stand beside the rows.
#[test]
fn large_matrix_is_coloured_by_measurement() {
    let mut view = View::new(shown());
    view.tab = Tab::Matrix;
    let terminal = on(16, 30, &view);
    let buffer = terminal.backend().buffer();
    let blocks = buffer.content().iter().filter(|cell| cell.symbol() == "▀");
    let colours: Vec<_> = blocks.map(|cell| (cell.fg, cell.bg)).collect();
    let (grey, blue, red) = (Color::Indexed(238), Color::Indexed(25), Color::Indexed(160));
    assert_eq!(colours, [(grey, red), (blue, grey)]);
    assert!(lines(&terminal).iter().any(|line| line == "h0 ▀▀"));
}

#[test]
fn matrix_without_colour_uses_shades() {
    let mut view = View::new(shown());
    view.tab = Tab::Matrix;
    view.plain = true;
    let all = lines(&on(16, 30, &view));
    for line in ["h0  .", "h1 █"] {
        assert!(
            all.iter().any(|it| it == line),
            "{line}\n{}",
            all.join("\n")
        );
    }
}

#[test]
fn findings_are_counted_with_hidden_ones() {
    let mut shown = shown();
    shown.status.warnings = (0..9).map(|nth| format!("warning {nth}")).collect();
    let all = text(&on(120, 30, &View::new(shown)));
    assert!(all.contains("1 finding "), "{all}");
    assert!(all.contains("and 7 more"), "{all}");
}

#[test]
fn flow_path_shows_its_nodes() {
    let mut view = View::new(shown());
    view.tab = Tab::Flows;
    let all = text(&on(120, 30, &view));
    assert!(all.contains("h0 > leaf0 > spine0 > leaf1"), "{all}");
}

#[test]
fn top_renders_at_any_terminal_size() {
    let mut view = View::new(shown());
    for (width, height) in [(1, 1), (20, 5), (80, 24), (300, 100)] {
        for _ in Tab::ALL {
            on(width, height, &view);
            press(&mut view, KeyCode::Right);
        }
    }
}
