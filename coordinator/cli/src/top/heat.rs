//! Host-to-host matrix on a terminal. With enough room each pair shows its figure; otherwise each character shows the
//! worst of its pairs.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::widgets::Widget;
use reweave_common::operator::{Matrix, MatrixCell};

/// Colours from good to bad that most terminals have and most people can distinguish.
const SHADES: [Color; 5] = [
    Color::Indexed(25),
    Color::Indexed(73),
    Color::Indexed(221),
    Color::Indexed(208),
    Color::Indexed(160),
];
const UNMEASURED_COLOR: Color = Color::Indexed(238);
/// Characters from good to bad, for terminals without colours.
const GLYPHS: [char; 5] = ['.', '░', '▒', '▓', '█'];
const MAX_NAME_CHARS: usize = 12;
/// Width of a figure such as `123456` and a gap.
const MIN_CELL_COLUMNS: usize = 7;

pub(super) struct Heat<'m> {
    pub(super) matrix: &'m Matrix,
    /// Returns the shown figure of a pair.
    pub(super) figure: fn(&MatrixCell) -> Option<f64>,
    /// Without colours: the characters alone carry the value.
    pub(super) plain: bool,
}

impl Heat<'_> {
    /// Returns the least and the greatest measured figure.
    pub(super) fn range(&self) -> Option<[f64; 2]> {
        let figures = self.matrix.cells.iter().filter_map(self.figure);
        figures.fold(None, |range, it| {
            let [least, most] = range.unwrap_or([it, it]);
            Some([it.min(least), it.max(most)])
        })
    }

    /// Returns the worst figure of each cell, row by row.
    fn grid(&self, side: usize) -> Vec<Option<f64>> {
        let mut grid = vec![None; side * side];
        let hosts = self.matrix.hosts.len().max(1);
        let place = |host: u32| host as usize * side / hosts;
        for cell in &self.matrix.cells {
            let at = place(cell.from) * side + place(cell.to);
            if let (Some(figure), Some(held)) = ((self.figure)(cell), grid.get_mut(at)) {
                *held = Some(held.map_or(figure, |worst: f64| worst.max(figure)));
            }
        }
        grid
    }
}

impl Heat<'_> {
    /// Returns the line above the matrix.
    pub(super) fn heading(&self, area: Rect) -> String {
        let Some([least, most]) = self.range() else {
            return "no recent measurement".to_owned();
        };
        let [best, worst] = [GLYPHS[0], GLYPHS[GLYPHS.len() - 1]];
        let text = match (self.has_room(area), self.plain) {
            (true, _) => "in us".to_owned(),
            (false, true) => format!("{least:.0} us, {best}, to {most:.0} us, {worst}"),
            (false, false) => format!("{least:.0} us, blue, to {most:.0} us, red"),
        };
        format!("latency from each host (row) to each other (column): {text}")
    }

    fn name(&self, host: usize) -> String {
        let name = self.matrix.hosts.get(host).map_or("", String::as_str);
        name.chars().take(MAX_NAME_CHARS).collect()
    }

    fn widest(&self) -> usize {
        let hosts = 0..self.matrix.hosts.len();
        let widths = hosts.map(|host| self.name(host).chars().count());
        widths.max().unwrap_or(0)
    }

    fn wide(&self) -> usize {
        MIN_CELL_COLUMNS.max(self.widest() + 1)
    }

    /// Whether each pair has room for its figure, beside the names of both hosts.
    fn has_room(&self, area: Rect) -> bool {
        let hosts = self.matrix.hosts.len();
        let width = self.widest() + 1 + hosts * self.wide();
        hosts < area.height.into() && width <= area.width.into()
    }

    fn figures(&self, area: Rect, buffer: &mut Buffer, range: [f64; 2]) {
        let (side, wide, left) = (self.matrix.hosts.len(), self.wide(), self.widest() + 1);
        let grid = self.grid(side);
        for row in 0..side {
            let y = area.y + 1 + row as u16;
            let x = |column: usize| area.x + (left + column * wide) as u16;
            let name = self.name(row);
            buffer.set_string(area.x, y, &name, Style::new());
            buffer.set_string(
                x(row),
                area.y,
                format!("{name:>0$}", wide - 1),
                Style::new(),
            );
            for column in 0..side {
                let figure = grid[row * side + column];
                let words = figure.map_or("-".to_owned(), |it| format!("{it:.0}"));
                let style = figure.filter(|_| !self.plain).map(|it| {
                    let ground = SHADES[level(it, range)];
                    Style::new().bg(ground).fg(ink_on(ground))
                });
                let words = format!("{words:>0$}", wide - 1);
                buffer.set_string(x(column), y, words, style.unwrap_or_default());
            }
        }
    }

    /// Draws the matrix in reduced size. A name stands for the first of the hosts that share a row.
    fn map(&self, area: Rect, buffer: &mut Buffer, range: [f64; 2]) {
        let left = self.widest() + 1;
        let lines = usize::from(area.height.saturating_sub(1));
        let rows = if self.plain { lines } else { 2 * lines };
        let side = usize::from(area.width).saturating_sub(left).min(rows);
        let hosts = self.matrix.hosts.len();
        let side = side.min(hosts);
        let first = |place: usize| (place * hosts).div_ceil(side.max(1));
        let mut column = 0;
        while column < side {
            let name = self.name(first(column));
            let room = (side - column).max(1);
            let shown: String = name.chars().take(room).collect();
            buffer.set_string(
                area.x + (left + column) as u16,
                area.y,
                &shown,
                Style::new(),
            );
            column += name.chars().count() + 1;
        }
        let (grid, each) = (self.grid(side), if self.plain { 1 } else { 2 });
        for line in 0..side.div_ceil(each) {
            let y = area.y + 1 + line as u16;
            buffer.set_string(area.x, y, self.name(first(line * each)), Style::new());
            for column in 0..side {
                let at = |row: usize| grid.get(row * side + column).copied();
                let cell = &mut buffer[(area.x + (left + column) as u16, y)];
                if self.plain {
                    cell.set_char(glyph(at(line), range));
                } else {
                    cell.set_char('▀').set_fg(colour(at(2 * line), range));
                    cell.set_bg(colour(at(2 * line + 1), range));
                }
            }
        }
    }
}

impl Widget for &Heat<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Some(range) = self.range().filter(|_| area.height > 1) else {
            return;
        };
        if self.has_room(area) {
            self.figures(area, buffer, range);
        } else {
            self.map(area, buffer, range);
        }
    }
}

fn glyph(held: Option<Option<f64>>, range: [f64; 2]) -> char {
    held.flatten()
        .map_or(' ', |figure| GLYPHS[level(figure, range)])
}

fn colour(held: Option<Option<f64>>, range: [f64; 2]) -> Color {
    match held {
        Some(Some(figure)) => SHADES[level(figure, range)],
        Some(None) => UNMEASURED_COLOR,
        None => Color::Reset,
    }
}

/// Returns the text colour that is readable on this colour.
fn ink_on(ground: Color) -> Color {
    if ground == SHADES[0] || ground == SHADES[SHADES.len() - 1] {
        Color::Indexed(231)
    } else {
        Color::Indexed(16)
    }
}

fn level(figure: f64, [least, most]: [f64; 2]) -> usize {
    let place = if most > least {
        (figure - least) / (most - least)
    } else {
        0.0
    };
    ((place * SHADES.len() as f64) as usize).min(SHADES.len() - 1)
}
