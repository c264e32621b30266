//! Plans that put flows where there is no room for them, and plans that only seem to.

use std::time::Duration;

use reweave_common::forwarding::{ForwardingTable, NextHop};

use super::*;

/// Three leaves with four hosts each; what hosts send is never held back before the first leaf.
fn site() -> Site {
    Site::of(
        "kind = \"leaf-spine\"\nleaves = 3\nspines = 3\nhosts_per_leaf = 4\n\
         host_gbps = 10\nuplink_gbps = 1",
    )
}

fn leaf_of(host: &str) -> String {
    let number: usize = host[1..].parse().unwrap();
    format!("leaf{}", number / 4)
}

fn mbps(mbps: u64) -> Rate {
    Rate::from_bits_per_s(mbps * 1_000_000)
}

impl Site {
    fn hop(&self, from: &str, to: &str) -> Hop {
        Hop {
            from: self.node(from),
            link: self.link(from, to),
        }
    }

    /// A flow that was measured to send so much by this spine.
    fn send(&mut self, [from, to]: [&str; 2], spine: &str, rate: Rate) -> FlowKey {
        let (first, last) = (leaf_of(from), leaf_of(to));
        self.send_through(&[from, &first, spine, &last, to], rate)
    }

    /// A flow that was measured to send so much through these nodes.
    fn send_through(&mut self, nodes: &[&str], rate: Rate) -> FlowKey {
        let (from, to) = (nodes[0], nodes[nodes.len() - 1]);
        let path = nodes.windows(2).map(|pair| self.hop(pair[0], pair[1]));
        let state = FlowState {
            flow: self.flow(from, to),
            from: self.node(from),
            to: self.node(to),
            nic: None,
            rate,
            rate_range: [rate, rate],
            path: Some(path.collect()),
            age: Duration::ZERO,
        };
        let flow = state.flow;
        self.flows.push(state);
        flow
    }

    /// The overloads that a plan with these pins is refused for.
    fn overloads(&self, pins: &[Pin]) -> Vec<Overload> {
        let found = self.check(pins).err().unwrap_or_default();
        let overloads = found.into_iter().map(|it| match it {
            Unsound::Overload(overload) => overload,
            other => panic!("{other}"),
        });
        overloads.collect()
    }
}

/// One flow alone by the first spine, and one that leaves no room for it by the second.
fn apart() -> (Site, Pin) {
    let mut site = site();
    let flow = site.send(["h0", "h4"], "spine0", mbps(400));
    site.send(["h1", "h5"], "spine1", mbps(800));
    let pin = site.pin(flow, "leaf0", "spine1");
    (site, pin)
}

#[test]
fn unhindered_flow_needs_room_elsewhere() {
    let (mut site, pin) = apart();
    let overloads = site.overloads(&[pin]);
    let from: Vec<_> = overloads.iter().map(|it| &*it.from).collect();
    assert_eq!(from, ["leaf0", "spine1"]);
    assert_eq!(
        (overloads[0].load, overloads[0].rate),
        (mbps(1200), mbps(1000))
    );
    assert_eq!(
        overloads[0].to_string(),
        "leaf0-spine1 would have to carry 1.2 Gb/s from leaf0, and its rate is 1.0 Gb/s: the flows \
         that would go there are not held back where they are"
    );
    let aside = site.pin(pin.flow, "leaf0", "spine2");
    assert_eq!(site.check(&[aside]), Ok(()));
    site.flows[1].rate = mbps(650);
    assert_eq!(site.check(&[pin]), Ok(()), "readings are off by as much");
}

/// It meets the other one behind the spine, to which it is not pinned.
#[test]
fn ways_behind_pins_have_load() {
    let mut site = site();
    let flow = site.send(["h0", "h4"], "spine0", mbps(400));
    site.send(["h8", "h5"], "spine1", mbps(800));
    let overloads = site.overloads(&[site.pin(flow, "leaf0", "spine1")]);
    let from: Vec<_> = overloads.iter().map(|it| &*it.from).collect();
    assert_eq!(from, ["spine1"]);
}

/// A plan may lead on by other tables what it pins.
#[test]
fn ways_behind_pins_follow_new_tables() {
    let mut site = Site::relays("abcde", &["ab", "ac", "bc", "be", "cd", "ed"]);
    let flow = site.send_through(&["a", "c", "d"], mbps(400));
    site.send_through(&["e", "d"], mbps(800));
    let [b, d] = ["b", "d"].map(|name| site.node(name));
    let by = |next: &str| {
        let hop = NextHop {
            link: site.link("b", next),
            weight: 1,
        };
        let table = ForwardingTable {
            at: b,
            towards: BTreeMap::from([(d, vec![hop])]),
            raises: Vec::new(),
        };
        Tables::from([(b, table)])
    };
    let (in_force, nothing) = (by("c"), Tables::new());
    let (circuits, pin) = (Circuits::new(), site.pin(flow, "a", "b"));
    let judged = |tables| {
        let plan = Plan {
            tables,
            ..plan(&[pin])
        };
        check(&site.network([&in_force, &nothing], &circuits), &plan)
    };
    assert_eq!(judged(by("c")), Ok(()));
    let found = judged(by("e")).unwrap_err();
    let said: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("e-d would have to carry 1.2 Gb/s from e"),
        "{said:?}"
    );
}

/// Three share a link and one has another: one of them may come to that, and all three may not.
#[test]
fn flow_may_leave_full_link() {
    let mut site = site();
    let together = [("h0", "h4"), ("h1", "h5"), ("h2", "h6")]
        .map(|(from, to)| site.send([from, to], "spine0", mbps(333)));
    site.send(["h3", "h7"], "spine1", mbps(1000));
    let pins = together.map(|flow| site.pin(flow, "leaf0", "spine1"));
    assert_eq!(site.check(&pins[..1]), Ok(()));
    assert_eq!(site.overloads(&pins).len(), 2, "nothing gains by it");
    // What stays is not what the others were in the way of.
    site.flows[0].rate = mbps(5);
    site.flows[0].rate_range = [mbps(5); 2];
    for flow in &mut site.flows[1..3] {
        flow.rate_range[1] = mbps(490);
    }
    assert_eq!(site.overloads(&pins[1..]).len(), 2);
}

/// It makes room for the one that comes to where it was.
#[test]
fn flows_may_move_up_one_another() {
    let mut site = site();
    let hindered = site.send(["h0", "h4"], "spine0", mbps(500));
    site.send(["h1", "h5"], "spine0", mbps(500));
    let between = site.send(["h2", "h6"], "spine1", mbps(600));
    site.send(["h3", "h7"], "spine2", mbps(700));
    let pins = [
        site.pin(hindered, "leaf0", "spine1"),
        site.pin(between, "leaf0", "spine2"),
    ];
    assert_eq!(site.check(&pins), Ok(()));
    assert_eq!(site.overloads(&pins[1..]).len(), 2);
}

#[test]
fn worst_overload_may_not_grow() {
    let (mut site, pin) = apart();
    for host in ["h8", "h9"] {
        site.send([host, "h7"], "spine2", mbps(650));
    }
    assert_eq!(site.check(&[pin]), Ok(()), "a link has more than that");
    site.flows[1].rate = mbps(950);
    assert_eq!(site.overloads(&[pin]).len(), 2);
}

#[test]
fn unknown_loads_count_as_nothing() {
    let (mut site, pin) = apart();
    let path = site.flows[1].path.take();
    assert_eq!(site.check(&[pin]), Ok(()));
    site.flows[1].path = path;
    // Neither the flow nor its counters say what else is on its way.
    let full = LinkState {
        up: true,
        rate: mbps(990),
        age: Duration::ZERO,
    };
    let hop = site.hop("leaf0", "spine0");
    site.link_loads.insert(hop, full.clone());
    assert_eq!(site.check(&[pin]), Ok(()), "others may gain");
    let hop = site.hop("leaf0", "spine2");
    site.link_loads = BTreeMap::from([(hop, full)]);
    assert_eq!(site.overloads(&[pin]).len(), 2);
}

/// A way that was traced before a pin was there says nothing of what is there now.
#[test]
fn outdated_traces_count_as_nothing() {
    let (mut site, pin) = apart();
    site.pins = vec![site.pin(site.flows[1].flow, "leaf0", "spine2")];
    let both = [site.pins[0], pin];
    assert_eq!(site.check(&both), Ok(()));
}

/// What is lifted or rolled back need not be for balance.
#[test]
fn only_plans_for_balance_need_room() {
    let (mut site, pin) = apart();
    let back = Plan {
        takes_back: Some(Generation(3)),
        ..plan(&[pin])
    };
    assert_eq!(site.check_plan(&back), Ok(()));
    site.pins = vec![site.pin(pin.flow, "leaf0", "spine0")];
    assert_eq!(site.check(&[]), Ok(()));
    assert_eq!(site.overloads(&[pin]).len(), 2);
}
