//! Health and metrics that each of three coordinators serves.

use libtest_mimic::Trial;

use crate::cluster::{AGENT_HOST, Place, Quorum, must};
use crate::needs::{Need, trial};
use crate::promtool;

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "each_coordinator_serves_valid_metrics",
        &[Need::Lab, Need::Program("promtool")],
        all_serve,
    )]
}

impl Quorum {
    fn metrics(&self, place: Place) -> String {
        let ask = "exec 3<>/dev/tcp/127.0.0.1/7334; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3";
        let host = format!("h{place}");
        let answer = must(self.stage.output(&host, &["bash", "-c", ask]));
        let (_head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        body.to_owned()
    }
}

/// Each metric family has a sample: an empty family would hide errors.
fn all_serve() {
    let quorum = Quorum::up();
    let (leader, _) = quorum.leader();
    for place in 0..3 {
        let served = quorum.metrics(place);
        promtool::takes(&served);
        let others = (0..3).filter(|other| *other != place);
        let mut whom: Vec<_> = others.map(|it| format!("coordinator=\"c{it}\"")).collect();
        whom.push(format!("node=\"{AGENT_HOST}\""));
        let leads = place == leader;
        for label in whom {
            assert_eq!(served.contains(&label), leads, "{label}: {served}");
        }
        let metric = format!("\nreweave_leads {}\n", u8::from(leads));
        assert!(served.contains(&metric), "{metric}: {served}");
    }
}
