//! What commands about NICs and rails ask of a coordinator.

use reweave_common::fabric::NicUse;
use reweave_common::operator::{Matrix, NicStatus, PairTraffics, Request, Response, Status};
use reweave_common::units::Rate;
use serde_json::Value;

use crate::orders::{played, text};
use crate::printed::status;

fn nic(rail: u16) -> NicStatus {
    NicStatus {
        host: "h0".to_owned(),
        interface: Some(format!("eth{rail}")),
        rail,
        plane: None,
        purpose: NicUse::Training,
        link: format!("h0-leaf{rail}"),
        address: None,
        pci: None,
        numa: None,
        gpu: None,
        gpus: vec![],
        up: Some(rail == 0),
        capacity_bits_per_s: Rate::from_bits_per_s(400_000_000_000),
        sent_bits_per_s: None,
        received_bits_per_s: None,
    }
}

fn known() -> Response {
    Response::Status(Box::new(status()))
}

#[tokio::test(flavor = "multi_thread")]
async fn nics_are_asked_page_by_page() {
    let first = Response::Nics(vec![nic(0), nic(1)]);
    let answers = [known(), first, Response::Nics(vec![])];
    let words = ["hosts", "--nics", "--output", "json"];
    let (asked, output) = played(&words, &answers, false).await;
    let page = |from_nic| Request::Nics {
        from_nic,
        most: 1000,
    };
    assert_eq!(asked, [Request::Status, page(0), page(2)]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    let nics = shown["nics"].as_array().unwrap();
    let rails: Vec<_> = nics.iter().map(|nic| nic["rail"].as_u64()).collect();
    assert_eq!(rails, [Some(1), Some(0)], "those that are down come first");
    assert_eq!(nics[0]["use"], "training");
}

#[tokio::test(flavor = "multi_thread")]
async fn rail_option_asks_for_rail() {
    let matrix = || Response::Matrix(Matrix::default());
    let traffic = || Response::Traffic(PairTraffics::default());
    let most = 20_000;
    for (words, answer, asks) in [
        ("matrix", matrix(), Request::Matrix { most }),
        (
            "matrix --rail 3",
            matrix(),
            Request::RailMatrix { rail: 3, most },
        ),
        (
            "traffic --rail 3",
            traffic(),
            Request::Traffic {
                rail: Some(3),
                most: 5_000,
            },
        ),
    ] {
        let parts: Vec<_> = words.split(' ').collect();
        let (asked, output) = played(&parts, &[known(), answer], false).await;
        assert_eq!(asked, [Request::Status, asks], "{words}");
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_show_foreign_claims() {
    let warning = "h3 claims 10.2.0.1, NIC eth2 of h1; its readings of that address are ignored";
    let seen = Status {
        warnings: vec![warning.to_owned()],
        ..status()
    };
    let answer = Response::Status(Box::new(seen));
    let (_, output) = played(&["hosts"], &[answer], false).await;
    let shown = text(&output.stdout);
    assert!(shown.contains(&format!("look at: {warning}")), "{shown}");
}
