//! Actions of an operator with a plan: request it, approve it, wait for the outcome.

use std::time::Duration;

use reweave_common::operator::{Outcome, Request, Response};
use reweave_common::plan::Generation;
use tokio::time::{Instant, sleep};

use crate::members::Operator;
use crate::times::now;

const ROLLOUT_TIMEOUT: Duration = Duration::from_secs(60);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// Each answer contains the whole plan.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Waits until the plan of this request can be made, and returns its generation.
pub(crate) async fn offered(operator: &mut Operator, request: &Request) -> Generation {
    let deadline = Instant::now() + ROLLOUT_TIMEOUT;
    loop {
        let answer = operator.ask(request).await;
        if let Some(Response::Plan {
            plan: Some(plan), ..
        }) = &answer
        {
            return plan.generation;
        }
        assert!(Instant::now() < deadline, "no plan: {answer:?}");
        sleep(RETRY_INTERVAL).await;
    }
}

/// Returns the time of the approval; none if it was not accepted.
pub(crate) async fn approve(operator: &mut Operator, generation: Generation) -> Option<Duration> {
    let deadline = Instant::now() + ROLLOUT_TIMEOUT;
    loop {
        let said = now();
        let answer = operator.ask(&Request::ApplyAnyway { generation }).await;
        if matches!(answer, Some(Response::ApplyStarted { .. })) {
            return Some(said);
        }
        if Instant::now() > deadline {
            println!("# plan {generation} was not begun: {answer:?}");
            return None;
        }
        sleep(RETRY_INTERVAL).await;
    }
}

/// Returns when it is known that the plan was kept; none if it was not.
pub(crate) async fn committed(operator: &mut Operator, generation: Generation) -> Option<Duration> {
    let deadline = Instant::now() + ROLLOUT_TIMEOUT;
    loop {
        let answer = operator.ask(&Request::Record { generation }).await;
        let Some(Response::Record(Some(record))) = answer else {
            panic!("nothing is known of the plan: {answer:?}");
        };
        match record.outcome {
            Outcome::Committed => return Some(now()),
            Outcome::Offered | Outcome::Running if Instant::now() < deadline => {
                sleep(POLL_INTERVAL).await;
            }
            other => {
                let why = format!("{other:?}");
                println!("# plan {generation} did not come about: {why:.200}");
                return None;
            }
        }
    }
}
