//! Circuits as XML, in the words of the YANG module of the Polatis family. RESTCONF and NETCONF are two
//! ways to the same data.

use reweave_common::circuit::PortId;
use roxmltree::{Document, Node};
use thiserror::Error;

use super::{MAX_ANSWER_BYTES, Pair};

/// Of the module, where it has to be said.
pub const POLATIS_NAMESPACE: &str = "http://www.polatis.com/yang/optical-switch";

#[derive(Debug, Error)]
pub enum PairsError {
    #[error("{0} bytes are too many")]
    TooLong(usize),
    #[error("it is not XML")]
    NotXml { source: roxmltree::Error },
    #[error("line {line}: a pair without {leaf}")]
    Lacks { line: u32, leaf: &'static str },
    #[error("line {line}: {text:?} is not a port number")]
    NoPort { line: u32, text: String },
}

pub fn pair(pair: Pair) -> String {
    format!("<pair>{}</pair>", leaves(pair))
}

pub(super) fn leaves(Pair { ingress, egress }: Pair) -> String {
    format!("<ingress>{ingress}</ingress><egress>{egress}</egress>")
}

/// All circuits that an answer tells of.
pub fn read_pairs(text: &str) -> Result<Vec<Pair>, PairsError> {
    if text.len() > MAX_ANSWER_BYTES {
        return Err(PairsError::TooLong(text.len()));
    }
    let document = Document::parse(text).map_err(|source| PairsError::NotXml { source })?;
    let pairs = document.descendants().filter(|node| is(node, "pair"));
    pairs.map(read_pair).collect()
}

fn read_pair(pair: Node<'_, '_>) -> Result<Pair, PairsError> {
    Ok(Pair {
        ingress: port(pair, "ingress")?,
        egress: port(pair, "egress")?,
    })
}

fn port(pair: Node<'_, '_>, leaf: &'static str) -> Result<PortId, PairsError> {
    let line = pair.document().text_pos_at(pair.range().start).row;
    let text = text_of(pair, leaf).ok_or(PairsError::Lacks { line, leaf })?;
    let number = text.parse().map_err(|_| PairsError::NoPort {
        line,
        text: text.chars().take(20).collect(),
    })?;
    Ok(PortId(number))
}

/// What a child of this name says.
pub(super) fn text_of<'d>(parent: Node<'d, '_>, name: &str) -> Option<&'d str> {
    let found = parent.children().find(|node| is(node, name))?;
    found.text().map(str::trim)
}

/// Names are compared without their namespace, which differs between makes.
pub(super) fn is(node: &Node<'_, '_>, name: &str) -> bool {
    node.is_element() && node.tag_name().name() == name
}

#[cfg(test)]
mod tests {
    use super::super::cross_connect;
    use super::*;

    const PAIRS_ANSWER: &str = "<cross-connects xmlns=\"http://www.polatis.com/yang/optical-switch\">\n\
                          <pair><ingress>1</ingress><egress>9</egress></pair>\n\
                          <pair><ingress> 12</ingress><egress>2</egress></pair></cross-connects>";

    #[test]
    fn circuits_keep_their_key_port() {
        assert_eq!(
            read_pairs(PAIRS_ANSWER).unwrap(),
            [cross_connect(1, 9), cross_connect(12, 2)]
        );
        assert_eq!(read_pairs("<cross-connects/>").unwrap(), []);
        assert_eq!(
            read_pairs(&pair(cross_connect(3, 4))).unwrap(),
            [cross_connect(3, 4)]
        );
    }

    #[test]
    fn invalid_pair_names_its_line() {
        let error = |text: &str| read_pairs(text).unwrap_err().to_string();
        let lame = PAIRS_ANSWER.replace("<egress>2</egress>", "");
        assert_eq!(error(&lame), "line 3: a pair without egress");
        let strange = PAIRS_ANSWER.replace('9', "-1");
        assert_eq!(error(&strange), "line 2: \"-1\" is not a port number");
        assert_eq!(error("circuits: none"), "it is not XML");
    }
}
