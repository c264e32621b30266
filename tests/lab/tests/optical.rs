//! Tests of the emulated optical switch: traffic follows the requested circuits, and each simulated fault has its
//! effect.

mod support;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use support::{Lab, Need, Said, trial, wait_until};

const NEEDS: &[Need] = &[Need::Lab, Need::Program("curl"), Need::Program("ping")];
const CROSS_CONNECTS_URL: &str = "http://ocs0.mgmt/api/data/optical-switch:cross-connects";

fn main() -> ExitCode {
    let tests = [
        ("configured_circuits_exist", the_first_circuits as fn()),
        ("traffic_follows_moved_circuit", a_circuit_moves),
        ("impossible_circuit_is_refused", impossible_orders),
        ("silent_switch_has_moved", silent),
        ("faulty_switch_may_choose_wrong_port", wrong_port),
        ("faulty_switch_may_move_half", partial),
        ("circuit_may_stay_dark", stays_dark),
        ("light_may_flap", flap),
        ("circuit_may_vanish", vanish),
        ("weak_light_is_dark", too_weak),
    ];
    let tests: Vec<Trial> = tests
        .into_iter()
        .map(|(name, test)| trial(name, NEEDS, test))
        .collect();
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

/// The lab of the scenario: hosts in a ring, with the circuits 2-3, 4-5, 6-7 and 8-1.
struct Ring(Lab);

impl Ring {
    fn up() -> Self {
        Self(Lab::up("optical"))
    }

    /// Returns a switch with a fault in its next commands.
    fn with(mishap: &str) -> Self {
        let ring = Self::up();
        let wish = format!("{{\"mishap\":\"{mishap}\"}}");
        let said = ring.curl(&["-X", "PUT", "-d", &wish, "http://ocs0.mgmt/lab/mishap"]);
        assert_eq!(said.stdout, "204", "{said:#?}");
        ring
    }

    /// The status is the last line.
    fn curl(&self, arguments: &[&str]) -> Said {
        // Long enough for a machine that brings up other labs meanwhile.
        let always = ["curl", "-sS", "--max-time", "10", "-w", "%{http_code}"];
        self.0.exec("station", &[&always, arguments].concat())
    }

    fn put(&self, ingress: u16, egress: u16) -> Said {
        let body = format!("<pair><ingress>{ingress}</ingress><egress>{egress}</egress></pair>");
        let url = format!("{CROSS_CONNECTS_URL}/pair={ingress}");
        self.curl(&[
            "-X",
            "PUT",
            "-H",
            "content-type: application/yang-data+xml",
            "-d",
            &body,
            &url,
        ])
    }

    #[track_caller]
    fn connect(&self, ingress: u16, egress: u16) {
        let said = self.put(ingress, egress);
        assert_eq!(said.stdout, "204", "{said:#?}");
    }

    #[track_caller]
    fn disconnect(&self, ingress: u16) {
        let said = self.curl(&[
            "-X",
            "DELETE",
            &format!("{CROSS_CONNECTS_URL}/pair={ingress}"),
        ]);
        assert_eq!(said.stdout, "204", "{said:#?}");
    }

    #[track_caller]
    fn circuits(&self) -> Vec<(u16, u16)> {
        let said = self.curl(&[CROSS_CONNECTS_URL]).expect_code(0);
        let port = |text: &str, leaf: &str| -> u16 {
            let (_, rest) = text.split_once(&format!("<{leaf}>")).expect("a leaf");
            rest.split('<')
                .next()
                .expect("text")
                .parse()
                .expect("a port")
        };
        let pairs = said.stdout.split("<pair>").skip(1);
        pairs
            .map(|pair| (port(pair, "ingress"), port(pair, "egress")))
            .collect()
    }

    fn has_light(&self, host: &str, interface: &str) -> bool {
        let path = format!("/sys/class/net/{interface}/carrier");
        self.0.output(host, &["cat", &path]).trim() == "1"
    }

    #[track_caller]
    fn wait_for_light(&self, host: &str, interface: &str, on: bool) {
        wait_until("the light", || self.has_light(host, interface) == on);
    }

    /// Makes packets of a host for another leave by this interface, wherever it leads.
    fn route(&self, host: &str, to: &str, interface: &str) {
        let words = [
            "ip", "route", "replace", to, "via", to, "dev", interface, "onlink",
        ];
        self.0.output(host, &words);
    }

    /// Returns the number of hops to an address, if it answers.
    fn ping(&self, from: &str, to: &str) -> Option<u32> {
        let said = self.0.exec(from, &["ping", "-c", "1", "-W", "1", to]);
        let (_, rest) = said.stdout.split_once("ttl=")?;
        let ttl: u32 = rest.split_whitespace().next()?.parse().ok()?;
        Some(65 - ttl)
    }

    #[track_caller]
    fn are_dark(&self, ports: [(&str, &str); 2]) {
        for (host, interface) in ports {
            self.wait_for_light(host, interface, false);
        }
    }
}

const H2_ADDRESS: &str = "10.0.0.3";

fn the_first_circuits() {
    let ring = Ring::up();
    assert_eq!(ring.circuits(), [(1, 8), (2, 3), (4, 5), (6, 7)]);
    for (host, to, hops) in [
        ("h0", "10.0.0.2", 1),
        ("h0", H2_ADDRESS, 2),
        ("h0", "10.0.0.4", 1),
    ] {
        let far = format!("{to} is {hops} hops from {host}");
        wait_until(&far, || ring.ping(host, to) == Some(hops));
    }
}

fn a_circuit_moves() {
    let ring = Ring::up();
    ring.disconnect(2);
    ring.disconnect(4);
    ring.are_dark([("h0", "fab1"), ("h1", "fab1")]);
    ring.connect(2, 5);
    ring.wait_for_light("h0", "fab1", true);
    ring.route("h0", H2_ADDRESS, "fab1");
    ring.route("h2", "10.0.0.1", "fab0");
    wait_until("straight there", || ring.ping("h0", H2_ADDRESS) == Some(1));
    ring.connect(2, 3);
    ring.wait_for_light("h1", "fab0", true);
    ring.wait_for_light("h2", "fab0", false);
    wait_until("to h1 again", || ring.ping("h0", "10.0.0.2") == Some(1));
    assert_eq!(
        ring.ping("h0", H2_ADDRESS),
        None,
        "led to h1, whose way on is dark"
    );
    assert_eq!(ring.circuits(), [(1, 8), (2, 3), (6, 7)]);
}

fn impossible_orders() {
    let ring = Ring::up();
    let all = ring.curl(&["-X", "PUT", "-d", "<cross-connects/>", CROSS_CONNECTS_URL]);
    assert!(all.stdout.ends_with("405"), "{all:#?}");
    for (ingress, egress, status, says) in [
        (9, 5, "409", "port 5 belongs to another circuit"),
        (5, 9, "409", "port 5 belongs to another circuit"),
        (9, 11, "400", "only 1 to 10"),
        (9, 9, "400", "cannot lead to itself"),
    ] {
        let said = ring.put(ingress, egress);
        assert!(said.stdout.ends_with(status), "{said:#?}");
        assert!(said.stdout.contains(says), "{said:#?}");
    }
    let nothing = ring.curl(&["-X", "DELETE", &format!("{CROSS_CONNECTS_URL}/pair=9")]);
    assert!(nothing.stdout.ends_with("404"), "{nothing:#?}");
    assert_eq!(ring.circuits(), [(1, 8), (2, 3), (4, 5), (6, 7)]);
}

/// Frees the ports 2, 3, 4 and 5, to which h0, h1 and h2 are joined.
fn make_room(ring: &Ring) {
    ring.disconnect(2);
    ring.disconnect(4);
}

fn silent() {
    let ring = Ring::with("silent");
    make_room(&ring);
    let said = ring.put(2, 5);
    assert_eq!(said.code, Some(28), "curl waits in vain: {said:#?}");
    assert!(ring.circuits().contains(&(2, 5)));
    ring.wait_for_light("h0", "fab1", true);
}

fn wrong_port() {
    let ring = Ring::with("wrong-port");
    make_room(&ring);
    ring.connect(2, 3);
    assert_eq!(ring.circuits(), [(1, 8), (2, 4), (6, 7)]);
    ring.wait_for_light("h1", "fab1", true);
    assert!(!ring.has_light("h1", "fab0"));
}

fn partial() {
    let ring = Ring::with("partial");
    make_room(&ring);
    ring.connect(2, 5);
    ring.connect(3, 4);
    assert_eq!(ring.circuits(), [(1, 8), (2, 5), (6, 7)]);
}

fn stays_dark() {
    let ring = Ring::with("stays-dark");
    make_room(&ring);
    ring.are_dark([("h0", "fab1"), ("h2", "fab0")]);
    ring.connect(2, 5);
    assert!(ring.circuits().contains(&(2, 5)));
    // The circuits that come after it have light long before the next poll.
    let healed = ring.curl(&[
        "-X",
        "PUT",
        "-H",
        "content-type: application/json",
        "-d",
        "{\"mishap\":null}",
        "http://ocs0.mgmt/lab/mishap",
    ]);
    assert_eq!(healed.stdout, "204", "{healed:#?}");
    ring.connect(3, 4);
    ring.wait_for_light("h1", "fab0", true);
    assert!(!ring.has_light("h0", "fab1") && !ring.has_light("h2", "fab0"));
}

fn flap() {
    let ring = Ring::with("flap");
    make_room(&ring);
    ring.are_dark([("h0", "fab1"), ("h2", "fab0")]);
    let changes = || -> u64 {
        let path = "/sys/class/net/fab1/carrier_changes";
        ring.0
            .output("h0", &["cat", path])
            .trim()
            .parse()
            .expect("a number")
    };
    let before = changes();
    ring.connect(2, 5);
    wait_until("it has come and gone five times", || {
        changes() >= before + 11
    });
    ring.wait_for_light("h0", "fab1", true);
}

/// Returns loss and light of a circuit, as the switch reports them.
fn seen(ring: &Ring, ingress: u16, egress: u16) -> String {
    let said = ring.curl(&["http://ocs0.mgmt/lab/light"]).expect_code(0);
    let begins = format!("{{\"ingress\":{ingress},\"egress\":{egress},");
    let (_, rest) = said.stdout.split_once(&begins).expect("it is reported");
    rest.split('}').next().expect("to its end").to_owned()
}

fn dirty(ring: &Ring, port: u16, db: f64) {
    let wish = format!("{{\"port\":{port},\"db\":{db}}}");
    let json = ["-H", "content-type: application/json", "-d", &wish];
    let said = ring.curl(&[&["-X", "PUT"], &json[..], &["http://ocs0.mgmt/lab/loss"]].concat());
    assert_eq!(said.stdout, "204", "{said:#?}");
}

fn too_weak() {
    let ring = Ring::up();
    let ends = [("h0", "fab1"), ("h1", "fab0")];
    let shine = |on| ends.map(|(host, interface)| ring.wait_for_light(host, interface, on));
    assert_eq!(seen(&ring, 4, 5), "\"loss_db\":1.5,\"light\":true");
    assert_eq!(seen(&ring, 2, 3), "\"loss_db\":1.75,\"light\":true");
    dirty(&ring, 2, 2.25);
    assert_eq!(seen(&ring, 2, 3), "\"loss_db\":4.0,\"light\":true");
    dirty(&ring, 2, 2.26);
    assert_eq!(seen(&ring, 2, 3), "\"loss_db\":4.01,\"light\":false");
    shine(false);
    assert_eq!(ring.ping("h0", "10.0.0.2"), None, "no light, no packet");
    // Not through another mirror either; and what is clean can be seen again.
    ring.disconnect(2);
    ring.disconnect(4);
    ring.connect(2, 3);
    ring.connect(4, 5);
    ring.wait_for_light("h2", "fab0", true);
    assert_eq!(seen(&ring, 2, 3), "\"loss_db\":4.01,\"light\":false");
    assert!(
        !ring.has_light("h0", "fab1"),
        "it was made before the other"
    );
    dirty(&ring, 2, 0.0);
    shine(true);
    wait_until("to h1 again", || ring.ping("h0", "10.0.0.2") == Some(1));
}

fn vanish() {
    let ring = Ring::with("vanish");
    make_room(&ring);
    ring.connect(2, 5);
    ring.wait_for_light("h0", "fab1", true);
    assert!(ring.circuits().contains(&(2, 5)));
    wait_until("it is gone", || !ring.circuits().contains(&(2, 5)));
    ring.wait_for_light("h0", "fab1", false);
}
