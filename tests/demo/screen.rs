//! What the demo shows a person.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use reweave_common::cause::Cause;
use reweave_common::fabric::Role;
use reweave_common::operator::{Collision, Hop, Outcome, Plan, Record, What};
use reweave_common::plan::LostBecause;
use reweave_common::units::Rate;
use reweave_tests::{JobReport, Stage, StageError};
use textwrap::Options;

use crate::scene::Scene;
use crate::uplinks::{LeafUplink, Loads};

const BAR_CELLS: usize = 21;
/// What every terminal has; longer lines go on below their first word.
const MAX_LINE_COLUMNS: usize = 80;
const HANGING_INDENT: &str = "         ";
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

    pub(crate) fn opening(&self, scene: &Scene<'_>) -> Result<(), StageError> {
        let fabric = scene.stage.fabric();
        let count = |role| fabric.nodes().filter(|(_, node)| node.role == role).count();
        let (hosts, switches) = (count(Role::Host), count(Role::Switch));
        self.line(&self.ink(Ink::Bold, "1 of 4  Two flows, one uplink"));
        self.line(&format!(
            "{hosts} hosts and {switches} switches came up on this machine in {:.1} s: real kernels, real TCP.\n\
             Three coordinators lead it, and {} agents report to them, after {:.1} s.\n\
             A training job sends h0 > h4 and h1 > h5. Each flow could have an uplink of its\n\
             own, but the switch's hash sends both over the same one.",
            scene.stage.took().as_secs_f64(),
            scene.agents_up()?,
            scene.gathering.as_secs_f64(),
        ));
        Ok(())
    }

    pub(crate) fn second_opening(&self) {
        let title = self.ink(Ink::Bold, "2 of 4  When the world changes under a plan");
        self.line(&format!(
            "\n{title}\nThe same cluster again, the same collision, and the same plan."
        ));
    }

    pub(crate) fn woven_opening(&self, scene: &Scene<'_>) -> Result<(), StageError> {
        let title = self.ink(Ink::Bold, "3 of 4  Fibres that suit no job");
        self.line(&format!(
            "\n{title}\nAnother cluster: {} servers that forward for each other, and no switch but an\n\
             optical one. Its circuits make a ring. One job runs on every other server, and\n\
             another one on those between, so each sends past the other.",
            scene.agents_up()?,
        ));
        Ok(())
    }

    pub(crate) fn joins(&self, plan: &Plan) {
        let title = self.ink(Ink::Bold, &format!("Plan {}", plan.generation));
        self.line(&format!(
            "\n{title}  other circuits, and the routes that suit them"
        ));
        for line in &plan.changes {
            let (sign, joint) = match &line.what {
                What::Connect(joint) => ('+', joint),
                What::Disconnect(joint) => ('-', joint),
                _ => continue,
            };
            self.line(&format!("  {sign} {}", joint.ends.join(" to ")));
        }
    }

    pub(crate) fn dying_opening(&self, scene: &Scene<'_>) -> Result<(), StageError> {
        let title = self.ink(Ink::Bold, "4 of 4  A dying optic");
        self.line(&format!(
            "\n{title}\nAnother cluster, slower, with four leaves and {} agents. A job sends\n\
             h0 > h2 over one spine and h1 > h3 over the other.",
            scene.agents_up()?,
        ));
        Ok(())
    }

    pub(crate) fn dies(&self, [from, to]: [&str; 2], one_in: u32) {
        self.line(&format!(
            "\nThe optic between {from} and {to} begins to die: of {one_in} packets one is lost."
        ));
    }

    pub(crate) fn lost(&self, packets: u64) {
        let (ink, words) = match packets {
            0 => (Ink::Green, "none of the job's packets is lost".to_owned()),
            _ => (
                Ink::Red,
                format!("{packets} of the job's packets were lost"),
            ),
        };
        self.line(&format!("  {}", self.ink(ink, &words)));
    }

    pub(crate) fn cause(&self, cause: &Cause) {
        let title = self.ink(Ink::Bold, "Finding");
        self.line(&format!("\n{title}  {cause}; to do: {}", cause.remedy));
    }

    pub(crate) fn drains(&self, scene: &Scene<'_>, plan: &Plan, link: &str) {
        let title = self.ink(Ink::Bold, &format!("Plan {}", plan.generation));
        self.line(&format!("\n{title}  {link} carries nothing any more"));
        for line in &plan.changes {
            if let What::Routes { node, towards } = &line.what {
                self.line(&format!(
                    "  {node} sends what is for {towards} hosts elsewhere"
                ));
            }
        }
        self.predictions(scene, plan);
    }

    /// What a script sees in place of an invitation.
    pub(crate) fn ends_here(&self) {
        self.line("\nThis is no interactive terminal: the demo ends, and its page closes.");
    }

    pub(crate) fn heading(&self, when: &str, iteration: Duration) {
        let millis = iteration.as_secs_f64() * 1e3;
        let when = self.ink(Ink::Bold, when);
        self.line(&format!("\n{when}  an iteration takes {millis:.0} ms"));
    }

    pub(crate) fn bar(&self, name: &str, load: Rate, capacity: Rate, flows: &[String]) {
        let is_crowded = flows.len() > 1 && cells(load, capacity) > BAR_CELLS * 4 / 5;
        let ink = if is_crowded { Ink::Red } else { Ink::Green };
        let filled = cells(load, capacity);
        let bar = self.ink(ink, &"█".repeat(filled));
        let rest = self.ink(Ink::Grey, &"·".repeat(BAR_CELLS - filled));
        let flows = match flows {
            [] => "idle".to_owned(),
            flows => flows.join(", "),
        };
        let load = load.to_string();
        self.exactly(&format!("  {name}  {bar}{rest} {load:>10}   {flows}"));
    }

    pub(crate) fn finding(&self, scene: &Scene<'_>, found: &Collision) {
        let losers = found.losers.iter().map(|loser| scene.name(&loser.flow));
        let losers: Vec<_> = losers.collect();
        let room: Vec<_> = found.with_room.iter().map(hop).collect();
        self.line(&format!(
            "\n{}  {} share {}, which is {:.0} % full, while {} has room; flow imbalance \
             {:.0} %, and {:.0} % would be possible",
            self.ink(Ink::Bold, "Finding"),
            losers.join(" and "),
            hop(&found.hop),
            found.utilization * 100.0,
            room.join(", "),
            found.imbalance.fim_percent,
            found.imbalance.floor_percent
        ));
    }

    pub(crate) fn plan(&self, scene: &Scene<'_>, plan: &Plan) {
        let title = self.ink(Ink::Bold, &format!("Plan {}", plan.generation));
        for made in &plan.moves {
            let (flow, from, to) = (scene.name(&made.flow), hop(&made.from), hop(&made.to));
            self.line(&format!("\n{title}  {flow} moves from {from} to {to}"));
        }
        self.predictions(scene, plan);
        let lost = plan.report.alternatives.iter();
        for lost in lost.filter(|lost| !lost.moves.is_empty()).take(1) {
            let moves = lost.moves.iter().map(|made| scene.name(&made.flow));
            let moves = moves.collect::<Vec<_>>().join(" and ");
            let slowest = lost.slowest_after_bits_per_s;
            let why = match lost.lost_because {
                LostBecause::Slower => format!("the slowest flow would have {slowest}"),
                LostBecause::MoreMoves => "it is no better, and moves more".to_owned(),
            };
            self.line(&format!("  rather than moving {moves}: {why}"));
        }
    }

    fn predictions(&self, scene: &Scene<'_>, plan: &Plan) {
        for predicted in &plan.predictions {
            self.line(&format!(
                "  {}  has {}, will have {} .. {}",
                scene.name(&predicted.flow),
                predicted.before_bits_per_s,
                predicted.low_bits_per_s,
                predicted.high_bits_per_s
            ));
        }
    }

    pub(crate) fn turn(&self) {
        self.line("\nBefore it is applied, another job begins, and takes the other uplink.");
    }

    pub(crate) fn outcome(&self, scene: &Scene<'_>, record: &Record, took: Duration) {
        let (title, reasons) = match &record.outcome {
            Outcome::Committed => ("Kept", &[][..]),
            Outcome::RolledBack { reasons, .. } => ("Taken back", reasons.as_slice()),
            Outcome::Abandoned { reasons } => ("Given up", reasons.as_slice()),
            Outcome::Held { reasons } => ("Held", reasons.as_slice()),
            Outcome::Offered | Outcome::Running => ("Not done", &[][..]),
        };
        let title = self.ink(Ink::Bold, title);
        let seconds = took.as_secs_f64();
        self.line(&format!(
            "\n{title}  after {seconds:.1} s, in which the job ran on"
        ));
        for flow in &record.flows {
            let [had, has] = [flow.before_bits_per_s, flow.measured_bits_per_s]
                .map(|rate| rate.map_or_else(|| "nothing".to_owned(), |rate| rate.to_string()));
            let name = scene.name(&flow.flow);
            self.line(&format!("  {name}  had {had}, and was measured with {has}"));
        }
        if let Some(reason) = reasons.first() {
            self.line(&format!("  {}", self.ink(Ink::Red, reason)));
        }
        self.rules(scene);
    }

    /// What the leaf's kernel holds now.
    fn rules(&self, scene: &Scene<'_>) {
        let Ok(rules) = scene.stage.output("leaf0", &["ip", "rule"]) else {
            return;
        };
        let ours: Vec<_> = rules
            .lines()
            .filter(|line| line.contains("sport"))
            .collect();
        for rule in &ours {
            let rule = rule.split_whitespace().collect::<Vec<_>>().join(" ");
            self.line(&format!("  leaf0 holds  {}", self.ink(Ink::Blue, &rule)));
        }
        if ours.is_empty() {
            self.line("  leaf0 holds no rule of Reweave");
        }
    }

    pub(crate) fn restored(&self, restored: bool, nodes: usize) {
        self.line(&if restored {
            format!("  rules and routes of all {nodes} nodes are exactly what they were")
        } else {
            self.ink(Ink::Red, "  rules or routes are not what they were")
        });
    }

    pub(crate) fn result(&self, gain: f64) {
        let result = self.ink(Ink::Bold, "Result");
        self.line(&format!(
            "\n{result}  iterations are {gain:.2} times as fast"
        ));
    }

    /// Only those who hold the sessions can tell, when the job is over.
    pub(crate) fn sessions(&self, reports: &[JobReport]) {
        let flows = || reports.iter().flat_map(|report| &report.flows);
        let kept = flows().filter(|flow| flow.is_sound());
        let resets = known(flows().map(|flow| flow.resets).sum::<Option<u64>>());
        let again = known(flows().map(|flow| flow.retransmits).sum::<Option<u64>>());
        let stalls = reports.iter().map(JobReport::longest_stall_ms);
        let stall = stalls.reduce(|a, b| Some(a?.max(b?))).flatten();
        let stall = known(stall.map(|stall_ms| format!("{stall_ms:.0}")));
        self.line(&format!(
            "{}  {} of {} kept, {resets} resets, {again} segments sent again, longest stall {stall} ms",
            self.ink(Ink::Bold, "Sessions"),
            kept.count(),
            flows().count(),
        ));
    }

    /// How to look around. A user who needed sudo for the lab needs it again.
    pub(crate) fn invitation(&self, stage: &Stage, dashboard: &str) -> Result<(), StageError> {
        let sudo = match env::var_os("SUDO_USER") {
            Some(_) => "sudo ",
            None => "",
        };
        let reweave = stage.shortcut("reweave", &stage.operator().command(&[]))?;
        let inside = stage.shortcut("leaf0", &stage.enter("leaf0"))?;
        let [reweave, inside] = [reweave, inside].map(|path| path.display().to_string());
        self.line("\nThe jobs go on. Look at them in a browser:");
        self.line(&format!("  {}", self.ink(Ink::Blue, dashboard)));
        self.line("or look around from another terminal:");
        for command in [
            format!("{sudo}{reweave} status"),
            format!("{sudo}{reweave} history"),
            format!("{sudo}{reweave} top"),
            format!("{sudo}{inside} ip route"),
        ] {
            self.line(&format!("  {}", self.ink(Ink::Blue, &command)));
        }
        self.line("Ctrl-C ends it.");
        Ok(())
    }

    /// One line that goes on changing, narrow enough for any terminal.
    pub(crate) fn live(&self, uplinks: &[LeafUplink], loads: &Loads, iteration_ms: f64) {
        let each = uplinks.iter().zip(&loads.rates).map(|(uplink, rate)| {
            let bar = "█".repeat(cells(*rate, uplink.capacity) / 3);
            format!("{} {bar:<8} {:>3.0}", uplink.name(), rate.mbps())
        });
        let text = each.collect::<Vec<_>>().join("  ");
        self.over(&format!("{text} Mb/s, iteration {iteration_ms:.0} ms"));
    }

    /// What is going on, until there is something to show.
    pub(crate) fn say(&self, words: &str) {
        self.over(&self.ink(Ink::Grey, words));
    }

    pub(crate) fn clear(&self) {
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
        for line in text.split('\n') {
            let narrow = Options::new(MAX_LINE_COLUMNS).subsequent_indent(HANGING_INDENT);
            self.exactly(&textwrap::fill(line, narrow));
        }
    }

    fn exactly(&self, text: &str) {
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

fn hop(hop: &Hop) -> String {
    format!("{} > {}", hop.from, hop.to)
}

fn cells(load: Rate, capacity: Rate) -> usize {
    let share = load.bits_per_s() as f64 / capacity.bits_per_s() as f64;
    ((share * BAR_CELLS as f64).round() as usize).min(BAR_CELLS)
}

fn known(figure: Option<impl ToString>) -> String {
    figure.map_or_else(|| "unknown".to_owned(), |figure| figure.to_string())
}
