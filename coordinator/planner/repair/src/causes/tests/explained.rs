//! Explanations from a slow job to the link and the cause.

use super::*;

#[test]
fn slow_job_is_explained_to_cause() {
    let mut evidence = clean();
    port_of(&mut evidence, "spine2", "leaf0").frame_error_share = Some(1e-4);
    let pair = |from: usize, ms, path: &str| PairTime {
        from,
        to: (from + 1) % 8,
        ms,
        path: if path.is_empty() {
            Vec::new()
        } else {
            names(path)
        },
        links: vec![],
    };
    let slow = "h3>leaf0>spine2>leaf1>h4";
    let collective = |name: &str, ms, path| CollectiveFacts {
        name: name.to_owned(),
        ms,
        pairs: (0..8)
            .map(|from| pair(from, if from == 3 { ms } else { 2.0 }, path))
            .collect(),
    };
    evidence.jobs[0].collectives =
        vec![collective("fast", 3.0, slow), collective("slow", 9.0, slow)];
    let explained = explain(&evidence, &fabric(), "train").unwrap().unwrap();
    assert_eq!(
        (
            explained.collective.as_deref(),
            explained.ranks,
            explained.others_ms
        ),
        (Some("slow"), Some([3, 4]), Some(2.0))
    );
    assert_eq!(
        explained.link.unwrap().to_string(),
        "leaf0-spine2 from leaf0"
    );
    assert_eq!(explained.cause.unwrap().class, Class::BadOptic);
    evidence.jobs[0].collectives = vec![collective("slow", 9.0, "")];
    evidence
        .flows
        .iter_mut()
        .for_each(|it| it.job = Some("train".to_owned()));
    let explained = explain(&evidence, &fabric(), "train").unwrap().unwrap();
    assert_eq!(explained.path, names("h3>leaf0>spine0>leaf1>h4"));
    assert_eq!(explained.doubts, ["no measurement explains it"]);
    evidence.flows.clear();
    let explained = explain(&evidence, &fabric(), "train").unwrap().unwrap();
    assert_eq!(
        explained.doubts,
        ["its own path is unknown: 1 of the 4 known paths there use the named element"]
    );
    assert_eq!(explained.cause.unwrap().class, Class::BadOptic);
    evidence.probes.clear();
    let explained = explain(&evidence, &fabric(), "train").unwrap().unwrap();
    assert_eq!(
        explained.doubts,
        [
            "not every hop from h3 to h4 is known",
            "no measurement explains it"
        ]
    );
    assert_eq!(explain(&evidence, &fabric(), "other").unwrap(), None);
}

/// Both findings are about the path of the slowest pair; a wrong clock slows no collective.
#[test]
fn path_cause_outranks_surer_end_cause() {
    let mut evidence = clean();
    port_of(&mut evidence, "spine2", "leaf0").frame_error_share = Some(1e-4);
    evidence.hosts[4].clock_skew_ms = Some(900.0);
    evidence.hosts[3].pcie_lanes = Some(4);
    evidence.jobs[0].collectives = vec![one_pair("h3>leaf0>spine2>leaf1>h4")];
    let explained = explain(&evidence, &fabric(), "train").unwrap().unwrap();
    assert_eq!(explained.cause.unwrap().class, Class::BadOptic);
    evidence.jobs[0].collectives = vec![one_pair("h0>leaf0>spine2>leaf1>h7")];
    let refused = explain(&evidence, &fabric(), "train").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "h0>leaf0>spine2>leaf1>h7 does not lead from h3 to h4"
    );
}

fn one_pair(path: &str) -> CollectiveFacts {
    let pair = PairTime {
        from: 3,
        to: 4,
        ms: 9.0,
        path: names(path),
        links: vec![],
    };
    CollectiveFacts {
        name: "slow".to_owned(),
        ms: 9.0,
        pairs: vec![pair],
    }
}

#[test]
fn equally_slow_pairs_blame_no_path() {
    let mut evidence = clean();
    let pair = |from: usize| PairTime {
        from,
        to: (from + 1) % 8,
        ms: 9.0 + from as f64 * 0.01,
        path: Vec::new(),
        links: Vec::new(),
    };
    evidence.jobs[0].collectives = vec![CollectiveFacts {
        name: "slow".to_owned(),
        ms: 9.0,
        pairs: (0..8).map(pair).collect(),
    }];
    let explained = explain(&evidence, &fabric(), "train").unwrap().unwrap();
    let last = explained.doubts.last().unwrap();
    assert_eq!(last, "all pairs take equally long: no single path slows it");
}

/// A collective that says nothing of its pairs hides none that does, and one job may be reported twice.
#[test]
fn collective_with_pairs_is_explained() {
    let mut evidence = clean();
    let slow = one_pair("h3>leaf0>spine2>leaf1>h4");
    let silent = CollectiveFacts {
        name: "silent".to_owned(),
        ms: 50.0,
        pairs: Vec::new(),
    };
    let again = JobFacts {
        job: "train".to_owned(),
        ranks: evidence.jobs[0].ranks.clone(),
        collectives: vec![slow],
        ..JobFacts::default()
    };
    evidence.jobs[0].collectives = vec![silent];
    assert_eq!(explain(&evidence, &fabric(), "train").unwrap(), None);
    evidence.jobs.push(again);
    let explained = explain(&evidence, &fabric(), "train").unwrap().unwrap();
    assert_eq!(explained.collective.as_deref(), Some("slow"));
    let first = "silent took longer, 50.000 ms, and does not say between whom";
    assert_eq!(explained.doubts[0], first);
}

/// Times of two that do not know how late it is.
#[test]
fn clocks_apart_make_times_doubtful() {
    let mut evidence = clean();
    evidence.hosts[4].clock_skew_ms = Some(900.0);
    evidence.jobs[0].collectives = vec![one_pair("h3>leaf0>spine2>leaf1>h4")];
    let explained = explain(&evidence, &fabric(), "train").unwrap().unwrap();
    assert_eq!(
        explained.doubts[0],
        "the clock of h4 is apart: where times were taken by several clocks, another pair may be the slowest"
    );
}

#[test]
fn rank_cannot_be_own_partner() {
    let mut evidence = clean();
    let mut alone = one_pair("");
    (alone.pairs[0].to, alone.pairs[0].path) = (3, Vec::new());
    evidence.jobs[0].collectives = vec![alone];
    let refused = explain(&evidence, &fabric(), "train").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "jobs[0]: the partner of rank 3 of job train cannot be 3"
    );
}

/// A finding about one of two cables does not concern flows on the other.
#[test]
fn cable_of_slow_pair_is_blamed() {
    let fabric = cables::doubled();
    let mut evidence = Evidence::default();
    evidence.ports.push(PortFacts {
        link: Some("leaf0-spine0.1".to_owned()),
        frame_error_share: Some(1e-4),
        ..port("spine0", "leaf0")
    });
    let describe = |evidence: &mut Evidence, cable: &str| {
        let links = ["h1-leaf0", cable, "leaf1-spine0.1", "h2-leaf1"];
        let pair = PairTime {
            from: 0,
            to: 1,
            ms: 9.0,
            path: names("h1>leaf0>spine0>leaf1>h2"),
            links: links.map(str::to_owned).to_vec(),
        };
        evidence.jobs = vec![JobFacts {
            job: "train".to_owned(),
            ranks: ["h1", "h2"].map(str::to_owned).to_vec(),
            collectives: vec![CollectiveFacts {
                name: "slow".to_owned(),
                ms: 9.0,
                pairs: vec![pair],
            }],
            ..JobFacts::default()
        }];
        explain(evidence, &fabric, "train").unwrap().unwrap()
    };
    let second = describe(&mut evidence, "leaf0-spine0.1");
    assert_eq!(second.cause.unwrap().class, Class::BadOptic);
    assert_eq!(second.doubts, [""; 0]);
    assert_eq!(describe(&mut evidence, "leaf0-spine0").cause, None);
    let unsure = describe(&mut evidence, "*");
    assert!(unsure.cause.is_some());
    let doubt = "which of the parallel links from leaf0 to spine0 it uses is unknown";
    assert_eq!(unsure.doubts, [doubt]);
}
