//! What the driver reads, does and refuses: the same for every kind of device, with and without faults.

use libtest_mimic::Trial;
use serde_json::json;

use crate::bench::{Bench, Device, INITIAL_CIRCUITS, Kind};
use crate::needs::{Need, trial};

const NEIGHBOUR_CIRCUITS: &str = "2-3,5-6,8-9,11-12,1-4,7-10";
const EMULATOR_NEEDS: &[Need] = &[
    Need::Program("ip"),
    Need::Program("tc"),
    Need::Program("nft"),
    Need::Program("curl"),
];
const NETCONF_NEEDS: &[Need] = &[
    Need::Program("netconfd"),
    Need::Program("sshd"),
    Need::Program("ssh-keygen"),
];

type Check = (&'static str, fn(Kind));

/// Checks that every kind passes.
const ALL: [Check; 3] = [
    ("applies_and_reverts_circuits", applies_and_reverts),
    ("is_untouched_on_mismatch", leaves_alone),
    ("clears_and_restores_circuits", moves_to_nothing),
];
const EMULATOR_CHECKS: [Check; 3] = [
    ("timeout_is_read_back", silent),
    ("wrong_move_is_reported", wrong),
    ("partial_move_is_reverted", by_halves),
];
const NETCONF_CHECKS: [Check; 2] = [
    ("lock_is_respected", locked),
    ("unknown_key_is_refused", stranger),
];
const TL1_CHECKS: [Check; 1] = [("wrong_password_is_refused", wrong_password)];

pub(crate) fn tests() -> Vec<Trial> {
    let of = |kind: Kind| {
        let emulated: &[Check] = if kind.is_emulated() {
            &EMULATOR_CHECKS
        } else {
            &[]
        };
        let own: &[Check] = match kind {
            Kind::Netconf => &NETCONF_CHECKS,
            Kind::Tl1 => &TL1_CHECKS,
            Kind::Restconf | Kind::Exec => &[],
        };
        let checks = [&ALL, emulated, own].concat();
        checks.into_iter().map(move |check| of_kind(kind, check))
    };
    Kind::ALL_TRANSPORTS.into_iter().flat_map(of).collect()
}

fn of_kind(kind: Kind, (name, test): Check) -> Trial {
    let needs = match kind {
        Kind::Netconf => NETCONF_NEEDS,
        _ => EMULATOR_NEEDS,
    };
    trial(
        &format!("{}_device_{name}", kind.name()),
        needs,
        move || test(kind),
    )
}

fn first() -> String {
    "1-7 2-3 4-10 5-6 8-9 11-12".to_owned()
}

fn apply(desired: &str) -> [&str; 4] {
    ["apply", "ocs0", "--desired", desired]
}

fn applies_and_reverts(kind: Kind) {
    let bench = Bench::of(kind);
    let read = || bench.drive(&["read", "ocs0"]);
    assert_eq!(read(), first());
    let diff = ["diff", "ocs0", "--desired", NEIGHBOUR_CIRCUITS];
    assert_eq!(bench.drive(&diff), "-1-7 -4-10 +1-4 +7-10");
    let differs = bench.driver(&[&diff[..], &["--detailed-exitcode"]].concat());
    assert_eq!(differs.status.code(), Some(3));
    assert_eq!(read(), first(), "a diff moves nothing");
    let held = bench.drive(&[&apply(NEIGHBOUR_CIRCUITS)[..], &["--output", "json"]].concat());
    let held: serde_json::Value = serde_json::from_str(&held).expect("JSON");
    let circuits = json!([[1, 4], [2, 3], [5, 6], [7, 10], [8, 9], [11, 12]]);
    assert_eq!(
        held,
        json!({ "apiVersion": "reweave/v1", "circuits": circuits })
    );
    assert_eq!(bench.drive(&["revert", "ocs0"]), first());
    let nothing = bench.drive(&["diff", "ocs0", "--desired", &INITIAL_CIRCUITS.join(",")]);
    assert_eq!(nothing, "nothing to move");
}

fn leaves_alone(kind: Kind) {
    let bench = Bench::of(kind);
    let unexpected = [&apply(NEIGHBOUR_CIRCUITS)[..], &["--expected", "1-7"]].concat();
    bench.is_refused(&unexpected, 1, "unexpected circuits");
    bench.is_refused(&apply("1-7,7-2"), 2, "port 7 is in two circuits");
    bench.is_refused(&apply("1-17"), 2, "no port 17, only 1 to 16");
    let other = "no optical switch \"ocs1\"; it has ocs0";
    bench.is_refused(&["read", "ocs1"], 2, other);
    bench.is_refused(&["revert", "ocs0"], 2, "no manual move to roll back");
    assert_eq!(bench.drive(&["read", "ocs0"]), first());
}

fn moves_to_nothing(kind: Kind) {
    let bench = Bench::of(kind);
    assert_eq!(bench.drive(&apply("")), "no circuits");
    assert_eq!(bench.drive(&["read", "ocs0"]), "no circuits");
    assert_eq!(bench.drive(&["revert", "ocs0"]), first());
}

fn silent(kind: Kind) {
    let bench = Bench::of(kind);
    bench.goes_wrong(Some("silent"));
    assert_eq!(
        bench.drive(&apply(NEIGHBOUR_CIRCUITS)),
        "1-4 2-3 5-6 7-10 8-9 11-12"
    );
}

fn wrong(kind: Kind) {
    let bench = Bench::of(kind);
    bench.drive(&apply("2-3,5-6,8-9,11-12"));
    bench.goes_wrong(Some("wrong-port"));
    let one = apply("2-3,5-6,8-9,11-12,1-4");
    bench.is_refused(&one, 1, "which differs from the instruction");
    bench.goes_wrong(None);
    assert_eq!(bench.drive(&["revert", "ocs0"]), "2-3 5-6 8-9 11-12");
}

fn by_halves(kind: Kind) {
    let bench = Bench::of(kind);
    bench.goes_wrong(Some("partial"));
    bench.is_refused(
        &apply(NEIGHBOUR_CIRCUITS),
        1,
        "which differs from the instruction",
    );
    bench.goes_wrong(None);
    assert_eq!(bench.drive(&["revert", "ocs0"]), first());
}

/// While another session holds the lock, circuits may be half moved: the driver refuses.
fn locked(kind: Kind) {
    let bench = Bench::of(kind);
    let Device::Netconfd(server) = &bench.device else {
        unreachable!("it is a server")
    };
    let other = server.lock();
    bench.is_refused(&apply(NEIGHBOUR_CIRCUITS), 1, "lock-denied");
    assert_eq!(bench.drive(&["read", "ocs0"]), first());
    drop(other);
    bench.drive(&apply(NEIGHBOUR_CIRCUITS));
}

fn stranger(kind: Kind) {
    let bench = Bench::of(kind);
    let Device::Netconfd(server) = &bench.device else {
        unreachable!("it is a server")
    };
    server.forget_key();
    let said = "it closed the connection: Host key verification failed";
    bench.is_refused(&["read", "ocs0"], 1, said);
}

fn wrong_password(kind: Kind) {
    let bench = Bench::of(kind);
    bench.write("password", "dark");
    let said = "it refused: DENY PLNA log in with ACT-USER";
    bench.is_refused(&["read", "ocs0"], 1, said);
    bench.write("password", "light;DLT-PATCH::1:1:");
    bench.is_refused(&["read", "ocs0"], 1, "TL1 allows no user or password");
}
