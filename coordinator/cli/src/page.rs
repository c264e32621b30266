//! Text layout for terminals: tables, headings, and colour that carries a meaning.

use std::env;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::net::IpAddr;
use std::sync::OnceLock;

use clap::ValueEnum;
use reweave_common::printable::shown;
use unicode_width::UnicodeWidthStr as _;

/// `--color`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb
    Auto,
    Always,
    Never,
}

/// Colour mode of all pages of this process, set before the first page.
static COLOR: OnceLock<Color> = OnceLock::new();

impl Color {
    pub(crate) fn choose(self) {
        let _ = COLOR.set(self);
    }

    /// Whether standard output gets colour.
    pub(crate) fn is_wanted() -> bool {
        let chosen = COLOR.get().copied().unwrap_or(Self::Auto);
        chosen.colors(io::stdout().is_terminal(), is_plain())
    }

    fn colors(self, is_terminal: bool, is_plain: bool) -> bool {
        match self {
            Self::Auto => is_terminal && !is_plain,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Ink {
    Bold = 1,
    Red = 31,
    Green = 32,
    Yellow = 33,
    Grey = 90,
}

/// All escape codes that this page writes.
const INK_CODES: [&str; 6] = ["[0m", "[1m", "[31m", "[32m", "[33m", "[90m"];

#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) text: String,
    colour: bool,
}

impl Page {
    pub(crate) fn for_stdout() -> Self {
        Self {
            text: String::new(),
            colour: Color::is_wanted(),
        }
    }

    /// Returns the text for the terminal. Escapes in names and file contents are made visible; only colours of this
    /// page remain.
    pub(crate) fn shown(&self) -> String {
        let lines = |part: &str| shown(part, |c| c == '\n');
        let mut parts = self.text.split('\x1b');
        let mut text = lines(parts.next().unwrap_or_default());
        for part in parts {
            let is_ink = self.colour && INK_CODES.iter().any(|ink| part.starts_with(ink));
            text.push(if is_ink {
                '\x1b'
            } else {
                char::REPLACEMENT_CHARACTER
            });
            text += &lines(part);
        }
        text
    }

    pub(crate) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    pub(crate) fn heading(&mut self, words: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let words = self.ink(Ink::Bold, words);
        self.line(&words);
    }

    pub(crate) fn ink(&self, ink: Ink, text: &str) -> String {
        if self.colour {
            format!("\x1b[{}m{text}\x1b[0m", ink as u8)
        } else {
            text.to_owned()
        }
    }

    /// Adds a table with headings and columns of minimal width. A column whose cells all begin with a digit is aligned
    /// to the right.
    pub(crate) fn table<const N: usize>(
        &mut self,
        headings: [&str; N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) {
        let rows: Vec<_> = rows.into_iter().collect();
        let columns: Vec<_> = (0..N).map(|n| Column::of(headings[n], &rows, n)).collect();
        let head = line(&columns, &headings.map(str::to_owned));
        let head = self.ink(Ink::Grey, head.trim_end());
        self.line(&head);
        for row in &rows {
            self.line(&line(&columns, row));
        }
    }
}

/// Whether the environment asks for plain text: <https://no-color.org>, or a terminal without escapes.
fn is_plain() -> bool {
    let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    no_color || env::var_os("TERM").is_some_and(|term| term == "dumb")
}

struct Column {
    width: usize,
    figures: bool,
}

impl Column {
    fn of<const N: usize>(heading: &str, rows: &[[String; N]], n: usize) -> Self {
        let cells = || rows.iter().map(|row| row[n].as_str());
        let is_figure = |cell: &str| cell == "-" || is_figure(cell);
        let width = cells().map(width).chain([width(heading)]).max();
        Self {
            width: width.unwrap_or(0),
            figures: !rows.is_empty() && cells().all(is_figure),
        }
    }
}

/// Whether a cell is a figure. An address begins with a digit, but is a name.
fn is_figure(cell: &str) -> bool {
    let number = cell.strip_prefix('-').unwrap_or(cell);
    number.starts_with(|c: char| c.is_ascii_digit()) && cell.parse::<IpAddr>().is_err()
}

fn line<const N: usize>(columns: &[Column], row: &[String; N]) -> String {
    let mut text = String::from(" ");
    for (column, cell) in columns.iter().zip(row) {
        let gap = " ".repeat(column.width.saturating_sub(width(cell)));
        let _ = if column.figures {
            write!(text, " {gap}{cell} ")
        } else {
            write!(text, " {cell}{gap} ")
        };
    }
    text
}

/// Returns the width of a text in terminal columns: escapes have none, wide characters two.
fn width(text: &str) -> usize {
    let mut inside = false;
    let visible = text.chars().filter(|&c| match (inside, c) {
        (false, '\x1b') => {
            inside = true;
            false
        }
        (true, 'm') => {
            inside = false;
            false
        }
        (inside, _) => !inside,
    });
    // The width counts the replacement characters that the page prints.
    shown(&visible.collect::<String>(), |_| false).width()
}

/// Joins the first `most` words, and adds the number of the rest.
pub(crate) fn first_of(words: &[String], most: usize, between: &str) -> String {
    let shown = words[..most.min(words.len())].join(between);
    match words.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Formats an age: `0.4 s`, `12 s`, `3 min`, `5 h`, `2 d`.
pub(crate) fn age(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..10 => format!("{}.{} s", seconds, millis % 1000 / 100),
        10..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Formats a time in the unit that needs the fewest digits: `12.345 us`, `70.000 s`, `3 min`.
pub(crate) fn micros(us: f64) -> String {
    match us {
        120e6.. => age((us / 1e3) as u64),
        1e6.. => format!("{:.3} s", us / 1e6),
        1e3.. => format!("{:.3} ms", us / 1e3),
        _ => format!("{us:.3} us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_cells_and_align_figures() {
        let mut page = Page::default();
        let rows = [
            ["leaf0 > spine0", "98.5 Mb/s"],
            ["h0 > leaf0", "200.0 Mb/s"],
        ];
        page.table(["link", "rate"], rows.map(|row| row.map(str::to_owned)));
        let expected = "  link                  rate\n  leaf0 > spine0   98.5 Mb/s\n  \
                        h0 > leaf0      200.0 Mb/s\n";
        assert_eq!(page.text, expected);
    }

    #[test]
    fn escape_codes_take_no_width() {
        let mut page = Page {
            colour: true,
            ..Page::default()
        };
        let red = page.ink(Ink::Red, "down");
        page.table(
            ["a", "b"],
            [[red, "x".to_owned()], ["up".into(), "y".into()]],
        );
        let columns: Vec<_> = page.text.lines().skip(1).collect();
        assert_eq!(columns[0], "  \x1b[31mdown\x1b[0m  x");
        assert_eq!(columns[1], "  up    y");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let widths = ["abc", "叶子0", "e\u{301}", "\x1b[31m叶\x1b[0m", "\u{200b}"].map(width);
        assert_eq!(widths, [3, 5, 1, 2, 1]);
        let mut page = Page::default();
        let rows = [["叶子0", "up"], ["h0", "down"]];
        page.table(["node", "state"], rows.map(|row| row.map(str::to_owned)));
        assert_eq!(page.text, "  node   state\n  叶子0  up\n  h0     down\n");
    }

    #[test]
    fn color_follows_option_then_environment() {
        for (color, is_terminal, is_plain, expected) in [
            (Color::Auto, true, false, true),
            (Color::Auto, true, true, false),
            (Color::Auto, false, false, false),
            (Color::Always, false, true, true),
            (Color::Never, true, false, false),
        ] {
            let colors = color.colors(is_terminal, is_plain);
            assert_eq!(colors, expected, "{color:?} {is_terminal} {is_plain}");
        }
    }

    #[test]
    fn without_colour_there_are_no_escapes() {
        assert_eq!(Page::default().ink(Ink::Red, "down"), "down");
    }

    #[test]
    fn names_cannot_inject_escape_codes() {
        for colour in [false, true] {
            let mut page = Page {
                colour,
                ..Page::default()
            };
            let red = page.ink(Ink::Red, "down");
            page.line(&format!("\x1b]0;mine\x07 \x1b[2J{red}\u{202e}"));
            let ink = if colour {
                "\x1b[31mdown\x1b[0m"
            } else {
                "down"
            };
            let expected = format!("\u{fffd}]0;mine\u{fffd} \u{fffd}[2J{ink}\u{fffd}\n");
            assert_eq!(page.shown(), expected);
        }
    }

    #[test]
    fn ages_have_readable_precision() {
        let ages = [0, 450, 9_999, 59_000, 130_000, 7_200_000, 200_000_000].map(age);
        assert_eq!(
            ages,
            ["0.0 s", "0.4 s", "9.9 s", "59 s", "2 min", "2 h", "2 d"]
        );
    }

    #[test]
    fn times_have_readable_precision() {
        let times = [0.4, 12.3456, 2072.0, 70e6, 240e6].map(micros);
        assert_eq!(
            times,
            ["0.400 us", "12.346 us", "2.072 ms", "70.000 s", "4 min"]
        );
    }
}
