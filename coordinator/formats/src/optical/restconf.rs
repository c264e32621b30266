//! RESTCONF of the Polatis family: one resource for each circuit, in XML.

use reweave_common::circuit::PortId;
use roxmltree::{Document, Node};
use thiserror::Error;

use super::Pair;

/// What is put and what is read, as its type is called.
pub const CONTENT_TYPE: &str = "application/yang-data+xml";
/// All circuits, to be read and never to be put: that would replace every one of them.
pub const CIRCUITS: &str = "/api/data/optical-switch:cross-connects";
/// What is held against an answer before it is read.
const MOST_BYTES: usize = 1 << 20;

#[derive(Debug, Error)]
pub enum PairsError {
    #[error("{0} bytes are too many")]
    TooLong(usize),
    #[error("it is not XML")]
    NotXml { source: roxmltree::Error },
    #[error("line {line}: a pair without {leaf}")]
    Lacks { line: u32, leaf: &'static str },
    #[error("line {line}: {text:?} is no number of a port")]
    NoPort { line: u32, text: String },
}

/// The resource of the one circuit that this port names.
pub fn circuit_path(ingress: PortId) -> String {
    format!("{CIRCUITS}/pair={ingress}")
}

pub fn pair(pair: Pair) -> String {
    let Pair { ingress, egress } = pair;
    format!("<pair><ingress>{ingress}</ingress><egress>{egress}</egress></pair>")
}

/// All circuits that an answer tells of.
pub fn read_pairs(text: &str) -> Result<Vec<Pair>, PairsError> {
    if text.len() > MOST_BYTES {
        return Err(PairsError::TooLong(text.len()));
    }
    let document = Document::parse(text).map_err(|source| PairsError::NotXml { source })?;
    let pairs = document.descendants().filter(|node| is(node, "pair"));
    pairs.map(read_pair).collect()
}

/// Why a device refused, in its own words.
pub fn read_refusal(text: &str) -> Option<String> {
    let document = Document::parse(text).ok()?;
    let message = document
        .descendants()
        .find(|node| is(node, "error-message"))?;
    message.text().map(|text| text.trim().to_owned())
}

fn read_pair(pair: Node<'_, '_>) -> Result<Pair, PairsError> {
    Ok(Pair {
        ingress: port(pair, "ingress")?,
        egress: port(pair, "egress")?,
    })
}

fn port(pair: Node<'_, '_>, leaf: &'static str) -> Result<PortId, PairsError> {
    let line = pair.document().text_pos_at(pair.range().start).row;
    let found = pair.children().find(|node| is(node, leaf));
    let text = found.and_then(|node| node.text()).map(str::trim);
    let text = text.ok_or(PairsError::Lacks { line, leaf })?;
    let number = text.parse().map_err(|_| PairsError::NoPort {
        line,
        text: text.chars().take(20).collect(),
    })?;
    Ok(PortId(number))
}

/// Names are told apart without their namespace, which differs between makes.
fn is(node: &Node<'_, '_>, name: &str) -> bool {
    node.is_element() && node.tag_name().name() == name
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "<cross-connects xmlns=\"http://www.polatis.com/yang/optical-switch\">\n\
                          <pair><ingress>1</ingress><egress>9</egress></pair>\n\
                          <pair><ingress> 12</ingress><egress>2</egress></pair></cross-connects>";

    fn told(ingress: u16, egress: u16) -> Pair {
        Pair {
            ingress: PortId(ingress),
            egress: PortId(egress),
        }
    }

    #[test]
    fn circuits_are_read_with_the_port_that_names_them() {
        assert_eq!(read_pairs(ANSWER).unwrap(), [told(1, 9), told(12, 2)]);
        assert_eq!(read_pairs("<cross-connects/>").unwrap(), []);
        assert_eq!(read_pairs(&pair(told(3, 4))).unwrap(), [told(3, 4)]);
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_line() {
        let error = |text: &str| read_pairs(text).unwrap_err().to_string();
        let lame = ANSWER.replace("<egress>2</egress>", "");
        assert_eq!(error(&lame), "line 3: a pair without egress");
        let strange = ANSWER.replace('9', "-1");
        assert_eq!(error(&strange), "line 2: \"-1\" is no number of a port");
        assert_eq!(error("circuits: none"), "it is not XML");
    }

    #[test]
    fn a_refusal_is_told_in_the_words_of_the_device() {
        let text = "<errors><error><error-tag>in-use</error-tag>\
                    <error-message>port 3 is taken </error-message></error></errors>";
        assert_eq!(read_refusal(text).as_deref(), Some("port 3 is taken"));
        assert_eq!(read_refusal("gone"), None);
    }
}
