//! Each class is found alone from its own evidence; without a fault, nothing is found.

use proptest::prelude::*;
use reweave_common::fabric::Fabric;
use reweave_common::split_mix::SplitMix64;

use super::evidence::*;
use super::*;
use crate::tests::scene::seeded;

mod cables;
mod changed;
mod classes;
mod explained;
mod hosts;
mod refused;
mod suspects;
mod switches;
mod together;
mod vanished;

const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 4\nhosts_per_leaf = 4\n\
                      host_gbps = 100\nuplink_gbps = 100";

fn fabric() -> Fabric {
    Fabric::parse("fabric.toml", FABRIC).unwrap()
}

fn names(path: &str) -> Vec<String> {
    path.split('>').map(str::to_owned).collect()
}

fn found(evidence: &Evidence) -> Vec<Cause> {
    diagnose(evidence, &fabric()).unwrap()
}

/// The only finding.
fn alone(evidence: &Evidence) -> (Class, String) {
    let found = found(evidence);
    let [only] = &found[..] else {
        panic!("one finding: {found:#?}")
    };
    assert!(!only.evidence.is_empty() && !only.remedy.is_empty());
    assert!((0.5..=1.0).contains(&only.confidence), "{only:?}");
    (only.class, only.subject.to_string())
}

fn named(class: Class, subject: &str) -> (Class, String) {
    (class, subject.to_owned())
}

/// Ports of all leaf-spine links and hosts, probes and flows between all hosts: nothing is wrong.
fn clean() -> Evidence {
    let mut evidence = Evidence::default();
    for host in 0..8 {
        let (name, leaf) = (format!("h{host}"), format!("leaf{}", host / 4));
        evidence.ports.push(port(&name, &leaf));
        evidence.ports.push(port(&leaf, &name));
        evidence.hosts.push(host_facts(&name));
    }
    for (leaf, spine) in (0..8).map(|it| (it / 4, it % 4)) {
        let [leaf, spine] = [format!("leaf{leaf}"), format!("spine{spine}")];
        evidence.ports.push(port(&leaf, &spine));
        evidence.ports.push(port(&spine, &leaf));
    }
    evidence.probes = probes(|_| 0.0, 400);
    for host in 0..8 {
        let (to, spine) = ((host + 4) % 8, host % 4);
        evidence.flows.push(flow(host, spine, to, 40.0));
        evidence.flows.push(flow(
            host,
            (spine + 1) % 4,
            (to + 1) % 4 + 4 * (to / 4),
            40.0,
        ));
    }
    evidence.jobs.push(JobFacts {
        job: "train".to_owned(),
        ranks: (0..8).map(|host| format!("h{host}")).collect(),
        ring: (0..8).collect(),
        compute_ms: vec![80.0; 8],
        communicate_ms: vec![30.0; 8],
        allreduce_ms: vec![(2.0, 1.0), (4.0, 1.5), (8.0, 1.75)],
        first: vec![10; 8],
        ..JobFacts::default()
    });
    for (from, to) in (0..8).flat_map(|from| (0..8).map(move |to| (from, to))) {
        let [from, to] = [from, to].map(|host: usize| format!("h{host}"));
        if from != to {
            evidence.pairs.push(PairFacts {
                from,
                to,
                rail: 0,
                gbps: 90.0,
            });
        }
    }
    evidence.series = vec![series("latency_us", &["h1"], |nth| {
        10.0 + (nth % 5) as f64 * 0.1
    })];
    evidence
}

fn port(node: &str, peer: &str) -> PortFacts {
    PortFacts {
        node: node.to_owned(),
        peer: peer.to_owned(),
        frame_error_share: Some(1e-12),
        corrected_bit_share: Some(1e-9),
        paused_share: Some(0.001),
        mtu_bytes: Some(9000),
        sent_gbps: Some(40.0),
        speed_gbps: Some(100.0),
        fec: Some("RS".to_owned()),
        ..PortFacts::default()
    }
}

fn host_facts(name: &str) -> HostFacts {
    let settings = [("GID index", "3"), ("DSCP", "26"), ("ECN", "on")];
    HostFacts {
        host: name.to_owned(),
        pcie_gts: Some(32.0),
        pcie_most_gts: Some(32.0),
        pcie_lanes: Some(16),
        pcie_most_lanes: Some(16),
        settings: settings.map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
        clock_skew_ms: Some(3.0),
        cpu_busy_share: Some(0.2),
        unsent: Vec::new(),
    }
}

fn flow(from: usize, spine: usize, to: usize, gbps: f64) -> FlowFacts {
    let (up, down) = (from / 4, to / 4);
    let path = format!("h{from}>leaf{up}>spine{spine}>leaf{down}>h{to}");
    FlowFacts {
        path: names(&path),
        gbps,
        job: Some("train".to_owned()),
        ..FlowFacts::default()
    }
}

fn series(of: &str, at: &[&str], value: impl Fn(usize) -> f64) -> Series {
    Series {
        of: of.to_owned(),
        at: at.iter().map(|it| (*it).to_owned()).collect(),
        link: None,
        every_s: 60.0,
        values: (0..120).map(value).collect(),
    }
}

/// Probes between hosts of different leaves over every spine, there and back; each loses what the
/// loss of its hops adds up to.
fn probes(loss: impl Fn(&str) -> f64, sent: u64) -> Vec<Probed> {
    probes_on([2, 4, 4], loss, sent)
}

/// The same where there are this many leaves, spines, and hosts to a leaf.
fn probes_on(size: [usize; 3], loss: impl Fn(&str) -> f64, sent: u64) -> Vec<Probed> {
    probes_by(&mut SplitMix64::new(1), size, loss, sent)
}

fn probes_by(
    rng: &mut SplitMix64,
    [leaves, spines, hosts]: [usize; 3],
    loss: impl Fn(&str) -> f64,
    sent: u64,
) -> Vec<Probed> {
    let (mut probes, all) = (Vec::new(), leaves * hosts);
    for (from, to, spine) in
        (0..all * all * spines).map(|it| (it / spines / all, it / spines % all, it % spines))
    {
        if from / hosts == to / hosts {
            continue;
        }
        let (up, down, back) = (from / hosts, to / hosts, (spine + from + to) % spines);
        let path = names(&format!(
            "h{from}>leaf{up}>spine{spine}>leaf{down}>h{to}>leaf{down}>spine{back}>leaf{up}>h{from}"
        ));
        let hops = path
            .windows(2)
            .map(|pair| format!("{}>{}", pair[0], pair[1]));
        let passes: f64 = hops.map(|hop| 1.0 - loss(&hop)).product();
        let lost = (0..sent)
            .filter(|_| rng.nonzero_fraction() > passes)
            .count() as u64;
        probes.push(Probed {
            path,
            sent,
            lost,
            large_sent: 20,
            ..Probed::default()
        });
    }
    probes
}

/// The same where losses are known by direction.
fn one_way(size: [usize; 3], loss: impl Fn(&str) -> f64, sent: u64) -> Vec<Probed> {
    let (mut rng, mut probes) = (SplitMix64::new(1), probes_on(size, |_| 0.0, sent));
    for probed in &mut probes {
        probed.path.truncate(5);
        let hops = probed.path.windows(2);
        let hops = hops.map(|pair| format!("{}>{}", pair[0], pair[1]));
        let passes: f64 = hops.map(|hop| 1.0 - loss(&hop)).product();
        probed.lost = (0..sent)
            .filter(|_| rng.nonzero_fraction() > passes)
            .count() as u64;
    }
    probes
}

fn port_of<'e>(evidence: &'e mut Evidence, node: &str, peer: &str) -> &'e mut PortFacts {
    let mut ports = evidence.ports.iter_mut();
    ports.find(|it| it.node == node && it.peer == peer).unwrap()
}

#[test]
fn clean_cluster_has_no_findings() {
    assert_eq!(found(&clean()), []);
    assert_eq!(found(&Evidence::default()), []);
}

#[test]
fn bad_optic_is_named_with_loss() {
    let mut evidence = clean();
    port_of(&mut evidence, "spine2", "leaf0").frame_error_share = Some(1e-4);
    evidence.probes = probes(|hop| if hop == "leaf0>spine2" { 0.02 } else { 0.0 }, 400);
    assert_eq!(
        alone(&evidence),
        named(Class::BadOptic, "leaf0-spine2 from leaf0")
    );
    assert_eq!(found(&evidence)[0].evidence.len(), 2);
    assert_eq!(found(&evidence)[0].jobs, ["train"]);
}

#[test]
fn straggler_is_explained_by_pcie() {
    let mut evidence = clean();
    for flow in &mut evidence.flows {
        if flow.path[0] == "h2" || flow.path[4] == "h2" {
            flow.gbps = 10.0;
        }
    }
    evidence.hosts[2].pcie_lanes = Some(4);
    assert_eq!(alone(&evidence), named(Class::PcieDowngrade, "h2"));
}

#[test]
fn full_link_makes_no_straggler() {
    let mut evidence = clean();
    evidence
        .flows
        .retain(|flow| flow.path[0] != "h2" && flow.path[4] != "h2");
    for nth in 0..2 {
        evidence.flows.push(flow(2, 2, 4 + nth, 5.0));
        evidence.flows.push(flow(5 + nth, 2, 2, 5.0));
    }
    assert_eq!(alone(&evidence), named(Class::Straggler, "h2"));
    // Other flows fill the uplinks on the paths of its flows, in both directions.
    for (from, to, gbps) in [(0, 7, 30.0), (1, 4, 30.0), (4, 0, 50.0), (7, 1, 50.0)] {
        evidence.flows.push(flow(from, 2, to, gbps));
    }
    let found = found(&evidence);
    assert!(
        found.iter().all(|it| it.class != Class::Straggler),
        "{found:#?}"
    );
}

#[test]
fn large_probes_name_mtu_mismatch() {
    let mut evidence = clean();
    for probed in &mut evidence.probes {
        let ends = [&probed.path[0], &probed.path[4]];
        if ends.iter().any(|end| *end == "h6") {
            probed.large_lost = probed.large_sent;
        }
    }
    let ends_here = |probed: &&mut Probed| probed.path[0] == "h6";
    // Probes come back to where they began: the far end is the host that does not answer.
    assert!(evidence.probes.iter_mut().filter(ends_here).count() > 0);
    assert_eq!(alone(&evidence), named(Class::MtuMismatch, "h6"));
}

/// Returns a job without reports of its own.
#[test]
fn busy_host_makes_job_host_bound() {
    let describe = |rest: f64, busy: f64, others: f64| {
        let mut evidence = with_job(|job| {
            job.rest_share = Some(rest);
            (job.compute_ms, job.communicate_ms) = (vec![], vec![]);
        });
        let hosts = evidence.hosts.iter_mut();
        hosts.for_each(|host| host.cpu_busy_share = Some(others));
        evidence.hosts[3].cpu_busy_share = Some(busy);
        evidence
    };
    let evidence = describe(0.96, 0.99, 0.3);
    assert_eq!(alone(&evidence), named(Class::HostBound, "job train"));
    let said = &found(&evidence)[0].evidence[0];
    assert!(said.contains("processors of h3"), "{said}");
    for [rest, busy, others] in [[0.7, 0.99, 0.3], [0.96, 0.8, 0.3], [0.96, 0.99, 0.95]] {
        assert_eq!(found(&describe(rest, busy, others)), []);
    }
}

/// Checks the case in which only its port shows the loss.
#[test]
fn port_reveals_odd_mtu_or_fec() {
    let with = |spoil: fn(&mut PortFacts)| {
        let mut evidence = clean();
        evidence.hosts.clear();
        spoil(port_of(&mut evidence, "h5", "leaf1"));
        spoil(port_of(&mut evidence, "leaf1", "h5"));
        alone(&evidence)
    };
    let narrow = with(|port| port.mtu_bytes = Some(1500));
    assert_eq!(narrow, named(Class::MtuMismatch, "h5"));
    let other = with(|port| port.fec = Some("none".to_owned()));
    assert_eq!(other, named(Class::ConfigurationMismatch, "h5"));
}

#[test]
fn host_with_odd_setting_is_named() {
    for setting in ["GID index", "DSCP", "ECN"] {
        let mut evidence = clean();
        evidence.hosts[4]
            .settings
            .insert(setting.to_owned(), "0".to_owned());
        assert_eq!(
            alone(&evidence),
            named(Class::ConfigurationMismatch, "h4"),
            "{setting}"
        );
    }
    let mut evidence = clean();
    port_of(&mut evidence, "h7", "leaf1").speed_gbps = Some(25.0);
    assert_eq!(alone(&evidence), named(Class::ConfigurationMismatch, "h7"));
    let mut evidence = clean();
    evidence.hosts.iter_mut().step_by(2).for_each(|host| {
        host.settings.insert("ECN".to_owned(), "off".to_owned());
    });
    assert_eq!(found(&evidence), [], "half of them are no majority");
}

#[test]
fn slightly_slower_pair_is_no_finding() {
    let mut evidence = clean();
    evidence.pairs[3].gbps = 70.0;
    assert_eq!(found(&evidence), []);
}

fn with_job(change: impl Fn(&mut JobFacts)) -> Evidence {
    let mut evidence = clean();
    change(&mut evidence.jobs[0]);
    evidence
}

#[test]
fn close_first_rank_is_no_finding() {
    let first = |job: &mut JobFacts| {
        job.ranks = ["h0", "h4", "h5", "h6"].map(str::to_owned).to_vec();
        job.ring = (0..4).collect();
        job.first = vec![0, 1, 99, 0];
        (job.compute_ms, job.communicate_ms) = (vec![], vec![]);
    };
    assert_eq!(
        found(&with_job(first)),
        [],
        "it is no closer than others of its rack"
    );
    let closer = with_job(|job| {
        first(job);
        job.ranks = ["h0", "h1", "h2", "h4"].map(str::to_owned).to_vec();
        job.first = vec![0, 0, 0, 100];
    });
    assert_eq!(found(&closer), [], "it is farther");
}

/// Each direction of each link between this many leaves and spines, and its nodes.
fn directed(leaves: usize, spines: usize) -> impl Iterator<Item = [String; 2]> {
    (0..leaves * spines * 2).map(move |it| {
        let [leaf, spine] = [
            format!("leaf{}", it / 2 / spines),
            format!("spine{}", it / 2 % spines),
        ];
        if it % 2 == 0 {
            [leaf, spine]
        } else {
            [spine, leaf]
        }
    })
}

#[test]
fn each_lossy_link_direction_is_named() {
    let four = "kind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 2\n\
                host_gbps = 100\nuplink_gbps = 100";
    let fabric = Fabric::parse("fabric.toml", four).unwrap();
    for [from, to] in directed(4, 2) {
        let loss = |hop: &str| {
            if hop == format!("{from}>{to}") {
                0.01
            } else {
                0.0
            }
        };
        // Half a minute of ten probes a second.
        let evidence = Evidence {
            probes: probes_on([4, 2, 2], loss, 300),
            ..Evidence::default()
        };
        let found = diagnose(&evidence, &fabric).unwrap();
        let [only] = &found[..] else {
            panic!("{from}>{to}: {found:#?}")
        };
        let is_it =
            matches!(&only.subject, Subject::Hop { from: f, to: t, .. } if *f == from && *t == to);
        assert!(
            only.class == Class::LossyLink && is_it,
            "{from}>{to}: {only:?}"
        );
    }
}

/// Between two leaves, a probe that goes up to a spine goes down to the other leaf: the same probes cross both links.
/// Counters show which of them drops.
#[test]
fn indistinguishable_links_are_ambiguous_without_counters() {
    for [from, to] in directed(2, 4) {
        let mut evidence = clean();
        let loss = |hop: &str| {
            if hop == format!("{from}>{to}") {
                0.01
            } else {
                0.0
            }
        };
        evidence.probes = probes(loss, 300);
        let report = &found(&evidence)[0].subject;
        let two = report.each();
        let is_it = |it: &Subject| matches!(it, Subject::Hop { from: f, to: t, .. } if *f == from && *t == to);
        assert!(two.len() == 2 && two.iter().any(is_it), "{report}");
        port_of(&mut evidence, &from, &to).send_drops = 9;
        let found = found(&evidence);
        assert!(found.len() == 1 && is_it(&found[0].subject), "{found:?}");
    }
}

#[test]
fn indistinguishable_suspects_are_ambiguous() {
    let mut evidence = clean();
    evidence.probes = probes(|hop| if hop == "leaf0>spine2" { 0.2 } else { 0.0 }, 100);
    evidence
        .probes
        .retain(|it| it.path[0] == "h0" && ["h4", "h5"].contains(&&it.path[4][..]));
    evidence
        .probes
        .iter_mut()
        .for_each(|it| it.path.truncate(5));
    let found = found(&evidence);
    let message = found[0].subject.to_string();
    assert!(
        message.starts_with("ambiguous: ") && message.contains("leaf0-spine2"),
        "{message}"
    );
    assert!(found[0].confidence < 0.6);
}

proptest! {
    #![proptest_config(seeded(24))]

    /// Rare losses that have no place raise no alarm.
    #[test]
    fn even_loss_is_no_finding(seed in 0..1000u64, lost in 0..3u64) {
        let mut rng = SplitMix64::new(seed);
        let mut evidence = clean();
        for _ in 0..lost * 8 {
            let probed = rng.below(evidence.probes.len());
            evidence.probes[probed].lost += 1;
        }
        prop_assert_eq!(found(&evidence), []);
    }

    /// A constant series has no change; one with a jump changes at the jump.
    #[test]
    fn change_points_are_located(seed in 0..1000u64, at in 20..80usize) {
        let mut rng = SplitMix64::new(seed);
        let noise: Vec<f64> = (0..100).map(|_| 10.0 + rng.nonzero_fraction()).collect();
        prop_assert_eq!(changes(&noise), None);
        let jumped = noise.iter().enumerate().map(|(nth, it)| if nth < at { *it } else { it + 6.0 });
        let found = changes(&jumped.collect::<Vec<_>>()).unwrap();
        prop_assert!(found.at.abs_diff(at) <= 4, "{found:?} {at}");
    }
}
