//! Are the figures right?

use libtest_mimic::Trial;

use crate::perftest;
use crate::scene::{PROBER_ADDRESS, RESPONDER_ADDRESS, Scene, agent, refused, trial};

/// Figures differ by less on a machine like this, each the best of at least this many tries, that alternate.
const MAX_RATIO: f64 = 1.6;
const MIN_TRIES: usize = 3;
/// The machine that emulates both may have been busy with other things.
const MAX_TRIES: usize = 10;
const LATENCY_MESSAGES: u32 = 50;
const BANDWIDTH_MIB: u32 = 4;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("rdma_ports_are_listed", ports),
        trial("latency_matches_ib_send_lat", latency),
        trial("bandwidth_matches_ib_write_bw", bandwidth),
        trial("measurements_cross_fabric_and_are_counted", counted),
        trial("strangers_are_refused", strangers),
    ]
}

fn ports(scene: &mut Scene) {
    scene.give_rdma();
    let facts = agent(&mut scene.prober, "rdma facts");
    let port = &facts["ports"][0];
    assert_eq!(port["device"], "rxe0");
    assert_eq!(
        (&port["up"], &port["layer"]),
        (&true.into(), &"ethernet".into())
    );
    // Soft-RoCE has no clock of its own, and says so.
    assert_eq!(port["stamps"], "program");
    let said = scene.prober.succeed("ibv_devinfo -v -d rxe0");
    let number_of = |name: &str| -> u64 {
        let mut lines = said.lines().map(str::trim);
        let line = lines.find_map(|line| line.strip_prefix(name));
        let word = line.and_then(|line| line.split_whitespace().next());
        word.and_then(|word| word.parse().ok())
            .unwrap_or_else(|| panic!("{name}: {said}"))
    };
    assert_eq!(port["mtu_bytes"], number_of("active_mtu:"));
    assert_eq!(port["most_mtu_bytes"], number_of("max_mtu:"));
    let rate = scene
        .prober
        .succeed("cat /sys/class/infiniband/rxe0/ports/1/rate");
    assert_eq!(rate.trim(), "2.5 Gb/sec (1X SDR)");
    assert_eq!(port["speed_bits_per_s"], 2_500_000_000_u64);
    let gids = said.matches("GID[").count();
    assert_eq!(port["gids"].as_array().map(Vec::len), Some(gids));
    let kernels = facts["queue_pairs"].as_array().expect("queue pairs");
    assert!(kernels.iter().any(|it| it["kind"] == "GSI"), "{facts}");
    let all = agent(&mut scene.prober, "facts");
    assert_eq!(all["rdma"], facts["ports"]);
    assert_eq!(all["nics"][0]["rdma"], "rxe0");
}

fn latency(scene: &mut Scene) {
    scene.give_rdma();
    scene.respond_to(PROBER_ADDRESS);
    for (place, transport) in ["UD", "RC"].into_iter().enumerate() {
        alike(
            scene,
            transport,
            f64::min,
            |scene| {
                let words = format!("rdma latency {RESPONDER_ADDRESS} --count {LATENCY_MESSAGES}");
                let seen = agent(&mut scene.prober, &words)["latency"][place].clone();
                assert_eq!(seen["transport"], transport.to_lowercase());
                assert_eq!(
                    (&seen["sent"], &seen["lost"]),
                    (&LATENCY_MESSAGES.into(), &0.into()),
                    "{seen}"
                );
                assert_eq!(seen["stamps"], "program");
                let there_and_back_ns = seen["network"]["least_ns"].as_f64();
                there_and_back_ns.expect("a number") / 2e3
            },
            |scene| perftest::one_way_us(scene, transport, LATENCY_MESSAGES),
        );
    }
}

fn bandwidth(scene: &mut Scene) {
    scene.give_rdma();
    scene.respond_to(PROBER_ADDRESS);
    alike(
        scene,
        "writes",
        f64::max,
        |scene| {
            let words = format!("rdma bandwidth {RESPONDER_ADDRESS} --budget-mib {BANDWIDTH_MIB}");
            let seen = agent(&mut scene.prober, &words);
            assert_eq!(seen["bandwidth"]["bytes"], BANDWIDTH_MIB << 20);
            seen["rate_bits_per_s"].as_f64().expect("a rate") / 1e6
        },
        |scene| perftest::write_mbps(scene, BANDWIDTH_MIB),
    );
}

/// Both measure the same in turns. What disturbs a measurement only makes it worse, so the best of each come
/// closer to each other with every try; those of a figure that is wrong never do.
fn alike(
    scene: &mut Scene,
    what: &str,
    better: fn(f64, f64) -> f64,
    ours: impl Fn(&mut Scene) -> f64,
    theirs: impl Fn(&mut Scene) -> f64,
) {
    let mut best = None::<[f64; 2]>;
    for tried in 1..=MAX_TRIES {
        let now = [ours(scene), theirs(scene)];
        let [own, other] = best.map_or(now, |best| [0, 1].map(|it| better(best[it], now[it])));
        best = Some([own, other]);
        let ratio = own / other;
        eprintln!(
            "{what}: {now:.1?}, the best {own:.1} and perftest's {other:.1}, {ratio:.2} times"
        );
        if tried >= MIN_TRIES && (1.0 / MAX_RATIO..MAX_RATIO).contains(&ratio) {
            return;
        }
    }
    panic!("{what}, the best and perftest's: {best:?}");
}

fn counted(scene: &mut Scene) {
    scene.give_rdma();
    scene.respond_to(PROBER_ADDRESS);
    let count = |scene: &mut Scene| {
        let facts = agent(&mut scene.prober, "rdma facts");
        let packets = |way: &str| {
            facts["traffic"][0][way]["packets"]
                .as_u64()
                .expect("packets")
        };
        let spines = ["spine0", "spine1"].map(|spine| forwarded(scene, spine));
        (
            [packets("sent"), packets("received")],
            spines.iter().sum::<u64>(),
        )
    };
    let before = count(scene);
    agent(
        &mut scene.prober,
        &format!("rdma bandwidth {RESPONDER_ADDRESS} --budget-mib 1"),
    );
    let after = count(scene);
    // A packet of Soft-RoCE carries 1 KiB of it here.
    let sent = after.0[0] - before.0[0];
    assert!((1024..3 * 1024).contains(&sent), "{sent} packets sent");
    assert!(after.0[1] > before.0[1], "nothing was acknowledged");
    let crossed = after.1 - before.1;
    assert!(crossed >= 1 << 20, "{crossed} bytes crossed the spines");
    // The kernel's own count of the same.
    let counters = scene
        .prober
        .succeed("cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts");
    assert!(counters.trim().parse::<u64>().expect("a number") >= after.0[0]);
}

/// Bytes that have left a switch.
fn forwarded(scene: &Scene, node: &str) -> u64 {
    let script = "cat /sys/class/net/*/statistics/tx_bytes";
    let said = crate::scene::must(scene.stage.output(node, &["sh", "-c", script]));
    said.lines()
        .filter_map(|line| line.trim().parse::<u64>().ok())
        .sum()
}

fn strangers(scene: &mut Scene) {
    scene.give_rdma();
    scene.respond_to("10.0.0.77");
    for words in ["latency", "bandwidth"] {
        let error = refused(
            &mut scene.prober,
            &format!("rdma {words} {RESPONDER_ADDRESS}"),
        );
        assert!(
            error.contains("10.0.0.1 refuses: this host is not on its allow-list"),
            "{error}"
        );
    }
    // A host on which nothing answers.
    scene.responder.run("killall reweave-agent reweave-rdma");
    let error = refused(
        &mut scene.prober,
        &format!("rdma latency {RESPONDER_ADDRESS}"),
    );
    assert!(error.contains("is an agent running there?"), "{error}");
    // One that claims another's address as that of its queue pair.
    scene.respond_to(PROBER_ADDRESS);
    let end = "{\"queue_pair\":17,\"first_packet\":1,\"key\":2,\"gid\":[0,0,0,0,0,0,0,0,0,0,255,255,10,0,0,99],\
               \"mtu_bytes\":1024}";
    let opening = format!("{{\"task\":{{\"take\":{{\"bytes\":9}}}},\"end\":{end}}}");
    let said = scene.prober.run(&format!(
        "echo '{opening}' | nc -w 20 {RESPONDER_ADDRESS} 7333"
    ));
    let lines: Vec<_> = said.stdout.lines().collect();
    assert_eq!(lines.len(), 1, "a greeting and no more: {said:?}");
    assert!(lines[0].contains("\"refused\":null"), "{said:?}");
}
