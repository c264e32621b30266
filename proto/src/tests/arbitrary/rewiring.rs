//! What people want of optical switches, and what comes of it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use reweave_common::circuit::{CircuitSet, OpticalName};
use reweave_common::operator::{
    Base, FrozenStatus, Joint, Line, MaintenanceStage, MaintenanceStatus, NamedMigration,
    OpticalStatus, Phase, Ranks, Refused, Request, RunningChange, Steering, Tag, Via, Wave, What,
};
use reweave_common::plan::Generation;

use super::driver::{circuits, name};
use super::{MAX_LIST_ITEMS, generation, pin, rate, text, texts};

type Tables = BTreeMap<String, BTreeMap<String, Vec<Via>>>;

pub(crate) fn wishes() -> impl Strategy<Value = BTreeMap<OpticalName, CircuitSet>> {
    btree_map(name(), circuits(), 0..MAX_LIST_ITEMS)
}

/// Tables and circuits of a plan, and what it changes.
pub(crate) fn rewired() -> impl Strategy<Value = (Tables, BTreeMap<String, CircuitSet>, Vec<Line>)>
{
    let via = (text(), any::<u32>()).prop_map(|(link, weight)| Via { link, weight });
    let routes = btree_map(text(), vec(via, 0..MAX_LIST_ITEMS), 0..MAX_LIST_ITEMS);
    let tables = btree_map(text(), routes, 0..MAX_LIST_ITEMS);
    let circuits = btree_map(text(), circuits(), 0..MAX_LIST_ITEMS);
    (tables, circuits, vec(line(), 0..MAX_LIST_ITEMS))
}

pub(crate) fn migration() -> impl Strategy<Value = NamedMigration> {
    let tables = || rewired().prop_map(|(tables, ..)| tables);
    let circuits = || btree_map(text(), circuits(), 0..MAX_LIST_ITEMS);
    let rounds = || vec(tables(), 0..2);
    let wave = (rounds(), circuits(), rounds()).prop_map(|(drain, circuits, undrain)| Wave {
        drain,
        circuits,
        undrain,
    });
    let parts = (tables(), circuits(), vec(wave, 0..2));
    parts.prop_map(|(tables_before, circuits_before, waves)| NamedMigration {
        tables_before,
        circuits_before,
        waves,
    })
}

pub(crate) fn base() -> impl Strategy<Value = Base> {
    let policy = (0.0..=1.0, any::<bool>());
    let owners = option::of(btree_map(
        any::<u32>().prop_map(Ipv4Addr::from),
        text(),
        0..MAX_LIST_ITEMS,
    ));
    let parts = (
        vec(pin(), 0..MAX_LIST_ITEMS),
        rewired(),
        vec(text(), 0..MAX_LIST_ITEMS),
        policy,
    );
    (parts, owners).prop_map(
        |((pins, (tables, circuits, _), down, policy), addresses)| Base {
            pins,
            tables,
            circuits,
            down,
            capacity_floor: policy.0,
            lossless: policy.1,
            addresses,
        },
    )
}

pub(crate) fn optical_status() -> impl Strategy<Value = OpticalStatus> {
    let parts = (text(), any::<bool>(), circuits());
    parts.prop_map(|(optical, is_driven, circuits)| OpticalStatus {
        optical,
        is_driven,
        circuits,
    })
}

pub(crate) fn frozen() -> impl Strategy<Value = FrozenStatus> {
    let parts = (vec(text(), 0..MAX_LIST_ITEMS), text(), any::<u64>());
    parts.prop_map(|(hosts, by, age_ms)| FrozenStatus { hosts, by, age_ms })
}

fn stage() -> impl Strategy<Value = MaintenanceStage> {
    prop_oneof![
        Just(MaintenanceStage::Draining),
        Just(MaintenanceStage::Working),
        Just(MaintenanceStage::Returning)
    ]
}

pub(crate) fn maintain() -> impl Strategy<Value = Request> {
    let parts = (text(), proptest::option::of(stage()));
    prop_oneof![
        parts.prop_map(|(name, stage)| Request::Maintain { name, stage }),
        text().prop_map(|name| Request::TakeOver { name }),
    ]
}

pub(crate) fn under_maintenance() -> impl Strategy<Value = Refused> {
    let parts = (text(), text(), stage(), any::<u64>());
    parts.prop_map(|(name, by, stage, age_s)| Refused::UnderMaintenance {
        name,
        by,
        stage,
        age_s,
    })
}

pub(crate) fn maintenance() -> impl Strategy<Value = MaintenanceStatus> {
    let texts = || vec(text(), 0..MAX_LIST_ITEMS);
    let parts = (text(), stage(), text(), any::<u64>(), texts(), texts());
    parts.prop_map(
        |(name, stage, by, age_ms, links, not_empty)| MaintenanceStatus {
            name,
            stage,
            by,
            age_ms,
            links,
            not_empty,
        },
    )
}

fn line() -> impl Strategy<Value = Line> {
    let tag = prop_oneof![
        Just(Tag::LiveSafe),
        Just(Tag::NeedsDrain),
        Just(Tag::NextRestart)
    ];
    let routes = (text(), any::<u32>()).prop_map(|(node, towards)| What::Routes { node, towards });
    let what = prop_oneof![
        pin().prop_map(What::Pin),
        pin().prop_map(What::Unpin),
        joint().prop_map(What::Connect),
        joint().prop_map(What::Disconnect),
        routes,
        ranks().prop_map(What::Ranks),
    ];
    (what, tag).prop_map(|(what, tag)| Line { what, tag })
}

fn ranks() -> impl Strategy<Value = Ranks> {
    let rates = option::of([rate(), rate()]);
    let parts = (text(), vec(text(), 0..MAX_LIST_ITEMS), rates);
    parts.prop_map(|(job, order, ring_bits_per_s)| Ranks {
        job,
        order,
        ring_bits_per_s,
    })
}

fn joint() -> impl Strategy<Value = Joint> {
    let parts = (text(), any::<[u16; 2]>(), vec(text(), 0..MAX_LIST_ITEMS));
    parts.prop_map(|(optical, ports, ends)| Joint {
        optical,
        circuit: ports.map(reweave_common::circuit::PortId).into(),
        ends,
    })
}

pub(crate) fn steering() -> impl Strategy<Value = (Generation, Steering)> {
    let how = prop_oneof![
        Just(Steering::Hold),
        Just(Steering::Resume),
        Just(Steering::Abort)
    ];
    (generation(), how)
}

pub(crate) fn running_change() -> impl Strategy<Value = RunningChange> {
    let phase = prop_oneof![
        Just(Phase::Proposed),
        Just(Phase::Approved),
        Just(Phase::Applying),
        Just(Phase::Verifying),
        Just(Phase::RollingBack),
        Just(Phase::Held),
    ];
    let why = (texts(), texts(), option::of(text()));
    let parts = (generation(), generation(), phase, why, any::<u64>());
    parts.prop_map(
        |(generation, parent, phase, (waiting_for, reasons, stopped_by), age_ms)| RunningChange {
            generation,
            parent,
            phase,
            waiting_for,
            reasons,
            stopped_by,
            age_ms,
        },
    )
}
