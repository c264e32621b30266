//! Runs other programs. A program without a timely answer is killed.

use std::io::{self, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use thiserror::Error;

/// The exit status of a program, and its output.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) printed: String,
    pub(crate) said: String,
}

#[derive(Debug, Error)]
pub(crate) enum NoAnswer {
    #[error("it cannot be started")]
    Start(#[from] io::Error),
    #[error("it does not answer")]
    Hangs,
}

/// Runs the program with this input.
pub(crate) fn ask(
    program: &mut Command,
    text: String,
    patience: Duration,
) -> Result<Ended, NoAnswer> {
    let piped = program.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::piped()).spawn()?;
    let input = child.stdin.take();
    // A program that does not read its input reports why, or times out.
    thread::spawn(move || input.map(|mut it| it.write_all(text.as_bytes())));
    let [printed, said] = [read(child.stdout.take()), read(child.stderr.take())];
    let Ok(printed) = printed.recv_timeout(patience) else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(NoAnswer::Hangs);
    };
    Ok(Ended {
        status: child.wait()?,
        printed,
        said: said.recv().unwrap_or_default(),
    })
}

/// Set once the program has ended.
fn read(from: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (tell, report) = channel();
    thread::spawn(move || {
        let mut bytes = vec![];
        let _ = from.map(|mut it| it.read_to_end(&mut bytes));
        let _ = tell.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, text: &str, patience: Duration) -> Result<Ended, NoAnswer> {
        let mut shell = Command::new("sh");
        ask(shell.args(["-c", script]), text.to_owned(), patience)
    }

    #[test]
    fn program_output_and_status_are_returned() {
        let ended = shell("cat; echo no >&2; exit 3", "so\n", Duration::from_mins(1));
        let ended = ended.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!([&*ended.printed, &*ended.said], ["so\n", "no\n"]);
    }

    #[test]
    fn hanging_program_times_out() {
        let hangs = shell("exec sleep 600", "", Duration::from_millis(50));
        assert!(matches!(hangs, Err(NoAnswer::Hangs)));
        // The input is larger than a pipe's buffer, and the program does not read it.
        let deaf = shell(
            "exec sleep 600",
            &"x".repeat(1 << 20),
            Duration::from_millis(50),
        );
        assert!(matches!(deaf, Err(NoAnswer::Hangs)));
    }

    #[test]
    fn missing_program_fails_to_start() {
        let none = ask(&mut Command::new("/nowhere"), String::new(), Duration::ZERO);
        assert!(matches!(none, Err(NoAnswer::Start(_))));
    }
}
