//! Several coordinators of one cluster, called c0, c1 and so on.

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
        line.contains("leads, in term ")
            || line.contains("does not lead any more")
            || line.contains("listens on")
    });
    let (_, rest) = news.next()?.split_once("leads, in term ")?;
    rest.split(';').next()?.parse().ok()
}
