//! Webhooks: findings, alarms and changes, as signed posts over HTTP.
//!
//! The leader looks once a second at the status, and posts what has changed. Each webhook has a queue of its own, so
//! that one that hangs delays no other, and nothing here delays the cluster.

mod delivery;
mod news;
#[cfg(test)]
mod tests;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, Url};
use reweave_common::member::{Member, Role};
use reweave_common::operator::{Request, Response};
use serde::Deserialize;
use tokio::sync::mpsc::{self, Sender};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::config::{self, Said};
use crate::counters::{EventCounters, Fate};
use crate::error::CoordinatorError;
use crate::http;
use crate::intake::Asker;
use crate::server_context::ServerContext;
use delivery::{Delivery, Parcel};
use news::{Seen, Sight};

/// People notice no sooner.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The number of events that wait for a webhook which does not answer. Further ones are dropped and counted.
const QUEUE_LENGTH: usize = 256;
/// A shorter secret can be found by trying.
const MIN_SECRET_BYTES: usize = 16;

/// A kind of event that a webhook can subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Finding,
    Alarm,
    Change,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Finding, Self::Alarm, Self::Change];
}

/// One configured webhook.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Hook {
    pub(crate) url: Url,
    pub(crate) secret_file: Said<PathBuf>,
    pub(crate) kinds: Vec<Kind>,
}

impl Hook {
    pub(crate) fn secret(&self) -> Result<Vec<u8>, CoordinatorError> {
        let file = &self.secret_file;
        let secret = config::bytes(&file.value).map_err(|error| file.wrong(error))?;
        let secret = secret.trim_ascii_end().to_vec();
        if secret.len() >= MIN_SECRET_BYTES {
            Ok(secret)
        } else {
            Err(file.wrong(CoordinatorError::ShortSecret {
                path: file.value.clone(),
                shortest: MIN_SECRET_BYTES,
            }))
        }
    }

    /// Whether all users of this machine may read its secret.
    pub(crate) fn is_open_to_all(&self) -> bool {
        let found = std::fs::metadata(&self.secret_file.value);
        found.is_ok_and(|it| it.permissions().mode() & 0o004 != 0)
    }

    pub(crate) fn lies_in(self, folder: &Path) -> Self {
        let Said { value, place } = self.secret_file;
        let value = folder.join(value);
        Self {
            secret_file: Said { value, place },
            ..self
        }
    }
}

/// Where what is new goes.
struct Outlet {
    kinds: Vec<Kind>,
    url: Url,
    queue: Sender<Parcel>,
    fates: EventCounters<Fate>,
}

/// Delivery counters of one webhook.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryCounters {
    /// What else stands in its URL may be a secret.
    pub(crate) host: String,
    pub(crate) fates: EventCounters<Fate>,
}

/// The configured webhooks, before they start.
pub(crate) struct Hooks(Vec<Outlet>);

impl Hooks {
    /// Within a runtime, which carries what is sent. Without a webhook, nothing is prepared: who vouches for servers is
    /// read from the system, and need not be there.
    pub(crate) fn open(hooks: &[Hook]) -> Result<Self, CoordinatorError> {
        if hooks.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let client = client()?;
        let outlets = hooks.iter().map(|hook| {
            let (queue, parcels) = mpsc::channel(QUEUE_LENGTH);
            let delivery = Delivery::new(client.clone(), hook.url.clone(), &hook.secret()?);
            let fates = EventCounters::default();
            tokio::spawn(delivery.keep_sending(parcels, fates.clone()));
            Ok(Outlet {
                kinds: hook.kinds.clone(),
                url: hook.url.clone(),
                queue,
                fates,
            })
        });
        Ok(Self(outlets.collect::<Result<_, CoordinatorError>>()?))
    }

    /// The counters of each webhook, in the order of the configuration.
    pub(crate) fn delivery_counters(&self) -> Arc<[DeliveryCounters]> {
        let deliveries = self.0.iter().map(|outlet| DeliveryCounters {
            host: outlet.url.host_str().unwrap_or_default().to_owned(),
            fates: outlet.fates.clone(),
        });
        deliveries.collect()
    }

    /// Sends events for as long as the core answers.
    pub(crate) async fn keep_notifying(self, context: ServerContext) {
        if self.0.is_empty() {
            return;
        }
        let mut looks = interval(POLL_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = Seen::default();
        loop {
            looks.tick().await;
            match look(&context, &seen).await {
                Some(sight) => self.enqueue(seen.see(sight, Instant::now().into_std())),
                // The coordinator that leads now delivers it.
                None => seen = Seen::default(),
            }
        }
    }

    fn enqueue(&self, news: Vec<news::News>) {
        for news in news {
            let kind = news.kind();
            let parcel = Parcel::of(&news);
            for outlet in &self.0 {
                let wanted = outlet.kinds.contains(&kind);
                if wanted && outlet.queue.try_send(parcel.clone()).is_err() {
                    outlet.fates.note(Fate::Dropped);
                    let (event, hook) = (&parcel.event, origin(&outlet.url));
                    tracing::warn!("{event} is not sent to {hook}: its queue is full");
                }
            }
        }
    }
}

/// What may be shown of a URL: many services take a secret in its path or query.
pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Redirections are for people: who answers with one is not the one that was named.
pub(crate) fn client() -> Result<Client, CoordinatorError> {
    // The provider that was installed first stays, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder()
        .timeout(delivery::DELIVERY_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy();
    client
        .build()
        .map_err(|source| CoordinatorError::Webhooks { source })
}

/// What people would be shown; nothing while another leads.
async fn look(context: &ServerContext, seen: &Seen) -> Option<Sight> {
    let Response::Status(status) = ask(context, Request::Status).await? else {
        return None;
    };
    let Response::Findings(findings) = ask(context, Request::Diagnose).await? else {
        return None;
    };
    let mut records = Vec::new();
    for generation in seen.ended(&status.changes) {
        if let Response::Record(record) = ask(context, Request::Record { generation }).await? {
            records.extend(record.map(|record| *record));
        }
    }
    Some(Sight {
        alarms: status.alarms,
        changes: status.changes,
        findings: findings.findings,
        records,
    })
}

async fn ask(context: &ServerContext, request: Request) -> Option<Response> {
    let by = Asker::Member(Member::new(Role::Viewer, "webhooks"));
    http::ask(context, by, request).await
}
