//! The environment of a command: its hosts in the best order, in the variables and files that launchers read.

use std::{env, fs, io};

use tempfile::TempDir;

use crate::job::gate::{hostfile, lines};

pub(super) struct Surroundings {
    answer: Option<CoordinatorAnswer>,
    /// Hosts in rank order.
    order: Vec<String>,
    /// Index of this host in `order`, if it is one of the hosts.
    place: Option<usize>,
}

/// Answer of a coordinator. Its files exist as long as this value.
struct CoordinatorAnswer {
    folder: TempDir,
    job: String,
    has_lines: bool,
}

impl Surroundings {
    pub(super) fn new(
        job: String,
        order: Vec<String>,
        node: Option<&str>,
        slots: Option<u16>,
    ) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("reweave-run-").tempdir()?;
        let each = slots.unwrap_or(1).into();
        fs::write(folder.path().join("hostfile"), hostfile(&order, each))?;
        fs::write(folder.path().join("ranks"), lines(&order, each))?;
        let answer = Some(CoordinatorAnswer {
            folder,
            job,
            has_lines: slots.is_some(),
        });
        Ok(Self {
            answer,
            ..Self::unanswered(order, node)
        })
    }

    /// Returns the environment without a coordinator's answer. Ranks need their numbers in any case.
    pub(super) fn unanswered(order: Vec<String>, node: Option<&str>) -> Self {
        Self {
            answer: None,
            place: place(&order, node),
            order,
        }
    }

    /// Returns the hosts in rank order.
    pub(super) fn order(&self) -> &[String] {
        &self.order
    }

    pub(super) fn is_answered(&self) -> bool {
        self.answer.is_some()
    }

    /// Returns the variables, without those that are set already.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        let mut all = self.all();
        all.retain(|(name, _)| env::var_os(name).is_none());
        all
    }

    fn all(&self) -> Vec<(&'static str, String)> {
        let mut all = self
            .answer
            .as_ref()
            .map_or(vec![], |answer| self.of_answer(answer));
        all.extend(self.place.into_iter().flat_map(|place| {
            [
                ("PET_MASTER_ADDR", self.first()),
                ("PET_NNODES", self.order.len().to_string()),
                ("PET_NODE_RANK", place.to_string()),
            ]
        }));
        all
    }

    fn of_answer(&self, answer: &CoordinatorAnswer) -> Vec<(&'static str, String)> {
        let file = |name: &str| answer.folder.path().join(name).display().to_string();
        let mut all = vec![
            ("REWEAVE_JOB", answer.job.clone()),
            ("REWEAVE_HOSTS", self.order.join(",")),
            ("REWEAVE_HOSTFILE", file("hostfile")),
            ("OMPI_MCA_orte_default_hostfile", file("hostfile")),
            ("MASTER_ADDR", self.first()),
        ];
        all.extend(answer.has_lines.then(|| ("SLURM_HOSTFILE", file("ranks"))));
        all
    }

    fn first(&self) -> String {
        self.order.first().cloned().unwrap_or_default()
    }
}

/// Returns the index of this host. A full name matches a short one, and the reverse.
pub(super) fn place(hosts: &[String], node: Option<&str>) -> Option<usize> {
    let node = node?;
    let exactly = hosts.iter().position(|host| host == node);
    exactly.or_else(|| {
        let short = |name: &str| name.split('.').next() == node.split('.').next();
        let is_full = |name: &str| name.contains('.');
        let is_same = |host: &String| short(host) && is_full(host) != is_full(node);
        let mut same = hosts.iter().enumerate().filter(|(_, host)| is_same(host));
        let (place, _) = same.next()?;
        same.next().is_none().then_some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_finds_place_and_hostfiles() {
        let order = vec!["h2".to_owned(), "h0".to_owned()];
        let node = Some("h0");
        let surroundings =
            Surroundings::new("train".to_owned(), order.clone(), node, Some(2)).unwrap();
        let all = surroundings.all();
        let value = |name| all.iter().find(|it| it.0 == name).map(|it| it.1.as_str());
        let text = |name| fs::read_to_string(value(name).unwrap()).unwrap();
        assert_eq!(value("REWEAVE_HOSTS"), Some("h2,h0"));
        assert_eq!(value("PET_NNODES"), Some("2"));
        assert_eq!(value("PET_NODE_RANK"), Some("1"));
        assert_eq!(value("MASTER_ADDR"), Some("h2"));
        assert_eq!(text("REWEAVE_HOSTFILE"), "h2 slots=2\nh0 slots=2\n");
        assert_eq!(text("SLURM_HOSTFILE"), "h2\nh2\nh0\nh0\n");
        let elsewhere = Surroundings::new("train".to_owned(), order.clone(), None, None).unwrap();
        let has = |name: &str| elsewhere.all().iter().any(|it| it.0.starts_with(name));
        assert!(has("REWEAVE_HOSTS") && !has("PET_") && !has("SLURM_HOSTFILE"));
        let unanswered = Surroundings::unanswered(order, node).all();
        let names: Vec<_> = unanswered.iter().map(|it| it.0).collect();
        assert_eq!(names, ["PET_MASTER_ADDR", "PET_NNODES", "PET_NODE_RANK"]);
    }

    #[test]
    fn host_found_by_unambiguous_name() {
        let at = |hosts: &[&str], node| {
            let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
            place(&hosts, Some(node))
        };
        assert_eq!(at(&["h2", "h0"], "h0.cluster.example"), Some(1));
        assert_eq!(at(&["h2.a", "h0.a"], "h0"), Some(1));
        assert_eq!(at(&["h0.a", "h0.b"], "h0.b"), Some(1));
        assert_eq!(at(&["h0.a", "h0.b"], "h0"), None);
        assert_eq!(at(&["h0.a"], "h0.b"), None);
        assert_eq!(at(&["h0"], "h00.a"), None);
    }
}
