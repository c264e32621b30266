//! Clocks that are set while packets are on their way. Only a machine of one's own has a clock that a test
//! may set: kernels stamp packets by it.

use libtest_mimic::Trial;
use serde_json::Value;

use crate::machine::Machine;
use crate::scene::{PROBER_ADDRESS, RESPONDER_ADDRESS, Scene, json_of, trial};

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial("clock_step_distorts_no_figure", set_clocks)]
}

/// By this many seconds, one after the other, at both ends. None is small beside what a probe takes.
const CLOCK_STEPS_S: [i32; 8] = [3600, -3600, 60, -60, 60, -60, 7200, -7200];
/// Between two steps.
const PACKETS_PER_STEP: u64 = 40;
/// Far more than a probe takes here, and far less than any step.
const MAX_LATENCY_US: f64 = 20e6;
const PROBE_TIME_MS: &str = "30000";

fn set_clocks(scene: &mut Scene) {
    scene.responder.run("killall reweave-agent reweave-rdma");
    let respond = format!("reweave-agent probe --respond {PROBER_ADDRESS}");
    scene.responder.start("clocks", &respond);
    scene.responder.wait_until("grep -q answering /run/clocks");
    let probe = format!(
        "reweave-agent probe {RESPONDER_ADDRESS} --rate 100 --over-ms {PROBE_TIME_MS} --output json"
    );
    scene.prober.start("probed", &probe);
    for step_s in CLOCK_STEPS_S {
        for machine in [&mut scene.prober, &mut scene.responder] {
            let before = received(machine);
            machine.succeed(&format!("date -s @$(($(date +%s) + {step_s}))"));
            machine.wait_until(&format!(
                "[ $({RECEIVED_PACKETS_COMMAND}) -ge {} ]",
                before + PACKETS_PER_STEP
            ));
        }
    }
    scene.prober.wait_until("! pidof reweave-agent");
    let answer = json_of(&mut scene.prober, "cat /run/probed");
    let all = &answer["hosts"][0]["summary"];
    assert!(
        all["untimed"].as_u64() >= Some(1),
        "no probe met a step: {all}"
    );
    for figure in ["network_us", "responder_us", "prober_us", "jitter_us"] {
        assert!(is_true(&all[figure]), "{figure}: {all}");
    }
}

/// No figure there is above the most or below nothing.
fn is_true(figure: &Value) -> bool {
    let number = |name: &str| figure[name].as_f64();
    number("least") >= Some(0.0)
        && number("most") > Some(0.0)
        && number("most") < Some(MAX_LATENCY_US)
}

const RECEIVED_PACKETS_COMMAND: &str = "cat /sys/class/net/eth0/statistics/rx_packets";

fn received(machine: &mut Machine) -> u64 {
    let packets = machine.succeed(RECEIVED_PACKETS_COMMAND);
    packets.trim().parse().expect("a number")
}
