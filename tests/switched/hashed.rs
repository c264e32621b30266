//! The imbalance of flows that kernels hash: it is as large as chance makes it, and the live figures match the
//! switch's own counters.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libtest_mimic::Trial;
use reweave_common::finding::Imbalance;
use reweave_common::operator::Imbalances;
use reweave_tests::{Job, Labs, Leadership, STAGE_TIMEOUT, Setting, Stage, StageError, wait_for};
use serde_json::Value;

use crate::needs::{Need, trial};
use crate::play::{STAGE_NEEDS, must};
use crate::scene::{address, led};

const SPINES: [&str; 8] = [
    "spine0", "spine1", "spine2", "spine3", "spine4", "spine5", "spine6", "spine7",
];
const FOUR_SPINES: &[&str] = SPINES.split_at(4).0;
const SENDER_HOSTS: [&str; 4] = ["h0", "h1", "h2", "h3"];
const RECEIVER_HOSTS: [&str; 4] = ["h4", "h5", "h6", "h7"];

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "kernels_spread_flows_like_random",
            &[Need::Lab, Need::Program("bash")],
            as_by_chance,
        ),
        trial("imbalance_matches_link_counters", STAGE_NEEDS, counted),
    ]
}

/// The fields of a flow in the switch's rules.
type Flow = (String, u64, String, u64);

/// Traffic from the first leaf to a spine, by the switch's own counters.
#[derive(Debug, Default)]
struct SpineUplink {
    /// Packets and bytes of each flow.
    flows: BTreeMap<Flow, [u64; 2]>,
}

/// Counts each flow that goes up from now on.
fn count(stage: &Stage, protocol: &str, spines: &[&str]) {
    let key = format!("ip saddr . {protocol} sport . ip daddr . {protocol} dport");
    let (mut sets, mut rules) = (String::new(), String::new());
    for spine in spines {
        sets += &format!(
            "set {spine} {{ type ipv4_addr . inet_service . ipv4_addr . inet_service; \
             size 65535; flags dynamic; counter; }}; "
        );
        let port = stage.port("leaf0", spine);
        rules += &format!("oifname {port} update @{spine} {{ {key} counter }}; ");
    }
    let chain = format!("chain ups {{ type filter hook forward priority 0; {rules} }};");
    must(stage.output(
        "leaf0",
        &["nft", &format!("table ip counted {{ {sets} {chain} }}")],
    ));
}

fn uplinks(stage: &Stage, spines: &[&str]) -> Vec<SpineUplink> {
    let uplinks = spines.iter().map(|spine| {
        let words = ["nft", "-j", "list", "set", "ip", "counted", spine];
        let said = must(stage.output("leaf0", &words));
        let said: Value = serde_json::from_str(&said).expect("it is JSON");
        let listed = said["nftables"].as_array().into_iter().flatten();
        let elements = listed
            .filter_map(|it| it["set"]["elem"].as_array())
            .flatten();
        let flows = elements.map(|it| flow(&it["elem"]).expect("it is counted"));
        SpineUplink {
            flows: flows.collect(),
        }
    });
    uplinks.collect()
}

fn flow(counted: &Value) -> Option<(Flow, [u64; 2])> {
    let [from, source, to, destination] = &counted["val"]["concat"].as_array()?[..] else {
        return None;
    };
    let [from, to] = [from, to].map(|it| it.as_str().map(str::to_owned));
    let flow = (from?, source.as_u64()?, to?, destination.as_u64()?);
    let of = |what| counted["counter"][what].as_u64();
    Some((flow, [of("packets")?, of("bytes")?]))
}

/// The standard deviation of the loads relative to their mean, in percent.
pub(crate) fn deviation_percent(loads: &[f64]) -> f64 {
    let links = loads.len() as f64;
    let mean = loads.iter().sum::<f64>() / links;
    let off: f64 = loads.iter().map(|load| (load - mean).abs() / mean).sum();
    100.0 * off / links
}

const PACKETS_PER_FLOW: u64 = 2;
const FIRST_PORT: u16 = 1024;
const PORT_COUNT: u16 = 2048;
/// The flows of one port: one from each sender to each of two receivers.
const FLOWS_PER_PORT: u16 = 8;

/// Flows per draw, and their expected imbalance on four links and on eight if chance spreads them.
const EXPECTED_IMBALANCE: [(u16, [f64; 2]); 6] = [
    (8, [46.7, 68.7]),
    (16, [33.8, 50.6]),
    (32, [24.2, 36.5]),
    (64, [17.2, 26.1]),
    (128, [12.2, 18.6]),
    (256, [8.6, 13.2]),
];

/// The senders' leaf has a link to each of eight spines, and only four of these have a link to the leaf of the first
/// two receivers.
fn four_and_eight() -> String {
    let mut text = "kind = \"graph\"\n".to_owned();
    text.extend(
        SENDER_HOSTS
            .iter()
            .chain(&RECEIVER_HOSTS)
            .map(|host| node(host, "host")),
    );
    let switches = ["leaf0", "leaf1", "leaf2"].into_iter().chain(SPINES);
    text.extend(switches.map(|switch| node(switch, "switch")));
    text.extend(SENDER_HOSTS.map(|host| link(host, "leaf0", 0.2)));
    for (nth, host) in RECEIVER_HOSTS.iter().enumerate() {
        text += &link(host, ["leaf1", "leaf2"][nth / 2], 0.2);
    }
    text.extend(FOUR_SPINES.iter().map(|spine| link("leaf1", spine, 0.1)));
    for leaf in ["leaf0", "leaf2"] {
        text.extend(SPINES.map(|spine| link(leaf, spine, 0.1)));
    }
    text
}

/// Without agents there are no other packets. All flows are sent at once and distinguished by their ports: many draws of
/// few flows are the same packets as few draws of many flows.
fn as_by_chance() {
    let fabric = four_and_eight();
    let setting = Setting {
        scenario: "name = \"hashed\"\nseed = 1\nmanagement = true\nfabric = \"two-leaves.toml\"\n",
        fabric: &fabric,
    };
    let stage = must(Stage::up(setting, Labs::Hidden));
    count(&stage, "udp", &SPINES);
    let addresses = RECEIVER_HOSTS.map(|host| address(&stage, host, "eth0"));
    send(&stage, &addresses);
    let uplinks = uplinks(&stage, &SPINES);
    is_whole(&uplinks, usize::from(2 * PORT_COUNT * FLOWS_PER_PORT));
    for (flows, expected) in EXPECTED_IMBALANCE {
        for (far, links) in [4, SPINES.len()].into_iter().enumerate() {
            let loads = loads(&uplinks, &addresses[2 * far..][..2]);
            let draws = loads.chunks(usize::from(flows / FLOWS_PER_PORT));
            let draws: Vec<_> = draws.map(|draw| uneven(draw, links)).collect();
            is_the_mean(&draws, [usize::from(flows), links], expected[far]);
        }
    }
}

/// Sends from each sender to each receiver at each port, where nothing answers. Each run sends the same packets.
fn send(stage: &Stage, addresses: &[String]) {
    for host in RECEIVER_HOSTS {
        let silent = "type filter hook input priority 0; meta l4proto udp drop;";
        let table = format!("table ip silent {{ chain taken {{ {silent} }}; }}");
        must(stage.output(host, &["nft", &table]));
    }
    let last = FIRST_PORT + PORT_COUNT - 1;
    let script = format!(
        "echo 40000 40000 > /proc/sys/net/ipv4/ip_local_port_range
        for port in {{{FIRST_PORT}..{last}}}; do for to in {}; do
            exec 3> /dev/udp/$to/$port && for _ in {{1..{PACKETS_PER_FLOW}}}; do printf . >&3; done && exec 3>&- || exit
        done; done",
        addresses.join(" ")
    );
    for host in SENDER_HOSTS {
        must(stage.output(host, &["bash", "-c", &script]));
    }
}

/// Checks that all flows crossed the uplinks, each on one link.
fn is_whole(uplinks: &[SpineUplink], flows: usize) {
    let all = uplinks.iter().flat_map(|it| &it.flows);
    let names: BTreeSet<_> = all.clone().map(|(flow, _)| flow).collect();
    assert_eq!(names.len(), flows);
    let split = all.filter(|(_, [packets, _])| *packets != PACKETS_PER_FLOW);
    assert_eq!(split.collect::<Vec<_>>(), []);
}

/// By port, the number of flows to these addresses on each link.
fn loads(uplinks: &[SpineUplink], to: &[String]) -> Vec<[usize; SPINES.len()]> {
    let mut loads = vec![[0; SPINES.len()]; PORT_COUNT.into()];
    for (nth, uplink) in uplinks.iter().enumerate() {
        let flows = uplink.flows.keys().filter(|(.., at, _)| to.contains(at));
        for (.., port) in flows {
            loads[*port as usize - usize::from(FIRST_PORT)][nth] += 1;
        }
    }
    loads
}

/// The imbalance over the first `links` links; the others carry none of these flows.
fn uneven(draw: &[[usize; SPINES.len()]], links: usize) -> f64 {
    let of_link = |nth| {
        draw.iter()
            .map(|loads: &[usize; SPINES.len()]| loads[nth])
            .sum::<usize>() as f64
    };
    let loads: Vec<_> = (0..SPINES.len()).map(of_link).collect();
    let (within, beyond) = loads.split_at(links);
    assert!(beyond.iter().all(|load| *load == 0.0), "{loads:?}");
    deviation_percent(within)
}

fn is_the_mean(draws: &[f64], [flows, links]: [usize; 2], expected: f64) {
    let count = draws.len() as f64;
    let mean = draws.iter().sum::<f64>() / count;
    let squares: f64 = draws.iter().map(|it| (it - mean) * (it - mean)).sum();
    let error = squares.sqrt() / count;
    println!("{flows} flows on {links} links: {mean:.1} % +- {error:.1}, expected {expected}");
    // The rounding of the expected figure.
    let apart = (mean - expected).abs();
    assert!(
        apart <= 3.0 * error + 0.05,
        "{mean} +- {error} where {expected} is expected"
    );
}

/// Flows of two sizes, limited only by their senders' links.
const FLOWS: usize = 12;
const SAMPLE_COUNT: u32 = 5;
/// The tolerance between live figures and the counters of links.
const MAX_FLOW_FIM_ERROR: f64 = 0.1;
/// Rates vary more than the number of flows.
const MAX_RATE_FIM_ERROR: f64 = 5.0;

fn node(name: &str, role: &str) -> String {
    format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n")
}

fn link(a: &str, b: &str, gbps: f64) -> String {
    format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = {gbps}\n")
}

/// Two racks, each with a link to four spines. Senders are far slower than the rest of the network.
fn fabric() -> String {
    let mut text = "kind = \"graph\"\n".to_owned();
    let hosts = SENDER_HOSTS.iter().chain(&RECEIVER_HOSTS);
    text.extend(hosts.map(|host| node(host, "host")));
    let switches = ["leaf0", "leaf1"].iter().chain(FOUR_SPINES);
    text.extend(switches.map(|switch| node(switch, "switch")));
    text.extend(SENDER_HOSTS.map(|host| link(host, "leaf0", 0.04)));
    text.extend(RECEIVER_HOSTS.map(|host| link(host, "leaf1", 0.4)));
    for spine in FOUR_SPINES {
        text += &link("leaf0", spine, 0.4);
        text += &link("leaf1", spine, 0.4);
    }
    text
}

/// Two hosts send two flows each; two others send four, at half the rate. No flow ends.
fn job() -> String {
    let pairs = (0..4).flat_map(|from| {
        let flows = if from < 2 { 2 } else { 4 };
        (0..flows).map(move |nth| format!("[{from}, {}]", 4 + (from + nth) % 4))
    });
    let pairs: Vec<_> = pairs.collect();
    let hosts = SENDER_HOSTS.iter().chain(&RECEIVER_HOSTS);
    let hosts: Vec<_> = hosts.map(|host| format!("\"{host}\"")).collect();
    format!(
        "[[job]]\nname = \"train\"\npattern = \"streams\"\nhosts = [{}]\npairs = [{}]\n\
         bytes = 4_000_000_000\niterations = 1\n",
        hosts.join(", "),
        pairs.join(", ")
    )
}

fn counted() {
    let stage = led(&fabric(), &job(), &Leadership::default());
    count(&stage, "tcp", FOUR_SPINES);
    let mut job = must(stage.job("train"));
    flow_imbalance(&stage);
    is_as_counted(&stage, &mut job);
    must(job.stop());
}

/// The reported imbalance, once all flows are known to use the uplinks: on a busy machine some may be missing for a
/// moment.
fn flow_imbalance(stage: &Stage) -> Imbalance {
    must(wait_for("all ways are known", STAGE_TIMEOUT, || {
        let (before, said, after) = (are_known(stage)?, spread(stage)?, are_known(stage)?);
        Ok(said.filter(|_| before && after))
    }))
}

fn are_known(stage: &Stage) -> Result<bool, StageError> {
    let flows = stage.operator().status()?.flows;
    let ways = flows.iter().filter_map(|flow| flow.path.as_ref());
    let up = ways.filter(|way| way.len() == 4 && way[1].from == "leaf0");
    Ok(up.count() == FLOWS)
}

/// The reported imbalance of the uplinks of the first leaf.
fn spread(stage: &Stage) -> Result<Option<Imbalance>, StageError> {
    let said: Imbalances = stage.operator().ask(&["fim"])?;
    let mut groups = said.groups.into_iter();
    let group = groups.find(|it| it.is_chosen && it.over[0].from == "leaf0");
    Ok(group.map(|it| it.imbalance))
}

/// Compares the reported figures with the counters, repeatedly.
fn is_as_counted(stage: &Stage, job: &mut Job) {
    let before = uplinks(stage, FOUR_SPINES);
    let looks = (0..SAMPLE_COUNT).map(|_| {
        must(job.watch(Duration::from_secs(1)));
        flow_imbalance(stage)
    });
    let looks: Vec<_> = looks.collect();
    let after = uplinks(stage, FOUR_SPINES);
    let bytes = |uplink: &SpineUplink| uplink.flows.values().map(|[_, bytes]| bytes).sum::<u64>();
    let flows: Vec<_> = after.iter().map(|it| it.flows.len() as f64).collect();
    assert_eq!(flows.iter().sum::<f64>(), FLOWS as f64);
    let grown = [0, 1, 2, 3].map(|nth| (bytes(&after[nth]) - bytes(&before[nth])) as f64);
    let fullest = grown.iter().copied().fold(0.0, f64::max);
    let fim = deviation_percent(&flows);
    assert!(
        looks
            .iter()
            .all(|it| (it.fim_percent - fim).abs() <= MAX_FLOW_FIM_ERROR),
        "{fim}: {looks:?}"
    );
    let mean = |of: fn(&Imbalance) -> f64| looks.iter().map(of).sum::<f64>() / looks.len() as f64;
    let pairs = [
        (
            mean(|it| it.max_over_mean),
            4.0 * fullest / grown.iter().sum::<f64>(),
            MAX_FLOW_FIM_ERROR,
        ),
        (
            mean(|it| it.weighted_percent),
            deviation_percent(&grown),
            MAX_RATE_FIM_ERROR,
        ),
    ];
    println!("{fim:.1} %; live and by counters {pairs:.2?}");
    let is_near = |(live, counted, most): &(f64, f64, f64)| (live - counted).abs() <= *most;
    assert!(pairs.iter().all(is_near), "{pairs:?}");
}
