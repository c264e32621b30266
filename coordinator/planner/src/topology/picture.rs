//! Pictures of a wiring: as SVG, and for Graphviz.

use std::fmt::Write as _;

use super::candidates::Design;
use super::wiring::pair;

const SIZE: f64 = 640.0;
const INKS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#3969ac",
];
const GREY: &str = "#999999";

/// Which ring each cable lies on.
fn ring_of(design: &Design, a: u32, b: u32) -> Option<usize> {
    let on = |ring: &Vec<u32>| {
        let next = |nth: usize| ring[(nth + 1) % ring.len()];
        (0..ring.len()).any(|nth| pair(ring[nth], next(nth)) == [a, b])
    };
    design.rings.iter().position(on)
}

fn ink(ring: Option<usize>) -> &'static str {
    ring.map_or(GREY, |ring| INKS[ring % INKS.len()])
}

/// Hosts around a circle, each ring in a colour of its own; cables on no ring are grey.
pub fn svg(design: &Design) -> String {
    let hosts = design.wiring.hosts();
    let place = |host: u32, radius: f64| {
        let angle = std::f64::consts::TAU * f64::from(host) / hosts as f64;
        [libm::sin(angle), -libm::cos(angle)].map(|it| SIZE / 2.0 + radius * it)
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {SIZE} {SIZE}\" \
         font-family=\"sans-serif\" font-size=\"11\" text-anchor=\"middle\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for [a, b] in design.wiring.pairs() {
        let [[x1, y1], [x2, y2]] = [a, b].map(|host| place(host, SIZE * 0.42));
        let ink = ink(ring_of(design, a, b));
        let _ = writeln!(
            svg,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{ink}\" \
             stroke-width=\"1.5\" stroke-opacity=\"0.8\"/>"
        );
    }
    for host in 0..hosts as u32 {
        let [[x, y], [label_x, label_y]] = [0.42, 0.46].map(|part| place(host, SIZE * part));
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/><text x=\"{label_x:.1}\" y=\"{:.1}\">h{host}</text>",
            label_y + 4.0
        );
    }
    svg + "</svg>\n"
}

pub fn graphviz(design: &Design) -> String {
    let mut dot = String::from("graph topology {\n  layout = circo;\n  node [shape = circle];\n");
    for [a, b] in design.wiring.pairs() {
        let ink = ink(ring_of(design, a, b));
        let _ = writeln!(dot, "  h{a} -- h{b} [color = \"{ink}\"];");
    }
    dot + "}\n"
}
