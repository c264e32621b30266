//! A client of etcd: gRPC over HTTP/2 and TLS, with a single kind of request.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{Request, Response};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use super::asking::Answer;
use crate::certificates::CERTIFICATE_FILES;

/// Same size as the log entry of a coordinator.
const ETCD_KEY: &[u8] = b"revoked";
const ETCD_VALUE: &[u8] = b"viewer/bench by operator/op";

pub(super) struct Factory(TlsConnector);

pub(super) struct Line {
    requests: SendRequest<Bytes>,
    uri: String,
    driver: JoinHandle<()>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Factory {
    pub(super) fn new(home: &Path) -> Self {
        let [authority, certificate, key] = CERTIFICATE_FILES.map(|name| home.join(name));
        let certificate_in = |path| CertificateDer::from_pem_file(path).expect("a certificate");
        let mut roots = RootCertStore::empty();
        roots.add(certificate_in(authority)).expect("an authority");
        let key = PrivateKeyDer::from_pem_file(key).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the newest")
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate_in(certificate)], key);
        let mut config = config.expect("the key fits");
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self(TlsConnector::from(Arc::new(config)))
    }

    pub(super) async fn connect(&self, to: SocketAddr) -> Option<Line> {
        let stream = TcpStream::connect(to).await.ok()?;
        stream.set_nodelay(true).ok()?;
        let name = ServerName::IpAddress(to.ip().into());
        let stream = self.0.connect(name, stream).await.ok()?;
        let (requests, connection) = h2::client::handshake(stream).await.ok()?;
        let driver = tokio::spawn(async move {
            // It ends with the connection.
            let _ = connection.await;
        });
        Some(Line {
            requests,
            uri: format!("https://{to}/etcdserverpb.KV/Put"),
            driver,
        })
    }
}

impl Line {
    pub(super) async fn decide(&mut self) -> Answer {
        match self.put().await {
            Some(true) => Answer::Decided,
            Some(false) => Answer::Elsewhere(None),
            None => Answer::Broken,
        }
    }

    /// Returns whether it was stored.
    async fn put(&mut self) -> Option<bool> {
        let request = Request::post(&self.uri)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .ok()?;
        let mut requests = self.requests.clone().ready().await.ok()?;
        let (response, mut body) = requests.send_request(request, false).ok()?;
        body.send_data(put_request(), true).ok()?;
        let response = response.await.ok()?;
        if let Some(done) = status(response.headers()) {
            return Some(done);
        }
        read_to_end(response).await
    }
}

async fn read_to_end(response: Response<h2::RecvStream>) -> Option<bool> {
    let mut body = response.into_body();
    while let Some(data) = body.data().await {
        let length = data.ok()?.len();
        body.flow_control().release_capacity(length).ok()?;
    }
    status(&body.trailers().await.ok()??)
}

fn status(headers: &http::HeaderMap) -> Option<bool> {
    headers.get("grpc-status").map(|status| status == "0")
}

/// Returns an uncompressed frame with fields 1 and 2.
fn put_request() -> Bytes {
    let field = |tag: u8, content: &[u8]| [&[tag, content.len() as u8], content].concat();
    let message = [field(0x0a, ETCD_KEY), field(0x12, ETCD_VALUE)].concat();
    let head = [&[0][..], &(message.len() as u32).to_be_bytes()].concat();
    [head, message].concat().into()
}
