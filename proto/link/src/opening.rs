//! The start of a session: the connecting side opens both channels, and both sides send a hello on the command
//! channel. Each checks the other's hello, so both know why it fails.

use std::net::SocketAddr;
use std::time::Duration;

use quinn::{Connection, ConnectionError, RecvStream, SendStream};
use reweave_proto::frame::{MAX_ANSWER_BYTES, MAX_FRAME_BYTES};
use reweave_proto::hello::{Hello, HelloError, MAX_HELLO_BYTES, Version};
use thiserror::Error;

use crate::error::{LinkError, printable};
use crate::session::{CLOSE_HELLO, Channel, ChannelStream, Reader, Writer};

/// How long the accepting side waits for the other to detect the mismatch itself.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Both channels, and the agreed version.
pub(crate) struct OpenSession {
    pub(crate) version: Version,
    /// The peer's build.
    pub(crate) build: String,
    pub(crate) commands: ChannelStream,
    pub(crate) telemetry: ChannelStream,
}

/// Why a connection did not become a session.
#[derive(Debug, Error)]
pub(crate) enum OpeningError {
    #[error(transparent)]
    Lost(ConnectionError),
    #[error(transparent)]
    Disagreed(HelloError),
    #[error("the channels were not one of commands and one of telemetry")]
    WrongChannels,
    #[error(transparent)]
    NoHello(LinkError),
}

struct Channels {
    commands: Stream,
    telemetry: Stream,
}

struct Stream {
    send: SendStream,
    receive: RecvStream,
}

pub(crate) async fn open(
    connection: &Connection,
    ours: &Hello,
) -> Result<OpenSession, OpeningError> {
    let opened = match open_channels(connection).await {
        Ok(channels) => greet(channels, ours, MAX_ANSWER_BYTES).await,
        Err(error) => Err(error),
    };
    opened.inspect_err(|error| farewell(connection, error))
}

pub(crate) async fn accept(
    connection: &Connection,
    ours: &Hello,
) -> Result<OpenSession, OpeningError> {
    let opened = match accept_channels(connection).await {
        Ok(channels) => greet(channels, ours, MAX_FRAME_BYTES).await,
        Err(error) => Err(error),
    };
    part(connection, opened).await
}

/// Closes a connection that did not become a session.
pub(crate) async fn part<T>(
    connection: &Connection,
    opened: Result<T, OpeningError>,
) -> Result<T, OpeningError> {
    if let Err(OpeningError::Disagreed(_)) = opened {
        // The peer finds the same in our hello, and closes.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, connection.closed()).await;
    }
    opened.inspect_err(|error| farewell(connection, error))
}

async fn open_channels(connection: &Connection) -> Result<Channels, OpeningError> {
    Ok(Channels {
        commands: open_channel(connection, Channel::Commands).await?,
        telemetry: open_channel(connection, Channel::Telemetry).await?,
    })
}

async fn open_channel(connection: &Connection, channel: Channel) -> Result<Stream, OpeningError> {
    let (mut send, receive) = connection.open_bi().await.map_err(OpeningError::Lost)?;
    prefer(&send, channel);
    let marked = send.write_all(&[channel.mark()]).await;
    marked.map_err(|error| OpeningError::from(LinkError::from(error)))?;
    Ok(Stream { send, receive })
}

/// The channels may be opened in any order.
async fn accept_channels(connection: &Connection) -> Result<Channels, OpeningError> {
    let first = accept_channel(connection).await?;
    let second = accept_channel(connection).await?;
    match (first, second) {
        ((Channel::Commands, commands), (Channel::Telemetry, telemetry))
        | ((Channel::Telemetry, telemetry), (Channel::Commands, commands)) => Ok(Channels {
            commands,
            telemetry,
        }),
        _ => Err(OpeningError::WrongChannels),
    }
}

async fn accept_channel(connection: &Connection) -> Result<(Channel, Stream), OpeningError> {
    let (send, mut receive) = connection.accept_bi().await.map_err(OpeningError::Lost)?;
    let mut mark = [0];
    let marked = receive.read_exact(&mut mark).await;
    marked.map_err(|error| match error {
        quinn::ReadExactError::FinishedEarly(_) => OpeningError::WrongChannels,
        quinn::ReadExactError::ReadError(error) => LinkError::from(error).into(),
    })?;
    let channel = Channel::marked(mark[0]).ok_or(OpeningError::WrongChannels)?;
    prefer(&send, channel);
    Ok((channel, Stream { send, receive }))
}

/// Sets the priority. A closed stream has none; its next use returns the error.
fn prefer(stream: &SendStream, channel: Channel) {
    let _ = stream.set_priority(channel.priority());
}

/// Exchanges hellos. The connecting side accepts longer answers than it may send.
async fn greet(
    channels: Channels,
    ours: &Hello,
    limit_bytes: usize,
) -> Result<OpenSession, OpeningError> {
    let Channels {
        commands,
        telemetry,
    } = channels;
    let mut writer = Writer::new(commands.send);
    let mut reader = Reader::new(commands.receive, MAX_HELLO_BYTES);
    let (theirs, version) = greet_on(&mut writer, &mut reader, ours).await?;
    reader.raise_limit(limit_bytes);
    let telemetry_reader = Reader::new(telemetry.receive, limit_bytes);
    Ok(OpenSession {
        version,
        build: printable(&theirs.build),
        commands: ChannelStream::new(writer, reader),
        telemetry: ChannelStream::new(Writer::new(telemetry.send), telemetry_reader),
    })
}

/// The peer's hello and the agreed version.
pub(crate) async fn greet_on(
    writer: &mut Writer,
    reader: &mut Reader,
    ours: &Hello,
) -> Result<(Hello, Version), OpeningError> {
    let theirs = exchange(writer, reader, ours).await?;
    let version = ours.agree(&theirs).map_err(OpeningError::Disagreed)?;
    Ok((theirs, version))
}

async fn exchange(
    writer: &mut Writer,
    reader: &mut Reader,
    ours: &Hello,
) -> Result<Hello, LinkError> {
    let frame = ours.encode().map_err(LinkError::Unsendable)?;
    writer.send(frame).await?;
    let frame = reader.receive().await?;
    Hello::decode(&frame).map_err(LinkError::Unreadable)
}

fn farewell(connection: &Connection, error: &OpeningError) {
    connection.close(CLOSE_HELLO, error.to_string().as_bytes());
}

impl OpeningError {
    /// The error with the address of the peer.
    pub(crate) fn at(self, address: SocketAddr) -> LinkError {
        match self {
            Self::Lost(lost) => lost.into(),
            Self::Disagreed(source) => LinkError::Hello { address, source },
            Self::WrongChannels => LinkError::WrongChannels { address },
            Self::NoHello(error) => LinkError::NoHello {
                address,
                source: Box::new(error),
            },
        }
    }
}

impl From<LinkError> for OpeningError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Broken(lost) => Self::Lost(lost),
            other => Self::NoHello(other),
        }
    }
}
