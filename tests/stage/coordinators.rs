//! Several coordinators of one cluster, called c0, c1 and so on.

use reweave_common::operator::CoordinatorState;

use crate::error::StageError;
use crate::program::Program;
use crate::wait::{STAGE_TIMEOUT, wait_for};
use crate::{COORDINATOR_ADDRESS, Stage};

/// All three are in the station, each at an address of its own.
const TRIO_ADDRESSES: [&str; 3] = ["10.255.0.1", "10.255.255.2", "10.255.255.3"];
const COORDINATOR_PORT: u16 = 7332;
const IDENTITIES_FOLDER: &str = "certificates/coordinators/";

pub(crate) fn name(place: usize) -> String {
    format!("c{place}")
}

fn addresses() -> [String; 3] {
    TRIO_ADDRESSES.map(|place| format!("{place}:{COORDINATOR_PORT}"))
}

impl Stage {
    /// The ports of the station's loopback at which three coordinators serve their pages; over TLS each does
    /// at its own address.
    pub const PAGE_PORTS: [u16; 3] = [7334, 7344, 7354];
    pub const HTTPS_PORT: u16 = 7335;

    /// Starts three coordinators, and waits until one of them answers for all.
    pub fn lead_by_three(&mut self) -> Result<(), StageError> {
        for place in &TRIO_ADDRESSES[1..] {
            let own = format!("{place}/32");
            let words = ["ip", "address", "add", &own, "dev", "lo"];
            self.output(Self::STATION_NAME, &words)?;
        }
        for place in 0..TRIO_ADDRESSES.len() {
            self.certificate("coordinator", &name(place))?;
            let started = self.start_one_of_three(place)?;
            self.trio.push(started);
        }
        wait_for("one of three coordinators leads", STAGE_TIMEOUT, || {
            Ok(self.operator().status().ok())
        })?;
        self.watch_events()
    }

    fn start_one_of_three(&self, place: usize) -> Result<Program, StageError> {
        let (name, page) = (name(place), Self::PAGE_PORTS[place]);
        let settings = settings_of(place, &addresses(), "two-leaves.toml", IDENTITIES_FOLDER);
        let (own, secure) = (TRIO_ADDRESSES[place], Self::HTTPS_PORT);
        let drivers = self.driver_tables();
        let settings =
            format!("http = \"127.0.0.1:{page}\"\nhttps = \"{own}:{secure}\"\n{settings}{drivers}");
        let settings = self.write(&format!("{name}.toml"), &settings)?;
        let mut run = self.inside(Self::STATION_NAME, self.daemons.coordinator());
        run.args(["run", "--config"]).arg(settings);
        self.start(&name, run)
    }

    /// The tables by which [`Stage::start_driver`]'s driver drives every optical switch.
    pub fn driver_tables(&self) -> String {
        let switches = self.fabric().opticals().map(|(_, switch)| &switch.name);
        let table = |name: &String| format!("[[driver]]\nname = \"d0\"\nswitches = [\"{name}\"]\n");
        switches.map(table).collect()
    }

    /// Where the one at this place is.
    pub fn address_of(place: usize) -> &'static str {
        TRIO_ADDRESSES[place]
    }

    /// One of three coordinators, by its place.
    pub fn one_of_three(&mut self, place: usize) -> &mut Program {
        &mut self.trio[place]
    }

    /// Ends the one at this place in good order, and restarts it. Says how it ended.
    pub fn restart_one_of_three(&mut self, place: usize) -> Result<i32, StageError> {
        let code = self.trio[place].end()?;
        self.trio[place] = self.start_one_of_three(place)?;
        Ok(code)
    }

    /// The place of the one of them that leads, as the others say.
    pub fn leader(&self) -> Result<usize, StageError> {
        wait_for("one of three coordinators leads", STAGE_TIMEOUT, || {
            let Ok(status) = self.operator().status() else {
                return Ok(None);
            };
            let mut all = status.coordinators.iter();
            let leads = all.find(|one| one.state == CoordinatorState::Leads);
            Ok(leads
                .and_then(|one| (0..TRIO_ADDRESSES.len()).find(|&place| name(place) == one.name)))
        })
    }

    /// All that a part may have to do with.
    pub(crate) fn coordinated_at(&self) -> Vec<String> {
        if self.trio.is_empty() {
            vec![COORDINATOR_ADDRESS.to_owned()]
        } else {
            addresses().to_vec()
        }
    }
}

/// The file with the settings of one of them. All lie in one folder, with the fabric's file and the
/// certificates.
pub fn settings_of(place: usize, addresses: &[String], fabric: &str, identities: &str) -> String {
    let own = &addresses[place];
    let mut settings = format!(
        "fabric = \"{fabric}\"\nlisten = \"{own}\"\ndata = \"data{place}\"\nidentity = \
         \"{identities}c{place}\"\n"
    );
    for (place, address) in addresses.iter().enumerate() {
        let id = place + 1;
        let member = format!("id = {id}\nname = \"c{place}\"\naddress = \"{address}\"\n");
        settings += &format!("[[member]]\n{member}");
    }
    settings
}

/// In which term this one came to lead, if it does by what it said last.
pub fn term_led(said: &str) -> Option<u64> {
    let lines = said.lines().rev();
    let mut news = lines.filter(|line| {
        line.contains("leader in term ")
            || line.contains("lost leadership")
            || line.contains("listens on")
    });
    let (_, rest) = news.next()?.split_once("leader in term ")?;
    rest.split(';').next()?.parse().ok()
}
