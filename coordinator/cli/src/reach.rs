//! Where commands find the coordinators, and as whom they ask: options, variables of the environment, contexts.

use std::env;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use reweave_link::{DenyListFile, Identity, Role};
use reweave_proto::DEFAULT_PORT;

use crate::context::{self, Context};
use crate::error::CliError;

/// Default address: a coordinator on the operator's own machine.
const DEFAULT_COORDINATOR: &str = "127.0.0.1";

/// Addresses of the coordinators, and the identity of the operator.
#[derive(Debug, Clone, Args)]
pub(crate) struct Reach {
    /// Addresses of the coordinators; the first that answers is used [default: those of the context, or 127.0.0.1]
    #[arg(
        long,
        env = "REWEAVE_COORDINATOR",
        value_name = "ADDRESS[:PORT]",
        value_delimiter = ',',
        global = true
    )]
    coordinator: Vec<String>,
    /// Folder with the operator's certificate [default: that of the context, or ~/.config/reweave/operator]
    #[arg(long, env = "REWEAVE_IDENTITY", value_name = "DIR", global = true)]
    identity: Option<PathBuf>,
    /// Context with coordinators and identity, as `reweave context list` lists them; the option goes before the variables
    /// of the other two [default: the current one]
    #[arg(long, env = "REWEAVE_CONTEXT", value_name = "NAME", global = true)]
    context: Option<String>,
    /// Context selected at the first use. It stays the same while this program runs, even if the file changes.
    #[arg(skip)]
    selected: OnceLock<Option<Context>>,
    /// Options above that stand on the command line. Others may come from the environment.
    #[arg(skip)]
    flags: Flags,
    /// Set for commands that start other programs: they handle signals themselves, to stop those programs.
    #[arg(skip)]
    pub(crate) leaves_signals: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Flags {
    coordinator: bool,
    identity: bool,
    context: bool,
}

impl Reach {
    /// Notes which options stand on the command line: they go before variables of the environment.
    pub(crate) fn note_flags(&mut self, matches: &ArgMatches) {
        let is_given = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
        self.flags = Flags {
            coordinator: is_given("coordinator"),
            identity: is_given("identity"),
            context: is_given("context"),
        };
    }

    /// Returns the reach of one coordinator with the certificate in this folder. Signals end the session.
    pub(crate) fn to(coordinator: &str, identity: PathBuf) -> Self {
        Self {
            coordinator: vec![coordinator.to_owned()],
            identity: Some(identity),
            context: None,
            selected: OnceLock::new(),
            flags: Flags::default(),
            leaves_signals: true,
        }
    }

    /// Returns what `context set` stores: only the options that were given, nothing from another context.
    pub(crate) fn as_context(&self, name: &str) -> Context {
        Context {
            name: name.to_owned(),
            coordinators: self.coordinator.clone(),
            identity: self.identity.clone(),
        }
    }

    /// Returns the context that fills in the options that were not given.
    pub(crate) fn context(&self) -> Result<Option<&Context>, CliError> {
        if let Some(selected) = self.selected.get() {
            return Ok(selected.as_ref());
        }
        let selected = context::selected(self.context.as_deref())?;
        Ok(self.selected.get_or_init(|| selected).as_ref())
    }

    /// Returns the context if it goes before the value of an option, which may be a flag itself. A context that is named
    /// and does not exist is an error for all values.
    fn overriding_context(&self, is_flag: bool) -> Result<Option<&Context>, CliError> {
        let named = match self.context {
            Some(_) => self.context()?,
            None => None,
        };
        Ok(named.filter(|_| self.flags.context && !is_flag))
    }

    /// Returns the same reach without signal handling: the caller handles signals.
    pub(crate) fn leaving_signals(&self) -> Self {
        Self {
            leaves_signals: true,
            ..self.clone()
        }
    }

    pub(crate) fn addresses(&self) -> Result<Vec<SocketAddr>, CliError> {
        let names = match (
            self.overriding_context(self.flags.coordinator)?,
            self.coordinator.as_slice(),
        ) {
            (Some(context), _) => Some(context.coordinators.clone()),
            (None, []) => self.context()?.map(|context| context.coordinators.clone()),
            (None, given) => Some(given.to_vec()),
        };
        let names = names.unwrap_or_else(|| vec![DEFAULT_COORDINATOR.to_owned()]);
        let each = names.iter().map(|name| Self::looked_up(name));
        Ok(each.collect::<Result<Vec<_>, _>>()?.concat())
    }

    fn looked_up(name: &str) -> Result<Vec<SocketAddr>, CliError> {
        if let Ok(address) = name.parse::<IpAddr>() {
            return Ok(vec![(address, DEFAULT_PORT).into()]);
        }
        let found = match name.rsplit_once(':') {
            Some(_) => name.to_socket_addrs(),
            None => (name, DEFAULT_PORT).to_socket_addrs(),
        };
        let found = found.map_err(|source| CliError::NoSuchAddress {
            name: name.to_owned(),
            source,
        })?;
        Ok(found.collect())
    }

    /// Returns the join addresses: by default the port after that of each coordinator.
    pub(crate) fn doors(&self) -> Result<Vec<SocketAddr>, CliError> {
        let beside = |to: SocketAddr| SocketAddr::new(to.ip(), to.port().saturating_add(1));
        Ok(self.addresses()?.into_iter().map(beside).collect())
    }

    pub(crate) fn folder(&self) -> Result<PathBuf, CliError> {
        let overriding = self.overriding_context(self.flags.identity)?;
        let overriding = overriding.and_then(|context| context.identity.as_ref());
        if let Some(given) = overriding.or(self.identity.as_ref()) {
            return Ok(given.clone());
        }
        let context = self.context()?.and_then(|context| context.identity.clone());
        let usual = || usual_identity().filter(|folder| folder.is_dir());
        context.or_else(usual).ok_or(CliError::NoIdentity)
    }

    pub(crate) fn own_identity(&self) -> Result<Identity, CliError> {
        self.identity(self.folder()?)
    }

    fn identity(&self, folder: PathBuf) -> Result<Identity, CliError> {
        let identity = Identity::load(&folder).map_err(|source| CliError::Identity {
            folder,
            source: Box::new(source),
        })?;
        match identity.member().role() {
            Role::Operator | Role::Viewer => Ok(identity),
            // A coordinator would take this session for the member's own and end the member's session.
            _ => Err(CliError::NotForPeople {
                member: identity.member().to_string(),
            }),
        }
    }

    /// Returns the identity and the coordinators that it refuses. Each identity folder has a deny list of its own.
    pub(crate) fn identity_and_deny_lists(&self) -> Result<(Identity, DenyListFile), CliError> {
        let folder = self.folder()?;
        let identity = self.identity(folder.clone())?;
        let deny_lists = DenyListFile::load(&folder, &identity)?;
        Ok((identity, deny_lists))
    }
}

fn usual_identity() -> Option<PathBuf> {
    Some(own_folder("XDG_CONFIG_HOME", ".config")?.join("reweave/operator"))
}

/// Returns the user's folder of one kind: the value of the variable, else the usual place.
pub(crate) fn own_folder(variable: &str, usual: &str) -> Option<PathBuf> {
    let named = env::var_os(variable).map(PathBuf::from);
    let named = named.filter(|path| path.is_absolute());
    named.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(usual)))
}

#[cfg(test)]
pub(crate) mod tests {
    use reweave_link::pki::{Authority, Validity};

    use super::*;

    /// Returns the reach of an operator without options, under this context.
    pub(crate) fn reach_of(context: Option<Context>) -> Reach {
        Reach {
            coordinator: vec![],
            identity: None,
            context: None,
            selected: OnceLock::from(context),
            flags: Flags::default(),
            leaves_signals: true,
        }
    }

    #[test]
    fn given_values_override_context() {
        let lab = Context {
            name: "lab".to_owned(),
            coordinators: vec!["10.0.0.1".to_owned(), "10.0.0.2:7000".to_owned()],
            identity: Some(PathBuf::from("/lab")),
        };
        let describe = |reach: &Reach| {
            let addresses = reach.addresses().unwrap().into_iter();
            let addresses: Vec<_> = addresses.map(|it| it.to_string()).collect();
            (addresses.join(" "), reach.folder().unwrap())
        };
        let by_context = reach_of(Some(lab));
        let addresses = "10.0.0.1:7332 10.0.0.2:7000".to_owned();
        assert_eq!(describe(&by_context), (addresses, PathBuf::from("/lab")));
        let given = Reach {
            coordinator: vec!["10.0.9.9".to_owned()],
            identity: Some(PathBuf::from("/own")),
            ..by_context
        };
        let addresses = "10.0.9.9:7332".to_owned();
        assert_eq!(describe(&given), (addresses, PathBuf::from("/own")));
        let local = reach_of(None).addresses().unwrap();
        assert_eq!(local, [SocketAddr::from(([127, 0, 0, 1], DEFAULT_PORT))]);
    }

    /// Values without flags come from the environment.
    #[test]
    fn context_flag_overrides_environment() {
        let lab = |identity: Option<&str>| Context {
            name: "lab".to_owned(),
            coordinators: vec!["10.0.0.1".to_owned()],
            identity: identity.map(PathBuf::from),
        };
        let reach = |context: Context, flags: Flags| Reach {
            coordinator: vec!["10.0.9.9".to_owned()],
            identity: Some(PathBuf::from("/own")),
            context: Some("lab".to_owned()),
            flags,
            ..reach_of(Some(context))
        };
        let describe = |reach: &Reach| {
            let address = reach.addresses().unwrap()[0].ip().to_string();
            (address, reach.folder().unwrap().display().to_string())
        };
        let expect = |reach: &Reach, [address, folder]: [&str; 2]| {
            assert_eq!(describe(reach), (address.to_owned(), folder.to_owned()));
        };
        let context = Flags {
            context: true,
            ..Flags::default()
        };
        expect(&reach(lab(Some("/lab")), context), ["10.0.0.1", "/lab"]);
        expect(&reach(lab(None), context), ["10.0.0.1", "/own"]);
        let all = Flags {
            coordinator: true,
            identity: true,
            context: true,
        };
        expect(&reach(lab(Some("/lab")), all), ["10.0.9.9", "/own"]);
        // All three are variables.
        let none = Flags::default();
        expect(&reach(lab(Some("/lab")), none), ["10.0.9.9", "/own"]);
    }

    #[test]
    fn node_certificate_cannot_act_as_operator() {
        let scratch = tempfile::tempdir().unwrap();
        let authority = Authority::create(scratch.path(), "lab").unwrap();
        let folder = scratch.path().join("h1");
        authority
            .issue(Role::Agent, "h1", Validity::day(), &folder)
            .unwrap();
        let reach = Reach {
            coordinator: vec!["127.0.0.1".to_owned()],
            identity: Some(folder.clone()),
            ..reach_of(None)
        };
        let error = reach.identity(folder).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(
            error
                .error_chain()
                .contains("not the certificate of an operator"),
            "{}",
            error.error_chain()
        );
    }
}
