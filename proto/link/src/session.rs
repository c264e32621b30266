//! A session: two channels of messages with a peer whose name is proven.

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

/// Why a session is closed, for the other side.
pub(crate) const CLOSE_DONE: VarInt = VarInt::from_u32(0);
pub(crate) const CLOSE_HELLO: VarInt = VarInt::from_u32(1);
pub(crate) const CLOSE_UNREADABLE: VarInt = VarInt::from_u32(2);
pub(crate) const CLOSE_REFUSED: VarInt = VarInt::from_u32(3);
pub(crate) const CLOSE_NOT_READY: VarInt = VarInt::from_u32(4);

/// A socket takes a packet at once; a session that the other side has ended sends nothing more.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(50);

/// Certificates expire by the time of day, which may be set again while we wait for it.
const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Messages keep their order within a channel, and nothing on one channel waits for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// What must arrive soon. Goes first when both have something to send.
    Commands,
    /// What may be much.
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

/// One stream, both ways.
pub(crate) struct ChannelStream {
    pub(crate) writer: Mutex<Writer>,
    reader: Mutex<Reader>,
}

pub(crate) struct Writer {
    stream: SendStream,
    /// What is left of a frame whose sender was cancelled. It goes first, or the stream would be
    /// cut inside a frame.
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

    /// The next frame. Nothing is lost when the wait for it is given up.
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

/// An encoded message, encoded once for all receivers.
#[derive(Debug, Clone)]
pub struct EncodedMessage {
    since: u16,
    frame: Bytes,
}

impl EncodedMessage {
    /// For those who have connected: they are ready for long ones.
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
    /// Renewing the certificate moves it.
    pub(crate) good_until: std::sync::Mutex<SystemTime>,
    pub(crate) denied: watch::Receiver<DenyLists>,
    pub(crate) build: String,
    pub(crate) version: Version,
    pub(crate) connection: Connection,
    pub(crate) commands: ChannelStream,
    pub(crate) telemetry: ChannelStream,
    /// Of the side that connected, which has an endpoint for each session.
    pub(crate) endpoint: Option<Endpoint>,
    /// Of the side that was connected to.
    pub(crate) shares: ReceiveLimits,
}

impl Session {
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    pub fn address(&self) -> SocketAddr {
        self.connection.remote_address()
    }

    /// What the peer's certificate said when the session began.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// What the peer calls its build.
    pub fn build(&self) -> &str {
        &self.build
    }

    /// Until when the peer's certificate is good, as far as this side knows.
    pub fn good_until(&self) -> SystemTime {
        *lock(&self.good_until)
    }

    /// The peer has another certificate now.
    pub fn renewed(&self, until: SystemTime) {
        *lock(&self.good_until) = until;
    }

    /// Who is revoked or removed, as this side knows it.
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

    /// Waits until the peer's certificate is good no more, and closes the session then.
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

    /// Why, is for this side alone.
    fn expel(&self, refusal: PeerRefusal) -> LinkError {
        self.connection.close(CLOSE_REFUSED, b"refused");
        LinkError::Denied(refusal)
    }

    /// Packets received so far: a live peer acknowledges what it gets.
    pub fn heard_packets(&self) -> u64 {
        self.connection.stats().udp_rx.datagrams
    }

    /// What both sides speak.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Only what the other side knows. Waits while the channel is full. When the wait is given up, the
    /// message is either not sent at all, or is finished ahead of the next one on this channel.
    pub async fn send<T>(&self, channel: Channel, message: &T) -> Result<(), LinkError>
    where
        T: Serialize + SinceVersion,
    {
        self.refuse_unknown(message)?;
        self.send_any(channel, message).await
    }

    /// The same with what is sent to many.
    pub async fn send_ready(
        &self,
        channel: Channel,
        message: &EncodedMessage,
    ) -> Result<(), LinkError> {
        self.refuse_unknown(message)?;
        self.put(channel, message.frame.clone()).await
    }

    /// Whether the other side does, by the version that both speak.
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

    /// Sends it at once, beside the channels: it may be lost, and waits for nothing that was. False
    /// when it is too long for that, or the peer does not know of it.
    pub fn send_loose<T: Serialize>(&self, message: &T) -> Result<bool, LinkError> {
        let message = frame::encode_alone(message).map_err(LinkError::Unsendable)?;
        match self.connection.send_datagram(message) {
            Ok(()) => Ok(true),
            Err(SendDatagramError::ConnectionLost(lost)) => Err(lost.into()),
            Err(_) => Ok(false),
        }
    }

    /// The next message that was sent loosely and has come.
    pub async fn receive_loose<T: DeserializeOwned>(&self) -> Result<T, LinkError> {
        let message = self.connection.read_datagram().await?;
        let message = frame::decode(&message).map_err(LinkError::Unreadable);
        message.inspect_err(|error| self.end_if_unreadable(error))
    }

    /// From now on the peer is listened to no faster on this channel, in bytes.
    pub async fn pace(&self, channel: Channel, pace: TokenBucket) {
        let mut reader = self.lane(channel).reader.lock().await;
        reader.pace = Some(pace);
    }

    /// For as long as this lives, packets that come faster are dropped unseen. A peer that keeps to the pace of its
    /// channels sends fewer. This is for the accepting side.
    pub fn pace_packets(&self, pace: TokenBucket) -> ReceiveLimitGuard {
        self.shares.give(self.address(), pace)
    }

    /// Waits for the next message. Nothing is lost when the wait is given up.
    pub async fn receive<T: DeserializeOwned>(&self, channel: Channel) -> Result<T, LinkError> {
        let mut reader = self.lane(channel).reader.lock().await;
        let frame = reader.receive().await;
        let message = frame.and_then(|frame| frame::decode(&frame).map_err(LinkError::Unreadable));
        message.inspect_err(|error| self.end_if_unreadable(error))
    }

    /// Waits for the end of the session, and says how it came.
    pub async fn closed(&self) -> LinkError {
        self.connection.closed().await.into()
    }

    /// Tells the other side why, and waits until it is likely to have heard. Messages that it has not received by then
    /// are lost, as they are when a session is dropped: the side that asked closes, not the side that answers.
    pub async fn close(self, why: &str) {
        self.close_as(CLOSE_DONE, why).await;
    }

    /// As [`Session::close`], where this side still starts: the other side gets [`LinkError::NotReady`], and knows that
    /// what it has sent was not read.
    pub async fn close_not_ready(self, why: &str) {
        self.close_as(CLOSE_NOT_READY, why).await;
    }

    async fn close_as(self, code: VarInt, why: &str) {
        self.connection.close(code, why.as_bytes());
        if let Some(endpoint) = &self.endpoint {
            endpoint.wait_idle().await;
        }
    }

    /// A handle to end it, also for callers without the session itself.
    pub fn parting(&self) -> SessionClose {
        SessionClose(self.connection.clone())
    }

    /// There is no finding the next message after one that cannot be read.
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

/// Ends a session on the way out of a program.
#[derive(Clone)]
pub struct SessionClose(Connection);

impl SessionClose {
    /// Tells the other side why, and returns as soon as that is sent. Where it is lost, the other side
    /// notices by silence: waiting for that to be sure would cost every program a tenth of a second.
    pub async fn say(&self, why: &str) {
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
