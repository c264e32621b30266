//! A pager for answers that are longer than the terminal, chosen as git chooses it.

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
use crate::voice::say;

/// `less` quits where all fits, passes colours on, and leaves its last page on the terminal.
const LESS_OPTIONS: &str = "FRX";
/// What a shell says of a program that it cannot start.
const SHELL_FAILURES: [i32; 2] = [126, 127];

/// Set before the first answer.
static IS_SUPPRESSED: OnceLock<bool> = OnceLock::new();

/// `--no-pager`
pub(crate) fn suppress(is_suppressed: bool) {
    let _ = IS_SUPPRESSED.set(is_suppressed);
}

/// Data that may be longer than the terminal.
pub(crate) fn say_paged(text: &str) -> Result<ExitCode, CliError> {
    match wanted(text) {
        Some(program) => page_through(&program, text),
        None => say(text),
    }
}

/// The pager for this text, if it needs one.
fn wanted(text: &str) -> Option<OsString> {
    let is_suppressed = IS_SUPPRESSED.get().copied().unwrap_or(false);
    if is_suppressed || !io::stdout().is_terminal() {
        return None;
    }
    let program = chosen(env::var_os("REWEAVE_PAGER"), env::var_os("PAGER"))?;
    let (columns, height) = terminal::size().ok()?;
    is_longer(text, columns, height).then_some(program)
}

/// The first that is set. Set to nothing or to `cat`, it stands for none.
fn chosen(own: Option<OsString>, usual: Option<OsString>) -> Option<OsString> {
    let program = own.or(usual).unwrap_or_else(|| OsString::from("less"));
    let is_none = program.is_empty() || program == "cat";
    (!is_none).then_some(program)
}

/// Whether it takes more rows than the terminal has, the prompt among them. A terminal without a size has no end.
fn is_longer(text: &str, columns: u16, height: u16) -> bool {
    let columns = usize::from(columns).max(1);
    let rows = text
        .lines()
        .map(|line| line.width().div_ceil(columns).max(1));
    height > 0 && rows.sum::<usize>() >= usize::from(height)
}

fn page_through(program: &OsStr, text: &str) -> Result<ExitCode, CliError> {
    let Ok(file) = file_of(text) else {
        return say(text);
    };
    let mut pager = Command::new("sh");
    pager.arg("-c").arg(program).stdin(Stdio::from(file));
    for (name, options) in [("LESS", LESS_OPTIONS), ("LV", "-c")] {
        if env::var_os(name).is_none() {
            pager.env(name, options);
        }
    }
    // Ctrl-C is for the pager, and must not take the terminal from it.
    parting::heed_signals()?;
    // A person may read for hours; no session is held for that.
    parting::runtime()?.block_on(parting::part("the answer is complete"));
    let is_shown = parting::attend(&mut pager).is_ok_and(|status| {
        let code = status.code();
        code.is_none_or(|code| !SHELL_FAILURES.contains(&code))
    });
    if is_shown {
        Ok(ExitCode::SUCCESS)
    } else {
        say(text)
    }
}

/// Without a name: it goes with the pager. A pager that quits early leaves the rest unread.
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
