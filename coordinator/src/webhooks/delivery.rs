//! Delivery to one webhook: each event is signed and sent, in order, with retries for some minutes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use reqwest::{Client, Url, header};
use ring::hmac::{self, HMAC_SHA256};
use serde::Serialize;
use tokio::sync::mpsc::Receiver;
use tokio::time::sleep;

use super::news::News;
use crate::counters::{EventCounters, Fate};
use crate::hex::hex;

pub(super) const DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Doubled each time: a receiver that restarts is back by then.
const INITIAL_RETRY_INTERVAL: Duration = Duration::from_secs(1);
const MAX_TRIES: u32 = 8;

/// A signed event; retries send the same content.
#[derive(Debug, Clone)]
pub(super) struct Parcel {
    pub(super) event: String,
    id: String,
    body: Bytes,
}

#[derive(Serialize)]
struct Letter<'a> {
    /// The same however often it is sent.
    id: &'a str,
    /// Since 1970, by the coordinator's clock.
    at_ms: u128,
    #[serde(flatten)]
    news: &'a News,
}

impl Parcel {
    pub(super) fn of(news: &News) -> Self {
        let id = hex(&rand::random::<[u8; 16]>());
        let letter = Letter {
            id: &id,
            at_ms: since_1970().as_millis(),
            news,
        };
        let value = serde_json::to_value(&letter).unwrap_or_default();
        let event = value["event"].as_str().unwrap_or_default().to_owned();
        let body = Bytes::from(value.to_string());
        Self { event, id, body }
    }
}

pub(super) struct Delivery {
    client: Client,
    url: Url,
    key: hmac::Key,
}

impl Delivery {
    pub(super) fn new(client: Client, url: Url, secret: &[u8]) -> Self {
        let key = hmac::Key::new(HMAC_SHA256, secret);
        Self { client, url, key }
    }

    /// Sends until all senders are dropped.
    pub(super) async fn keep_sending(
        self,
        mut parcels: Receiver<Parcel>,
        fates: EventCounters<Fate>,
    ) {
        while let Some(parcel) = parcels.recv().await {
            let Err(why) = self.send(&parcel).await else {
                fates.note(Fate::Taken);
                continue;
            };
            fates.note(Fate::Failed);
            let (event, hook) = (&parcel.event, super::origin(&self.url));
            tracing::warn!("{event} was not sent to {hook} in {MAX_TRIES} tries: {why}");
        }
    }

    async fn send(&self, parcel: &Parcel) -> Result<(), String> {
        let mut pause = INITIAL_RETRY_INTERVAL;
        let mut tries = 0;
        loop {
            tries += 1;
            let Err(why) = self.try_once(parcel).await else {
                return Ok(());
            };
            if tries == MAX_TRIES {
                return Err(why);
            }
            sleep(pause).await;
            pause *= 2;
        }
    }

    /// Why it was not taken.
    async fn try_once(&self, parcel: &Parcel) -> Result<(), String> {
        let at = since_1970().as_secs();
        let request = self
            .client
            .post(self.url.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header("Reweave-Event", &parcel.event)
            .header("Reweave-Delivery", &parcel.id)
            .header("Reweave-Signature", self.signature(at, &parcel.body))
            .body(parcel.body.clone());
        let answer = request.send().await;
        let answer =
            answer.map_err(|error| reweave_common::error::error_chain(&error.without_url()))?;
        let code = answer.status();
        if code.is_success() {
            Ok(())
        } else {
            Err(format!("status {code}"))
        }
    }

    /// Over the time as well, against replays.
    fn signature(&self, at: u64, body: &[u8]) -> String {
        let mut signed = hmac::Context::with_key(&self.key);
        signed.update(at.to_string().as_bytes());
        signed.update(b".");
        signed.update(body);
        format!("t={at},v1={}", hex(signed.sign().as_ref()))
    }
}

fn since_1970() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signature is of `printf '1700000000.{}' | openssl dgst -sha256 -hmac 'a secret of some length'`.
    #[test]
    fn signatures_match_openssl() {
        let url = Url::parse("http://127.0.0.1/").unwrap();
        let client = super::super::client().unwrap();
        let delivery = Delivery::new(client, url, b"a secret of some length");
        assert_eq!(
            delivery.signature(1_700_000_000, b"{}"),
            "t=1700000000,v1=9008b8e96ac884fb56cbbbb39d8c4b578c2c6de7951cbcce7f1f18311f3cd9f2"
        );
    }
}
