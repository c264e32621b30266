//! A pager for answers longer than the terminal, chosen in the order that git uses.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal as _, Seek as _, Write as _};
use std::process::{Command, ExitCode, Stdio};
use std::sync::OnceLock;

use ratatui::crossterm::terminal;
use unicode_width::UnicodeWidthStr as _;

use crate::error::CliError;
use crate::parting;
use crate::voice::print_data;

/// Options of `less`: quit if all fits on a screen, pass colours through, and keep the last page on the terminal.
const LESS_OPTIONS: &str = "FRX";
/// Exit codes of a shell that could not start the program.
const SHELL_FAILURES: [i32; 2] = [126, 127];

/// Set before the first answer is printed.
static IS_SUPPRESSED: OnceLock<bool> = OnceLock::new();

/// `--no-pager`
pub(crate) fn suppress(is_suppressed: bool) {
    let _ = IS_SUPPRESSED.set(is_suppressed);
}

/// Prints data, with a pager if it is longer than the terminal.
pub(crate) fn print_paged(text: &str) -> Result<ExitCode, CliError> {
    match wanted(text) {
        Some(program) => page_through(&program, text),
        None => print_data(text),
    }
}

/// Returns the pager for this text, if one is needed.
fn wanted(text: &str) -> Option<OsString> {
    let is_suppressed = IS_SUPPRESSED.get().copied().unwrap_or(false);
    if is_suppressed || !io::stdout().is_terminal() {
        return None;
    }
    let program = chosen(env::var_os("REWEAVE_PAGER"), env::var_os("PAGER"))?;
    let (columns, height) = terminal::size().ok()?;
    is_longer(text, columns, height).then_some(program)
}

/// Returns the first variable that is set. An empty value or `cat` means no pager.
fn chosen(own: Option<OsString>, usual: Option<OsString>) -> Option<OsString> {
    let program = own.or(usual).unwrap_or_else(|| OsString::from("less"));
    let is_none = program.is_empty() || program == "cat";
    (!is_none).then_some(program)
}

/// Whether the text and the prompt need more rows than the terminal has. A terminal of unknown size has no limit.
fn is_longer(text: &str, columns: u16, height: u16) -> bool {
    let columns = usize::from(columns).max(1);
    let rows = text
        .lines()
        .map(|line| line.width().div_ceil(columns).max(1));
    height > 0 && rows.sum::<usize>() >= usize::from(height)
}

fn page_through(program: &OsStr, text: &str) -> Result<ExitCode, CliError> {
    let Ok(file) = file_of(text) else {
        return print_data(text);
    };
    let mut pager = Command::new("sh");
    pager.arg("-c").arg(program).stdin(Stdio::from(file));
    for (name, options) in [("LESS", LESS_OPTIONS), ("LV", "-c")] {
        if env::var_os(name).is_none() {
            pager.env(name, options);
        }
    }
    // Ctrl-C is for the pager: it must not end this program and take the terminal away.
    parting::heed_signals()?;
    // The user may read for hours, so the session is closed first.
    parting::runtime()?.block_on(parting::part("the answer is complete"));
    let is_shown = parting::attend(&mut pager).is_ok_and(|status| {
        let code = status.code();
        code.is_none_or(|code| !SHELL_FAILURES.contains(&code))
    });
    if is_shown {
        Ok(ExitCode::SUCCESS)
    } else {
        print_data(text)
    }
}

/// Returns an unnamed file that disappears with the pager. A pager that quits early leaves the rest unread.
fn file_of(text: &str) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(own: Option<&str>, usual: Option<&str>) -> Option<String> {
        let program = chosen(own.map(OsString::from), usual.map(OsString::from));
        program.and_then(|program| program.into_string().ok())
    }

    #[test]
    fn own_variable_overrides_pager() {
        assert_eq!(named(None, None).as_deref(), Some("less"));
        assert_eq!(named(None, Some("more")).as_deref(), Some("more"));
        assert_eq!(
            named(Some("bat -p"), Some("more")).as_deref(),
            Some("bat -p")
        );
        for none in ["", "cat"] {
            assert_eq!(named(Some(none), Some("more")), None, "{none:?}");
        }
    }

    #[test]
    fn wrapped_lines_count_as_rows() {
        assert!(!is_longer("a\nb\n", 80, 3));
        assert!(is_longer("a\nb\nc\n", 80, 3));
        assert!(is_longer(&"x".repeat(161), 80, 3));
        assert!(!is_longer(&"x".repeat(160), 80, 3));
        assert!(!is_longer(&"a\n".repeat(1000), 0, 0));
    }
}
