//! Pictures of a wiring: as SVG, and for Graphviz.

use std::fmt::Write as _;

use super::families::Design;
use super::wiring::pair;

const RING_COLORS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#3969ac",
];
const OTHER_COLOR: &str = "#999999";

/// Returns the ring of a cable.
fn ring_of(design: &Design, a: u32, b: u32) -> Option<usize> {
    let on = |ring: &Vec<u32>| {
        (0..ring.len()).any(|nth| pair(ring[nth], ring[(nth + 1) % ring.len()]) == [a, b])
    };
    design.rings.iter().position(on)
}

fn ink(ring: Option<usize>) -> &'static str {
    ring.map_or(OTHER_COLOR, |ring| RING_COLORS[ring % RING_COLORS.len()])
}

/// Hosts around a circle, each ring in a colour of its own; cables on no ring are grey.
pub fn svg(design: &Design) -> String {
    let circle = Circle::of(design.wiring.hosts());
    let (size, below) = (
        circle.size,
        LEGEND_LINE_PX * (design.rings.len() + 1).div_ceil(LEGEND_COLUMNS) as f64,
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {size:.0} {:.0}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        size + below
    );
    circle.draw_cables(&mut svg, design);
    circle.draw_hosts(&mut svg);
    circle.draw_legend(&mut svg, design);
    svg + "</svg>\n"
}

const MIN_SIZE_PX: f64 = 640.0;
/// Length on the circumference of a label that points outwards.
const LABEL_ARC_PX: f64 = 11.0;
/// Above this number, labels overlap unless they point outwards.
const MAX_UPRIGHT_LABELS: usize = 48;
/// Around the circle, for labels.
const MARGIN_PX: f64 = 45.0;
const LEGEND_LINE_PX: f64 = 20.0;
/// Columns of the legend.
const LEGEND_COLUMNS: usize = 5;

struct Circle {
    hosts: usize,
    size: f64,
}

impl Circle {
    fn of(hosts: usize) -> Self {
        let around = hosts as f64 * LABEL_ARC_PX / std::f64::consts::PI + 2.0 * MARGIN_PX;
        Self {
            hosts,
            size: around.max(MIN_SIZE_PX),
        }
    }

    /// Clockwise from the top.
    fn angle(&self, host: u32) -> f64 {
        std::f64::consts::TAU * f64::from(host) / self.hosts as f64
    }

    fn place(&self, host: u32, outside: f64) -> [f64; 2] {
        let (angle, radius) = (self.angle(host), self.size / 2.0 - MARGIN_PX + outside);
        [libm::sin(angle), -libm::cos(angle)].map(|it| self.size / 2.0 + radius * it)
    }

    fn draw_cables(&self, svg: &mut String, design: &Design) {
        // Many overlapping cables are drawn translucent.
        let opacity = if self.hosts > MAX_UPRIGHT_LABELS {
            0.5
        } else {
            0.8
        };
        for [a, b] in design.wiring.pairs() {
            let [[x1, y1], [x2, y2]] = [a, b].map(|host| self.place(host, 0.0));
            let ring = ring_of(design, a, b);
            let _ = writeln!(
                svg,
                "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{}\" \
                 stroke-width=\"1.5\" stroke-opacity=\"{opacity}\"><title>h{a}-h{b}, {}</title></line>",
                ink(ring),
                ring_name(ring)
            );
        }
    }

    fn draw_hosts(&self, svg: &mut String) {
        for host in 0..self.hosts as u32 {
            let [x, y] = self.place(host, 0.0);
            let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>");
            self.draw_label(svg, host);
        }
    }

    /// Those on the left point outwards too, and are read from there.
    fn draw_label(&self, svg: &mut String, host: u32) {
        let upright = self.hosts <= MAX_UPRIGHT_LABELS;
        let [x, y] = self.place(host, if upright { 22.0 } else { 8.0 });
        let degrees = self.angle(host).to_degrees();
        let (anchor, turned) = if upright {
            ("middle", 0.0)
        } else if degrees < 180.0 {
            ("start", degrees - 90.0)
        } else {
            ("end", degrees + 90.0)
        };
        let _ = writeln!(
            svg,
            "<text transform=\"translate({x:.1} {y:.1}) rotate({turned:.1})\" dy=\"4\" \
             text-anchor=\"{anchor}\">h{host}</text>"
        );
    }

    fn draw_legend(&self, svg: &mut String, design: &Design) {
        let rings = (0..design.rings.len()).map(Some);
        let others = (!design.is_all_rings()).then_some(None);
        for (nth, ring) in rings.chain(others).enumerate() {
            let x = MARGIN_PX
                + (nth % LEGEND_COLUMNS) as f64 * (self.size - MARGIN_PX) / LEGEND_COLUMNS as f64;
            let y = self.size + LEGEND_LINE_PX * (nth / LEGEND_COLUMNS) as f64;
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"{}\" \
                 stroke-width=\"3\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + 20.0,
                ink(ring),
                x + 26.0,
                y + 4.0,
                ring_name(ring)
            );
        }
    }
}

fn ring_name(ring: Option<usize>) -> String {
    ring.map_or("on no ring".to_owned(), |ring| format!("ring {}", ring + 1))
}

pub fn graphviz(design: &Design) -> String {
    let mut dot = String::from("graph topology {\n  layout = circo;\n  node [shape = circle];\n");
    for [a, b] in design.wiring.pairs() {
        let ink = ink(ring_of(design, a, b));
        let _ = writeln!(dot, "  h{a} -- h{b} [color = \"{ink}\"];");
    }
    dot + "}\n"
}
