//! The tools of linux-rdma's perftest, one at each end.

use crate::scene::{RESPONDER_ADDRESS, Scene};

/// Half the least time there and back, as `ib_send_lat` tells it.
pub(crate) fn one_way_us(scene: &mut Scene, transport: &str, count: u32) -> f64 {
    let words = format!(
        "ib_send_lat -c {transport} -d rxe0 -x {} -F -s 16 -n {count}",
        gid_index(scene)
    );
    last_line(scene, &words)[2]
}

/// In Mb/s, by writes of 64 KiB.
pub(crate) fn write_mbps(scene: &mut Scene, mib: u32) -> f64 {
    let words = format!(
        "ib_write_bw -d rxe0 -x {} -F -s 65536 -n {}",
        gid_index(scene),
        mib * 16
    );
    // It says MB and means MiB.
    last_line(scene, &words)[3] * 8.0 * f64::from(1 << 20) / 1e6
}

/// Of the address in the fabric; the same at both ends.
fn gid_index(scene: &mut Scene) -> u32 {
    let facts = crate::scene::agent(&mut scene.prober, "rdma facts");
    let gids = facts["ports"][0]["gids"].as_array().expect("addresses");
    let mapped = |gid: &&serde_json::Value| gid["bytes"][10] == 255 && gid["bytes"][11] == 255;
    let gid = gids.iter().find(mapped).expect("an address of IPv4");
    gid["index"].as_u64().expect("an index") as u32
}

/// The numbers of the line with the result.
fn last_line(scene: &mut Scene, words: &str) -> Vec<f64> {
    let tool = words.split(' ').next().unwrap_or_default();
    scene.responder.run(&format!("killall {tool}"));
    scene.responder.start("perftest", words);
    // The other one finds it as soon as it listens.
    let said = scene
        .prober
        .wait_until(&format!("{words} {RESPONDER_ADDRESS}"));
    let numbers = |line: &str| -> Option<Vec<f64>> {
        let fields = line.split_whitespace();
        let numbers: Vec<f64> = fields.map(|it| it.parse().ok()).collect::<Option<_>>()?;
        (numbers.len() > 3).then_some(numbers)
    };
    let found = said.stdout.lines().rev().find_map(numbers);
    found.unwrap_or_else(|| panic!("{words}: {said:?}"))
}

/// Writes over one connection, until it fails or is ended.
pub(crate) fn begin_writes(scene: &mut Scene, timeout: u8) {
    let words = format!("{} -D 4 --run_infinitely", writes(scene, timeout));
    listen(scene, &words);
    let writes = format!("{words} {RESPONDER_ADDRESS}");
    scene.prober.start(WRITER_JOB, &writes);
}

/// What it said, if it has ended by itself.
pub(crate) fn failed_writes(scene: &mut Scene) -> Option<String> {
    let runs = scene.prober.run("pidof ib_write_bw").code == 0;
    (!runs).then(|| scene.prober.succeed(&format!("cat /run/{WRITER_JOB}")))
}

pub(crate) fn end_writes(scene: &mut Scene) {
    for machine in [&mut scene.prober, &mut scene.responder] {
        machine.run("killall ib_write_bw");
        machine.wait_until("! pidof ib_write_bw");
    }
}

const WRITER_JOB: &str = "writing";

/// Over a connection that tries again 7 times, as perftest always has it.
fn writes(scene: &mut Scene, timeout: u8) -> String {
    let gid = gid_index(scene);
    format!("ib_write_bw -c RC -d rxe0 -x {gid} -F -s 65536 --qp-timeout {timeout}")
}

/// The responder's end, which hears one connection.
fn listen(scene: &mut Scene, words: &str) {
    end_writes(scene);
    scene.responder.start("perftest", words);
    // Port 18515, state LISTEN.
    let listens = "grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6";
    scene.responder.wait_until(listens);
}
