//! The tools of linux-rdma's perftest, one at each end.

use crate::scene::{RESPONDER_ADDRESS, Scene};

/// Half the median time there and back, as `ib_send_lat` tells it.
pub(crate) fn one_way_us(scene: &mut Scene, transport: &str, count: u32) -> f64 {
    let words = format!(
        "ib_send_lat -c {transport} -d rxe0 -x {} -F -s 16 -n {count}",
        gid_index(scene)
    );
    last_line(scene, &words)[4]
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
