//! Over TLS: who is known by a certificate, who is not admitted, and that crowds keep no client
//! out.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::{Client, Method, Response};
use reweave_common::member::Member;
use reweave_common::operator::Request;
use reweave_link::pki::{AUTHORITY_CERTIFICATE_FILE, MEMBER_CERTIFICATE_FILE, MEMBER_KEY_FILE};
use reweave_link::{Identity, Role};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::api::viewers;
use super::house::{House, ONE_HOUR, ask, soon, validity};
use super::refused::{infiltrator, is_warned_of};

const HALF_OPEN_CONNECTIONS: usize = 5000;
/// Of these at once; the others have been closed.
const MAX_OPEN_CONNECTIONS: usize = 300;
const MAX_GROWTH_BYTES: u64 = 32 << 20;

/// A browser that trusts the cluster's authority, and shows what lies in this folder.
fn browser_from(house: &House, folder: Option<&str>, near: Option<IpAddr>) -> Client {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let authority = house.path("authority").join(AUTHORITY_CERTIFICATE_FILE);
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(authority).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match folder.map(|name| house.path(name)) {
        None => config.with_no_client_auth(),
        Some(folder) => {
            let chain =
                CertificateDer::pem_file_iter(folder.join(MEMBER_CERTIFICATE_FILE)).unwrap();
            let key = PrivateKeyDer::from_pem_file(folder.join(MEMBER_KEY_FILE)).unwrap();
            let chain = chain.map(Result::unwrap).collect();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let client = Client::builder().local_address(near);
    client.tls_backend_preconfigured(config).build().unwrap()
}

fn browser(house: &House, folder: Option<&str>) -> Client {
    browser_from(house, folder, None)
}

async fn send(
    house: &House,
    browser: &Client,
    method: Method,
    path: &str,
) -> Result<Response, reqwest::Error> {
    let url = format!("https://{}{path}", house.https);
    soon(browser.request(method, url).send()).await
}

async fn get(house: &House, browser: &Client, path: &str) -> Response {
    send(house, browser, Method::GET, path).await.unwrap()
}

/// Once a coordinator leads.
async fn led() -> House {
    let house = House::new();
    ask(&house.operator().await, &Request::WhoAmI).await;
    house
}

#[tokio::test]
async fn certificate_replaces_token() {
    let house = led().await;
    house.member(Role::Viewer, "vic");
    for (folder, role, name, may_plan) in [
        ("ann", "operator", "ann", 200),
        ("viewer-vic", "viewer", "vic", 403),
    ] {
        let browser = browser(&house, Some(folder));
        let me = get(&house, &browser, "/api/v1/me").await;
        let me: serde_json::Value = serde_json::from_str(&me.text().await.unwrap()).unwrap();
        assert_eq!(me, serde_json::json!({ "role": role, "name": name }));
        let planned = send(&house, &browser, Method::POST, "/api/v1/plans").await;
        assert_eq!(planned.unwrap().status(), may_plan, "{role}");
    }
    let url = format!("https://{}/api/v1/plans", house.https);
    let asked = browser(&house, Some("ann"))
        .post(url)
        .header("Origin", "https://evil.example");
    let refused = soon(asked.send()).await.unwrap();
    assert_eq!(refused.status(), 403);
    assert!(
        refused
            .text()
            .await
            .unwrap()
            .contains("urn:reweave:other-site")
    );
}

#[tokio::test]
async fn browser_without_certificate_needs_token() {
    let house = led().await;
    let stranger = browser(&house, None);
    for (path, code) in [
        ("/", 200),
        ("/healthz", 200),
        ("/metrics", 200),
        ("/api/v1/openapi.json", 200),
        ("/api/v1/me", 401),
        ("/api/v1/events", 401),
    ] {
        assert_eq!(get(&house, &stranger, path).await.status(), code, "{path}");
    }
    let token = viewers(&house).await;
    let (name, value) = token.trim_end().split_once(": ").unwrap();
    let url = format!("https://{}/api/v1/me", house.https);
    // A client that sends a token asks by it, with any certificate.
    for folder in [None, Some("ann")] {
        let asked = browser(&house, folder).get(&url).header(name, value);
        let me = soon(asked.send()).await.unwrap().text().await.unwrap();
        assert!(me.contains("vic"), "{me}");
    }
    let by_name = format!("https://localhost:{}/healthz", house.https.port());
    assert_eq!(
        soon(stranger.get(by_name).send()).await.unwrap().status(),
        200
    );
}

#[tokio::test]
async fn refused_certificate_reason_is_for_operators() {
    let house = led().await;
    house.member(Role::Viewer, "eve");
    let member = Member::new(Role::Viewer, "eve");
    ask(&house.operator().await, &Request::Revoke { member }).await;
    house.member(Role::Agent, "h0");
    house.member(Role::Driver, "d0");
    house.member_for(Role::Viewer, "old", validity(3 * ONE_HOUR, Duration::ZERO));
    infiltrator(&house);
    for (folder, words) in [
        ("agent-h0", "only operator or viewer may stand at that end"),
        ("driver-d0", "/driver/d0, and only operator or viewer"),
        ("viewer-eve", "viewer eve has been revoked"),
        ("viewer-old", "its certificate as viewer old expired"),
        ("infiltrator", "not signed by the authority of this cluster"),
    ] {
        let browser = browser(&house, Some(folder));
        let refused = send(&house, &browser, Method::GET, "/healthz").await;
        let message = format!("{:?}", refused.unwrap_err());
        assert!(
            !message.contains("revoked") && !message.contains("only"),
            "{message}"
        );
        is_warned_of(&house, words).await;
    }
    TcpStream::connect(house.https).unwrap();
    is_warned_of(&house, "the handshake failed").await;
}

#[tokio::test]
async fn revoked_viewer_loses_event_stream() {
    let house = led().await;
    let vic: Identity = house.member(Role::Viewer, "vic");
    let browser = browser(&house, Some("viewer-vic"));
    let mut events = get(&house, &browser, "/api/v1/events").await;
    let first = soon(events.chunk()).await.unwrap().unwrap();
    assert!(first.starts_with(b"event: status"), "{first:?}");
    let member = vic.member().member();
    ask(&house.operator().await, &Request::Revoke { member }).await;
    soon(async { while let Ok(Some(_)) = events.chunk().await {} }).await;
    assert!(
        send(&house, &browser, Method::GET, "/api/v1/me")
            .await
            .is_err()
    );
}

/// Each is closed when others come, and a few wait for words that never come.
fn flood(house: &House, ended: &AtomicBool) -> VecDeque<TcpStream> {
    let mut open = VecDeque::new();
    for _ in 0..HALF_OPEN_CONNECTIONS {
        open.push_back(TcpStream::connect(house.https).unwrap());
        if open.len() > MAX_OPEN_CONNECTIONS {
            open.pop_front();
        }
    }
    ended.store(true, Ordering::Release);
    open
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_neither_block_nor_grow() {
    let house = Arc::new(led().await);
    let elsewhere = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    get(&house, &browser(&house, Some("ann")), "/healthz").await;
    let before = house.peak_bytes();
    let ended = Arc::new(AtomicBool::new(false));
    let flooding = {
        let (house, ended) = (house.clone(), ended.clone());
        tokio::task::spawn_blocking(move || flood(&house, &ended))
    };
    let mut served = 0;
    while !ended.load(Ordering::Acquire) || served == 0 {
        // A new one each time: each has to come in again.
        let browser = browser_from(&house, Some("ann"), Some(elsewhere));
        assert_eq!(get(&house, &browser, "/healthz").await.status(), 200);
        served += 1;
    }
    let _still_open = flooding.await.unwrap();
    let neighbour = browser(&house, Some("ann"));
    assert_eq!(get(&house, &neighbour, "/healthz").await.status(), 200);
    let more = house.peak_bytes().saturating_sub(before);
    assert!(
        more < MAX_GROWTH_BYTES,
        "{more} bytes for those who say nothing"
    );
    is_warned_of(&house, "session limit reached").await;
}

/// With the arguments that people give it.
#[tokio::test]
#[ignore = "needs curl"]
async fn curl_connects_with_certificate() {
    let house = led().await;
    house.member(Role::Agent, "h0");
    let curl = |arguments: &[&str]| {
        let mut curl = Command::new("curl");
        let url = format!("https://{}/api/v1/me", house.https);
        let asked = curl
            .args(["-sS", "--cacert", "authority/ca.pem"])
            .args(arguments)
            .arg(url);
        let said = asked.current_dir(house.path(".")).output().unwrap();
        [said.stdout, said.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    let [me, errors] = curl(&["--cert", "ann/node.pem", "--key", "ann/node.key"]);
    assert_eq!(
        (me.as_str(), errors.as_str()),
        (r#"{"role":"operator","name":"ann"}"#, "")
    );
    let [stranger, _] = curl(&[]);
    assert!(stranger.contains("urn:reweave:no-token"), "{stranger}");
    let [nothing, refused] = curl(&["--cert", "agent-h0/node.pem", "--key", "agent-h0/node.key"]);
    assert!(nothing.is_empty() && refused.contains("alert"), "{refused}");
}
