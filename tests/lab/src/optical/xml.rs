//! Circuits as XML, in the words of the switches' YANG module.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use roxmltree::{Document, Node};

const POLATIS_NAMESPACE: &str = "http://www.polatis.com/yang/optical-switch";

pub(super) fn all(pairs: &BTreeMap<u16, u16>) -> String {
    let mut text = format!("<cross-connects xmlns=\"{POLATIS_NAMESPACE}\">");
    for (ingress, egress) in pairs {
        let _ = write!(
            text,
            "<pair><ingress>{ingress}</ingress><egress>{egress}</egress></pair>"
        );
    }
    text + "</cross-connects>"
}

pub(super) fn one(ingress: u16, egress: u16) -> String {
    format!(
        "<pair xmlns=\"{POLATIS_NAMESPACE}\"><ingress>{ingress}</ingress><egress>{egress}</egress></pair>"
    )
}

/// The two ports that a request names.
pub(super) fn read_pair(text: &str) -> Option<(u16, u16)> {
    let document = Document::parse(text).ok()?;
    let pair = document.root_element();
    let port = |name| -> Option<u16> {
        let mut leaves = pair.children().filter(Node::is_element);
        let leaf = leaves.find(|leaf| leaf.tag_name().name() == name)?;
        leaf.text()?.trim().parse().ok()
    };
    (pair.tag_name().name() == "pair").then_some((port("ingress")?, port("egress")?))
}

/// Returns an error in RESTCONF format.
pub(super) fn error(tag: &str, message: &str) -> String {
    let message = message.replace('&', "&amp;").replace('<', "&lt;");
    format!(
        "<errors xmlns=\"urn:ietf:params:xml:ns:yang:ietf-restconf\"><error>\
         <error-type>application</error-type><error-tag>{tag}</error-tag>\
         <error-message>{message}</error-message></error></errors>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pair_xml_is_parsed() {
        assert_eq!(read_pair(&one(3, 12)), Some((3, 12)));
        let plain = "<pair><ingress> 1 </ingress><egress>9</egress></pair>";
        assert_eq!(read_pair(plain), Some((1, 9)));
    }

    #[test]
    fn invalid_pair_xml_is_rejected() {
        let no_egress = "<pair><ingress>1</ingress></pair>";
        for text in [
            "",
            "pair",
            no_egress,
            "<x><ingress>1</ingress><egress>2</egress></x>",
        ] {
            assert_eq!(read_pair(text), None, "{text}");
        }
    }
}
