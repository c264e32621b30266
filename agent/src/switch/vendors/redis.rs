//! The part of redis's protocol for hashes and transactions.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::switch::RedisError;

/// It is on the same machine, and its answers are short.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_TEXT_BYTES: usize = 1 << 20;
const MAX_LINE_BYTES: u64 = 1 << 16;
const MAX_LIST_ITEMS: usize = 1 << 20;
/// Lists of lists are the deepest that is asked for.
const MAX_DEPTH: usize = 3;

/// Where a database listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedisAddress {
    Path(PathBuf),
    Address(SocketAddr),
}

impl Default for RedisAddress {
    /// SONiC's.
    fn default() -> Self {
        Self::Path("/var/run/redis/redis.sock".into())
    }
}

impl FromStr for RedisAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with('/') {
            return Ok(Self::Path(text.into()));
        }
        let address = text.parse().map(Self::Address);
        address.map_err(|_| "give a socket's path, or ADDRESS:PORT")
    }
}

impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Address(address) => address.fmt(f),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Text(String),
    Number(i64),
    List(Vec<Reply>),
    Nothing,
    Refusal(String),
}

trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// A connection to a database.
pub(super) struct Redis {
    stream: BufReader<Box<dyn Stream>>,
}

impl Redis {
    pub(super) fn open(place: &RedisAddress) -> Result<Self, RedisError> {
        let stream = connect(place).map_err(|source| RedisError::Open {
            place: place.to_string(),
            source,
        })?;
        let stream = BufReader::new(stream);
        Ok(Self { stream })
    }

    pub(super) fn ask(&mut self, words: &[&str]) -> Result<Reply, RedisError> {
        self.stream.get_mut().write_all(&command(words))?;
        match read_reply(&mut self.stream, MAX_DEPTH)? {
            Reply::Refusal(words) => Err(RedisError::Refused { words }),
            reply => Ok(reply),
        }
    }

    /// Sends all commands at once, and then reads all answers.
    pub(super) fn ask_all(&mut self, commands: &[Vec<&str>]) -> Result<Vec<Reply>, RedisError> {
        let bytes: Vec<_> = commands.iter().flat_map(|words| command(words)).collect();
        self.stream.get_mut().write_all(&bytes)?;
        let replies = commands
            .iter()
            .map(|_| read_reply(&mut self.stream, MAX_DEPTH));
        replies.collect()
    }
}

fn connect(place: &RedisAddress) -> io::Result<Box<dyn Stream>> {
    Ok(match place {
        RedisAddress::Path(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
            stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
            Box::new(stream)
        }
        RedisAddress::Address(address) => {
            let stream = TcpStream::connect_timeout(address, REPLY_TIMEOUT)?;
            stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
            stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
            Box::new(stream)
        }
    })
}

/// Encodes each word with its length, so that no word can be taken for another.
fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
    }
    bytes
}

fn read_reply(from: &mut impl BufRead, depth: usize) -> Result<Reply, RedisError> {
    let line = read_line(from)?;
    let (kind, rest) = line.split_at_checked(1).ok_or(RedisError::Garbled)?;
    match kind {
        "+" => Ok(Reply::Text(rest.to_owned())),
        "-" => Ok(Reply::Refusal(rest.to_owned())),
        ":" => Ok(Reply::Number(
            rest.parse().map_err(|_| RedisError::Garbled)?,
        )),
        "$" => match length(rest, MAX_TEXT_BYTES)? {
            Some(length) => read_text(from, length),
            None => Ok(Reply::Nothing),
        },
        "*" if depth > 0 => match length(rest, MAX_LIST_ITEMS)? {
            Some(length) => {
                let items = (0..length).map(|_| read_reply(from, depth - 1));
                Ok(Reply::List(items.collect::<Result<_, _>>()?))
            }
            None => Ok(Reply::Nothing),
        },
        _ => Err(RedisError::Garbled),
    }
}

fn read_line(from: &mut impl BufRead) -> Result<String, RedisError> {
    let mut line = String::new();
    from.take(MAX_LINE_BYTES).read_line(&mut line)?;
    let line = line.strip_suffix("\r\n").ok_or(RedisError::Garbled)?;
    Ok(line.to_owned())
}

fn read_text(from: &mut impl BufRead, length: usize) -> Result<Reply, RedisError> {
    let mut bytes = vec![0; length + 2];
    from.read_exact(&mut bytes)?;
    let text = bytes.strip_suffix(b"\r\n").ok_or(RedisError::Garbled)?;
    Ok(Reply::Text(String::from_utf8_lossy(text).into_owned()))
}

/// None is written as -1.
fn length(text: &str, most: usize) -> Result<Option<usize>, RedisError> {
    if text == "-1" {
        return Ok(None);
    }
    let length = text.parse().ok().filter(|length| *length <= most);
    length.map(Some).ok_or(RedisError::Garbled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Reply, RedisError> {
        read_reply(&mut &bytes[..], MAX_DEPTH)
    }

    #[test]
    fn redis_protocol_encodes_and_parses() {
        let request = command(&["HGET", "a b\r\n", "é"]);
        assert_eq!(
            request,
            "*3\r\n$4\r\nHGET\r\n$5\r\na b\r\n\r\n$2\r\né\r\n".as_bytes()
        );
        let text = |it: &str| Reply::Text(it.to_owned());
        let all = b"*5\r\n+OK\r\n:-7\r\n$-1\r\n*-1\r\n*1\r\n$4\r\na\r\nb\r\n";
        let nothing = Reply::Nothing;
        let list = vec![
            text("OK"),
            Reply::Number(-7),
            nothing.clone(),
            nothing,
            Reply::List(vec![text("a\r\nb")]),
        ];
        assert_eq!(read(all).unwrap(), Reply::List(list));
        assert_eq!(
            read(b"-ERR no\r\n").unwrap(),
            Reply::Refusal("ERR no".to_owned())
        );
    }

    #[test]
    fn torn_or_endless_responses_are_errors() {
        let whole = b"*2\r\n$4\r\nabcd\r\n:12\r\n";
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end}");
        }
        for wrong in [
            "$99999999999\r\n",
            "*2000000\r\n",
            "$-2\r\n",
            "?\r\n",
            "\r\n",
            "é\r\n",
        ] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
        assert!(read("*1\r\n".repeat(9).as_bytes()).is_err());
    }

    #[test]
    fn redis_address_is_path_or_socket() {
        for place in ["/run/redis/redis.sock", "127.0.0.1:6379"] {
            assert_eq!(place.parse::<RedisAddress>().unwrap().to_string(), place);
        }
        assert!("redis".parse::<RedisAddress>().is_err());
    }
}
