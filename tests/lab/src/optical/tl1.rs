//! The same switch, asked over TL1 as those of the Polatis family are: commands that end in `;`, each with a tag that
//! its response bears again, and unasked reports in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::crossbar::Refusal;
use super::device::{Answer, Device, DeviceError};

/// User name of clients.
const TL1_USER: &str = "reweave";
const TL1_PASSWORD: &str = "light";
/// Maximum length of a command.
const MAX_COMMAND_BYTES: usize = 4096;
/// Responses that are longer go on in another message.
const MAX_LINES_PER_RESPONSE: usize = 4;
const RESPONSE_HEADER: &str = "\r\n\n   OCS 26-01-01 00:00:00\r\n";

/// Serves clients until the listener fails.
pub(super) async fn serve(listener: TcpListener, device: Device) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(converse(stream, device.clone()));
    }
}

/// Commands run in parallel, and each is answered when it is done.
async fn converse(stream: TcpStream, device: Device) {
    let (mut input, output) = stream.into_split();
    let (say, said) = mpsc::unbounded_channel();
    tokio::spawn(write(output, said));
    let session = Session {
        device,
        say,
        reports: Arc::default(),
    };
    let (mut received, mut bytes, mut knows_user) = (vec![], [0; 1024], false);
    while let Ok(count @ 1..) = input.read(&mut bytes).await {
        received.extend_from_slice(&bytes[..count]);
        while let Some(end) = received.iter().position(|byte| *byte == b';') {
            let text: Vec<_> = received.drain(..=end).collect();
            let text = String::from_utf8_lossy(&text[..end]).trim().to_owned();
            knows_user |= session.handle(&text, knows_user);
        }
        if received.len() > MAX_COMMAND_BYTES {
            return;
        }
    }
}

async fn write(mut output: OwnedWriteHalf, mut said: mpsc::UnboundedReceiver<String>) {
    while let Some(text) = said.recv().await {
        if output.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}

#[derive(Clone)]
struct Session {
    device: Device,
    say: mpsc::UnboundedSender<String>,
    /// Number of reports so far.
    reports: Arc<AtomicU32>,
}

/// A command's fields: `VERB:TARGET:ACCESS:TAG:GENERAL:PAYLOAD`.
struct Command {
    verb: String,
    access: String,
    tag: String,
    payload: String,
}

impl Command {
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<_> = text.split(':').map(str::trim).collect();
        let field = |place: usize| fields.get(place).map(|field| (*field).to_owned());
        Some(Self {
            verb: field(0)?.to_uppercase(),
            access: field(2)?,
            tag: field(3)?,
            payload: field(5).unwrap_or_default(),
        })
    }

    fn port(&self) -> Option<u16> {
        self.access.parse().ok()
    }

    fn ports(&self) -> Option<(u16, u16)> {
        let (ingress, egress) = self.access.split_once(',')?;
        Some((ingress.parse().ok()?, egress.parse().ok()?))
    }
}

impl Session {
    /// Whether the client is known from now on.
    fn handle(&self, text: &str, knows_user: bool) -> bool {
        let Some(command) = Command::parse(text) else {
            self.deny("0", "ICNV", "that is no command");
            return false;
        };
        let login = command.verb == "ACT-USER";
        if login && (command.access.as_str(), command.payload.as_str()) == (TL1_USER, TL1_PASSWORD)
        {
            self.complete(&command.tag, &[]);
            return true;
        }
        if login || !knows_user {
            self.deny(&command.tag, "PLNA", "log in with ACT-USER");
        } else {
            // A separate task: mirrors do not stop when a client disconnects.
            drop(tokio::spawn(self.clone().carry_out(command)));
        }
        false
    }

    async fn carry_out(self, command: Command) {
        match (command.verb.as_str(), command.ports(), command.port()) {
            ("RTRV-PATCH", ..) => self.list_all(&command.tag),
            ("ENT-PATCH", Some((ingress, egress)), _) => {
                let moved = self.device.connect(ingress, egress).await;
                self.answer(&command, moved);
            }
            ("DLT-PATCH", _, Some(port)) => {
                let gone = self.device.disconnect(port).map(|()| Answer::Done);
                self.answer(&command, gone);
            }
            ("ENT-PATCH" | "DLT-PATCH", ..) => {
                self.deny(&command.tag, "IIAC", "one circuit at a time, by its ports");
            }
            _ => self.deny(&command.tag, "ICNV", "there is no such command"),
        }
    }

    fn list_all(&self, tag: &str) {
        let pairs = self.device.pairs();
        let lines: Vec<_> = pairs.iter().map(|(a, b)| format!("\"{a},{b}\"")).collect();
        self.complete(tag, &lines);
    }

    fn answer(&self, command: &Command, moved: Result<Answer, DeviceError>) {
        let Command {
            verb, access, tag, ..
        } = command;
        match moved {
            Ok(Answer::Done) => {
                self.report(&format!("\"{access}:{verb}\""));
                self.complete(tag, &[]);
            }
            Ok(Answer::Silence) => {}
            Err(error) => self.deny(tag, code(&error), &error.to_string()),
        }
    }

    fn complete(&self, tag: &str, lines: &[String]) {
        let mut parts: Vec<_> = lines.chunks(MAX_LINES_PER_RESPONSE).collect();
        parts.resize(parts.len().max(1), &[]);
        for (place, part) in parts.iter().enumerate() {
            let end = if place + 1 < parts.len() { ">" } else { ";" };
            let lines: String = part.iter().map(|line| format!("   {line}\r\n")).collect();
            self.send(format!("{RESPONSE_HEADER}M  {tag} COMPLD\r\n{lines}{end}"));
        }
    }

    fn deny(&self, tag: &str, code: &str, why: &str) {
        let words = format!("   {code}\r\n   /* {why} */\r\n");
        self.send(format!("{RESPONSE_HEADER}M  {tag} DENY\r\n{words};"));
    }

    fn report(&self, line: &str) {
        let number = self.reports.fetch_add(1, Ordering::Relaxed);
        let words = format!("A  {number} REPT EVT PATCH\r\n   {line}\r\n");
        self.send(format!("{RESPONSE_HEADER}{words};"));
    }

    /// Sends text; a disconnected client is ignored.
    fn send(&self, text: String) {
        let _ = self.say.send(text);
    }
}

fn code(error: &DeviceError) -> &'static str {
    match error {
        DeviceError::Refused(Refusal::NoSuchPort { .. } | Refusal::ToItself(_)) => "IIAC",
        DeviceError::Refused(Refusal::NoCircuit(_)) => "SNVS",
        DeviceError::Refused(Refusal::InUse(_) | Refusal::Moving(_)) | DeviceError::Broken(_) => {
            "SROF"
        }
    }
}
