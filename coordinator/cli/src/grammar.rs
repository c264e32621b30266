//! What clap accepts of every option alike, and its words for what it refuses.

use std::any::TypeId;
use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::num::ParseIntError;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Command, CommandFactory as _};

use crate::Arguments;
use crate::help;
use crate::voice::in_a_line;

pub(crate) fn matches(words: impl Iterator<Item = OsString>) -> Result<ArgMatches, clap::Error> {
    grammar().try_get_matches_from(words)
}

fn grammar() -> Command {
    help::grouped(with_common_rules(Arguments::command()))
}

fn with_common_rules(command: Command) -> Command {
    let ruled = command.mut_args(|arg| with_negative_numbers(without_empty_name(arg)));
    ruled.mut_subcommands(with_common_rules)
}

/// Refuses empty option values. The command that `reweave run` starts may have empty arguments.
fn without_empty_name(arg: Arg) -> Arg {
    let is_of_others = arg.is_last_set() || arg.is_trailing_var_arg_set();
    if arg.get_value_parser().type_id() == TypeId::of::<String>() && !is_of_others {
        arg.value_parser(NonEmptyStringValueParser::new())
    } else {
        arg
    }
}

/// Takes -1 for a value. It is refused as one, and not as an unknown option.
fn with_negative_numbers(arg: Arg) -> Arg {
    let is_duration = arg.get_value_parser().type_id() == TypeId::of::<Duration>();
    let is_option = arg.get_action().takes_values() && !arg.is_last_set();
    match (is_option, is_duration) {
        (false, _) => arg,
        (true, false) => arg.allow_negative_numbers(true),
        (true, true) => arg.allow_hyphen_values(true),
    }
}

/// Options that every command has are optional, but usage lines show those from the environment as if they were required.
fn without_variables(command: Command) -> Command {
    command.mut_args(|arg| {
        if arg.is_global_set() {
            arg.env(None::<&'static str>)
        } else {
            arg
        }
    })
}

/// Returns the usage error in words. Control characters in the quoted arguments are made visible.
pub(crate) fn refusal(error: &clap::Error) -> String {
    let plain = env::args_os().map(|word| in_a_line(&word.to_string_lossy()));
    refusal_of(plain.map(OsString::from).collect(), error)
}

fn refusal_of(words: Vec<OsString>, error: &clap::Error) -> String {
    let bare = match error.kind() {
        // Help names the variables.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => None,
        _ => without_variables(grammar())
            .try_get_matches_from(&words)
            .err(),
    };
    let again = bare.or_else(|| grammar().try_get_matches_from(words).err());
    let error = again.as_ref().unwrap_or(error);
    below_zero(error).unwrap_or_else(|| error.render().to_string())
}

/// Words for a number below 0, of which the standard library's parsers only report an invalid digit.
fn below_zero(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    };
    let value = text(ContextKind::InvalidValue)?;
    let option = text(ContextKind::InvalidArg)?;
    let is_number = error
        .source()
        .is_some_and(<dyn Error + 'static>::is::<ParseIntError>);
    (is_number && value.starts_with('-')).then(|| {
        format!(
            "error: invalid value '{value}' for '{option}': out of range, it is below 0\n\nFor more \
             information, try '--help'.\n"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(words: &[&str]) -> String {
        let words: Vec<_> = ["reweave"]
            .iter()
            .chain(words)
            .map(OsString::from)
            .collect();
        let error = matches(words.clone().into_iter()).unwrap_err();
        refusal_of(words, &error)
    }

    #[test]
    fn empty_names_are_refused_everywhere() {
        for words in [
            &["maintenance", ""][..],
            &["maintenance", "", "--finish"],
            &["plan", "drain", "leaf0-spine0", ""],
            &["plan", "order", ""],
            &["job", "freeze", ""],
            &["job", "end", ""],
            &["cluster", "token", "--role", "agent", ""],
            &["explain", ""],
            &["--coordinator", "", "status"],
        ] {
            let message = refused(words);
            assert!(
                message.contains("a value is required for"),
                "{words:?}: {message}"
            );
        }
        let words = ["reweave", "maintenance", "leaf0", "--", "grep", ""];
        assert!(matches(words.into_iter().map(OsString::from)).is_ok());
    }

    #[test]
    fn negative_values_are_out_of_range() {
        for (words, range) in [
            (&["history", "--most", "-1"][..], "out of range"),
            (&["history", "-7"], "not a plan number"),
            (
                &["trace", "h0", "h4", "--port", "-1"],
                "-1 is not in 1..=65535",
            ),
            (&["watch", "--every-ms", "-1"], "not 100ms to 1m"),
            (&["watch", "--every-ms", "-5s"], "not 100ms to 1m"),
            (
                &["maintenance", "spine0", "--within-s", "-1s"],
                "not 0s to 1day",
            ),
        ] {
            let message = refused(words);
            let is_of_value = message.starts_with("error: invalid value '-");
            assert!(
                is_of_value && message.contains(range),
                "{words:?}: {message}"
            );
        }
    }

    #[test]
    fn port_zero_is_refused() {
        for option in ["--port", "--source-port"] {
            let message = refused(&["trace", "h0", "h4", option, "0"]);
            assert!(message.contains("0 is not in 1..=65535"), "{message}");
        }
    }
}
