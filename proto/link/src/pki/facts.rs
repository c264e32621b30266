//! Fields of a certificate besides its subject.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reweave_common::member::Admission;
use rustls::pki_types::CertificateDer;
use x509_parser::time::ASN1Time;

use super::Validity;

/// Keeps serial numbers positive and of one length.
const SERIAL_PREFIX: u8 = 1;
const SERIAL_BYTES: usize = 17;

pub(crate) struct Facts {
    pub(crate) admission: Admission,
    pub(crate) validity: Validity,
}

/// None if it is no certificate.
pub(crate) fn facts(certificate: &CertificateDer<'_>) -> Option<Facts> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let validity = parsed.validity();
    Some(Facts {
        admission: admission(parsed.raw_serial()),
        validity: Validity {
            not_before: system_time(validity.not_before),
            not_after: system_time(validity.not_after),
        },
    })
}

/// The admission, and random bytes that distinguish certificates of one admission.
pub(super) fn serial(admission: Admission) -> Vec<u8> {
    let unique: [u8; 8] = rand::random();
    [&[SERIAL_PREFIX][..], &admission.0.to_be_bytes(), &unique].concat()
}

fn admission(serial: &[u8]) -> Admission {
    match serial {
        [SERIAL_PREFIX, rest @ ..] if serial.len() == SERIAL_BYTES => {
            let number = rest.first_chunk().copied().unwrap_or_default();
            Admission(u64::from_be_bytes(number))
        }
        _ => Admission::default(),
    }
}

fn system_time(time: ASN1Time) -> SystemTime {
    let seconds = u64::try_from(time.timestamp()).unwrap_or(0);
    UNIX_EPOCH + Duration::from_secs(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_number_encodes_admission() {
        for number in [0, 1, 300, u64::MAX] {
            let serial = serial(Admission(number));
            assert_eq!(admission(&serial), Admission(number));
        }
        assert_ne!(serial(Admission(7)), serial(Admission(7)));
    }

    #[test]
    fn foreign_serial_number_counts_as_oldest() {
        for serial in [&[][..], &[1; 16], &[2; 17], &[1; 20]] {
            assert_eq!(admission(serial), Admission(0));
        }
    }
}
