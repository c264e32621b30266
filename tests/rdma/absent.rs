//! A machine without RDMA starts, and says why there is none.

use libtest_mimic::Trial;

use crate::machine::Machine;
use crate::scene::{Scene, agent, refused, trial};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("missing_rdma_device_is_reported", no_device),
        trial("missing_verbs_library_is_reported", no_library),
        trial("missing_rdma_helper_is_reported", no_helper),
    ]
}

fn no_device(scene: &mut Scene) {
    let machine = &mut scene.prober;
    machine.succeed("! rdma link show | grep -q rxe0 || rdma link delete rxe0");
    lacks(machine, "this machine has no RDMA device");
}

fn no_library(scene: &mut Scene) {
    let machine = &mut scene.prober;
    let library =
        machine.succeed("ls /usr/lib/*/libibverbs.so.1 /lib/*/libibverbs.so.1 2>/dev/null || true");
    let library = library
        .lines()
        .next()
        .expect("the library's place")
        .to_owned();
    machine.succeed(&format!("mv {library} /run/away"));
    lacks(machine, "libibverbs.so.1: cannot open shared object file");
    machine.succeed(&format!("mv /run/away {library}"));
}

fn no_helper(scene: &mut Scene) {
    let machine = &mut scene.prober;
    machine.succeed("mv /bin/reweave-rdma /run/away");
    lacks(machine, "/bin/reweave-rdma is not there");
    machine.succeed("mv /run/away /bin/reweave-rdma");
}

fn lacks(machine: &mut Machine, because: &str) {
    let error = refused(machine, "rdma facts");
    assert!(
        error.contains("rdma unavailable: ") && error.contains(because),
        "{error}"
    );
    let facts = agent(machine, "facts");
    assert_eq!(
        facts["interfaces"].as_array().map(|it| it.len() >= 2),
        Some(true)
    );
    let off = facts["off"].as_array().expect("a list");
    let lack = off.iter().find(|it| it["measurement"] == "RDMA");
    let lack = lack.unwrap_or_else(|| panic!("RDMA is not off: {facts}"));
    assert!(
        lack["because"]
            .as_str()
            .is_some_and(|it| it.contains(because)),
        "{lack}"
    );
    assert_eq!(facts["rdma"].as_array().map(Vec::len), Some(0));
}
