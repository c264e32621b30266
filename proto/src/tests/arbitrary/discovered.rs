//! Any fabric as agents may see it.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use reweave_common::fabric::Role;
use reweave_common::operator::{
    Discovered, DiscoveredLink, DiscoveredNode, LinkEnd, LooseEnd, Request, Response,
};

use super::{MAX_LIST_ITEMS, rate, text, texts};

pub(super) fn request() -> impl Strategy<Value = Request> {
    any::<u32>().prop_map(|from_link| Request::Discover { from_link })
}

pub(super) fn response() -> impl Strategy<Value = Response> {
    let loose = (text(), text(), option::of(rate()));
    let loose = loose.prop_map(|(node, interface, rate_bits_per_s)| LooseEnd {
        node,
        interface,
        rate_bits_per_s,
    });
    let lists = (
        vec(node(), 0..MAX_LIST_ITEMS),
        vec(link(), 0..MAX_LIST_ITEMS),
        vec(loose, 0..MAX_LIST_ITEMS),
    );
    (lists, any::<usize>(), texts()).prop_map(|((nodes, links, loose), all_links, doubts)| {
        Response::Discovered(Discovered {
            nodes,
            links,
            all_links,
            loose,
            doubts,
        })
    })
}

fn node() -> impl Strategy<Value = DiscoveredNode> {
    let role = prop_oneof![Just(Role::Host), Just(Role::Switch), Just(Role::Relay)];
    (text(), role, texts()).prop_map(|(name, role, doubts)| DiscoveredNode { name, role, doubts })
}

fn link() -> impl Strategy<Value = DiscoveredLink> {
    let end =
        || (text(), option::of(text())).prop_map(|(node, interface)| LinkEnd { node, interface });
    let parts = (
        end(),
        end(),
        option::of(rate()),
        texts(),
        texts(),
        any::<bool>(),
    );
    parts.prop_map(
        |(one, other, rate, because, doubts, is_guess)| DiscoveredLink {
            ends: [one, other],
            rate_bits_per_s: rate,
            because,
            doubts,
            is_guess,
        },
    )
}
