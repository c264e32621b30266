//! Any policy, and any change of it.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use reweave_common::operator::{
    PolicySetting, PolicyStatus, Refused, Request, Response, SettingChange, SettingSource,
};

use super::{MAX_LIST_ITEMS, generation, text};

pub(super) fn request() -> impl Strategy<Value = Request> {
    let settings = btree_map(text(), option::of(text()), 0..MAX_LIST_ITEMS);
    let set = (settings, any::<Option<u64>>());
    let set = set.prop_map(|(settings, expected)| Request::PolicySet { settings, expected });
    prop_oneof![Just(Request::Policy), set]
}

pub(super) fn response() -> impl Strategy<Value = Response> {
    let status = (any::<u64>(), vec(setting(), 0..MAX_LIST_ITEMS));
    status.prop_map(|(revision, settings)| Response::Policy(PolicyStatus { revision, settings }))
}

pub(super) fn refused() -> impl Strategy<Value = Refused> {
    let changed = (any::<u64>(), option::of(text()), text(), any::<u64>());
    prop_oneof![
        (text(), text()).prop_map(|(key, problem)| Refused::BadSetting { key, problem }),
        changed.prop_map(|(revision, key, by, age_s)| Refused::PolicyChanged {
            revision,
            key,
            by,
            age_s,
        }),
        (text(), generation())
            .prop_map(|(key, generation)| Refused::SettingInUse { key, generation }),
    ]
}

fn setting() -> impl Strategy<Value = PolicySetting> {
    let source = prop_oneof![
        Just(SettingSource::Default),
        Just(SettingSource::File),
        Just(SettingSource::Set),
    ];
    let change = (text(), any::<u64>()).prop_map(|(by, age_s)| SettingChange { by, age_s });
    let parts = (
        text(),
        text(),
        source,
        option::of(change),
        option::of(text()),
    );
    parts.prop_map(|(key, value, source, set, unfit)| PolicySetting {
        key,
        value,
        source,
        set,
        unfit,
    })
}
