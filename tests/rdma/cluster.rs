//! With a coordinator: the agents in both machines learn of each other, measure, and report.

use std::fs;
use std::time::Duration;

use libtest_mimic::Trial;
use reweave_common::operator::RdmaStatus;
use reweave_tests::{Leadership, wait_for};

use crate::machine::Machine;
use crate::scene::{PROBER_NODE, RESPONDER_NODE, Scene, must, trial};

/// For three measurements of each other, at a pace of 5 s, in machines that take their time.
const MEASUREMENT_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial("agents_report_mutual_rdma_measurements", reported)]
}

fn reported(scene: &mut Scene) {
    join(scene);
    let whole =
        |it: &RdmaStatus| it.ud_us.is_some() && it.rc_us.is_some() && it.rate_bits_per_s.is_some();
    let both = wait_for(
        "both hosts have measured each other",
        MEASUREMENT_TIMEOUT,
        || {
            let status = scene.stage.operator().status()?;
            let ways: Vec<_> = status.rdma.into_iter().filter(whole).collect();
            Ok((ways.len() == 2).then_some(ways))
        },
    );
    if both.is_err() {
        eprintln!("{:?}", must(scene.stage.operator().status()).rdma);
        for node in [PROBER_NODE, RESPONDER_NODE] {
            eprintln!(
                "{node}: {}",
                scene.machine(node).run("cat /run/agent").stdout
            );
        }
    }
    for way in must(both) {
        assert_ne!(way.from, way.to);
        assert!(way.lost == 0 && way.sent >= 40, "{way:?}");
    }
}

/// A coordinator leads agents on both leaves and in both machines.
pub(crate) fn join(scene: &mut Scene) {
    scene.give_rdma();
    must(scene.stage.lead(&Leadership::default()));
    // Who is at the other end of a host's link, its leaf tells.
    for leaf in ["leaf0", "leaf1"] {
        must(scene.stage.start_agent(leaf));
    }
    for node in [PROBER_NODE, RESPONDER_NODE] {
        let identity = scene.stage.path("certificates/agents").join(node);
        let machine = scene.machine(node);
        machine.run("killall reweave-agent reweave-rdma");
        for file in fs::read_dir(identity).expect("a certificate").flatten() {
            let content = fs::read(file.path()).expect("a file");
            hand_over(machine, &file.file_name().to_string_lossy(), &content);
        }
        let run =
            "reweave-agent run --coordinator 10.255.0.1:7332 --role host --identity /run/identity";
        machine.start("agent", &format!("{run} --state /run/state"));
    }
}

/// A file of the identity, over the serial line.
fn hand_over(machine: &mut Machine, name: &str, content: &[u8]) {
    let octal: String = content
        .iter()
        .map(|byte| format!("\\0{byte:03o}"))
        .collect();
    machine.succeed(&format!(
        "mkdir -p /run/identity && umask 077 && printf %b '{octal}' >/run/identity/{name}"
    ));
}
