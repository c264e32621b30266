//! CPU time of the core for requests about a large cluster, during which it decides nothing else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::member::{Member, Role};
use reweave_common::moment::Moment;
use reweave_common::operator::Request;
use reweave_core::{Core, Effect, Input, Policy};

use crate::reports;
use crate::times::Spread;

const REPORT_SECONDS: u64 = 6;
const SAMPLE_COUNT: usize = 50;

pub(crate) fn measure(agents: usize) {
    crate::machine::introduce();
    let text = format!("kind = \"ideal\"\nhosts = {agents}\nnic_gbps = 100\n");
    let fabric = match Fabric::parse("crowd", &text) {
        Ok(fabric) => Arc::new(fabric),
        Err(error) => return eprintln!("{error}"),
    };
    let mut core = Core::new(Policy::default(), Arc::clone(&fabric));
    let hosts: Vec<NodeId> = fabric.nodes().map(|(node, _)| node).take(agents).collect();
    for &node in &hosts {
        hand(&mut core, 0, Input::AgentUp { node });
    }
    for second in 1..REPORT_SECONDS {
        for (host, &node) in hosts.iter().enumerate() {
            let sample = reports::sample(host, agents, second);
            hand(&mut core, second * 1000, Input::Sample { node, sample });
        }
        for tick in 0..10 {
            hand(&mut core, second * 1000 + tick * 100, Input::Tick);
        }
    }
    println!("agents asked p50_ms p99_ms");
    for (name, request) in [
        ("status", Request::Status),
        ("diagnose", Request::Diagnose),
        ("whoami", Request::WhoAmI),
    ] {
        let took = Spread::of(
            (0..SAMPLE_COUNT)
                .map(|_| look(&mut core, &request))
                .collect(),
        );
        println!("{agents} {name} {:.2} {:.2}", took.ms(0.5), took.ms(0.99));
    }
    println!("# a command that comes meanwhile waits for that long");
}

fn look(core: &mut Core, request: &Request) -> Duration {
    let asked = Input::Operator {
        id: 1,
        principal: Member::new(Role::Operator, "ann"),
        request: request.clone(),
    };
    let began = Instant::now();
    hand(core, REPORT_SECONDS * 1000, asked);
    began.elapsed()
}

fn hand(core: &mut Core, at_ms: u64, input: Input) {
    core.handle(Moment::from_micros(at_ms * 1000), input);
    while let Some(effect) = core.poll_effect() {
        if let Effect::Append(command) = effect {
            core.apply(command);
        }
    }
}
