//! Lets peers detect at once that a listener has restarted.
//!
//! A packet for an unknown session is answered with a QUIC stateless reset, which requires a key. With a new key per
//! process, a restarted process could send no reset for earlier sessions, and peers would wait for their idle timeout.
//! So the key is derived from the private key.

use std::sync::Arc;
use std::time::Duration;

use quinn::{ConnectionId, ConnectionIdGenerator, EndpointConfig};
use ring::hmac;

const KEY_PURPOSE: &[u8] = b"reweave stateless reset";
/// Many peers need a reset at once, so the usual limit is too low.
const MIN_RESET_INTERVAL: Duration = Duration::from_millis(2);

#[derive(Clone, Copy)]
pub(crate) struct ReturnKey([u8; 32]);

impl ReturnKey {
    pub(crate) fn derive(private_key: &[u8]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, private_key);
        let derived = hmac::sign(&key, KEY_PURPOSE);
        Self(derived.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    pub(crate) fn endpoint_config(self) -> EndpointConfig {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let mut config = EndpointConfig::new(Arc::new(key));
        config
            .min_reset_interval(MIN_RESET_INTERVAL)
            .cid_generator(|| Box::new(RandomIds));
        config
    }
}

/// Random connection ids. quinn's default ids are marked by their process, which ignores packets with other ids.
struct RandomIds;

impl ConnectionIdGenerator for RandomIds {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&rand::random::<[u8; 8]>())
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
