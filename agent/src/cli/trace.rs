//! One trace of one flow, for a person.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use reweave_agent::clock;
use reweave_agent::error::AgentError;
use reweave_agent::probes::Prober;
use reweave_agent_core::probe::Mark;
use reweave_agent_core::trace::{Found, Tracer};
use reweave_common::sample::TracedPath;
use serde_json::json;

use super::show::or_dash;
use super::{Form, Trace, table};

pub(super) fn trace(asked: &Trace) -> Result<(), AgentError> {
    let prober = Prober::open(Mark(rand::random()))?;
    let mut tracer = Tracer::default();
    tracer.watch(clock::now(), &[asked.flow()]);
    loop {
        while let Some(probe) = tracer.poll_probe(clock::now()) {
            prober.send(&probe);
        }
        match tracer.poll_found() {
            Some(Found::Path(path)) => {
                tell(&path, asked.output.form);
                return Ok(());
            }
            Some(Found::Deaf(host)) => return Err(AgentError::Untraceable { host }),
            None => wait(&prober, &tracer),
        }
        while let Some((at, answer)) = prober.receive()? {
            tracer.handle_answer(at, &answer);
        }
    }
}

fn wait(prober: &Prober, tracer: &Tracer) {
    let due = tracer.next_due().map(|due| due.since(clock::now()));
    // Rounded up, or a wait of less than a millisecond would not be one.
    let patience = due.unwrap_or_default() + Duration::from_millis(1);
    let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
    // Whether it was an answer or the time, is found out next.
    let _ = poll(
        &mut [PollFd::new(prober.as_fd(), PollFlags::POLLIN)],
        timeout,
    );
}

fn tell(path: &TracedPath, form: Form) {
    if form == Form::Json {
        println!("{}", json!({ "flow": path.flow, "routers": path.routers }));
        return;
    }
    let hops = (1..).zip(&path.routers);
    let rows: Vec<_> = hops
        .map(|(hop, router)| [hop.to_string(), or_dash(*router)])
        .collect();
    table::print(["hop", "router"], &rows);
}
