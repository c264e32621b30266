//! Receivers of events, some slow, or absent at first.

use std::fs;
use std::net::SocketAddr;

use ring::hmac::{self, HMAC_SHA256};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::news::News;
use super::*;

/// Far more than the first pause takes.
const DELIVERY_WAIT_TIMEOUT: Duration = Duration::from_secs(20);
const SECRET: &str = "a secret of some length";

/// What one post says, and the connection that waits for an answer.
struct ReceivedPost {
    line: TcpStream,
    head: String,
    body: Vec<u8>,
}

impl ReceivedPost {
    async fn to(receiver: &TcpListener) -> Self {
        let post = timeout(DELIVERY_WAIT_TIMEOUT, Self::next(receiver)).await;
        post.expect("a receiver is notified")
    }

    async fn next(receiver: &TcpListener) -> Self {
        let (mut line, _) = receiver.accept().await.unwrap();
        let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let length = line.read(&mut piece).await.unwrap();
            heard.extend_from_slice(&piece[..length]);
            let text = String::from_utf8_lossy(&heard).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n")
                && body.len() == field(head, "content-length").parse::<usize>().unwrap()
            {
                let (head, body) = (head.to_owned(), body.as_bytes().to_vec());
                return Self { line, head, body };
            }
        }
    }

    async fn answer(mut self, code: &str) {
        let answer = format!("HTTP/1.1 {code}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        self.line.write_all(answer.as_bytes()).await.unwrap();
    }

    /// Checks the signature as a receiver would.
    fn is_signed(&self) -> bool {
        let signature = field(&self.head, "reweave-signature");
        let (at, mac) = signature.split_once(",v1=").unwrap();
        let mut signed = format!("{}.", at.trim_start_matches("t=")).into_bytes();
        signed.extend_from_slice(&self.body);
        let key = hmac::Key::new(HMAC_SHA256, SECRET.as_bytes());
        mac == crate::hex::hex(hmac::sign(&key, &signed).as_ref())
    }

    fn alarm(&self) -> Value {
        serde_json::from_slice::<Value>(&self.body).unwrap()["alarm"].clone()
    }
}

fn field<'a>(head: &'a str, name: &str) -> &'a str {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let mut named = lines.filter(|(field, _)| field.eq_ignore_ascii_case(name));
    named.next().map(|(_, value)| value).unwrap_or_default()
}

async fn receiver() -> (TcpListener, SocketAddr) {
    let receiver = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = receiver.local_addr().unwrap();
    (receiver, address)
}

fn hooks(folder: &Path, receivers: &[SocketAddr]) -> Hooks {
    let secret_file = folder.join("secret");
    fs::write(&secret_file, SECRET).unwrap();
    let hooks = receivers.iter().map(|address| Hook {
        url: Url::parse(&format!("http://{address}/")).unwrap(),
        secret_file: Said::usual("secret_file", secret_file.clone()),
        kinds: Kind::ALL.to_vec(),
    });
    Hooks::open(&hooks.collect::<Vec<_>>()).unwrap()
}

fn alarm(words: &str) -> Vec<News> {
    let alarm = words.to_owned();
    vec![News::AlarmBegan { alarm }]
}

#[tokio::test]
async fn failed_delivery_is_retried_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (receiver, address) = receiver().await;
    let hooks = hooks(folder.path(), &[address]);
    hooks.enqueue(alarm("first"));
    hooks.enqueue(alarm("second"));
    let first = ReceivedPost::to(&receiver).await;
    assert!(first.is_signed() && first.alarm() == "first");
    let (id, body) = (
        field(&first.head, "reweave-delivery").to_owned(),
        first.body.clone(),
    );
    first.answer("503 Service Unavailable").await;
    let again = ReceivedPost::to(&receiver).await;
    assert!(again.is_signed(), "also when it comes again");
    assert_eq!(
        (field(&again.head, "reweave-delivery"), &again.body),
        (id.as_str(), &body)
    );
    again.answer("204 No Content").await;
    let second = ReceivedPost::to(&receiver).await;
    assert!(second.is_signed() && second.alarm() == "second");
}

#[tokio::test]
async fn slow_receiver_delays_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let ((slow, slowly), (quick, quickly)) = (receiver().await, receiver().await);
    let hooks = hooks(folder.path(), &[slowly, quickly]);
    hooks.enqueue(alarm("first"));
    let unanswered = ReceivedPost::to(&slow).await;
    // More events are sent than can wait for the slow webhook.
    for number in 0..QUEUE_LENGTH + 8 {
        let post = ReceivedPost::to(&quick).await;
        assert!(post.is_signed());
        post.answer("200 OK").await;
        hooks.enqueue(alarm(&number.to_string()));
    }
    let last = ReceivedPost::to(&quick).await;
    assert_eq!(last.alarm(), (QUEUE_LENGTH + 7).to_string());
    assert_eq!(unanswered.alarm(), "first");
}
