//! Losses and errors that increase: their start, and no second finding about the same.

use super::*;

#[test]
fn rising_errors_mean_bad_optic() {
    let errors = series("errors", &["leaf0", "spine1"], |nth| {
        if nth < 60 { 0.0 } else { 9.0 }
    });
    let evidence = Evidence {
        series: vec![errors],
        ..clean()
    };
    let where_it_is = "leaf0-spine1 from spine1";
    assert_eq!(alone(&evidence), named(Class::BadOptic, where_it_is));
}

/// Errors at both ends of a cable whose optics are known to be bad: one finding, with since when.
#[test]
fn rising_errors_support_bad_optic() {
    let rises = |nth: usize| if nth < 60 { 0.0 } else { 2e-5 };
    let mut evidence = clean();
    let ends = [["leaf0", "spine1"], ["spine1", "leaf0"]];
    evidence.series = ends.map(|at| series("errors", &at, rises)).to_vec();
    for [node, peer] in ends {
        port_of(&mut evidence, node, peer).frame_error_share = Some(2e-5);
    }
    assert_eq!(alone(&evidence), named(Class::BadOptic, "leaf0-spine1"));
    let said = found(&evidence)[0].evidence.join("; ");
    assert!(
        said.contains("errors went from 0.000 to 2.0e-5 3600 s ago"),
        "{said}"
    );
}

/// Within what cables are specified for, errors come with traffic.
#[test]
fn few_new_errors_are_ignored() {
    let mut evidence = clean();
    let rises = |nth: usize| if nth < 60 { 0.0 } else { 2e-8 };
    evidence.series = vec![series("errors", &["leaf0", "spine1"], rises)];
    assert_eq!(found(&evidence), []);
}

/// Returns series of the lossy direction, and of one that only some of its probes cross.
fn lossier(after: f64, until: usize) -> Vec<Series> {
    let rise = move |share: f64| {
        move |nth: usize| {
            if (60..until).contains(&nth) {
                share + (nth % 3) as f64 * share / 20.0
            } else {
                0.0
            }
        }
    };
    vec![
        series("loss", &["spine2", "leaf0"], rise(after)),
        series("loss", &["leaf0", "h0"], rise(after / 4.0)),
    ]
}

#[test]
fn rising_loss_means_lossy_link() {
    let mut evidence = clean();
    evidence.series = lossier(0.02, 120);
    let where_it_is = "leaf0-spine2 from leaf0";
    assert_eq!(alone(&evidence), named(Class::LossyLink, where_it_is));
    let said = found(&evidence)[0].evidence.join("; ");
    assert_eq!(said, "loss went from 0.000 to 0.021 3600 s ago");
}

#[test]
fn little_or_past_loss_is_ignored() {
    let mut evidence = clean();
    for (after, until) in [(0.005, 120), (0.02, 113), (0.02, 80)] {
        evidence.series = lossier(after, until);
        assert_eq!(found(&evidence), [], "{after} until {until}");
    }
}

/// Whether one link is named or two are that cannot be distinguished.
#[test]
fn loss_onset_supports_existing_finding() {
    for drops in [0, 9] {
        let mut evidence = clean();
        evidence.probes = probes(|hop| if hop == "leaf0>spine2" { 0.02 } else { 0.0 }, 400);
        evidence.series = lossier(0.02, 120);
        port_of(&mut evidence, "leaf0", "spine2").send_drops = drops;
        let found = found(&evidence);
        let [only] = &found[..] else {
            panic!("one finding: {found:#?}")
        };
        assert_eq!(only.class, Class::LossyLink);
        assert_eq!(only.subject.each().len(), if drops > 0 { 1 } else { 2 });
        let said = only.evidence.join("; ");
        assert!(
            said.ends_with("loss went from 0.000 to 0.021 3600 s ago"),
            "{said}"
        );
    }
}

/// A link that breaks frames also loses packets.
#[test]
fn loss_onset_supports_bad_optic() {
    let mut evidence = clean();
    port_of(&mut evidence, "spine2", "leaf0").frame_error_share = Some(1e-4);
    evidence.series = lossier(0.02, 120);
    let where_it_is = "leaf0-spine2 from leaf0";
    assert_eq!(alone(&evidence), named(Class::BadOptic, where_it_is));
    assert_eq!(found(&evidence)[0].evidence.len(), 2);
}
