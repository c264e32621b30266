//! `--exit-code`: the exit code says whether anything was found.

use std::process::ExitCode;

use clap::Args;
use reweave_common::exit_code::{DONE, FOUND};

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ExitOption {
    /// Exit with 3 if there is a plan to apply, a finding, an alarm or an agent in trouble
    #[arg(long)]
    pub(crate) exit_code: bool,
}

impl ExitOption {
    pub(crate) fn code(self, found: bool) -> ExitCode {
        ExitCode::from(number(self.exit_code, found))
    }
}

pub(crate) fn number(is_asked: bool, found: bool) -> u8 {
    if is_asked && found { FOUND } else { DONE }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn found_exits_three_if_asked() {
        assert_eq!(number(true, true), 3);
        for (is_asked, found) in [(true, false), (false, true), (false, false)] {
            assert_eq!(number(is_asked, found), 0, "{is_asked} {found}");
        }
    }

    #[test]
    fn help_documents_exit_code_three() {
        for command in ["plan", "plan create", "diagnose", "status"] {
            let words = format!("reweave {command} --help");
            let help = crate::parsed(words.split(' ').map(OsString::from)).unwrap_err();
            let help = help.to_string();
            assert!(help.contains("--exit-code"), "{command}: {help}");
            assert!(help.contains("Exit with 3"), "{command}: {help}");
        }
    }
}
