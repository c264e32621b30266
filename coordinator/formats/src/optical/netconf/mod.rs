//! NETCONF (RFC 6241): circuits are configuration, read and edited by messages of XML.

pub mod framing;

use roxmltree::{Document, Node};
use thiserror::Error;

use super::pairs::{POLATIS_NAMESPACE, is, leaves, text_of};
use super::{MAX_ANSWER_BYTES, Pair};

const BASE_NAMESPACE: &str = "urn:ietf:params:xml:ns:netconf:base:1.0";
/// Capabilities, as far as anything depends on them.
const CHUNKED_FRAMING_CAPABILITY: &str = "urn:ietf:params:netconf:base:1.1";
const CANDIDATE_CAPABILITY: &str = "urn:ietf:params:netconf:capability:candidate:1.0";
const WRITABLE_RUNNING_CAPABILITY: &str = "urn:ietf:params:netconf:capability:writable-running:1.0";
/// Of either version.
const VALIDATE_CAPABILITY: &str = "urn:ietf:params:netconf:capability:validate:";

/// What is said first, before anything is heard.
pub const HELLO_MESSAGE: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
    <hello xmlns=\"urn:ietf:params:xml:ns:netconf:base:1.0\"><capabilities>\
    <capability>urn:ietf:params:netconf:base:1.0</capability>\
    <capability>urn:ietf:params:netconf:base:1.1</capability></capabilities></hello>";

/// What matters of what a server can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// It frames what follows the hello in chunks.
    pub chunks: bool,
    /// It can try an edit before it takes any of it.
    pub validates: bool,
    pub edited: Datastore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datastore {
    Running,
    /// Edited apart, and in force by a commit.
    Candidate,
}

/// Each is about one circuit, and fails where it is not as it should be before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit {
    Create(Pair),
    Delete(Pair),
}

#[derive(Debug, Clone, Copy)]
pub enum Request<'e> {
    /// The circuits in force.
    GetConfig,
    Lock(Datastore),
    Unlock(Datastore),
    Edit(Server, &'e [Edit]),
    Commit,
    DiscardChanges,
}

#[derive(Debug, Error)]
pub enum HelloError {
    #[error("{0} bytes are too many")]
    TooLong(usize),
    #[error("its hello is not XML")]
    NotXml { source: roxmltree::Error },
    #[error("it does not say hello, but <{name}>")]
    NoHello { name: String },
    #[error("its configuration is read-only: it has neither :candidate nor :writable-running")]
    ReadOnly,
}

#[derive(Debug, Error)]
pub enum ReplyError {
    #[error("{0} bytes are too many")]
    TooLong(usize),
    #[error("its reply is not XML")]
    NotXml { source: roxmltree::Error },
    #[error("it sent <{name}> where the reply to message {expected} was awaited")]
    OutOfTurn { name: String, expected: u64 },
    #[error("it refused: {0}")]
    Refused(RpcError),
}

/// Why a server refused, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{tag}{}{}", .path.as_ref().map(|path| format!(" at {path}")).unwrap_or_default(),
        .message.as_ref().map(|message| format!(": {message}")).unwrap_or_default())]
pub struct RpcError {
    pub tag: String,
    pub path: Option<String>,
    pub message: Option<String>,
}

impl Request<'_> {
    /// As it is sent, under a number that the reply names again.
    pub fn text(&self, id: u64) -> String {
        let body = self.body();
        format!("<rpc xmlns=\"{BASE_NAMESPACE}\" message-id=\"{id}\">{body}</rpc>")
    }

    fn body(&self) -> String {
        match self {
            Self::GetConfig => format!(
                "<get-config><source><running/></source><filter type=\"subtree\">\
                 <cross-connects xmlns=\"{POLATIS_NAMESPACE}\"/></filter></get-config>"
            ),
            Self::Lock(store) => format!("<lock><target>{}</target></lock>", store.text()),
            Self::Unlock(store) => format!("<unlock><target>{}</target></unlock>", store.text()),
            Self::Edit(server, edits) => edit_config(*server, edits),
            Self::Commit => "<commit/>".to_owned(),
            Self::DiscardChanges => "<discard-changes/>".to_owned(),
        }
    }
}

impl Datastore {
    fn text(self) -> &'static str {
        match self {
            Self::Running => "<running/>",
            Self::Candidate => "<candidate/>",
        }
    }
}

/// It is tried by an option of the edit. After a `<validate>` of its own, a server has been seen to commit
/// nothing, and to say that it did.
fn edit_config(server: Server, edits: &[Edit]) -> String {
    let edits: String = edits.iter().map(Edit::text).collect();
    let tried = if server.validates {
        "<test-option>test-then-set</test-option>"
    } else {
        ""
    };
    // Nothing happens to what is not named; where there is no circuit yet, the list has to begin.
    format!(
        "<edit-config><target>{}</target><default-operation>none</default-operation>{tried}\
         <config xmlns:nc=\"{BASE_NAMESPACE}\"><cross-connects xmlns=\"{POLATIS_NAMESPACE}\" nc:operation=\"merge\">\
         {edits}</cross-connects></config></edit-config>",
        server.edited.text()
    )
}

impl Edit {
    fn text(&self) -> String {
        let (operation, leaves) = match self {
            Self::Create(pair) => ("create", leaves(*pair)),
            Self::Delete(pair) => ("delete", format!("<ingress>{}</ingress>", pair.ingress)),
        };
        format!("<pair nc:operation=\"{operation}\">{leaves}</pair>")
    }
}

pub fn read_hello(text: &str) -> Result<Server, HelloError> {
    if text.len() > MAX_ANSWER_BYTES {
        return Err(HelloError::TooLong(text.len()));
    }
    let document = Document::parse(text).map_err(|source| HelloError::NotXml { source })?;
    let hello = document.root_element();
    if !is(&hello, "hello") {
        let name = name_of(hello);
        return Err(HelloError::NoHello { name });
    }
    let capabilities = hello.descendants().filter(|node| is(node, "capability"));
    let said: Vec<_> = capabilities.filter_map(|node| node.text()).collect();
    let says = |what: &str| said.iter().any(|it| it.trim().starts_with(what));
    let edited = match (
        says(CANDIDATE_CAPABILITY),
        says(WRITABLE_RUNNING_CAPABILITY),
    ) {
        (true, _) => Datastore::Candidate,
        (false, true) => Datastore::Running,
        (false, false) => return Err(HelloError::ReadOnly),
    };
    Ok(Server {
        chunks: says(CHUNKED_FRAMING_CAPABILITY),
        validates: says(VALIDATE_CAPABILITY),
        edited,
    })
}

/// Whether the request of this number was carried out.
pub fn read_reply(text: &str, expected: u64) -> Result<(), ReplyError> {
    if text.len() > MAX_ANSWER_BYTES {
        return Err(ReplyError::TooLong(text.len()));
    }
    let document = Document::parse(text).map_err(|source| ReplyError::NotXml { source })?;
    let reply = document.root_element();
    let mut errors = reply.children().filter(|node| is(node, "rpc-error"));
    // Others are warnings.
    let error = errors.find(|error| text_of(*error, "error-severity") != Some("warning"));
    let is_ours = reply.attribute("message-id") == Some(&expected.to_string());
    match error {
        // What was so broken that it could not be read has no number.
        Some(error) if is(&reply, "rpc-reply") => Err(ReplyError::Refused(rpc_error(error))),
        None if is(&reply, "rpc-reply") && is_ours => Ok(()),
        _ => Err(ReplyError::OutOfTurn {
            name: name_of(reply),
            expected,
        }),
    }
}

fn rpc_error(error: Node<'_, '_>) -> RpcError {
    let text = |name| text_of(error, name).map(shortened);
    RpcError {
        tag: text("error-tag").unwrap_or_else(|| "no reason given".to_owned()),
        path: text("error-path"),
        message: text("error-message"),
    }
}

fn name_of(node: Node<'_, '_>) -> String {
    shortened(node.tag_name().name())
}

fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::super::cross_connect;
    use super::super::pairs::read_pairs;
    use super::*;
    use crate::mutations::survives;

    fn hello(capabilities: &[&str]) -> String {
        let list: String = capabilities
            .iter()
            .map(|it| format!("<nc:capability> {it}</nc:capability>"))
            .collect();
        format!(
            "<nc:hello xmlns:nc=\"{BASE_NAMESPACE}\"><nc:capabilities>{list}</nc:capabilities>\
             <nc:session-id>4</nc:session-id></nc:hello>"
        )
    }

    const RPC_ERROR_REPLY: &str = "<rpc-reply message-id=\"7\" xmlns=\"urn:ietf:params:xml:ns:netconf:base:1.0\">\
        <rpc-error><error-severity>warning</error-severity><error-tag>old</error-tag></rpc-error>\
        <rpc-error><error-type>application</error-type><error-tag>data-exists</error-tag>\
        <error-severity>error</error-severity><error-path>/cross-connects/pair</error-path>\
        <error-message xml:lang=\"en\">port 3 is taken</error-message></rpc-error></rpc-reply>";

    #[test]
    fn hello_lists_server_capabilities() {
        let all = hello(&[
            CHUNKED_FRAMING_CAPABILITY,
            CANDIDATE_CAPABILITY,
            &format!("{VALIDATE_CAPABILITY}1.1"),
            WRITABLE_RUNNING_CAPABILITY,
        ]);
        let known = |chunks, validates, edited| Server {
            chunks,
            validates,
            edited,
        };
        let server = |text: &str| read_hello(text).unwrap();
        assert_eq!(server(&all), known(true, true, Datastore::Candidate));
        let old = hello(&[
            "urn:ietf:params:netconf:base:1.0",
            WRITABLE_RUNNING_CAPABILITY,
        ]);
        assert_eq!(server(&old), known(false, false, Datastore::Running));
    }

    #[test]
    fn uneditable_or_invalid_hello_is_refused() {
        let error = |text: &str| read_hello(text).unwrap_err().to_string();
        assert!(
            error(&hello(&[CHUNKED_FRAMING_CAPABILITY]))
                .contains("neither :candidate nor :writable-running")
        );
        assert_eq!(error("<html/>"), "it does not say hello, but <html>");
        assert_eq!(error("login:"), "its hello is not XML");
    }

    #[test]
    fn one_edit_changes_only_named_circuits() {
        let edits = [
            Edit::Delete(cross_connect(9, 1)),
            Edit::Create(cross_connect(2, 6)),
        ];
        let server = Server {
            chunks: true,
            validates: true,
            edited: Datastore::Candidate,
        };
        let text = Request::Edit(server, &edits).text(3);
        let document = Document::parse(&text).unwrap();
        let operations = document.descendants().filter(|node| is(node, "pair"));
        let operations: Vec<_> = operations
            .map(|pair| {
                (
                    pair.attribute((BASE_NAMESPACE, "operation")),
                    text_of(pair, "ingress"),
                )
            })
            .collect();
        let wanted = [(Some("delete"), Some("9")), (Some("create"), Some("2"))];
        assert_eq!(operations, wanted);
        assert!(text.contains("<default-operation>none</default-operation>"));
        assert!(read_pairs(&text).is_err(), "what goes is named by its key");
    }

    #[test]
    fn reply_must_match_its_request() {
        let ok = "<rpc-reply message-id=\"7\"><ok/></rpc-reply>";
        assert!(read_reply(ok, 7).is_ok());
        let error = |text, id| read_reply(text, id).unwrap_err().to_string();
        let late = "it sent <rpc-reply> where the reply to message 8 was awaited";
        assert_eq!(error(ok, 8), late);
        assert!(error("<notification/>", 7).contains("it sent <notification>"));
        let refused = "it refused: data-exists at /cross-connects/pair: port 3 is taken";
        assert_eq!(error(RPC_ERROR_REPLY, 7), refused);
    }

    #[test]
    fn damaged_netconf_replies_are_safe() {
        survives(RPC_ERROR_REPLY.as_bytes(), 2000, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let _ = (read_reply(&text, 7), read_hello(&text));
        });
    }
}
