//! What a person does with a plan: asks for it, approves it, and waits for what comes of it.

use std::time::Duration;

use reweave_common::operator::{Outcome, Request, Response};
use reweave_common::plan::Generation;
use tokio::time::{Instant, sleep};

use crate::members::Operator;
use crate::times::now;

const ROLLOUT_TIMEOUT: Duration = Duration::from_secs(60);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// Each answer has the whole plan in it.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The plan that this leads to, as soon as enough is known to make it.
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

/// When the word is given; nothing where it is not heard.
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

/// When it is known that it was kept; nothing where it was not.
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
