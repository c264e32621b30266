//! `make demo`: Reweave on virtual clusters with live jobs, led by three coordinators. In the first story it finds a
//! collision, plans, repairs it and sees that it helped. In the second the world changes between plan and change, and
//! it takes its change back. In the third servers are wired to each other through an optical switch, and get other
//! circuits. In the fourth an optic dies, and its link is left; there a person may look around.
//!
//! Stories may be chosen by their numbers.
//!
//! The product does all of this by its own commands; what is shown of the job and its links is what
//! the lab's ranks and kernels say.

mod bridge;
mod dying;
mod interrupt;
mod mending;
mod mistaken;
mod scene;
mod screen;
mod uplinks;
mod woven;

use std::env;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use reweave_common::error::error_chain;
use reweave_tests::StageError;

use interrupt::Interrupt;
use scene::Scene;
use screen::Screen;

const STORY_COUNT: u8 = 4;

fn main() -> ExitCode {
    let mut words = env::args().skip(1);
    if words.next().as_deref() == Some(bridge::BRIDGE_ARGUMENT) {
        let ports: Vec<u16> = words.filter_map(|port| port.parse().ok()).collect();
        return match bridge::serve(&ports) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let stories = match wanted(env::args().skip(1)) {
        Ok(stories) => stories,
        Err(word) => {
            eprintln!("error: there is no story {word}: they are called 1 to {STORY_COUNT}");
            return ExitCode::from(2);
        }
    };
    let interrupt = Interrupt::install();
    match tell(&stories, &interrupt) {
        Ok(true) => ExitCode::SUCCESS,
        _ if interrupt.is_raised() => ExitCode::from(130),
        Ok(false) => {
            eprintln!("this is not what the demo is to show");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {}", error_chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// The numbers of those to tell; without any, all.
fn wanted(mut words: impl Iterator<Item = String>) -> Result<Vec<u8>, String> {
    let number = |word: String| match word.parse() {
        Ok(story @ 1..=STORY_COUNT) => Ok(story),
        _ => Err(word),
    };
    let first = words.next().map(number).transpose()?;
    let Some(first) = first else {
        return Ok((1..=STORY_COUNT).collect());
    };
    std::iter::once(Ok(first))
        .chain(words.map(number))
        .collect()
}

/// Whether all of these went as they should.
fn tell(stories: &[u8], interrupt: &Interrupt) -> Result<bool, StageError> {
    let screen = Screen::on_terminal();
    let mut went_well = true;
    for story in stories {
        went_well &= match story {
            1 => mending::tell(&screen)?,
            2 => mistaken::tell(&screen)?,
            3 => woven::tell(&screen)?,
            _ => dying::tell(&screen, |scene| stay(scene, interrupt))?,
        };
    }
    Ok(went_well)
}

fn stay(scene: &mut Scene<'_>, interrupt: &Interrupt) -> Result<(), StageError> {
    if is_watched() {
        return scene.stay(interrupt);
    }
    scene.screen.ends_here();
    Ok(())
}

/// Whether there is a person who may want to look around.
fn is_watched() -> bool {
    let in_ci = env::var_os("CI").is_some_and(|ci| ci == "true");
    !in_ci && io::stdin().is_terminal() && io::stdout().is_terminal()
}
