//! What this coordinator signs members with, and how its own certificate is kept good.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reweave_common::error::told;
use reweave_common::member::{Admission, Member};
use reweave_link::Identity;
use reweave_link::pki::{Authority, KeyRequest, PkiError, SIGNER_KEY, Validity};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::sleep;

/// Certificates go by the time of day, which may be set anew at any time.
const LOOK_EVERY: Duration = Duration::from_mins(1);

#[derive(Debug, Error)]
pub(crate) enum SigningError {
    #[error("it has no signer: issue one with `reweave cluster issue --role coordinator`")]
    NoSigner,
    #[error(transparent)]
    Pki(#[from] PkiError),
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Signing {
    folder: Arc<Path>,
    signer: Option<Arc<Authority>>,
    validity: Option<Validity>,
}

impl Signing {
    /// Of the folder with this coordinator's certificate, where a signer may lie or not.
    pub(crate) fn load(folder: &Path) -> Result<Self, PkiError> {
        let has_signer = folder.join(SIGNER_KEY).exists();
        let signer = has_signer.then(|| Authority::load(folder)).transpose()?;
        Ok(Self {
            folder: folder.into(),
            validity: signer.as_ref().and_then(Authority::signer_validity),
            signer: signer.map(Arc::new),
        })
    }

    pub(crate) fn can_sign(&self) -> bool {
        self.signer.is_some()
    }

    /// When the signer is good, where there is one.
    pub(crate) fn validity(&self) -> Option<Validity> {
        self.validity
    }

    pub(crate) fn certify(
        &self,
        request: &[u8],
        member: &Member,
        admission: Admission,
    ) -> Result<String, SigningError> {
        let signer = self.signer.as_ref().ok_or(SigningError::NoSigner)?;
        Ok(signer.certify(request, member, admission)?)
    }

    /// Renews this coordinator's own certificate, whenever a third of its life is left.
    pub(crate) async fn keep_good(self, ours: watch::Sender<Identity>) {
        let mut tried = None;
        loop {
            // Not borrowed any longer than that: whoever holds it keeps the next one out.
            let current = ours.borrow().clone();
            let due = current.validity().is_due(SystemTime::now());
            if due && self.can_sign() {
                match self.renew(&current) {
                    Ok(identity) => {
                        tracing::info!("this coordinator's certificate is renewed");
                        ours.send_replace(identity);
                    }
                    Err(error) => complain(&mut tried, &error),
                }
            }
            sleep(LOOK_EVERY).await;
        }
    }

    fn renew(&self, ours: &Identity) -> Result<Identity, SigningError> {
        let folder: PathBuf = self.folder.to_path_buf();
        let key = KeyRequest::new(&folder)?;
        let chain_pem = self.certify(key.der(), &ours.member().member(), ours.admission())?;
        key.install(&chain_pem)?;
        Ok(ours.reload(&folder)?)
    }
}

/// Once for each different trouble.
fn complain(last: &mut Option<String>, error: &SigningError) {
    let words = told(error);
    if last.as_ref() != Some(&words) {
        tracing::error!("this coordinator's certificate cannot be renewed: {words}");
        *last = Some(words);
    }
}
