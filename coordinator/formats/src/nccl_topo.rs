//! NCCL's own picture of a host (`NCCL_TOPO_DUMP_FILE`), corrected by what only the network knows: how fast a NIC's link
//! is, and on which rail.
//!
//! NCCL believes what stands in the file of `NCCL_TOPO_FILE` and finds out the rest by itself, but of a NIC that is in it, it
//! finds out nothing more: not where it hangs on the bus. So the picture is one that NCCL has drawn, and only corrected here.
//!
//! Its reader is no reader of XML: it decodes no entity, drops the 17th attribute, passes over elements that it does not
//! know with all that is in them, and takes 10 Gb/s for a speed of nothing. What it would misread is refused.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use reweave_common::units::Rate;
use roxmltree::{Document, Node};
use thiserror::Error;

use crate::nccl::{NcclError, Release};

/// A NIC by NCCL's name, and what its link carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Net {
    pub name: String,
    pub rate: Rate,
    pub rail: Option<u16>,
    pub plane: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TopoError {
    #[error("{0}")]
    NotXml(roxmltree::Error),
    #[error("the topmost element is {found}, not system: not a topology dump of NCCL")]
    NoSystem { found: String },
    #[error("line {line}: system has no version=\"1\", and NCCL takes no other")]
    Version { line: u32 },
    #[error("line {line}: NCCL would pass over {element} in {above} and all that is in it")]
    PassedOver {
        line: u32,
        element: String,
        above: String,
    },
    #[error("line {line}: unexpected text {text:?} between elements: NCCL would misread it")]
    Text { line: u32, text: String },
    #[error(
        "line {line}: {element} has {count} attributes, and NCCL reads {MAX_ATTRIBUTES} and drops the rest"
    )]
    Attributes {
        line: u32,
        element: String,
        count: usize,
    },
    #[error(
        "line {line}: NCCL would read {name} of {element} as it is written, with &, or no further than {MAX_VALUE_BYTES} bytes"
    )]
    Value {
        line: u32,
        element: String,
        name: String,
    },
    #[error("{what}: {count}, and NCCL {release} reads {most}")]
    TooMany {
        what: String,
        count: usize,
        most: usize,
        release: Release,
    },
    #[error("NCCL has found no NIC {name} there; it has found {known}")]
    NoNet { name: String, known: String },
    #[error("{name} carries less than 1 Mb/s, for which NCCL takes 10 Gb/s")]
    TooSlow { name: String },
    #[error("{name} carries more than NCCL can count in Mb/s")]
    TooFast { name: String },
    #[error("{name} has two links")]
    Twice { name: String },
    #[error(transparent)]
    Release(#[from] NcclError),
}

const TOPO_FILE_SINCE: Release = Release::of(2, 6);
/// 2.30.7 reads them of a NIC. Releases before pass over attributes that they do not know.
const RAIL_SINCE: Release = Release::of(2, 30);
/// One more is read over another's memory before 2.8.
const MAX_VALUE_BYTES: usize = 253;
const MAX_ATTRIBUTES: usize = 16;
/// What is written of a NIC.
const NET_ATTRIBUTES: [&str; 3] = ["speed", "rail", "plane"];
const MAX_SPEED_MBPS: u64 = i32::MAX as u64;

/// What NCCL knows to be in what, and since when.
const PARENT_ELEMENTS: [(&str, &[&str], Release); 7] = [
    ("system", &["cpu"], TOPO_FILE_SINCE),
    ("cpu", &["pci", "nic"], TOPO_FILE_SINCE),
    ("pci", &["pci", "gpu", "nic"], TOPO_FILE_SINCE),
    ("pci", &["pcilink"], Release::of(2, 22)),
    ("nic", &["net"], TOPO_FILE_SINCE),
    ("gpu", &["nvlink"], TOPO_FILE_SINCE),
    ("gpu", &["c2c"], Release::of(2, 19)),
];

/// How many elements there may be, and in one.
fn bounds(release: Release) -> (usize, usize) {
    match release {
        _ if release < Release::of(2, 21) => (1024, 32),
        _ if release < Release::of(2, 30) => (256, 128),
        _ => (256, 640),
    }
}

/// The picture with these speeds, as this release reads it.
pub fn corrected(dump: &str, nets: &[Net], release: Release) -> Result<String, TopoError> {
    release.has(TOPO_FILE_SINCE, "NCCL_TOPO_FILE")?;
    let document = Document::parse(dump).map_err(TopoError::NotXml)?;
    let system = document.root_element();
    if !system.has_tag_name("system") {
        let found = system.tag_name().name().to_owned();
        return Err(TopoError::NoSystem { found });
    }
    if system.attribute("version") != Some("1") {
        return Err(TopoError::Version { line: line(system) });
    }
    is_readable(system, release)?;
    are_known(system, nets)?;
    let mut nets = nets.to_vec();
    for net in nets.iter_mut().filter(|_| release < RAIL_SINCE) {
        net.rail = None;
        net.plane = None;
    }
    let mut text = String::new();
    write(system, &nets, 0, &mut text);
    Ok(text)
}

fn are_known(system: Node<'_, '_>, nets: &[Net]) -> Result<(), TopoError> {
    let known: Vec<_> = names(system).collect();
    for (at, net) in nets.iter().enumerate() {
        let name = || net.name.clone();
        if !known.contains(&net.name.as_str()) {
            let known = known.join(", ");
            return Err(TopoError::NoNet {
                name: name(),
                known,
            });
        }
        if nets.iter().skip(at + 1).any(|it| it.name == net.name) {
            return Err(TopoError::Twice { name: name() });
        }
        match mbps(net.rate) {
            0 => return Err(TopoError::TooSlow { name: name() }),
            mbps if mbps > MAX_SPEED_MBPS => return Err(TopoError::TooFast { name: name() }),
            _ => {}
        }
    }
    Ok(())
}

/// The NICs that a picture has.
pub fn nics(dump: &str) -> Result<Vec<String>, TopoError> {
    let document = Document::parse(dump).map_err(TopoError::NotXml)?;
    Ok(names(document.root_element()).map(str::to_owned).collect())
}

/// The GPU that each NIC of a picture is nearest to on the bus, by number, where it is one alone.
pub fn nearest_gpus(dump: &str) -> Result<BTreeMap<String, u16>, TopoError> {
    let document = Document::parse(dump).map_err(TopoError::NotXml)?;
    let system = document.root_element();
    let nets = system.descendants().filter(|it| it.has_tag_name("net"));
    let near = nets.filter_map(|net| Some((net.attribute("name")?.to_owned(), nearest_gpu(net)?)));
    Ok(near.collect())
}

/// Behind the nearest bridge that has any.
fn nearest_gpu(net: Node<'_, '_>) -> Option<u16> {
    let bridges = net.ancestors().filter(|it| it.has_tag_name("pci"));
    let mut gpus = bridges.map(|bridge| {
        let gpus = bridge.descendants().filter(|it| it.has_tag_name("gpu"));
        let numbers = gpus.map(|gpu| gpu.attribute("dev").and_then(|dev| dev.parse().ok()));
        numbers.collect::<Vec<Option<u16>>>()
    });
    match gpus.find(|gpus| !gpus.is_empty())?[..] {
        [only] => only,
        _ => None,
    }
}

fn names<'a>(system: Node<'a, '_>) -> impl Iterator<Item = &'a str> {
    let nets = system.descendants().filter(|it| it.has_tag_name("net"));
    nets.filter_map(|net| net.attribute("name"))
}

fn mbps(rate: Rate) -> u64 {
    rate.bits_per_s() / 1_000_000
}

fn line(node: Node<'_, '_>) -> u32 {
    node.document().text_pos_at(node.range().start).row
}

/// Of all that is in it; there are few enough that they may lie in each other.
fn is_readable(system: Node<'_, '_>, release: Release) -> Result<(), TopoError> {
    let (most, most_in_one) = bounds(release);
    let elements = || system.descendants().filter(Node::is_element);
    let too_many = |what: String, count: usize, most: usize| {
        TooMany { what, count, most }.checked_for(release)
    };
    too_many("elements".to_owned(), elements().count(), most)?;
    if let Some(text) = system.descendants().find(is_words) {
        let (line, text) = (
            line(text),
            text.text().unwrap_or_default().trim().to_owned(),
        );
        return Err(TopoError::Text { line, text });
    }
    for element in elements() {
        is_known(element, release)?;
        values_are_read(element, release)?;
        let children = element.children().filter(Node::is_element).count();
        let what = format!("elements in one {}", element.tag_name().name());
        too_many(what, children, most_in_one)?;
    }
    Ok(())
}

struct TooMany {
    what: String,
    count: usize,
    most: usize,
}

impl TooMany {
    fn checked_for(self, release: Release) -> Result<(), TopoError> {
        let Self { what, count, most } = self;
        if count <= most {
            Ok(())
        } else {
            Err(TopoError::TooMany {
                what,
                count,
                most,
                release,
            })
        }
    }
}

fn is_words(node: &Node<'_, '_>) -> bool {
    node.is_text() && node.text().is_some_and(|text| !text.trim().is_empty())
}

fn is_known(element: Node<'_, '_>, release: Release) -> Result<(), TopoError> {
    let Some(above) = element.parent_element() else {
        return Ok(());
    };
    let name = element.tag_name().name();
    let in_what = above.tag_name().name();
    let place = PARENT_ELEMENTS
        .iter()
        .find(|(above, known, _)| *above == in_what && known.contains(&name));
    match place {
        Some((_, _, since)) => Ok(release.has(*since, format!("{name} in {in_what}"))?),
        None => Err(TopoError::PassedOver {
            line: line(element),
            element: name.to_owned(),
            above: in_what.to_owned(),
        }),
    }
}

fn values_are_read(element: Node<'_, '_>, release: Release) -> Result<(), TopoError> {
    let tag = element.tag_name().name();
    let written: &[&str] = match tag {
        "net" if release < RAIL_SINCE => &NET_ATTRIBUTES[..1],
        "net" => &NET_ATTRIBUTES,
        _ => &[],
    };
    let added = written.iter().filter(|name| !element.has_attribute(**name));
    let count = element.attributes().count() + added.count();
    if count > MAX_ATTRIBUTES {
        return Err(TopoError::Attributes {
            line: line(element),
            element: tag.to_owned(),
            count,
        });
    }
    let plain = |text: &str| {
        text.len() <= MAX_VALUE_BYTES && !text.contains(['&', '<', '>', '"', '\n', '\r', '\t'])
    };
    let bad = element
        .attributes()
        .find(|it| !plain(it.value()) || !plain(it.name()));
    match bad {
        None => Ok(()),
        Some(bad) => Err(TopoError::Value {
            line: line(element),
            element: tag.to_owned(),
            name: bad.name().to_owned(),
        }),
    }
}

/// Those that are known.
fn attributes(net: &Net) -> Vec<(&'static str, u64)> {
    let values = [
        Some(mbps(net.rate)),
        net.rail.map(u64::from),
        net.plane.map(u64::from),
    ];
    let known = NET_ATTRIBUTES.into_iter().zip(values);
    known
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// As NCCL writes it: it knows spaces between attributes and nothing else.
fn write(element: Node<'_, '_>, nets: &[Net], depth: usize, text: &mut String) {
    let tag = element.tag_name().name();
    let net = nets
        .iter()
        .find(|net| tag == "net" && element.attribute("name") == Some(&net.name));
    let _ = write!(text, "{:depth$}<{tag}", "");
    let own = net.map(attributes).unwrap_or_default();
    for attribute in element.attributes() {
        if own.iter().all(|(name, _)| *name != attribute.name()) {
            let _ = write!(text, " {}=\"{}\"", attribute.name(), attribute.value());
        }
    }
    for (name, value) in own {
        let _ = write!(text, " {name}=\"{value}\"");
    }
    let mut children = element.children().filter(Node::is_element).peekable();
    if children.peek().is_none() {
        text.push_str("/>\n");
        return;
    }
    text.push_str(">\n");
    for child in children {
        write(child, nets, depth + 2, text);
    }
    let _ = writeln!(text, "{:depth$}</{tag}>", "");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutations::survives;

    const TOPO_DUMP: &str = include_str!("nccl_topo/dump.xml");
    const CORRECTED_TOPO: &str = include_str!("nccl_topo/corrected.xml");

    fn release(text: &str) -> Release {
        text.parse().unwrap()
    }

    fn net(name: &str, gbps: f64) -> Net {
        Net {
            name: name.to_owned(),
            rate: Rate::from_gbps(gbps).unwrap(),
            rail: None,
            plane: None,
        }
    }

    fn refused(dump: &str, nets: &[Net], at: &str) -> String {
        let refused = corrected(dump, nets, release(at));
        refused.expect_err("it is misread").to_string()
    }

    #[test]
    fn only_nic_speeds_change_in_topology() {
        let nets = [net("mlx5_0", 100.0), net("mlx5_1", 25.0)];
        let text = corrected(TOPO_DUMP, &nets, release("2.28")).unwrap();
        assert_eq!(text, CORRECTED_TOPO);
        assert_eq!(nics(&text).unwrap(), ["mlx5_0", "mlx5_1"]);
        assert_eq!(corrected(&text, &nets, release("2.28")).unwrap(), text);
    }

    #[test]
    fn rail_is_written_for_later_releases() {
        let nets = [Net {
            rail: Some(3),
            plane: Some(1),
            ..net("mlx5_1", 25.0)
        }];
        let text = corrected(TOPO_DUMP, &nets, release("2.30")).unwrap();
        let written = "gdr=\"1\" speed=\"25000\" rail=\"3\" plane=\"1\"/>";
        assert!(text.contains(written), "{text}");
        assert_eq!(corrected(&text, &nets, release("2.30")).unwrap(), text);
        let earlier = corrected(TOPO_DUMP, &nets, release("2.29")).unwrap();
        assert!(!earlier.contains("rail"), "{earlier}");
    }

    #[test]
    fn nic_beside_one_gpu_is_known() {
        let near = nearest_gpus(TOPO_DUMP).unwrap();
        assert_eq!(near, [("mlx5_0".to_owned(), 0)].into());
        let two = TOPO_DUMP.replace("<gpu dev=\"0\"", "<gpu dev=\"1\"/><gpu dev=\"0\"");
        assert_eq!(nearest_gpus(&two).unwrap(), BTreeMap::new());
    }

    /// By a reader of XML: elements and attributes, but for the speeds.
    #[test]
    fn corrected_topology_stays_valid_xml() {
        let of = |text: &str| {
            let document = Document::parse(text).unwrap();
            let elements = document.descendants().filter(Node::is_element);
            let describe = |it: Node<'_, '_>| {
                let all = it.attributes().filter(|it| it.name() != "speed");
                let mut all: Vec<_> = all
                    .map(|it| (it.name().to_owned(), it.value().to_owned()))
                    .collect();
                all.sort();
                (it.tag_name().name().to_owned(), it.ancestors().count(), all)
            };
            elements.map(describe).collect::<Vec<_>>()
        };
        let text = corrected(TOPO_DUMP, &[net("mlx5_0", 1.0)], release("2.28")).unwrap();
        assert_eq!(of(&text), of(TOPO_DUMP));
        assert!(
            text.contains("speed=\"1000\"") && text.contains("speed=\"400000\""),
            "{text}"
        );
    }

    #[test]
    fn topology_misread_by_nccl_is_refused() {
        let none: [Net; 0] = [];
        assert!(refused(TOPO_DUMP, &none, "2.5").contains("it came with 2.6"));
        assert!(refused(TOPO_DUMP, &none, "2.18").contains("c2c in gpu"));
        let strange = TOPO_DUMP.replace("<nvlink", "<nvlonk");
        assert!(
            refused(&strange, &none, "2.28")
                .starts_with("line 5: NCCL would pass over nvlonk in gpu")
        );
        let many = (0..17)
            .map(|nth| format!(" a{nth}=\"1\""))
            .collect::<String>();
        let many = TOPO_DUMP.replace("<nic>", &format!("<nic{many}>"));
        assert!(refused(&many, &none, "2.28").contains("nic has 17 attributes"));
        let entity = TOPO_DUMP.replace("GenuineIntel", "A&amp;B");
        assert!(refused(&entity, &none, "2.28").contains("vendor of cpu"));
        let words = TOPO_DUMP.replace("<nic>", "<nic>fast");
        assert!(refused(&words, &none, "2.28").contains("\"fast\""));
        let other = TOPO_DUMP.replace("version=\"1\"", "version=\"2\"");
        assert!(refused(&other, &none, "2.28").starts_with("line 1: system has no version"));
        assert!(refused("<graphs version=\"1\"/>", &none, "2.28").contains("graphs, not system"));
        let wide = TOPO_DUMP.replace("<nic>", &format!("<nic>{}", "<net name=\"x\"/>".repeat(40)));
        assert!(
            refused(&wide, &none, "2.20").contains("c2c")
                || refused(&wide, &none, "2.20").contains("reads 32")
        );
        assert!(corrected(&wide, &none, release("2.28")).is_ok());
        let long = format!("<system version=\"1\">{}</system>", "<cpu/>".repeat(700));
        assert!(
            refused(&long, &none, "2.30").starts_with("elements: 701, and NCCL 2.30 reads 256")
        );
    }

    #[test]
    fn missing_or_unlinked_nic_is_named() {
        let describe = |nets: &[Net]| refused(TOPO_DUMP, nets, "2.28");
        assert_eq!(
            describe(&[net("mlx5_7", 100.0)]),
            "NCCL has found no NIC mlx5_7 there; it has found mlx5_0, mlx5_1"
        );
        assert!(describe(&[net("mlx5_0", 0.000_5)]).contains("for which NCCL takes 10 Gb/s"));
        assert!(describe(&[net("mlx5_0", 1.0), net("mlx5_0", 2.0)]).contains("two links"));
        let endless = Net {
            rate: Rate::from_bits_per_s(u64::MAX),
            ..net("mlx5_0", 1.0)
        };
        assert!(describe(&[endless]).contains("more than NCCL can count"));
    }

    #[test]
    fn damaged_topology_is_refused_safely() {
        survives(TOPO_DUMP.as_bytes(), 2000, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let read = corrected(&text, &[net("mlx5_0", 100.0)], release("2.28"));
            if let Ok(read) = read {
                assert!(Document::parse(&read).is_ok(), "{read}");
            }
        });
        let deep = format!("<system version=\"1\">{}", "<cpu>".repeat(100_000));
        assert!(corrected(&deep, &[], release("2.28")).is_err());
    }
}
