//! RESTCONF of the Polatis family: one resource for each circuit, in XML.

use reweave_common::circuit::PortId;
use roxmltree::Document;

use super::pairs::is;

/// What is put and what is read, as its type is called.
pub const CONTENT_TYPE: &str = "application/yang-data+xml";
/// All circuits, to be read and never to be put: that would replace every one of them.
pub const CROSS_CONNECTS_PATH: &str = "/api/data/optical-switch:cross-connects";

/// The resource of the one circuit that this port names.
pub fn circuit_path(ingress: PortId) -> String {
    format!("{CROSS_CONNECTS_PATH}/pair={ingress}")
}

/// Why a device refused, in its own words.
pub fn read_refusal(text: &str) -> Option<String> {
    let document = Document::parse(text).ok()?;
    let message = document
        .descendants()
        .find(|node| is(node, "error-message"))?;
    message.text().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restconf_refusal_quotes_device() {
        let text = "<errors><error><error-tag>in-use</error-tag>\
                    <error-message>port 3 is taken </error-message></error></errors>";
        assert_eq!(read_refusal(text).as_deref(), Some("port 3 is taken"));
        assert_eq!(read_refusal("gone"), None);
    }
}
