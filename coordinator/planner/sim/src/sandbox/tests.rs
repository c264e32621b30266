use std::time::Duration;

use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::moment::Moment;
use reweave_common::traffic::Burst;
use reweave_repair::paths::ecmp::Ecmp;

use super::*;
use crate::engine::flows;
use crate::engine::network::Network;
use crate::workload::job::{JobFile, Work};

const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
                      host_gbps = 0.4\nuplink_gbps = 0.2\n";

fn variant(text: &str) -> Result<Variant, String> {
    let text = format!("recorded = \"f.toml\"\n{text}");
    let fabric = Fabric::parse("f.toml", FABRIC).unwrap();
    let file = VariantFile::parse("v.toml", &text).map_err(|error| error.to_string())?;
    assert_eq!((file.recorded().unwrap(), file.fabric()), ("f.toml", None));
    file.on([fabric.clone(), fabric])
        .map_err(|error| error.to_string())
}

#[test]
fn path_is_simple_between_hosts() {
    let way = |nodes: &str| format!("[[way]]\nnodes = {nodes}\n");
    let good = way(r#"["h1", "leaf0", "spine1", "leaf1", "h3"]"#);
    for (text, says) in [
        (
            way(r#"["leaf0", "spine0", "leaf1"]"#),
            "v.toml:3: nodes: leaf0 is not a host",
        ),
        (
            way(r#"["h1", "leaf0", "spine0"]"#),
            "v.toml:3: nodes: spine0 is not a host",
        ),
        (
            format!("{good}{good}"),
            "v.toml:5: nodes: a path from h1 to h3",
        ),
        (
            way(r#"["h1", "leaf0", "spine1", "leaf0", "spine0", "leaf1", "h3"]"#),
            "v.toml:3: nodes: it passes leaf0 twice",
        ),
        (
            way(r#"["h1", "leaf0", "h0", "leaf0", "h1"]"#),
            "v.toml:3: nodes: it passes",
        ),
        (way(r#"["h1"]"#), "v.toml:3: nodes: a path has two ends"),
    ] {
        let error = variant(&text).unwrap_err();
        assert!(error.starts_with(says), "{error}");
    }
    variant(&good).unwrap();
}

#[test]
fn hosts_cannot_share_place() {
    let error = variant("[hosts]\nh0 = \"h2\"\nh1 = \"h2\"\n").unwrap_err();
    assert!(
        error.starts_with("v.toml:4: h1: h0 and h1 take one place"),
        "{error}"
    );
    let error = played("[hosts]\nh0 = \"h3\"\n").unwrap_err().to_string();
    assert!(
        error.starts_with("v.toml:3: h0: h3 takes part itself and stays"),
        "{error}"
    );
    played("[hosts]\nh0 = \"h3\"\nh3 = \"h0\"\n").unwrap();
    let error = jobs("[hosts]\nh0 = \"h3\"\n").unwrap_err();
    assert!(error.contains("h3 takes part itself and stays"), "{error}");
    // A host without traffic leaves a place free.
    let variant = variant("[hosts]\nh0 = \"h3\"\n").unwrap();
    let one = seen(&variant, &collision()[..1]);
    compare(&one, &variant, &mut at_leisure(&mut |_| true)).unwrap();
}

/// After a second, what h1 sends is led over the other spine.
#[test]
fn rerouted_flow_uses_both_paths() {
    let [stays, moves] = <[Burst; 2]>::try_from(collision()).unwrap();
    let [mut first, mut then] = [moves.clone(), moves];
    (first.bytes, first.sending) = (12_500_000, Duration::from_secs(1));
    (then.bytes, then.sending) = (25_000_000, Duration::from_secs(1));
    then.at = Moment::from_micros(2_000_000);
    then.goes_on = true;
    then.hops.as_mut().unwrap()[2] = "spine1".to_owned();
    let variant = variant("").unwrap();
    let bursts = [stays, first, then];
    let compared = compare(
        &seen(&variant, &bursts),
        &variant,
        &mut at_leisure(&mut |_| true),
    );
    let compared = compared.unwrap();
    let rates: Vec<_> = compared
        .bursts
        .iter()
        .map(|it| it.as_it_was_mbps.round())
        .collect();
    // One burst is alone on its path for half a second.
    assert_eq!(rates, [133.0, 100.0, 200.0]);
    assert_eq!(compared.bursts[2].at_ms, 1000.0);
    assert_eq!(compared.as_it_was.end_ms.round(), 2000.0);
}

/// Four hosts in a ring of circuits, from which any port could be led to any other.
const RING_FABRIC: &str = r#"
    kind = "graph"
    node = [{ name = "h0", role = "relay" }, { name = "h1", role = "relay" },
            { name = "h2", role = "relay" }, { name = "h3", role = "relay" }]
    optical = [{ name = "ocs0", ports = 8, circuits = [[2, 3], [4, 5], [6, 7], [8, 1]] }]
    fibre = [{ node = "h0", interface = "a", optical = "ocs0", port = 1, gbps = 0.2 },
             { node = "h0", interface = "b", optical = "ocs0", port = 2, gbps = 0.2 },
             { node = "h1", interface = "a", optical = "ocs0", port = 3, gbps = 0.2 },
             { node = "h1", interface = "b", optical = "ocs0", port = 4, gbps = 0.2 },
             { node = "h2", interface = "a", optical = "ocs0", port = 5, gbps = 0.2 },
             { node = "h2", interface = "b", optical = "ocs0", port = 6, gbps = 0.2 },
             { node = "h3", interface = "a", optical = "ocs0", port = 7, gbps = 0.2 },
             { node = "h3", interface = "b", optical = "ocs0", port = 8, gbps = 0.2 }]
"#;

fn names(fabric: &Fabric) -> Vec<String> {
    let links = fabric.links().map(|(link, _)| fabric.link_name(link));
    let mut names: Vec<_> = links.collect();
    names.sort();
    names
}

#[test]
fn circuits_determine_fibres() {
    let fabric = Fabric::parse("f.toml", RING_FABRIC).unwrap();
    let ring = ["h0-h1.1", "h0-h3.2", "h1-h2.1", "h2-h3.1"];
    assert_eq!(as_seen(&fabric, &[], &[]).each_ref().map(names), [ring; 2]);
    let across = r#"{"circuit_intent":{"plan":1,"generation":2,"moves":{"0":{"expected":[],"desired":
                     [[1,5],[2,3]]}}}}"#;
    let cut = r#"{"circuit_intent":{"plan":1,"#;
    let commands = [across, cut].map(str::to_owned);
    // An earlier observation on the ring.
    let [mut burst, _] = <[Burst; 2]>::try_from(collision()).unwrap();
    burst.to_node = Some("h3".to_owned());
    burst.hops = Some(["h0", "h1", "h2"].map(str::to_owned).into());
    let [seen, at_last] = as_seen(&fabric, &commands, &[burst]);
    assert_eq!(names(&at_last), ["h0-h1.1", "h0-h2"]);
    assert_eq!(names(&seen), ["h0-h1.1", "h0-h2", "h1-h2", "h2-h3"]);
}

/// 25 MB that h0 sends to h2 and h1 to h3, both over spine0: two seconds, since they share 200 Mb/s.
fn collision() -> Vec<Burst> {
    let burst = |host: u8| {
        let end = |last| std::net::SocketAddrV4::new([10, 0, 0, last].into(), 5000);
        Burst {
            node: format!("h{host}"),
            to_node: Some(format!("h{}", host + 2)),
            flow: FlowKey {
                protocol: Protocol::Tcp,
                source: end(host),
                destination: end(host + 2),
            },
            at: Moment::from_micros(1_000_000),
            sending: Duration::from_secs(2),
            bytes: 25_000_000,
            hops: Some(
                [&format!("h{host}"), "leaf0", "spine0", "leaf1"]
                    .map(str::to_owned)
                    .into(),
            ),
            goes_on: false,
        }
    };
    [0, 1].map(burst).into()
}

fn seen(variant: &Variant, bursts: &[Burst]) -> Traffic {
    Traffic::seen(bursts, Moment::from_micros(1_000_000), &variant.recorded)
}

fn played(text: &str) -> Result<Compared, SandboxError> {
    let mut effort = Effort {
        costs: Costs::default(),
        limit: 1_000_000,
        watch: &mut |_| true,
    };
    let variant = variant(text).unwrap();
    compare(&seen(&variant, &collision()), &variant, &mut effort)
}

fn full(outcome: &Outcome) -> Vec<(&str, &str, i64)> {
    let percent = |share: f64| (share * 100.0).round() as i64;
    let fullest = outcome.fullest.iter();
    let fullest = fullest.map(|it| (&*it.link, &*it.to, percent(it.share)));
    fullest.take(2).collect()
}

#[test]
fn fullest_links_shown_for_both_variants() {
    let apart = "[[way]]\nnodes = [\"h1\", \"leaf0\", \"spine1\", \"leaf1\", \"h3\"]\n";
    let compared = played(apart).unwrap();
    assert_eq!(compared.as_it_was.end_ms.round(), 2000.0);
    assert_eq!(compared.variant.end_ms.round(), 1000.0);
    let was = [
        ("leaf0-spine0", "spine0", 100),
        ("leaf1-spine0", "leaf1", 100),
    ];
    assert_eq!(full(&compared.as_it_was), was);
    let then = compared.variant.fullest.iter();
    let spines: Vec<_> = then
        .filter(|it| it.share > 0.99)
        .map(|it| &*it.link)
        .collect();
    assert_eq!(spines.len(), 4, "{spines:?}");
    assert_eq!((compared.left_out, compared.ways_unknown), (0, 0));
}

#[test]
fn removed_links_carry_nothing() {
    let compared = played("without = [\"leaf0-spine0\"]\n").unwrap();
    assert_eq!(full(&compared.variant)[0], ("leaf0-spine1", "spine1", 100));
    let names = compared.variant.fullest.iter().map(|it| &*it.link);
    assert!(
        names.clone().all(|name| name != "leaf0-spine0"),
        "{:?}",
        names.collect::<Vec<_>>()
    );
    let error = variant("without = [\"leaf0-spine7\"]\n").unwrap_err();
    assert_eq!(
        error,
        "v.toml:2: without: the fabric has no link named \"leaf0-spine7\""
    );
    let cut = played("without = [\"leaf0-spine0\", \"leaf0-spine1\"]\n").unwrap_err();
    assert_eq!(cut.to_string(), "no path from h0 to h2");
}

#[test]
fn observer_may_stop_comparison() {
    let mut effort = Effort {
        costs: Costs::default(),
        limit: 1_000_000,
        watch: &mut |_| false,
    };
    let variant = variant("").unwrap();
    let outcome = compare(&seen(&variant, &collision()), &variant, &mut effort);
    assert!(
        matches!(outcome, Err(SandboxError::AsItWas(_))),
        "{outcome:?}"
    );
    let no_traffic = compare(&seen(&variant, &[]), &variant, &mut effort);
    assert_eq!(no_traffic, Err(SandboxError::NothingSent));
}

/// Both that cross the fabric are led over spine0; the third waits for both, the fourth stays at home.
const FLOW_TABLE: &str = "src,dst,bytes,start_us,after,path,sport\n\
                      h0,h2,25000000,0,,h0>leaf0>spine0>leaf1>h2,1\n\
                      h1,h3,25000000,0,,h1>leaf0>spine0>leaf1>h3,2\n\
                      h2,h0,1000000,100,0 1,,7\n\
                      h3,h3,1000000,0,2,,\n";

fn listed(variant: &Variant) -> Traffic {
    let (fabric, costs) = (&variant.recorded, Costs::default());
    Traffic::listed("f.csv", FLOW_TABLE, fabric, &costs, Ecmp::default()).unwrap()
}

fn at_leisure(watch: &mut dyn FnMut(Progress) -> bool) -> Effort<'_> {
    Effort {
        costs: Costs::default(),
        limit: 100_000_000,
        watch,
    }
}

#[test]
fn listed_flows_match_solo_simulation() {
    let variant = variant("").unwrap();
    let compared = compare(&listed(&variant), &variant, &mut at_leisure(&mut |_| true)).unwrap();
    assert_eq!(compared.as_it_was, compared.variant);
    let network = Network::of(&variant.recorded, Costs::default());
    let flows = flows::parse(
        "f",
        FLOW_TABLE,
        &variant.recorded,
        &network,
        &Ecmp::default(),
    )
    .unwrap();
    let outcome = crate::engine::simulate(&flows.problem, 1_000_000).unwrap();
    assert_eq!(compared.as_it_was.end_ms, outcome.makespan().millis());
    let times = flows.completion_times(&outcome);
    let alone: f64 = times.iter().map(|time| time.millis()).sum();
    assert_eq!(compared.as_it_was.busy_ms, alone);
    assert!(compared.as_it_was.end_ms > 2000.0);
    assert_eq!(compared.slower_percent(), 0.0);
    assert_eq!((compared.mean_error, compared.worst_error), (None, None));
    let measured = compared.bursts.iter().find_map(|it| it.measured_mbps);
    assert_eq!(measured, None);
}

#[test]
fn listed_flows_differ_on_variant() {
    let apart = "[[way]]\nnodes = [\"h1\", \"leaf0\", \"spine1\", \"leaf1\", \"h3\"]\n";
    let variant = variant(apart).unwrap();
    let compared = compare(&listed(&variant), &variant, &mut at_leisure(&mut |_| true)).unwrap();
    let mbps: Vec<_> = compared
        .bursts
        .iter()
        .map(|it| it.variant_mbps.round())
        .collect();
    assert_eq!(mbps[..2], [200.0, 200.0]);
    // A burst that waits for both begins when both have ended.
    let [was, then] = [&compared.as_it_was, &compared.variant].map(|it| it.end_ms);
    assert_eq!((was - then).round(), 1000.0);
    assert!(compared.slower_percent() < -45.0);
}

#[test]
fn job_keys_need_played_job() {
    let error = variant("\n[job]\nbatch = 1\n").unwrap_err();
    assert!(
        error.starts_with("v.toml:3: job: the input is not a job"),
        "{error}"
    );
}

const JOB: &str = "model = \"vgg16\"\nbatch = 16\n";

/// Compares jobs, with the variant's changes.
fn jobs(text: &str) -> Result<JobCompared, String> {
    let text = format!("recorded = \"f.toml\"\n{text}");
    let fabric = Fabric::parse("f.toml", FABRIC).unwrap();
    let mut file = VariantFile::parse("v.toml", &text).map_err(|error| error.to_string())?;
    let changed = file.job("j.toml", JOB).map_err(|error| error.to_string())?;
    let variant = file
        .on([fabric.clone(), fabric])
        .map_err(|error| error.to_string())?;
    let job = JobFile::parse("j.toml", JOB).unwrap();
    let works = [&job, changed.as_ref().unwrap_or(&job)].map(|job| work(job, &variant.recorded));
    let [job, changed] = &works;
    let compared = compare_jobs([job, changed], &variant, &mut at_leisure(&mut |_| true));
    compared.map_err(|error| error.to_string())
}

fn work(job: &JobFile, fabric: &Fabric) -> Work {
    let JobFile::Preset(job) = job else {
        panic!("it is a preset");
    };
    let hosts: Vec<_> = fabric.endpoints().collect();
    job.work(&hosts).unwrap()
}

#[test]
fn job_runs_on_fabric_variant() {
    let same = jobs("").unwrap();
    assert_eq!(same.as_it_was, same.variant);
    assert_eq!(same.slower_percent(), 0.0);
    let less = jobs("without = [\"leaf0-spine1\"]\n").unwrap();
    assert_eq!(less.as_it_was, same.as_it_was);
    assert!(less.slower_percent() > 50.0, "{}", less.slower_percent());
    let [full, ..] = &less.variant.fullest[..] else {
        panic!("something is sent");
    };
    assert_eq!(full.link, "leaf0-spine0");
    let swapped = jobs("[hosts]\nh1 = \"h2\"\nh2 = \"h1\"\n").unwrap();
    assert!(
        swapped.slower_percent() > 20.0,
        "{}",
        swapped.slower_percent()
    );
}

#[test]
fn variant_changes_job() {
    let same = jobs("").unwrap();
    let half = jobs("[job]\nbatch_per_replica = 2\ngradient_bytes = 1\n").unwrap();
    assert_eq!(half.as_it_was, same.as_it_was);
    assert!(half.slower_percent() < -40.0, "{}", half.slower_percent());
    for (text, says) in [
        ("[job]\nbatch = 0\n", "v.toml:3: batch: 0 is not between"),
        ("[job]\nbatsh = 1\n", "v.toml:3: batsh: "),
        (
            "\n[job.parallelism]\ntensor = \"two\"\n",
            "v.toml:4: tensor: ",
        ),
        (
            "[job]\nmodel = \"x\"\n",
            "v.toml:3: model: \"x\" is an unknown preset",
        ),
        ("job = 1\n", "v.toml:2: job: "),
    ] {
        let error = jobs(text).unwrap_err();
        assert!(error.starts_with(says), "{error}");
    }
}
