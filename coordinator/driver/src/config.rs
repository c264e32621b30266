//! The driver's configuration: its optical switches, and the protocol of each.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reweave_common::names::{MAX_NAME_BYTES, is_plain};
use serde::Deserialize;

use crate::error::DriverError;

/// A device is not read more often, whatever the file says.
const MIN_READ_INTERVAL: Duration = Duration::from_millis(100);

/// One file, whose every key is known; deploy/driver.toml explains each.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Folder for what must not be forgotten.
    #[serde(default = "state_folder")]
    pub state: PathBuf,
    #[serde(default)]
    pub optical: Vec<Optical>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Optical {
    pub name: String,
    /// They are numbered from 1.
    pub ports: u16,
    /// How long it may take to answer.
    #[serde(default = "patience_ms")]
    pub patience_ms: u64,
    /// How often its circuits are read while there is no instruction.
    #[serde(default = "read_interval_ms")]
    pub read_interval_ms: u64,
    pub speaks: Speaks,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Speaks {
    Restconf(RestconfSettings),
    Netconf(NetconfSettings),
    Tl1(Tl1Settings),
    Exec(ExecSettings),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestconfSettings {
    /// Without a path, such as https://10.0.0.9.
    pub url: String,
    pub user: Option<String>,
    pub password_file: Option<PathBuf>,
    /// Who vouches for the device, in PEM, where that is not one the system trusts.
    pub authority: Option<PathBuf>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetconfSettings {
    pub host: String,
    #[serde(default = "netconf_port")]
    pub port: u16,
    pub user: String,
    pub key_file: PathBuf,
    /// The device's own key, as `ssh-keyscan` tells it.
    pub known_hosts: PathBuf,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tl1Settings {
    pub host: String,
    #[serde(default = "tl1_port")]
    pub port: u16,
    pub user: String,
    pub password_file: PathBuf,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecSettings {
    pub program: PathBuf,
    #[serde(default)]
    pub arguments: Vec<String>,
}

impl Config {
    pub fn load(path: &Path) -> Result<Self, DriverError> {
        let text = fs::read_to_string(path).map_err(|source| DriverError::ReadConfig {
            path: path.to_owned(),
            source,
        })?;
        let config: Self = toml::from_str(&text).map_err(|source| DriverError::Config {
            path: path.to_owned(),
            source,
        })?;
        let mut names = config.optical.iter().map(|optical| &optical.name);
        // They become names of files.
        match names.find(|name| !is_plain(name, MAX_NAME_BYTES)) {
            Some(name) => Err(DriverError::BadName {
                path: path.to_owned(),
                name: name.clone(),
            }),
            None => Ok(config),
        }
    }

    pub fn find(&self, name: &str) -> Option<&Optical> {
        self.optical.iter().find(|optical| optical.name == name)
    }
}

impl Optical {
    pub fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms)
    }

    pub fn read_interval(&self) -> Duration {
        Duration::from_millis(self.read_interval_ms).max(MIN_READ_INTERVAL)
    }
}

fn state_folder() -> PathBuf {
    "/var/lib/reweave/driver".into()
}

fn patience_ms() -> u64 {
    1000
}

fn read_interval_ms() -> u64 {
    5000
}

fn netconf_port() -> u16 {
    830
}

fn tl1_port() -> u16 {
    3082
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The sample that people start from.
    fn sample() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/driver.toml")
    }

    #[test]
    fn sample_config_lists_defaults() {
        let config = Config::load(&sample()).unwrap();
        let names: Vec<_> = config.optical.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["ocs0", "ocs1", "ocs2", "ocs3"]);
        let text = fs::read_to_string(sample()).unwrap();
        assert!(text.contains(&format!("#state = {:?}\n", state_folder())));
        assert!(text.contains(&format!("#patience_ms = {} ", patience_ms())));
        assert!(text.contains(&format!("#read_interval_ms = {} ", read_interval_ms())));
        for port in [netconf_port(), tl1_port()] {
            assert!(text.contains(&format!("#port = {port}\n")));
        }
    }

    #[test]
    fn unknown_key_or_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("driver.toml");
        let error = |text: &str| {
            fs::write(&path, text).unwrap();
            let error = Config::load(&path).unwrap_err();
            (error.exit_code(), error.to_string())
        };
        let (code, said) = error("speed = 1");
        assert!(
            code == 2 && said.contains("unknown field `speed`"),
            "{said}"
        );
        let exec = "ports = 1\nspeaks.exec.program = \"x\"";
        let (code, said) = error(&format!("[[optical]]\nname = \"../x\"\n{exec}"));
        assert!(
            code == 2 && said.contains("is not a valid name for an optical switch"),
            "{said}"
        );
    }
}
