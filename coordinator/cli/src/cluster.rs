//! `reweave cluster`: the authority of a cluster, and certificates for its members.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use reweave_common::member::UnknownRole;
use reweave_link::Role;
use reweave_link::pki::{Authority, MAX_MEMBER_VALIDITY, Validity};
use serde::Serialize;

use crate::ask::Reach;
use crate::coordinators::Coordinators;
use crate::error::CliError;
use crate::join::Join;
use crate::membership::{Revoke, Token};
use crate::page::Page;
use crate::report::Report;
use crate::version::Version;
use crate::{Output, print_report};

/// Validity of certificates that members renew for themselves.
const DEFAULT_DAYS: u64 = 1;
/// Validity of a coordinator's signer: for this long it signs certificates without the authority's key.
const SIGNER_VALIDITY: Duration = Duration::from_hours(24 * 365);

#[derive(Debug, Subcommand)]
pub(crate) enum Cluster {
    /// Create a cluster: a certificate authority, and certificates for one coordinator and one operator
    Init {
        /// Folder to create. Read access to its ca.key gives control over membership
        dir: PathBuf,
        /// Name of the cluster
        #[arg(long)]
        name: String,
    },
    /// Issue certificates for members; an existing certificate of that name is replaced
    Issue {
        /// Role of the members
        #[arg(long, value_parser = role)]
        role: Role,
        /// Names of the members; for agents, names of fabric nodes
        #[arg(long = "name", required = true, num_args = 1.., value_name = "NAME")]
        names: Vec<String>,
        /// Folder made by `cluster init`, or a folder with a coordinator's signer
        #[arg(long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
        /// Validity in days; members renew their certificates for a day each
        #[arg(long, default_value_t = DEFAULT_DAYS)]
        days: u64,
    },
    /// Create join tokens: each admits one node or person, once, and expires within minutes
    Token(Token),
    /// Join a cluster with a token and store the certificate
    Join(Join),
    /// Revoke a member: its sessions end within seconds and its certificates become invalid
    Revoke(Revoke),
    /// List and change the coordinators
    #[command(subcommand)]
    Member(Coordinators),
    /// Show or set the protocol version of the cluster, which every coordinator can read
    ///
    /// The version rises by itself once all coordinators run the next release. Lower it before you downgrade the
    /// coordinators by one release, while no plan is in progress; then replace the programs one after the other. It
    /// stays lowered until it is raised here.
    Version(Version),
}

fn role(text: &str) -> Result<Role, UnknownRole> {
    text.parse()
}

/// An issued certificate and its folder.
#[derive(Debug, Serialize)]
pub(crate) struct Issued {
    folder: PathBuf,
    member: String,
}

#[derive(Serialize)]
struct IssuedCertificates<'i> {
    issued: &'i [Issued],
}

impl Cluster {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        match self {
            Self::Init { dir, name } => {
                let issued = &init(dir, name)?;
                print_report(output, &IssuedCertificates { issued })
            }
            Self::Issue {
                role,
                names,
                dir,
                days,
            } => {
                let issued = &issue(*role, names, dir, *days)?;
                print_report(output, &IssuedCertificates { issued })
            }
            Self::Token(token) => token.run(reach, output),
            Self::Join(join) => join.run(reach, output),
            Self::Revoke(revoke) => revoke.run(reach, output),
            Self::Member(members) => members.run(reach, output),
            Self::Version(version) => version.run(reach, output),
        }
    }
}

impl Report for IssuedCertificates<'_> {
    fn lay_out(&self, page: &mut Page) {
        let rows = self.issued.iter();
        let rows = rows.map(|one| [one.member.clone(), one.folder.display().to_string()]);
        page.table(["member", "certificate in"], rows);
    }
}

pub(crate) fn issue(
    role: Role,
    names: &[String],
    dir: &Path,
    days: u64,
) -> Result<Vec<Issued>, CliError> {
    let issuer = Issuer {
        authority: Authority::load(dir)?,
        dir,
        validity: Validity::lasting(MAX_MEMBER_VALIDITY.saturating_mul(days_of(days)))?,
    };
    let issued = names.iter().map(|name| issuer.issue(role, name));
    issued.collect()
}

/// A number of days above `u32::MAX` is refused as too long like any other large number.
fn days_of(days: u64) -> u32 {
    u32::try_from(days).unwrap_or(u32::MAX)
}

pub(crate) fn init(dir: &Path, name: &str) -> Result<Vec<Issued>, CliError> {
    let issuer = Issuer {
        authority: Authority::create(dir, name)?,
        dir,
        validity: Validity::lasting(MAX_MEMBER_VALIDITY.saturating_mul(days_of(DEFAULT_DAYS)))?,
    };
    let members = [
        (Role::Coordinator, "coordinator"),
        (Role::Operator, "operator"),
    ];
    let issued = members.map(|(role, name)| issuer.issue(role, name));
    issued.into_iter().collect()
}

struct Issuer<'d> {
    authority: Authority,
    dir: &'d Path,
    validity: Validity,
}

impl Issuer<'_> {
    /// Writes a certificate into the member's own folder: `agents/h0`, or `operator` for the operator `operator`.
    fn issue(&self, role: Role, name: &str) -> Result<Issued, CliError> {
        let folder = match role {
            _ if name == role.as_str() => self.dir.join(name),
            _ => self.dir.join(format!("{role}s")).join(name),
        };
        let member = self.authority.issue(role, name, self.validity, &folder)?;
        if role == Role::Coordinator {
            let life = Validity::lasting(SIGNER_VALIDITY)?;
            self.authority.issue_signer(name, life, &folder)?;
        }
        Ok(Issued {
            member: member.to_string(),
            folder,
        })
    }
}

#[cfg(test)]
mod tests {
    use reweave_link::Identity;

    use super::*;

    #[test]
    fn new_cluster_has_coordinator_and_operator() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("rack7");
        let issued = init(&dir, "rack7").unwrap();
        let members: Vec<_> = issued.iter().map(|one| one.member.as_str()).collect();
        assert_eq!(
            members,
            [
                "spiffe://rack7/coordinator/coordinator",
                "spiffe://rack7/operator/operator"
            ]
        );
        let issuer = Issuer {
            authority: Authority::load(&dir).unwrap(),
            dir: &dir,
            validity: Validity::day(),
        };
        let agent = issuer.issue(Role::Agent, "h0").unwrap();
        assert_eq!(agent.folder, dir.join("agents/h0"));
        for folder in [dir.join("coordinator"), dir.join("operator"), agent.folder] {
            assert_eq!(Identity::load(&folder).unwrap().cluster().as_str(), "rack7");
        }
        // A coordinator signs for one day, without the authority's key.
        let coordinator = dir.join("coordinator");
        assert!(!coordinator.join("ca.key").exists());
        let names = ["h1".to_owned()];
        let issued = issue(Role::Agent, &names, &coordinator, 1).unwrap();
        let signed = Identity::load(&issued[0].folder).unwrap();
        assert_eq!(signed.problem(std::time::SystemTime::now()), None);
        let long = issue(Role::Agent, &names, &coordinator, 2).unwrap_err();
        assert!(
            long.error_chain().contains("a day at most"),
            "{}",
            long.error_chain()
        );
    }

    #[test]
    fn cluster_is_not_created_twice() {
        let scratch = tempfile::tempdir().unwrap();
        init(scratch.path(), "one").unwrap();
        let error = init(scratch.path(), "two").unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(
            error.error_chain().contains("ca.pem exists already"),
            "{}",
            error.error_chain()
        );
    }

    #[test]
    fn path_traversal_names_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        init(scratch.path(), "one").unwrap();
        let issuer = Issuer {
            authority: Authority::load(scratch.path()).unwrap(),
            dir: scratch.path(),
            validity: Validity::day(),
        };
        let error = issuer.issue(Role::Agent, "../../h0").unwrap_err();
        assert!(
            error.error_chain().contains("is not a valid name"),
            "{}",
            error.error_chain()
        );
    }
}
