//! TL1 (GR-831) of the Polatis family: lines of text, in which a switch also tells of its own accord
//! what goes on with it.

use std::collections::BTreeMap;

use reweave_common::circuit::PortId;
use thiserror::Error;

use super::{MAX_ANSWER_BYTES, Pair};

#[derive(Debug, Clone, Copy)]
pub enum Request<'w> {
    /// With a user's name and password, each of which [`is_word`].
    LogIn {
        user: &'w str,
        password: &'w str,
    },
    Read,
    Connect(Pair),
    /// The circuit that this port names.
    Disconnect(PortId),
}

impl Request<'_> {
    /// As it is sent, under a number that the response names again.
    pub fn text(&self, tag: u32) -> String {
        match self {
            Self::LogIn { user, password } => format!("ACT-USER::{user}:{tag}::{password};"),
            Self::Read => format!("RTRV-PATCH:::{tag}:;"),
            Self::Connect(Pair { ingress, egress }) => {
                format!("ENT-PATCH::{ingress},{egress}:{tag}:;")
            }
            Self::Disconnect(port) => format!("DLT-PATCH::{port}:{tag}:;"),
        }
    }
}

/// Whether it can stand in a request without becoming another.
pub fn is_word(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_graphic() && !";:,&\"\\".contains(c);
    !text.is_empty() && text.chars().all(plain)
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Tl1Error {
    #[error("a response of more than {MAX_ANSWER_BYTES} bytes")]
    TooLong,
    #[error("{text:?} is not a circuit")]
    NoCircuit { text: String },
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub tag: u32,
    /// COMPLD, or why not: DENY, PRTL, DELAY, RTRV.
    code: String,
    lines: Vec<String>,
}

impl Response {
    pub fn is_done(&self) -> bool {
        self.code == "COMPLD"
    }

    /// Why not, in the words of the device.
    pub fn refusal(&self) -> String {
        let words = self.lines.iter().map(|line| uncommented(line));
        let words: Vec<_> = [self.code.as_str()].into_iter().chain(words).collect();
        words.join(" ").chars().take(200).collect()
    }

    /// The circuits it tells of: `"1,9"`, each on a line.
    pub fn pairs(&self) -> Result<Vec<Pair>, Tl1Error> {
        let reports = self.lines.iter().filter(|line| !line.starts_with("/*"));
        reports.map(|line| pair(line)).collect()
    }
}

fn uncommented(line: &str) -> &str {
    line.trim_start_matches("/*").trim_end_matches("*/").trim()
}

fn pair(line: &str) -> Result<Pair, Tl1Error> {
    let ports = line.trim_matches('"').split_once(',');
    let port = |text: &str| text.parse().ok().map(PortId);
    let found = ports.and_then(|(ingress, egress)| Some((port(ingress)?, port(egress)?)));
    let (ingress, egress) = found.ok_or_else(|| Tl1Error::NoCircuit {
        text: line.chars().take(40).collect(),
    })?;
    Ok(Pair { ingress, egress })
}

/// Takes responses out of what comes in, in pieces of any size. What a switch says unasked, and that it has heard, is
/// passed over.
#[derive(Debug, Default)]
pub struct Reader {
    received: Vec<u8>,
    /// Of the message under way.
    lines: Vec<String>,
    /// Of all that is kept here.
    bytes: usize,
    /// What has come of responses of which more is to come.
    begun: BTreeMap<u32, Vec<String>>,
}

/// How a message ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Last,
    /// More of the same response comes in another message.
    Continued,
    /// It was an acknowledgement.
    Heard,
}

impl Reader {
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// The next response, if all of it is there.
    pub fn poll_response(&mut self) -> Result<Option<Response>, Tl1Error> {
        while let Some((line, length)) = self.line() {
            self.received.drain(..length);
            let response = match end(&line) {
                Some(end) => self.end_message(end),
                None => {
                    self.keep(line)?;
                    None
                }
            };
            if response.is_some() {
                return Ok(response);
            }
        }
        if self.received.len() > MAX_ANSWER_BYTES {
            Err(Tl1Error::TooLong)
        } else {
            Ok(None)
        }
    }

    /// The next line, and how long it is with what ends it. A mark that ends a message is one without
    /// a line's end.
    fn line(&self) -> Option<(String, usize)> {
        let blank = self
            .received
            .iter()
            .take_while(|it| it.is_ascii_whitespace());
        let start = blank.count();
        let first = *self.received.get(start)?;
        if end_of(first).is_some() {
            return Some(((first as char).to_string(), start + 1));
        }
        let rest = &self.received[start..];
        let length = rest.iter().position(|it| b"\r\n".contains(it))?;
        let text = String::from_utf8_lossy(&rest[..length]);
        Some((text.trim_end().to_owned(), start + length))
    }

    fn keep(&mut self, line: String) -> Result<(), Tl1Error> {
        self.bytes += size(&line);
        self.lines.push(line);
        if self.bytes > MAX_ANSWER_BYTES {
            Err(Tl1Error::TooLong)
        } else {
            Ok(())
        }
    }

    fn end_message(&mut self, end: End) -> Option<Response> {
        let lines = std::mem::take(&mut self.lines);
        let all = sizes(&lines);
        let response = (end != End::Heard).then(|| response(lines)).flatten();
        self.bytes -= all - response.as_ref().map_or(0, |it| sizes(&it.lines));
        let mut response = response?;
        if let Some(begun) = self.begun.remove(&response.tag) {
            response.lines.splice(..0, begun);
        }
        if end != End::Continued {
            self.bytes -= sizes(&response.lines);
            return Some(response);
        }
        if !response.lines.is_empty() {
            self.begun.insert(response.tag, response.lines);
        }
        None
    }
}

/// In memory, where short lines take room, too.
fn size(line: &str) -> usize {
    line.len() + size_of::<String>()
}

fn sizes(lines: &[String]) -> usize {
    lines.iter().map(|line| size(line)).sum()
}

fn end(line: &str) -> Option<End> {
    line.bytes().next().and_then(end_of)
}

fn end_of(first: u8) -> Option<End> {
    match first {
        b';' => Some(End::Last),
        b'>' => Some(End::Continued),
        b'<' => Some(End::Heard),
        _ => None,
    }
}

/// A message that begins with `M TAG CODE`, after a header with name and time.
fn response(mut lines: Vec<String>) -> Option<Response> {
    let found = lines.iter().enumerate().find_map(|(at, line)| {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            ["M", tag, code] => Some((at, tag.parse().ok()?, (*code).to_owned())),
            _ => None,
        }
    });
    let (at, tag, code) = found?;
    let lines = lines.split_off(at + 1);
    Some(Response { tag, code, lines })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::cross_connect;
    use super::*;
    use crate::mutations::survives;

    const COMPLETED_RESPONSE: &str = "IP 7\r\n<\r\n\r\n   OCS0 26-11-22 20:15:03\r\nM  7 COMPLD\r\n   \"1,9\"\r\n>\r\n\
        \r\n   OCS0 26-11-22 20:15:03\r\n** 31 REPT ALM EQPT\r\n   \"FAN-1:MJ,FAN,SA\"\r\n;\r\n\
        \r\n   OCS0 26-11-22 20:15:04\r\nM  7 COMPLD\r\n   \"12,2\"\r\n   /* 2 patches */\r\n;";
    const DENIED_RESPONSE: &str = "\r\n   OCS0 26-11-22 20:15:03\r\nM  8 DENY\r\n   SROF\r\n\
        /* port 3 is taken; ask for another */\r\n;\r\n";

    fn responses(bytes: &[u8], pieces: usize) -> Result<Vec<Response>, Tl1Error> {
        let (mut reader, mut all) = (Reader::default(), vec![]);
        for piece in bytes.chunks(pieces) {
            reader.handle_bytes(piece);
            while let Some(response) = reader.poll_response()? {
                all.push(response);
            }
        }
        Ok(all)
    }

    #[test]
    fn tl1_responses_skip_unsolicited_messages() {
        let both = format!("{COMPLETED_RESPONSE}{DENIED_RESPONSE}");
        for pieces in [1, 2, 7, 1000] {
            let all = responses(both.as_bytes(), pieces).unwrap();
            let [read, denied] = all.as_slice() else {
                panic!("{all:?}")
            };
            assert!(read.tag == 7 && read.is_done());
            assert_eq!(
                read.pairs().unwrap(),
                [cross_connect(1, 9), cross_connect(12, 2)]
            );
            assert!(denied.tag == 8 && !denied.is_done());
            let words = "DENY SROF port 3 is taken; ask for another";
            assert_eq!(denied.refusal(), words);
        }
    }

    #[test]
    fn invalid_circuit_is_named() {
        for wrong in ["1", "1,x", "1,2,3", "0.1,2", ""] {
            let text = format!("M 1 COMPLD\r\n  \"{wrong}\"\r\n;");
            let all = responses(text.as_bytes(), 10).unwrap();
            let error = all[0].pairs().unwrap_err().to_string();
            assert_eq!(
                error,
                format!("{:?} is not a circuit", format!("\"{wrong}\""))
            );
        }
    }

    #[test]
    fn requests_name_circuits_by_their_ports() {
        let login = Request::LogIn {
            user: "u",
            password: "p",
        };
        assert_eq!(login.text(1), "ACT-USER::u:1::p;");
        assert_eq!(Request::Read.text(2), "RTRV-PATCH:::2:;");
        assert_eq!(
            Request::Connect(cross_connect(1, 9)).text(3),
            "ENT-PATCH::1,9:3:;"
        );
        assert_eq!(Request::Disconnect(PortId(1)).text(4), "DLT-PATCH::1:4:;");
        assert!(is_word("S3cret!") && !is_word("a;DLT-PATCH::ALL:1:") && !is_word(""));
    }

    #[test]
    fn endless_response_is_refused() {
        let lines = "\"1,2\"\r\n".repeat(MAX_ANSWER_BYTES / 20);
        assert_eq!(responses(lines.as_bytes(), 4096), Err(Tl1Error::TooLong));
        let line = vec![b'x'; MAX_ANSWER_BYTES + 1];
        assert_eq!(responses(&line, 65536), Err(Tl1Error::TooLong));
        let part = format!("M 1 COMPLD\r\n{}>", "\"1,2\"\r\n".repeat(1000));
        let more = part.repeat(MAX_ANSWER_BYTES / 20_000);
        assert_eq!(responses(more.as_bytes(), 65536), Err(Tl1Error::TooLong));
    }

    #[test]
    fn damaged_tl1_responses_are_safe() {
        survives(COMPLETED_RESPONSE.as_bytes(), 2000, |bytes| {
            for response in responses(bytes, 5).unwrap_or_default() {
                let _ = (response.pairs(), response.refusal());
            }
        });
    }

    proptest! {
        #[test]
        fn arbitrary_tl1_bytes_are_safe(bytes: Vec<u8>, pieces in 1_usize..20) {
            let _ = responses(&bytes, pieces);
        }
    }
}
