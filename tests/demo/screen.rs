//! What the demo shows a person.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::units::Rate;

use super::uplinks::{Loads, Uplink};
use crate::report::JobReport;

const BAR_CELLS: usize = 20;
const CLEAR_LINE: &str = "\r\x1b[K";

pub(crate) struct Screen {
    /// Lines that are written over again, for a person who waits.
    live: bool,
    colour: bool,
}

#[derive(Clone, Copy)]
enum Ink {
    Bold = 1,
    Red = 31,
    Green = 32,
    Blue = 34,
    Grey = 90,
}

impl Screen {
    pub(crate) fn on_terminal() -> Self {
        let terminal = io::stdout().is_terminal();
        let plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            live: terminal,
            colour: terminal && !plain,
        }
    }

    pub(crate) fn opening(&self, fabric: &Fabric, bring_up: Duration) {
        let count = |role| fabric.nodes().filter(|(_, node)| node.role == role).count();
        let (hosts, switches) = (count(Role::Host), count(Role::Switch));
        self.line(&self.ink(Ink::Bold, "Two flows, one uplink"));
        self.line(&format!(
            "{hosts} hosts and {switches} switches came up on this machine in {:.1} s: real kernels, real TCP.\n\
             A training job sends h0 > h4 and h1 > h5. Each flow could have an uplink of its\n\
             own, but the switch's hash sends both over the same one.",
            bring_up.as_secs_f64()
        ));
    }

    pub(crate) fn heading(&self, when: &str, iteration: Duration) {
        let millis = iteration.as_secs_f64() * 1e3;
        self.line(&format!(
            "\n{}  an iteration takes {millis:.0} ms",
            self.ink(Ink::Bold, when)
        ));
    }

    pub(crate) fn bar(&self, name: &str, load: Rate, capacity: Rate, flows: &str) {
        let flows = if flows.is_empty() { "idle" } else { flows };
        let shared = flows.contains(',');
        let ink = if shared { Ink::Red } else { Ink::Green };
        let filled = cells(load, capacity);
        let bar = self.ink(ink, &"█".repeat(filled));
        let rest = self.ink(Ink::Grey, &"·".repeat(BAR_CELLS - filled));
        self.line(&format!(
            "  {name}  {bar}{rest} {:>10}   {flows}",
            load.to_string()
        ));
    }

    pub(crate) fn change(&self, commands: &[String], took: Duration) {
        let millis = took.as_secs_f64() * 1e3;
        self.line(&format!(
            "\n{}  on leaf0, in {millis:.0} ms, while the job runs",
            self.ink(Ink::Bold, "Change")
        ));
        for command in commands {
            self.line(&format!(
                "  {}",
                self.ink(Ink::Blue, &format!("ip {command}"))
            ));
        }
    }

    pub(crate) fn result(&self, gain: f64) {
        let result = self.ink(Ink::Bold, "Result");
        self.line(&format!(
            "\n{result}  iterations are {gain:.2} times as fast"
        ));
    }

    /// Only those who hold the sessions can tell, when the job is over.
    pub(crate) fn sessions(&self, report: &JobReport) {
        let kept = report.flows.iter().filter(|flow| flow.resets == 0).count();
        let retransmits = report.total(|flow| flow.retransmits);
        let retransmits = retransmits.map_or_else(|| "?".to_owned(), |count| count.to_string());
        let stall = report.longest_stall_ms();
        self.line(&format!(
            "{}  {kept} of {} kept, {} reset, {retransmits} segments sent again, longest stall {stall:.0} ms",
            self.ink(Ink::Bold, "Sessions"),
            report.flows.len(),
            report.flows.len() - kept,
        ));
    }

    /// How to look around in a lab of that name. Whoever needed sudo for the lab needs it again.
    pub(crate) fn invitation(&self, lab: &str) {
        let program = env::current_exe().unwrap_or_else(|_| "reweave-lab".into());
        let sudo = if env::var_os("SUDO_USER").is_some() {
            "sudo "
        } else {
            ""
        };
        self.line(
            "\nThe job goes on. Look around from another terminal, and end it here with Ctrl-C:",
        );
        for words in ["leaf0 -- ip rule", "h1 -- ss -ti"] {
            let command = format!("{sudo}{} exec --lab {lab} {words}", program.display());
            self.line(&format!("  {}", self.ink(Ink::Blue, &command)));
        }
    }

    /// One line that goes on changing, narrow enough for any terminal.
    pub(crate) fn live(&self, uplinks: &[Uplink], loads: &Loads, iteration: Option<&Duration>) {
        let each = uplinks.iter().zip(&loads.rates).map(|(uplink, rate)| {
            let bar = "█".repeat(cells(*rate, uplink.capacity) / 3);
            format!("{} {bar:<6} {:>3.0}", uplink.name, rate.mbps())
        });
        let millis = iteration.map_or(0.0, |iteration| iteration.as_secs_f64() * 1e3);
        let text = each.collect::<Vec<_>>().join("  ");
        self.over(&format!("{text} Mb/s, iteration {millis:.0} ms"));
    }

    pub(crate) fn wait(&self, left: Duration) {
        let seconds = left.as_secs_f64().ceil();
        self.over(&self.ink(
            Ink::Grey,
            &format!("watching the job for {seconds:.0} s ..."),
        ));
    }

    pub(crate) fn end_wait(&self) {
        self.over("");
    }

    fn over(&self, text: &str) {
        if self.live {
            let mut stdout = io::stdout().lock();
            let _ = write!(stdout, "{CLEAR_LINE}{text}").and_then(|()| stdout.flush());
        }
    }

    /// A closed pipe ends the showing, not the demo: its exit code still tells.
    fn line(&self, text: &str) {
        let _ = writeln!(io::stdout().lock(), "{text}");
    }

    fn ink(&self, ink: Ink, text: &str) -> String {
        if self.colour {
            format!("\x1b[{}m{text}\x1b[0m", ink as u8)
        } else {
            text.to_owned()
        }
    }
}

fn cells(load: Rate, capacity: Rate) -> usize {
    let share = load.bits_per_s() as f64 / capacity.bits_per_s() as f64;
    ((share * BAR_CELLS as f64).round() as usize).min(BAR_CELLS)
}
