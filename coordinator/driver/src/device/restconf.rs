//! RESTCONF: one request for each circuit, and never one for all of them.

use std::time::Duration;

use reqwest::{Certificate, Client, Method, RequestBuilder, Response};
use reweave_common::circuit::{Circuit, CircuitSet, PortId};
use reweave_formats::optical::Pair;
use reweave_formats::optical::pairs::{pair, read_pairs};
use reweave_formats::optical::restconf::{
    CONTENT_TYPE, CROSS_CONNECTS_PATH, circuit_path, read_refusal,
};

use super::{read_file, read_secret};
use crate::config::RestconfSettings;
use crate::error::{DeviceError, PrepareError};

pub(super) struct Restconf {
    client: Client,
    settings: RestconfSettings,
    password: Option<String>,
    patience: Duration,
}

impl Restconf {
    pub(super) fn open(
        settings: &RestconfSettings,
        patience: Duration,
    ) -> Result<Self, PrepareError> {
        // The provider that was installed first stays, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder().timeout(patience).no_proxy();
        if let Some(path) = &settings.authority {
            let pem = read_file(path)?;
            let authority = Certificate::from_pem(pem.as_bytes())
                .map_err(|source| PrepareError::Client { source })?;
            client = client.tls_certs_only([authority]);
        }
        let password = settings.password_file.as_deref().map(read_secret);
        Ok(Self {
            client: client
                .build()
                .map_err(|source| PrepareError::Client { source })?,
            settings: settings.clone(),
            password: password.transpose()?,
            patience,
        })
    }

    pub(super) async fn read(&self) -> Result<CircuitSet, DeviceError> {
        let answer = self
            .send(self.request(Method::GET, CROSS_CONNECTS_PATH))
            .await?;
        let pairs = read_pairs(&self.text(answer).await?)?;
        Ok(pairs.into_iter().map(Pair::circuit).collect())
    }

    pub(super) async fn connect(&self, circuit: Circuit) -> Result<(), DeviceError> {
        let asked = Pair::from(circuit);
        let request = self
            .request(Method::PUT, &circuit_path(asked.ingress))
            .header("content-type", CONTENT_TYPE)
            .body(pair(asked));
        self.send(request).await.map(drop)
    }

    /// Takes away this circuit, and no other that one of its ports may serve by now.
    pub(super) async fn disconnect(&self, circuit: Circuit) -> Result<(), DeviceError> {
        for name in circuit.ports() {
            if self.circuit_at(name).await? == Some(circuit) {
                let request = self.request(Method::DELETE, &circuit_path(name));
                return self.send(request).await.map(drop);
            }
        }
        Err(DeviceError::NoSuchCircuit { circuit })
    }

    /// The circuit that is named after this port.
    async fn circuit_at(&self, name: PortId) -> Result<Option<Circuit>, DeviceError> {
        let answer = self
            .send(self.request(Method::GET, &circuit_path(name)))
            .await;
        match answer {
            Ok(answer) => {
                let pairs = read_pairs(&self.text(answer).await?)?;
                Ok(pairs.first().map(|pair| pair.circuit()))
            }
            Err(DeviceError::Refused { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let base = self.settings.url.trim_end_matches('/');
        let request = self.client.request(method, format!("{base}{path}"));
        match &self.settings.user {
            Some(user) => request.basic_auth(user, self.password.as_deref()),
            None => request,
        }
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, DeviceError> {
        let answer = request.send().await.map_err(|error| self.failed(error))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let said = self.text(answer).await.unwrap_or_default();
        Err(DeviceError::Refused {
            status: status.as_u16(),
            said: read_refusal(&said).unwrap_or_else(|| "no reason given".to_owned()),
        })
    }

    async fn text(&self, answer: Response) -> Result<String, DeviceError> {
        answer.text().await.map_err(|error| self.failed(error))
    }

    fn failed(&self, source: reqwest::Error) -> DeviceError {
        if source.is_timeout() {
            let patience = self.patience;
            return DeviceError::TimedOut { patience };
        }
        DeviceError::Unreachable { source }
    }
}
