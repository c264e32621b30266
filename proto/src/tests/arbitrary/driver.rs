//! What drivers of optical switches hear and say.

use proptest::collection::vec;
use proptest::prelude::*;
use reweave_common::circuit::{CircuitSet, NotSwitched, OpticalName, PortId, Readback, Switchover};
use reweave_common::instruction::Token;

use super::super::members::seats;
use super::{MAX_LIST_ITEMS, deny_list, generation, removed, text};
use crate::message::{DriverMessage, DriverOrder, Order};

pub(super) fn circuits() -> impl Strategy<Value = CircuitSet> {
    vec(any::<(u16, u16)>(), 0..MAX_LIST_ITEMS).prop_map(|pairs| {
        let pairs = pairs.into_iter();
        pairs.map(|(a, b)| [PortId(a), PortId(b)].into()).collect()
    })
}

pub(super) fn name() -> impl Strategy<Value = OpticalName> {
    text().prop_map(OpticalName)
}

fn not_switched() -> impl Strategy<Value = NotSwitched> {
    let older = (generation(), any::<u64>()).prop_map(|(held, token)| NotSwitched::Older {
        held,
        token: Token(token),
    });
    let refused =
        (text(), circuits()).prop_map(|(error, found)| NotSwitched::Device { error, found });
    prop_oneof![
        older,
        refused,
        circuits().prop_map(|found| NotSwitched::Mismatch { found }),
        text().prop_map(|error| NotSwitched::Impossible { error }),
        Just(NotSwitched::TimedOut),
        Just(NotSwitched::NoSuchSwitch),
    ]
}

pub(crate) fn driver_message() -> impl Strategy<Value = DriverMessage> {
    let outcome = prop_oneof![circuits().prop_map(Ok), not_switched().prop_map(Err)];
    let readback = (name(), generation(), any::<u64>(), outcome);
    let readback = readback.prop_map(|(optical, generation, token, outcome)| {
        let token = Token(token);
        let readback = Readback {
            generation,
            token,
            outcome,
        };
        DriverMessage::Readback { optical, readback }
    });
    prop_oneof![
        vec(name(), 0..MAX_LIST_ITEMS).prop_map(DriverMessage::Drives),
        readback,
        any::<u64>().prop_map(|time_of_day_us| DriverMessage::Clock { time_of_day_us }),
        vec(any::<u8>(), 0..MAX_LIST_ITEMS).prop_map(|request| DriverMessage::Renew { request }),
    ]
}

pub(crate) fn driver_order() -> impl Strategy<Value = DriverOrder> {
    let report = (generation(), any::<u64>(), text(), circuits(), circuits());
    let report = report.prop_map(|(generation, token, optical, expected, desired)| {
        let token = Token(token);
        Order::Instructed(Switchover {
            generation,
            token,
            optical,
            expected,
            desired,
        })
    });
    let renewed = proptest::option::of(text()).prop_map(|chain_pem| Order::Renewed { chain_pem });
    let elsewhere = Just(Order::Elsewhere(None));
    prop_oneof![
        report,
        deny_list().prop_map(Order::Denied),
        deny_list().prop_map(Order::DeniedMore),
        removed().prop_map(Order::Removed),
        renewed,
        elsewhere,
        Just(Order::Here),
        seats().prop_map(Order::Coordinators),
    ]
}
