use std::time::Duration;

use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::moment::Moment;
use reweave_common::traffic::Burst;

use super::*;

const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
                      host_gbps = 0.4\nuplink_gbps = 0.2\n";

fn variant(text: &str) -> Result<Variant, String> {
    let text = format!("recorded = \"f.toml\"\n{text}");
    let fabric = Fabric::parse("f.toml", FABRIC).unwrap();
    let file = VariantFile::parse("v.toml", &text).map_err(|error| error.to_string())?;
    assert_eq!(file.fabrics(), ["f.toml", "f.toml"]);
    file.on([fabric.clone(), fabric])
        .map_err(|error| error.to_string())
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
        }
    };
    [0, 1].map(burst).into()
}

fn played(text: &str) -> Result<Compared, SandboxError> {
    let mut effort = Effort {
        costs: Costs::default(),
        limit: 1_000_000,
        watch: &mut |_| true,
    };
    let from = Moment::from_micros(1_000_000);
    compare(&collision(), from, &variant(text).unwrap(), &mut effort)
}

fn full(outcome: &Outcome) -> Vec<(&str, &str, i64)> {
    let percent = |share: f64| (share * 100.0).round() as i64;
    let fullest = outcome.fullest.iter();
    let fullest = fullest.map(|it| (&*it.link, &*it.to, percent(it.share)));
    fullest.take(2).collect()
}

#[test]
fn the_fullest_links_are_told_of_what_was_and_of_what_might_have_been() {
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
fn links_that_are_taken_out_carry_nothing() {
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
    assert_eq!(cut.to_string(), "there is no way from h0 to h2");
}

#[test]
fn whoever_watches_may_end_it() {
    let mut effort = Effort {
        costs: Costs::default(),
        limit: 1_000_000,
        watch: &mut |_| false,
    };
    let variant = variant("").unwrap();
    let outcome = compare(&collision(), Moment::default(), &variant, &mut effort);
    assert!(
        matches!(outcome, Err(SandboxError::AsItWas(_))),
        "{outcome:?}"
    );
    let nobody = compare(&[], Moment::default(), &variant, &mut effort);
    assert_eq!(nobody, Err(SandboxError::NothingSent));
}
