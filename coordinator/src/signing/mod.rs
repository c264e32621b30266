//! Signs members, directly or through other coordinators, and renews this coordinator's own certificate.

mod neighbours;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use reweave_common::error::error_chain;
use reweave_link::Identity;
use reweave_link::pki::{Authority, KeyRequest, PkiError, SIGNER_KEY_FILE, Validity};
use reweave_link::web::ServerCertificate;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::replication::Wish;
pub(crate) use neighbours::Neighbours;

/// Certificates go by the time of day, which may be set again at any time.
const RENEWAL_CHECK_INTERVAL: Duration = Duration::from_mins(1);
/// A coordinator without a signer checks whether another can sign, and otherwise warns operators.
const SIGNER_CHECK_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug, Error)]
pub(crate) enum SigningError {
    #[error(
        "no reachable coordinator has a signer: issue one with `reweave cluster issue --role \
         coordinator`"
    )]
    NoSigner,
    #[error(transparent)]
    Pki(#[from] PkiError),
}

/// How this coordinator signs members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signs {
    Itself,
    /// Another does, or that is not known yet.
    Another,
    NoCoordinator,
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Signing {
    folder: Arc<Path>,
    signer: Option<Arc<Authority>>,
    validity: Option<Validity>,
    neighbours: Option<Neighbours>,
    /// Whether other coordinators were asked in vain, if this one has no signer.
    no_signer: Arc<AtomicBool>,
}

impl Signing {
    /// Loads the signer from the folder with this coordinator's certificate, if there is one.
    pub(crate) fn load(folder: &Path) -> Result<Self, PkiError> {
        let has_signer = folder.join(SIGNER_KEY_FILE).exists();
        let signer = has_signer.then(|| Authority::load(folder)).transpose()?;
        Ok(Self {
            folder: folder.into(),
            validity: signer.as_ref().and_then(Authority::signer_validity),
            signer: signer.map(Arc::new),
            neighbours: None,
            no_signer: Arc::default(),
        })
    }

    /// Adds other signers for what this one cannot sign.
    pub(crate) fn among(self, neighbours: Neighbours) -> Self {
        let neighbours = Some(neighbours);
        Self { neighbours, ..self }
    }

    pub(crate) fn signs(&self) -> Signs {
        if self.can_sign() {
            Signs::Itself
        } else if self.no_signer.load(Ordering::Relaxed) {
            Signs::NoCoordinator
        } else {
            Signs::Another
        }
    }

    pub(crate) fn can_sign(&self) -> bool {
        self.signer.is_some()
    }

    /// When the signer is good, where there is one.
    pub(crate) fn validity(&self) -> Option<Validity> {
        self.validity
    }

    /// Signs with this coordinator's own signer.
    pub(crate) fn certify_here(&self, wish: &Wish) -> Result<String, SigningError> {
        let signer = self.signer.as_ref().ok_or(SigningError::NoSigner)?;
        Ok(signer.certify(&wish.request, &wish.member, wish.admission)?)
    }

    /// Signs with this coordinator's own signer, or else with another coordinator's.
    pub(crate) async fn certify(&self, wish: &Wish) -> Result<String, SigningError> {
        if self.can_sign() {
            return self.certify_here(wish);
        }
        let signed = self.ask_others(Some(wish)).await;
        signed.ok_or(SigningError::NoSigner)
    }

    /// The certificate of this coordinator for clients that come to this address over TLS. Only a signer's own
    /// certificate names the address; browsers do not know the one that members are shown.
    pub(crate) fn face(&self, ours: &Identity, address: IpAddr) -> ServerCertificate {
        let made = self.signer.as_ref();
        let made = made
            .map(|signer| ServerCertificate::at(address, ours, signer))
            .transpose();
        let made = made.inspect_err(|error| {
            tracing::error!("no certificate for {address}: {}", error_chain(error));
        });
        made.ok()
            .flatten()
            .unwrap_or_else(|| ServerCertificate::of(ours))
    }

    async fn ask_others(&self, wish: Option<&Wish>) -> Option<String> {
        let signed = match &self.neighbours {
            Some(neighbours) => neighbours.certify(wish).await,
            None => None,
        };
        self.no_signer.store(signed.is_none(), Ordering::Relaxed);
        signed
    }

    /// Renews this coordinator's own certificate, whenever a third of its life is left, and knows who signs.
    pub(crate) async fn keep_good(self, ours: watch::Sender<Identity>) {
        let mut tried = None;
        loop {
            // The borrow ends here, because a longer one would block the next writer.
            let current = ours.borrow().clone();
            if current.validity().is_due(SystemTime::now()) {
                match self.renew(&current).await {
                    Ok(identity) => {
                        tracing::info!("this coordinator's certificate is renewed");
                        ours.send_replace(identity);
                    }
                    Err(error) => complain(&mut tried, &error),
                }
            } else if !self.can_sign() {
                self.ask_others(None).await;
            }
            sleep(match self.signs() {
                Signs::Itself => RENEWAL_CHECK_INTERVAL,
                Signs::Another | Signs::NoCoordinator => SIGNER_CHECK_INTERVAL,
            })
            .await;
        }
    }

    async fn renew(&self, ours: &Identity) -> Result<Identity, SigningError> {
        let folder: PathBuf = self.folder.to_path_buf();
        let key = KeyRequest::new(&folder)?;
        let wish = Wish {
            request: key.der().to_vec(),
            member: ours.member().member(),
            admission: ours.admission(),
        };
        let chain_pem = self.certify(&wish).await?;
        key.install(&chain_pem)?;
        Ok(ours.reload(&folder)?)
    }
}

/// Once for each different trouble.
fn complain(last: &mut Option<String>, error: &SigningError) {
    let words = error_chain(error);
    if last.as_ref() != Some(&words) {
        tracing::error!("this coordinator's certificate cannot be renewed: {words}");
        *last = Some(words);
    }
}
