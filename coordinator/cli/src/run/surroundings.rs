//! What a command finds in its environment: its hosts in the best order, as those read it who start ranks.

use std::{env, fs, io};

use tempfile::TempDir;

use crate::job::gate::{hostfile, lines};

/// Its files are there as long as it is.
pub(super) struct Surroundings {
    folder: TempDir,
    job: String,
    order: Vec<String>,
    /// Which of them this is, if it is one.
    place: Option<usize>,
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
        Ok(Self {
            folder,
            place: order.iter().position(|host| Some(host.as_str()) == node),
            job,
            order,
            has_lines: slots.is_some(),
        })
    }

    /// What is set already stays so.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        let mut all = self.all();
        all.retain(|(name, _)| env::var_os(name).is_none());
        all
    }

    fn all(&self) -> Vec<(&'static str, String)> {
        let file = |name: &str| self.folder.path().join(name).display().to_string();
        let first = self.order.first().cloned().unwrap_or_default();
        let mut all = vec![
            ("REWEAVE_JOB", self.job.clone()),
            ("REWEAVE_HOSTS", self.order.join(",")),
            ("REWEAVE_HOSTFILE", file("hostfile")),
            ("OMPI_MCA_orte_default_hostfile", file("hostfile")),
            ("MASTER_ADDR", first.clone()),
            ("PET_MASTER_ADDR", first),
            ("PET_NNODES", self.order.len().to_string()),
        ];
        all.extend(self.place.map(|place| ("PET_NODE_RANK", place.to_string())));
        all.extend(self.has_lines.then(|| ("SLURM_HOSTFILE", file("ranks"))));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finds_its_place_and_files_that_name_all() {
        let order = vec!["h2".to_owned(), "h0".to_owned()];
        let node = Some("h0");
        let told = Surroundings::new("train".to_owned(), order.clone(), node, Some(2)).unwrap();
        let all = told.all();
        let value = |name| all.iter().find(|it| it.0 == name).map(|it| it.1.as_str());
        let text = |name| fs::read_to_string(value(name).unwrap()).unwrap();
        assert_eq!(value("REWEAVE_HOSTS"), Some("h2,h0"));
        assert_eq!(value("PET_NNODES"), Some("2"));
        assert_eq!(value("PET_NODE_RANK"), Some("1"));
        assert_eq!(value("MASTER_ADDR"), Some("h2"));
        assert_eq!(text("REWEAVE_HOSTFILE"), "h2 slots=2\nh0 slots=2\n");
        assert_eq!(text("SLURM_HOSTFILE"), "h2\nh2\nh0\nh0\n");
        let elsewhere = Surroundings::new("train".to_owned(), order, None, None).unwrap();
        let has = |name| elsewhere.all().iter().any(|it| it.0 == name);
        assert!(!has("PET_NODE_RANK") && !has("SLURM_HOSTFILE"));
    }
}
