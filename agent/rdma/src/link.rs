//! Decodes the numbers of a port.

use reweave_common::units::Rate;

/// The rate of all lanes together, from the codes of InfiniBand.
pub fn speed(width: u8, speed: u8) -> Option<Rate> {
    let lanes = match width {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => return None,
    };
    let gbps = match speed {
        1 => 2.5,
        2 => 5.0,
        4 | 8 => 10.0,
        16 => 14.0,
        32 => 25.0,
        64 => 50.0,
        128 => 100.0,
        _ => return None,
    };
    Rate::from_gbps(gbps * f64::from(lanes))
}

/// The MTU for a code. Zero for an unknown code.
pub fn mtu_bytes(code: u32) -> u32 {
    match code {
        1..=5 => 128 << code,
        _ => 0,
    }
}

/// The code of the largest that is no larger than this many bytes.
pub fn mtu_code(bytes: u32) -> u32 {
    (1..=5)
        .rev()
        .find(|&code| mtu_bytes(code) <= bytes)
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_match_vendor_rates() {
        let gbps = |width, code| speed(width, code).map(Rate::gbps);
        assert_eq!(gbps(1, 1), Some(2.5));
        assert_eq!(gbps(2, 32), Some(100.0));
        assert_eq!(gbps(2, 128), Some(400.0));
        assert_eq!(gbps(0, 1), None);
        assert_eq!(gbps(2, 0), None);
    }

    #[test]
    fn smaller_mtu_is_common() {
        assert_eq!([1, 3, 5].map(mtu_bytes), [256, 1024, 4096]);
        assert_eq!([4096, 1024, 1023, 7].map(mtu_code), [5, 3, 2, 1]);
        assert_eq!(mtu_bytes(77), 0);
    }
}
