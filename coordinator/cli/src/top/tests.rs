use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Cell;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use reweave_common::operator::{Finding, Findings, Matrix, MatrixCell, NotSeen};
use reweave_common::plan::Generation;

use super::super::view::{Shown, View};
use super::draw;
use crate::show::tests::{collision, status};

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
        matrix: Matrix {
            hosts: ["h0", "h1"].map(str::to_owned).to_vec(),
            cells: vec![cell(0, 1, 10.0), cell(1, 0, 900.0)],
        },
    }
}

/// As it stands on a terminal of this size.
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

#[test]
fn what_is_wrong_stands_first_and_the_fullest_link_next() {
    let mut view = View::new(shown());
    let text = text(&on(100, 30, &view));
    assert!(
        text.contains("leaf0 > spine0 is 99 % full and shared by 2 flows"),
        "{text}"
    );
    let links = &view.shown.status.links;
    let firsts: Vec<_> = links
        .iter()
        .map(|link| (link.up, link.rate_bits_per_s))
        .collect();
    let mut sorted = firsts.clone();
    sorted.sort_by_key(|(up, rate)| (*up, std::cmp::Reverse(*rate)));
    assert_eq!(firsts, sorted, "down first, then by load");
    view.away("the coordinator did not answer".to_owned());
    assert!(super::tests::text(&on(100, 30, &view)).contains("did not answer"));
}

#[test]
fn keys_turn_scroll_pause_and_end() {
    let mut view = View::new(shown());
    for heading in ["from", "latency", "node", "link"] {
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

/// The row of h0 over that of h1: neither measures itself.
#[test]
fn the_matrix_is_coloured_by_what_was_measured() {
    let mut view = View::new(shown());
    press(&mut view, KeyCode::Tab);
    press(&mut view, KeyCode::Tab);
    let terminal = on(100, 30, &view);
    let buffer = terminal.backend().buffer();
    let blocks = buffer.content().iter().filter(|cell| cell.symbol() == "▀");
    let colours: Vec<_> = blocks.map(|cell| (cell.fg, cell.bg)).collect();
    let (grey, blue, red) = (Color::Indexed(238), Color::Indexed(25), Color::Indexed(160));
    assert_eq!(colours, [(grey, red), (blue, grey)]);
}

#[test]
fn a_terminal_of_any_size_will_do() {
    let mut view = View::new(shown());
    for (width, height) in [(1, 1), (20, 5), (80, 24), (300, 100)] {
        for _ in 0..4 {
            on(width, height, &view);
            press(&mut view, KeyCode::Right);
        }
    }
}
