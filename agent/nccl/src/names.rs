//! NCCL's names as numbers: an event stores a number at no cost.

use std::ffi::{CStr, c_char};

pub(crate) const COLLECTIVE_KINDS: &[&str] = &[
    "AllReduce",
    "AllGather",
    "ReduceScatter",
    "Broadcast",
    "Reduce",
    "AlltoAll",
    "Gather",
    "Scatter",
    "Send",
    "Recv",
    "SendRecv",
];
pub(crate) const ALGORITHMS: &[&str] = &[
    "RING",
    "TREE",
    "NVLS",
    "NVLS_TREE",
    "COLLNET_DIRECT",
    "COLLNET_CHAIN",
    "PAT",
];
pub(crate) const PROTOCOLS: &[&str] = &["LL", "LL128", "SIMPLE"];
/// What jobs sum most of comes first.
const DATATYPES: &[(&str, u64)] = &[
    ("ncclBfloat16", 2),
    ("ncclFloat32", 4),
    ("ncclFloat16", 2),
    ("ncclInt8", 1),
    ("ncclUint8", 1),
    ("ncclFloat8e4m3", 1),
    ("ncclFloat8e5m2", 1),
    ("ncclInt32", 4),
    ("ncclUint32", 4),
    ("ncclInt64", 8),
    ("ncclUint64", 8),
    ("ncclFloat64", 8),
];
/// A name that is new to this plugin.
const OTHER_NAME: &str = "other";
const NO_NUMBER: u8 = u8::MAX;

/// # Safety
/// `name` is null or the address of a text that ends with a zero.
#[allow(unsafe_code, reason = "the caller vouches for the text")]
pub(crate) unsafe fn number(names: &[&str], name: *const c_char) -> u8 {
    let text = unsafe { text(name) };
    let place = text.and_then(|text| names.iter().position(|it| it.as_bytes() == text));
    place.map_or(NO_NUMBER, |place| place as u8)
}

pub(crate) fn name(names: &[&'static str], number: u8) -> &'static str {
    names
        .get(usize::from(number))
        .copied()
        .unwrap_or(OTHER_NAME)
}

/// Zero where the type is new to this plugin.
///
/// # Safety
/// As of [`number`].
#[allow(unsafe_code, reason = "the caller vouches for the text")]
pub(crate) unsafe fn bytes_of(datatype: *const c_char) -> u64 {
    let text = unsafe { text(datatype) };
    let known = text.and_then(|text| DATATYPES.iter().find(|(name, _)| name.as_bytes() == text));
    known.map_or(0, |(_, bytes)| *bytes)
}

#[allow(unsafe_code, reason = "the caller vouches for the text")]
unsafe fn text<'a>(text: *const c_char) -> Option<&'a [u8]> {
    let there = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
    there.map(CStr::to_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code, reason = "the texts are constants")]
    fn unknown_nccl_names_become_other() {
        let of = |name: &CStr| unsafe { number(COLLECTIVE_KINDS, name.as_ptr()) };
        assert_eq!(
            name(COLLECTIVE_KINDS, of(c"ReduceScatter")),
            "ReduceScatter"
        );
        assert_eq!(name(COLLECTIVE_KINDS, of(c"Reduce")), "Reduce");
        assert_eq!(name(COLLECTIVE_KINDS, of(c"Conjure")), "other");
        assert_eq!(
            name(COLLECTIVE_KINDS, unsafe {
                number(COLLECTIVE_KINDS, std::ptr::null())
            }),
            "other"
        );
        assert_eq!(unsafe { bytes_of(c"ncclBfloat16".as_ptr()) }, 2);
        assert_eq!(unsafe { bytes_of(c"ncclQuaternion".as_ptr()) }, 0);
    }
}
