//! A minimal HTTP client for the API of a coordinator.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// One connection for repeated requests.
pub(crate) struct Line {
    stream: BufReader<TcpStream>,
    headers: String,
}

impl Line {
    /// Connects with a token.
    pub(crate) async fn to(address: SocketAddr, token: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let headers = format!("host: {address}\r\nauthorization: Bearer {token}\r\n");
        let stream = BufReader::with_capacity(1 << 20, stream);
        Ok(Self { stream, headers })
    }

    /// Returns the complete answer.
    pub(crate) async fn get(&mut self, path: &str) -> io::Result<Vec<u8>> {
        let length = self.ask(path, "").await?;
        let mut body = vec![0; length.ok_or(io::ErrorKind::InvalidData)?];
        self.stream.read_exact(&mut body).await?;
        Ok(body)
    }

    /// Follows an endless response, as a browser does.
    pub(crate) async fn follow(mut self, path: &str) -> io::Result<BufReader<TcpStream>> {
        self.ask(path, "accept-encoding: gzip, deflate\r\n").await?;
        Ok(self.stream)
    }

    /// Returns the length of the answer, if it is given.
    async fn ask(&mut self, path: &str, more: &str) -> io::Result<Option<usize>> {
        let asked = format!("GET {path} HTTP/1.1\r\n{}{more}\r\n", self.headers);
        self.stream.write_all(asked.as_bytes()).await?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        if !head.starts_with("HTTP/1.1 200") {
            return Err(io::Error::other(head));
        }
        let mut fields = head.lines().filter_map(|line| line.split_once(": "));
        let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        Ok(length.and_then(|(_, length)| length.parse().ok()))
    }
}
