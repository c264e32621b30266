//! A session: two channels of messages with an authenticated peer.

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use bytes::{Buf, Bytes};
use quinn::{Connection, Endpoint, RecvStream, SendDatagramError, SendStream, VarInt};
use reweave_common::error::error_chain;
use reweave_common::lock::lock;
use reweave_common::member::DenyLists;
pub use reweave_common::member::Member as Peer;
use reweave_proto::frame::{self, FrameDecoder, MAX_ANSWER_BYTES, MAX_FRAME_BYTES};
use reweave_proto::hello::Version;
use reweave_proto::since_version::{SinceVersion, came_with};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, watch};
use tokio::time::{sleep, timeout};

use crate::error::LinkError;
use crate::receive_limit::{ReceiveLimitGuard, ReceiveLimits};
use crate::token_bucket::TokenBucket;
use crate::verify::{Credentials, PeerRefusal};

const MAX_CHUNK_BYTES: usize = 64 << 10;

/// The reason that the other side gets for the end of a session.
pub(crate) const CLOSE_DONE: VarInt = VarInt::from_u32(0);
pub(crate) const CLOSE_HELLO: VarInt = VarInt::from_u32(1);
pub(crate) const CLOSE_UNREADABLE: VarInt = VarInt::from_u32(2);
pub(crate) const CLOSE_REFUSED: VarInt = VarInt::from_u32(3);
pub(crate) const CLOSE_NOT_READY: VarInt = VarInt::from_u32(4);
pub(crate) const CLOSE_REMOVED: VarInt = VarInt::from_u32(5);

/// The socket takes a packet at once; a session that the other side has ended sends nothing more.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(50);

/// Certificates expire by the clock, which may be set while this waits.
const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Messages keep their order within a channel, and the channels do not wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// Urgent messages, which are sent first.
    Commands,
    /// Bulk messages.
    Telemetry,
}

impl Channel {
    /// The first byte on its stream.
    pub(crate) const fn mark(self) -> u8 {
        match self {
            Self::Commands => 0,
            Self::Telemetry => 1,
        }
    }

    pub(crate) const fn marked(mark: u8) -> Option<Self> {
        match mark {
            0 => Some(Self::Commands),
            1 => Some(Self::Telemetry),
            _ => None,
        }
    }

    pub(crate) const fn priority(self) -> i32 {
        match self {
            Self::Commands => 1,
            Self::Telemetry => 0,
        }
    }
}

/// A bidirectional stream.
pub(crate) struct ChannelStream {
    pub(crate) writer: Mutex<Writer>,
    reader: Mutex<Reader>,
}

pub(crate) struct Writer {
    stream: SendStream,
    /// The rest of a frame whose sender was cancelled. It is sent first, so that no frame is cut.
    unsent: Bytes,
}

pub(crate) struct Reader {
    stream: RecvStream,
    decoder: FrameDecoder,
    pace: Option<TokenBucket>,
}

impl ChannelStream {
    pub(crate) fn new(writer: Writer, reader: Reader) -> Self {
        Self {
            writer: Mutex::new(writer),
            reader: Mutex::new(reader),
        }
    }
}

impl Writer {
    pub(crate) fn new(stream: SendStream) -> Self {
        Self {
            stream,
            unsent: Bytes::new(),
        }
    }

    pub(crate) async fn send(&mut self, frame: Bytes) -> Result<(), quinn::WriteError> {
        self.flush().await?;
        self.unsent = frame;
        self.flush().await
    }

    #[cfg(test)]
    pub(crate) fn finish(&mut self) {
        self.stream.finish().unwrap();
    }

    #[cfg(test)]
    pub(crate) fn priority(&self) -> i32 {
        self.stream.priority().unwrap()
    }

    async fn flush(&mut self) -> Result<(), quinn::WriteError> {
        while !self.unsent.is_empty() {
            let sent = self.stream.write(&self.unsent).await?;
            self.unsent.advance(sent);
        }
        Ok(())
    }
}

impl Reader {
    pub(crate) fn new(stream: RecvStream, limit_bytes: usize) -> Self {
        Self {
            stream,
            decoder: FrameDecoder::with_limit(limit_bytes),
            pace: None,
        }
    }

    pub(crate) fn raise_limit(&mut self, limit_bytes: usize) {
        self.decoder.raise_limit(limit_bytes);
    }

    /// The next frame. Cancellation loses nothing.
    pub(crate) async fn receive(&mut self) -> Result<Bytes, LinkError> {
        if let Some(pace) = &self.pace {
            pace.wait().await;
        }
        let frame = self.next_frame().await?;
        if let Some(pace) = &self.pace {
            pace.handle_frame(frame.len());
        }
        Ok(frame)
    }

    async fn next_frame(&mut self) -> Result<Bytes, LinkError> {
        loop {
            if let Some(frame) = self.decoder.poll_frame().map_err(LinkError::Unreadable)? {
                return Ok(frame);
            }
            match self.stream.read_chunk(MAX_CHUNK_BYTES, true).await? {
                Some(piece) => self.decoder.handle_bytes(&piece.bytes),
                None => return Err(self.ended()),
            }
        }
    }

    fn ended(&self) -> LinkError {
        match self.decoder.handle_end() {
            Ok(()) => LinkError::ChannelEnded,
            Err(error) => LinkError::Unreadable(error),
        }
    }
}

/// A message that is encoded once for all receivers.
#[derive(Debug, Clone)]
pub struct EncodedMessage {
    since: u16,
    frame: Bytes,
}

impl EncodedMessage {
    /// Encodes a message for connected members, which accept long messages.
    pub fn new<T: Serialize + SinceVersion>(message: &T) -> Result<Self, LinkError> {
        let frame = frame::encode_within(MAX_ANSWER_BYTES, message);
        Ok(Self {
            since: message.since(),
            frame: frame.map_err(LinkError::Unsendable)?,
        })
    }

    pub fn bytes(&self) -> usize {
        self.frame.len()
    }
}

impl SinceVersion for EncodedMessage {
    fn since(&self) -> u16 {
        self.since
    }
}

/// All methods take `&self`: one task may send while others receive.
pub struct Session {
    pub(crate) peer: Peer,
    pub(crate) credentials: Credentials,
    /// Renewing the certificate extends it.
    pub(crate) good_until: std::sync::Mutex<SystemTime>,
    pub(crate) denied: watch::Receiver<DenyLists>,
    pub(crate) build: String,
    pub(crate) version: Version,
    pub(crate) connection: Connection,
    pub(crate) commands: ChannelStream,
    pub(crate) telemetry: ChannelStream,
    /// The endpoint of the connecting side, which has one per session.
    pub(crate) endpoint: Option<Endpoint>,
    /// The receive limits of the accepting side.
    pub(crate) shares: ReceiveLimits,
}

impl Session {
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    pub fn address(&self) -> SocketAddr {
        self.connection.remote_address()
    }

    /// The peer's credentials at the start of the session.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// The peer's build.
    pub fn build(&self) -> &str {
        &self.build
    }

    /// Until when the peer's certificate is valid, as far as this side knows.
    pub fn good_until(&self) -> SystemTime {
        *lock(&self.good_until)
    }

    /// Records the validity of the peer's new certificate.
    pub fn renewed(&self, until: SystemTime) {
        *lock(&self.good_until) = until;
    }

    /// The deny lists of this side.
    pub fn denied(&self) -> watch::Receiver<DenyLists> {
        self.denied.clone()
    }

    /// Waits until the peer is revoked or removed, and closes the session then.
    pub async fn revoked(&self) -> LinkError {
        let mut denied = self.denied.clone();
        loop {
            let refusal = self.credentials.denied_by(&denied.borrow_and_update());
            if let Some(refusal) = refusal {
                return self.expel(refusal);
            }
            if denied.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until the peer's certificate expires, and closes the session then.
    pub async fn expired(&self) -> LinkError {
        loop {
            match self.good_until().duration_since(SystemTime::now()) {
                Ok(left) => sleep(left.min(EXPIRY_CHECK_INTERVAL)).await,
                Err(past) => {
                    let ago = past.duration();
                    return self.expel(PeerRefusal::Expired { ago, whose: None });
                }
            }
        }
    }

    /// Closes the session. Only this side knows the reason.
    fn expel(&self, refusal: PeerRefusal) -> LinkError {
        self.connection.close(CLOSE_REFUSED, b"refused");
        LinkError::Denied(refusal)
    }

    /// The number of received packets: a live peer acknowledges what it gets.
    pub fn heard_packets(&self) -> u64 {
        self.connection.stats().udp_rx.datagrams
    }

    /// The version that both sides support.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Sends a message, if the peer's version has it. Waits while the channel is full. After a cancellation, the
    /// message is either not sent, or completed before the next one on this channel.
    pub async fn send<T>(&self, channel: Channel, message: &T) -> Result<(), LinkError>
    where
        T: Serialize + SinceVersion,
    {
        self.refuse_unknown(message)?;
        self.send_any(channel, message).await
    }

    /// Sends a message that is encoded for many peers.
    pub async fn send_ready(
        &self,
        channel: Channel,
        message: &EncodedMessage,
    ) -> Result<(), LinkError> {
        self.refuse_unknown(message)?;
        self.put(channel, message.frame.clone()).await
    }

    /// Whether the agreed version has this message.
    pub fn knows(&self, message: &impl SinceVersion) -> bool {
        message.is_known_at(self.version)
    }

    fn refuse_unknown(&self, message: &impl SinceVersion) -> Result<(), LinkError> {
        let (needs, speaks) = (came_with(message.since()), self.version);
        if self.knows(message) {
            Ok(())
        } else {
            Err(LinkError::NotSpoken { needs, speaks })
        }
    }

    pub(crate) async fn send_any<T: Serialize>(
        &self,
        channel: Channel,
        message: &T,
    ) -> Result<(), LinkError> {
        let limit_bytes = match self.endpoint {
            Some(_) => MAX_FRAME_BYTES,
            None => MAX_ANSWER_BYTES,
        };
        let frame = frame::encode_within(limit_bytes, message).map_err(LinkError::Unsendable)?;
        self.put(channel, frame).await
    }

    async fn put(&self, channel: Channel, frame: Bytes) -> Result<(), LinkError> {
        let mut writer = self.lane(channel).writer.lock().await;
        Ok(writer.send(frame).await?)
    }

    /// Sends a datagram: at once, beside the channels, and it may be lost. Returns false if the message is too long,
    /// or unknown to the peer.
    pub fn send_loose<T: Serialize>(&self, message: &T) -> Result<bool, LinkError> {
        let message = frame::encode_alone(message).map_err(LinkError::Unsendable)?;
        match self.connection.send_datagram(message) {
            Ok(()) => Ok(true),
            Err(SendDatagramError::ConnectionLost(lost)) => Err(lost.into()),
            Err(_) => Ok(false),
        }
    }

    /// The next received datagram.
    pub async fn receive_loose<T: DeserializeOwned>(&self) -> Result<T, LinkError> {
        let message = self.connection.read_datagram().await?;
        let message = frame::decode(&message).map_err(LinkError::Unreadable);
        message.inspect_err(|error| self.end_if_unreadable(error))
    }

    /// Limits how fast the peer is read on this channel, in bytes.
    pub async fn pace(&self, channel: Channel, pace: TokenBucket) {
        let mut reader = self.lane(channel).reader.lock().await;
        reader.pace = Some(pace);
    }

    /// Drops packets above this rate unread, as long as the returned value exists. A peer that keeps to the rates of
    /// its channels sends fewer. For the accepting side.
    pub fn pace_packets(&self, pace: TokenBucket) -> ReceiveLimitGuard {
        self.shares.give(self.address(), pace)
    }

    /// Waits for the next message. Cancellation loses nothing.
    pub async fn receive<T: DeserializeOwned>(&self, channel: Channel) -> Result<T, LinkError> {
        let mut reader = self.lane(channel).reader.lock().await;
        let frame = reader.receive().await;
        let message = frame.and_then(|frame| frame::decode(&frame).map_err(LinkError::Unreadable));
        message.inspect_err(|error| self.end_if_unreadable(error))
    }

    /// Waits for the end of the session, and returns its reason.
    pub async fn closed(&self) -> LinkError {
        self.connection.closed().await.into()
    }

    /// Closes the session with a reason, and waits until the peer has probably received it. Messages in flight are
    /// lost: so the side that asks closes, not the side that answers.
    pub async fn close(self, why: &str) {
        self.close_as(CLOSE_DONE, why).await;
    }

    /// Closes the session as [`Session::close`] does, but says that this side is still starting. The other side gets
    /// [`LinkError::NotReady`], and knows that its messages were not read.
    pub async fn close_not_ready(self, why: &str) {
        self.close_as(CLOSE_NOT_READY, why).await;
    }

    /// Closes the session of a coordinator that is no member any longer. The other side gets [`LinkError::Removed`].
    pub async fn close_removed(self, why: &str) {
        self.close_as(CLOSE_REMOVED, why).await;
    }

    async fn close_as(self, code: VarInt, why: &str) {
        self.connection.close(code, why.as_bytes());
        if let Some(endpoint) = &self.endpoint {
            endpoint.wait_idle().await;
        }
    }

    /// A handle that closes the session, for callers without the session itself.
    pub fn closer(&self) -> SessionCloser {
        SessionCloser(self.connection.clone())
    }

    /// An unreadable message hides where the next one starts, so the session ends.
    fn end_if_unreadable(&self, error: &LinkError) {
        if let LinkError::Unreadable(wire) = error {
            self.connection
                .close(CLOSE_UNREADABLE, error_chain(wire).as_bytes());
        }
    }

    pub(crate) fn lane(&self, channel: Channel) -> &ChannelStream {
        match channel {
            Channel::Commands => &self.commands,
            Channel::Telemetry => &self.telemetry,
        }
    }
}

/// Closes a session when a program exits.
#[derive(Clone)]
pub struct SessionCloser(Connection);

impl SessionCloser {
    /// Sends the reason, and returns once it is sent. If it is lost, the peer notices the silence: waiting for
    /// certainty would cost every command a tenth of a second.
    pub async fn close(&self, why: &str) {
        self.0.close(CLOSE_DONE, why.as_bytes());
        let sent = async {
            while self.0.stats().frame_tx.connection_close == 0 {
                tokio::task::yield_now().await;
            }
        };
        let _ = timeout(CLOSE_TIMEOUT, sent).await;
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("peer", &self.peer)
            .field("version", &self.version)
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}
