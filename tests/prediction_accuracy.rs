//! How long iterations of jobs take after a plan, against what the plan said of them: on clusters and with
//! jobs drawn by seed, by the clocks of the ranks themselves.

mod mpi;
#[path = "lab/tests/support/needs.rs"]
mod needs;
mod play;
#[path = "prediction_accuracy/random_scenario.rs"]
mod random_scenario;
#[path = "prediction_accuracy/ranks.rs"]
mod ranks;
#[path = "prediction_accuracy/running.rs"]
mod running;

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::Arguments;
use reweave_common::operator::{Outcome, Plan, Record};
use reweave_tests::{Labs, Leadership, Setting, Stage, wait_for};

use crate::mpi::MPI_NEEDS;
use crate::needs::trial;
use crate::play::{ended, must};
use crate::random_scenario::RandomScenario;
use crate::ranks::Ranks;

const DEFAULT_PLANS: u64 = 30;
const MAX_MEDIAN_ERROR: f64 = 0.05;
const MIN_INSIDE_SHARE: f64 = 0.9;
/// Iterations that are looked at afterwards.
const MEASURED_ITERATIONS: usize = 20;
const PREDICTION_TIMEOUT: Duration = Duration::from_secs(40);

fn main() -> ExitCode {
    let test = trial("plans_predict_iteration_times", MPI_NEEDS, judged);
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
    println!("| scenario | before | predicted | measured | off by | outcome |");
    println!("|---|---|---|---|---|---|");
    // Where flows only meet now and then there is nothing to repair, as far as is seen.
    let lived = (0..2 * plans).filter_map(lived);
    let reports: Vec<_> = lived.take(plans as usize).collect();
    assert_eq!(reports.len() as u64, plans, "there are too few to judge by");
    let mut errors: Vec<_> = reports.iter().map(|it| it.error().abs()).collect();
    errors.sort_by(f64::total_cmp);
    let median = errors[errors.len() / 2];
    let inside = reports.iter().filter(|it| it.is_inside()).count() as f64 / reports.len() as f64;
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
    let random = RandomScenario::by(seed);
    let stage = staged(&random);
    let mut ranks = Ranks::start(&stage, &random);
    let Some((plan, record)) = carried_out(&stage, &mut ranks) else {
        println!("| {random} | | no plan | | | |");
        return None;
    };
    let first = ranks.after(1);
    let measured_ms = ranks.after(MEASURED_ITERATIONS).mean_ms_since(first);
    ranks.stop();
    let report = judge_plan(&plan, record, measured_ms);
    println!(
        "| {random} | {:.0} ms | {:.0} ms ({:.0} to {:.0}) | {:.0} ms | {:+.1} % | {:?} |",
        report.before_ms,
        report.after_ms,
        report.low_ms,
        report.high_ms,
        report.measured_ms,
        report.error() * 100.0,
        report.outcome
    );
    Some(report)
}

fn staged(random: &RandomScenario) -> Stage {
    let job = random.job();
    let scenario = format!(
        "name = \"prediction\"\nseed = {}\nmanagement = true\nfabric = \"two-leaves.toml\"\n{job}",
        random.seed
    );
    let setting = Setting {
        scenario: &scenario,
        fabric: &random.fabric(),
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
        let plan = predicted_plan(stage, ranks)?;
        if must(stage.operator().begin(&plan)).code == Some(0) {
            return Some((plan, ended(stage)));
        }
    }
}

/// A plan that says how long iterations will take.
fn predicted_plan(stage: &Stage, ranks: &mut Ranks<'_>) -> Option<Plan> {
    let operator = stage.operator();
    let plan = wait_for("a plan predicts iterations", PREDICTION_TIMEOUT, || {
        // Asking without a pause disturbs the iterations.
        ranks.after(5);
        let plan = operator.plan()?;
        Ok(plan.filter(|plan| !plan.iterations.is_empty()))
    });
    plan.ok()
}

/// Of a plan that was rolled back, what its iterations took while it was in force is what the product heard.
fn judge_plan(plan: &Plan, record: Record, ranks_ms: f64) -> JudgedPrediction {
    let predicted = plan.iterations.first().expect("it predicts iterations");
    let heard = record.iterations.first().and_then(|it| it.measured_ms);
    let measured_ms = match record.outcome {
        Outcome::Committed => ranks_ms,
        _ => heard.unwrap_or(f64::NAN),
    };
    JudgedPrediction {
        before_ms: predicted.before_ms,
        low_ms: predicted.low_ms,
        after_ms: predicted.after_ms,
        high_ms: predicted.high_ms,
        measured_ms,
        outcome: record.outcome,
    }
}
