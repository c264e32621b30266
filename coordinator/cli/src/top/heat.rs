//! Hosts against hosts in a few characters: each shows two cells, one above the other, and a cell shows the
//! worst of the pairs that fall on it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::widgets::Widget;
use reweave_common::operator::{Matrix, MatrixCell};

/// From good to bad, in colours that most terminals have and most people tell apart.
const SHADES: [Color; 5] = [
    Color::Indexed(25),
    Color::Indexed(73),
    Color::Indexed(221),
    Color::Indexed(208),
    Color::Indexed(160),
];
const UNMEASURED: Color = Color::Indexed(238);

pub(super) struct Heat<'m> {
    pub(super) matrix: &'m Matrix,
    /// What is looked at.
    pub(super) figure: fn(&MatrixCell) -> Option<f64>,
}

impl Heat<'_> {
    /// The least and the most that was measured.
    pub(super) fn range(&self) -> Option<[f64; 2]> {
        let figures = self.matrix.cells.iter().filter_map(self.figure);
        figures.fold(None, |range, it| {
            let [least, most] = range.unwrap_or([it, it]);
            Some([it.min(least), it.max(most)])
        })
    }

    /// The worst of each cell, row by row.
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

impl Widget for &Heat<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let room = usize::from(area.width).min(2 * usize::from(area.height));
        let side = room.min(self.matrix.hosts.len());
        let Some(range) = self.range().filter(|_| side > 0) else {
            return;
        };
        let grid = self.grid(side);
        let colour = |row: usize, column: usize| match grid.get(row * side + column) {
            Some(Some(figure)) => shade(*figure, range),
            Some(None) if row < side => UNMEASURED,
            _ => Color::Reset,
        };
        for row in 0..side.div_ceil(2) {
            for column in 0..side {
                let (x, y) = (area.x + column as u16, area.y + row as u16);
                let cell = &mut buffer[(x, y)];
                cell.set_char('▀').set_fg(colour(2 * row, column));
                cell.set_bg(colour(2 * row + 1, column));
            }
        }
    }
}

fn shade(figure: f64, [least, most]: [f64; 2]) -> Color {
    let place = if most > least {
        (figure - least) / (most - least)
    } else {
        0.0
    };
    SHADES[((place * SHADES.len() as f64) as usize).min(SHADES.len() - 1)]
}
