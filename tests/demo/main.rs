//! `make demo`: Reweave on a virtual cluster with a live job. In the first story it finds a
//! collision, plans, mends it and sees that it helped. In the second the world changes between plan
//! and change, and it takes its change back.
//!
//! The product does all of this by its own commands; what is shown of the job and its links is what
//! the lab's ranks and kernels say.

mod bridge;
mod interrupt;
mod mending;
mod mistaken;
mod scene;
mod screen;
mod uplinks;

use std::env;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use reweave_common::error::told;
use reweave_tests::StageError;

use interrupt::Interrupt;
use screen::Screen;

fn main() -> ExitCode {
    if env::args().nth(1).as_deref() == Some(bridge::INSIDE) {
        return match bridge::serve() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let interrupt = Interrupt::install();
    match tell(&interrupt) {
        Ok(true) => ExitCode::SUCCESS,
        _ if interrupt.is_raised() => ExitCode::from(130),
        Ok(false) => {
            eprintln!("this is not what the demo is to show");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {}", told(&error));
            ExitCode::FAILURE
        }
    }
}

/// Both stories; whether they went as they should.
fn tell(interrupt: &Interrupt) -> Result<bool, StageError> {
    let screen = Screen::on_terminal();
    let mended = mending::tell(&screen)?;
    let taken_back = mistaken::tell(&screen, |scene| match is_watched() {
        true => scene.stay(interrupt),
        false => Ok(()),
    })?;
    Ok(mended && taken_back)
}

/// Whether there is a person who may want to look around.
fn is_watched() -> bool {
    let in_ci = env::var_os("CI").is_some_and(|ci| ci == "true");
    !in_ci && io::stdin().is_terminal() && io::stdout().is_terminal()
}
