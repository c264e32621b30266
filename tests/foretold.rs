//! How long iterations of jobs take after a plan, against what the plan said of them: on clusters and with
//! jobs drawn by seed, by the clocks of the ranks themselves.

#[path = "foretold/drawn.rs"]
mod drawn;
mod mpi;
#[path = "lab/tests/support/needs.rs"]
mod needs;
mod play;
#[path = "foretold/ranks.rs"]
mod ranks;
#[path = "foretold/running.rs"]
mod running;

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::Arguments;
use reweave_common::operator::{Outcome, Plan, Record};
use reweave_tests::{Labs, Leadership, Setting, Stage, wait_for};

use crate::drawn::Drawn;
use crate::mpi::MPI_NEEDS;
use crate::needs::trial;
use crate::play::{ended, must};
use crate::ranks::Ranks;

const DEFAULT_PLANS: u64 = 30;
const MAX_MEDIAN_ERROR: f64 = 0.05;
const MIN_INSIDE_SHARE: f64 = 0.9;
/// Iterations that are looked at afterwards.
const MEASURED_ITERATIONS: usize = 20;
const PREDICTION_TIMEOUT: Duration = Duration::from_secs(40);

fn main() -> ExitCode {
    let test = trial("plans_foretell_how_long_iterations_take", MPI_NEEDS, judged);
    libtest_mimic::run(&Arguments::from_args(), vec![test]).exit_code()
}

/// What was said of iterations, and what came of it.
struct JudgedPrediction {
    before_ms: f64,
    low_ms: f64,
    after_ms: f64,
    high_ms: f64,
    measured_ms: f64,
    outcome: Outcome,
}

impl JudgedPrediction {
    fn error(&self) -> f64 {
        self.measured_ms / self.after_ms - 1.0
    }

    fn is_inside(&self) -> bool {
        (self.low_ms..=self.high_ms).contains(&self.measured_ms)
    }
}

fn judged() {
    let plans = env::var("REWEAVE_PLANS").ok();
    let plans = plans.map_or(DEFAULT_PLANS, |it| it.parse().expect("a number of plans"));
    println!("| drawn | before | foretold | measured | off by | outcome |");
    println!("|---|---|---|---|---|---|");
    // Where flows only meet now and then there is nothing to repair, as far as is seen.
    let lived = (0..2 * plans).filter_map(lived);
    let told: Vec<_> = lived.take(plans as usize).collect();
    assert_eq!(told.len() as u64, plans, "there are too few to judge by");
    let mut errors: Vec<_> = told.iter().map(|it| it.error().abs()).collect();
    errors.sort_by(f64::total_cmp);
    let median = errors[errors.len() / 2];
    let inside = told.iter().filter(|it| it.is_inside()).count() as f64 / told.len() as f64;
    println!(
        "{plans} plans: off by {:.1} % in the median, {:.0} % inside",
        median * 100.0,
        inside * 100.0
    );
    assert!(median <= MAX_MEDIAN_ERROR, "off by {median} in the median");
    assert!(inside >= MIN_INSIDE_SHARE, "{inside} inside");
}

/// None where there is no plan.
fn lived(seed: u64) -> Option<JudgedPrediction> {
    let drawn = Drawn::by(seed);
    let stage = staged(&drawn);
    let mut ranks = Ranks::start(&stage, &drawn);
    let Some((plan, record)) = carried_out(&stage, &mut ranks) else {
        println!("| {drawn} | | no plan | | | |");
        return None;
    };
    let first = ranks.after(1);
    let measured_ms = ranks.after(MEASURED_ITERATIONS).mean_ms_since(first);
    ranks.stop();
    let told = told(&plan, record, measured_ms);
    println!(
        "| {drawn} | {:.0} ms | {:.0} ms ({:.0} to {:.0}) | {:.0} ms | {:+.1} % | {:?} |",
        told.before_ms,
        told.after_ms,
        told.low_ms,
        told.high_ms,
        told.measured_ms,
        told.error() * 100.0,
        told.outcome
    );
    Some(told)
}

fn staged(drawn: &Drawn) -> Stage {
    let job = drawn.job();
    let scenario = format!(
        "name = \"foretold\"\nseed = {}\nmanagement = true\nfabric = \"two-leaves.toml\"\n{job}",
        drawn.seed
    );
    let setting = Setting {
        scenario: &scenario,
        fabric: &drawn.fabric(),
    };
    let mut stage = must(Stage::up(setting, Labs::Hidden));
    must(stage.lead(&Leadership::default()));
    must(stage.start_agents());
    must(stage.wait_until_known());
    stage
}

/// The plan as it was when it began: until then it may be replaced by one that knows more.
fn carried_out(stage: &Stage, ranks: &mut Ranks<'_>) -> Option<(Plan, Record)> {
    loop {
        let plan = foretelling(stage, ranks)?;
        if must(stage.operator().begin(&plan)).code == Some(0) {
            return Some((plan, ended(stage)));
        }
    }
}

/// A plan that says how long iterations will take.
fn foretelling(stage: &Stage, ranks: &mut Ranks<'_>) -> Option<Plan> {
    let operator = stage.operator();
    let plan = wait_for("a plan foretells iterations", PREDICTION_TIMEOUT, || {
        // Asking without a pause disturbs the iterations.
        ranks.after(5);
        let plan = operator.plan()?;
        Ok(plan.filter(|plan| !plan.iterations.is_empty()))
    });
    plan.ok()
}

/// Of a plan that was rolled back, what its iterations took while it was in force is what the product heard.
fn told(plan: &Plan, record: Record, ranks_ms: f64) -> JudgedPrediction {
    let foretold = plan.iterations.first().expect("it foretells iterations");
    let heard = record.iterations.first().and_then(|it| it.measured_ms);
    let measured_ms = match record.outcome {
        Outcome::Committed => ranks_ms,
        _ => heard.unwrap_or(f64::NAN),
    };
    JudgedPrediction {
        before_ms: foretold.before_ms,
        low_ms: foretold.low_ms,
        after_ms: foretold.after_ms,
        high_ms: foretold.high_ms,
        measured_ms,
        outcome: record.outcome,
    }
}
