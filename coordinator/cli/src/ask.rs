//! A session with the coordinator, for one or a few requests.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use reweave_common::operator::{Findings, JobStatus, Record, Refused, Request, Response, Status};
use reweave_common::plan::Generation;
use reweave_link::pki::{self, KeyRequest};
use reweave_link::{Channel, DenyListFile, Identity, LinkError, Role, Session, connect};
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

use crate::error::CliError;
use crate::parting;
pub(crate) use crate::reach::{Reach, own_folder};
use crate::standing::{self, Answer};
use crate::voice::print_note;

/// Time limit for an answer. A coordinator answers in milliseconds unless its disk or its network is in trouble.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Wait before another coordinator is asked. An election takes some tenths of a second.
const LEADER_RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// Time limit for an election: coordinators that reach each other have elected a leader by then.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(1);

/// State of the cluster, from the leader or from each coordinator.
pub(crate) enum Seen {
    Led(Box<Status>),
    /// No leader answered. Each coordinator's own report, or the reason why it is missing.
    Leaderless(Vec<Answer>),
}

/// An open session with a coordinator. Dropping it closes the session on the coordinator, too.
pub(crate) struct Coordinator {
    runtime: &'static Runtime,
    session: Session,
    addresses: Vec<SocketAddr>,
    identity: Identity,
    deny_lists: DenyListFile,
    /// Leader named by the last coordinator that could not take the request.
    named: Option<SocketAddr>,
}

impl Coordinator {
    /// Opens a session. A certificate past two thirds of its lifetime is renewed first.
    pub(crate) fn reach(reach: &Reach) -> Result<Self, CliError> {
        let (addresses, folder) = (reach.addresses()?, reach.folder()?);
        let (identity, deny_lists) = reach.identity_and_deny_lists()?;
        let runtime = parting::runtime()?;
        if !reach.leaves_signals {
            parting::heed_signals()?;
        }
        let session = runtime.block_on(open(&addresses, &identity))?;
        let mut coordinator = Self {
            runtime,
            session,
            addresses,
            identity,
            deny_lists,
            named: None,
        };
        if coordinator.identity.validity().is_due(SystemTime::now())
            && !pki::is_shared(&folder)
            && let Err(error) = coordinator.renew(&folder)
        {
            print_note(&format!(
                "warning: certificate renewal failed: {}",
                error.error_chain()
            ));
        }
        Ok(coordinator)
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the address of the coordinator that was asked last.
    pub(crate) fn address(&self) -> SocketAddr {
        self.session.address()
    }

    fn renew(&mut self, folder: &Path) -> Result<(), CliError> {
        let key = KeyRequest::new(folder)?;
        let request = key.der().to_vec();
        match self.ask(&Request::Renew { request })? {
            Response::Renewed { chain_pem } => Ok(key.install(&chain_pem)?),
            Response::Refused(refused) => Err(CliError::Refused(refused)),
            other => Err(CliError::unexpected(&other)),
        }
    }

    /// Sends a request to the leader, and waits for an election if there is none.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Response, CliError> {
        let runtime = self.runtime;
        runtime.block_on(self.ask_until(request, Instant::now() + ANSWER_TIMEOUT))
    }

    /// Asks one coordinator after the other until the deadline, and then returns the last answer, such as "not the
    /// leader".
    async fn ask_until(
        &mut self,
        request: &Request,
        deadline: Instant,
    ) -> Result<Response, CliError> {
        loop {
            let answer = self.ask_this_one(request).await;
            let Some(next) = other_to_ask(&answer) else {
                return answer;
            };
            if Instant::now() > deadline {
                return answer;
            }
            self.go_to(next.leader).await?;
        }
    }

    async fn ask_this_one(&self, request: &Request) -> Result<Response, CliError> {
        let exchanged = exchange(&self.session, request, &self.deny_lists);
        let answer = timeout(ANSWER_TIMEOUT, exchanged).await;
        answer
            .map_err(|_| CliError::NoAnswer {
                waited: ANSWER_TIMEOUT,
            })?
            .map_err(|error| {
                if error.is_denial() {
                    unreached(&[self.session.address()], error)
                } else {
                    CliError::Ask(Box::new(error))
                }
            })
    }

    /// Opens a session with the leader, or with another coordinator if the leader does not answer. The coordinator that
    /// was asked last is tried last: it may be cut off from the others. Waits for a moment if no new leader is named.
    async fn go_to(&mut self, leader: Option<SocketAddr>) -> Result<(), CliError> {
        let last = self.session.address();
        if leader.is_none_or(|leader| self.named == Some(leader)) {
            sleep(LEADER_RETRY_INTERVAL).await;
        }
        self.named = leader;
        self.addresses.sort_by_key(|address| *address == last);
        let others = self.addresses.iter().copied();
        let others = others.filter(|address| Some(*address) != leader);
        let addresses: Vec<_> = leader.into_iter().chain(others).collect();
        parting::part("asking another coordinator").await;
        self.session = open(&addresses, &self.identity).await?;
        Ok(())
    }

    /// Returns the leader's status. Waits for an election for up to `ELECTION_TIMEOUT`, and then returns each
    /// coordinator's own state.
    pub(crate) fn seen(&mut self) -> Result<Seen, CliError> {
        let runtime = self.runtime;
        let answer = runtime.block_on(self.ask_this_one(&Request::Status));
        match other_to_ask(&answer) {
            Some(next) => runtime.block_on(self.seen_by(next.leader)),
            None => Ok(Seen::Led(Box::new(status(answer?)?))),
        }
    }

    /// Waits for a leader, and meanwhile asks every coordinator for its own state.
    async fn seen_by(&mut self, leader: Option<SocketAddr>) -> Result<Seen, CliError> {
        let standings = tokio::spawn(self.asked_standings());
        let elsewhere = async {
            self.go_to(leader).await?;
            self.ask_until(&Request::Status, Instant::now() + ANSWER_TIMEOUT)
                .await
        };
        let Ok(response) = timeout(ELECTION_TIMEOUT, elsewhere).await else {
            return Ok(Seen::Leaderless(standings.await.unwrap_or_default()));
        };
        standings.abort();
        Ok(Seen::Led(Box::new(status(response?)?)))
    }

    /// Returns each coordinator's own state, with or without a leader.
    pub(crate) fn standings(&self) -> Vec<Answer> {
        self.runtime.block_on(self.asked_standings())
    }

    fn asked_standings(&self) -> impl Future<Output = Vec<Answer>> + use<> {
        let (identity, deny_lists) = (self.identity.clone(), self.deny_lists.clone());
        standing::asked(self.addresses.clone(), identity, deny_lists)
    }

    pub(crate) fn status(&mut self) -> Result<Status, CliError> {
        status(self.ask(&Request::Status)?)
    }

    /// Fails for a name that no node has.
    pub(crate) fn knows(&mut self, nodes: &[String]) -> Result<(), CliError> {
        let known = self.status()?.agents;
        let is_unknown = |node: &&String| !known.iter().any(|agent| agent.node == **node);
        match nodes.iter().find(is_unknown).cloned() {
            Some(node) => Err(CliError::NoSuchNode { node }),
            None => Ok(()),
        }
    }

    /// Returns the findings of the leader.
    pub(crate) fn findings(&mut self) -> Result<Findings, CliError> {
        match self.ask(&Request::Diagnose)? {
            Response::Findings(findings) => Ok(findings),
            Response::Refused(refused) => Err(CliError::Refused(refused)),
            other => Err(CliError::unexpected(&other)),
        }
    }

    /// Returns the jobs that exchange traffic.
    pub(crate) fn jobs(&mut self) -> Result<Vec<JobStatus>, CliError> {
        match self.ask(&Request::Jobs)? {
            Response::Jobs(jobs) => Ok(jobs),
            Response::Refused(refused) => Err(CliError::Refused(refused)),
            other => Err(CliError::unexpected(&other)),
        }
    }

    /// Returns the newest records of changes, requested page by page.
    pub(crate) fn history(&mut self, most: usize) -> Result<Vec<Record>, CliError> {
        let mut records: Vec<Record> = Vec::new();
        while records.len() < most {
            let before = records.last().map(|oldest| oldest.plan.generation);
            match self.ask(&Request::History { before })? {
                Response::History(older) if older.is_empty() => break,
                Response::History(older) => records.extend(older),
                Response::Refused(refused) => return Err(CliError::Refused(refused)),
                other => return Err(CliError::unexpected(&other)),
            }
        }
        records.truncate(most);
        Ok(records)
    }

    pub(crate) fn record(&mut self, generation: Generation) -> Result<Record, CliError> {
        match self.ask(&Request::Record { generation })? {
            Response::Record(found) => found
                .map(|record| *record)
                .ok_or(CliError::Lost { generation }),
            Response::Refused(refused) => Err(CliError::Refused(refused)),
            other => Err(CliError::unexpected(&other)),
        }
    }

    /// Waits, and keeps the session alive.
    pub(crate) fn wait(&self, duration: Duration) {
        let slept = async { tokio::time::sleep(duration).await };
        self.runtime.block_on(slept);
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.runtime.block_on(parting::part("no further request"));
    }
}

/// The next coordinator to ask, with the leader if the answer named one.
struct OtherToAsk {
    leader: Option<SocketAddr>,
}

/// Returns where to send a request that this coordinator did not take. A request whose outcome is unknown is not sent
/// again.
fn other_to_ask(answer: &Result<Response, CliError>) -> Option<OtherToAsk> {
    match answer {
        Ok(Response::Refused(Refused::NotLeading { leader })) => {
            Some(OtherToAsk { leader: *leader })
        }
        Err(CliError::Ask(error)) if matches!(**error, LinkError::NotReady { .. }) => {
            Some(OtherToAsk { leader: None })
        }
        _ => None,
    }
}

fn status(response: Response) -> Result<Status, CliError> {
    match response {
        Response::Status(status) => Ok(*status),
        Response::Refused(refused) => Err(CliError::Refused(refused)),
        other => Err(CliError::unexpected(&other)),
    }
}

/// Opens a session and requests the deny lists first. They arrive ahead of the answer to the first request, without a
/// further round trip.
pub(crate) async fn open_session(
    addresses: &[SocketAddr],
    identity: &Identity,
) -> Result<Session, LinkError> {
    let session = connect(addresses, identity, Role::Coordinator).await?;
    request_deny_lists(&session).await;
    Ok(session)
}

/// Requests the deny lists. If the session is lost by now, the first request fails.
async fn request_deny_lists(session: &Session) {
    let _ = session.send(Channel::Commands, &Request::DenyLists).await;
}

/// Sends a request and returns its answer. Fails if the coordinator is on a deny list, including a list that it sends
/// itself.
pub(crate) async fn exchange(
    session: &Session,
    request: &Request,
    deny_lists: &DenyListFile,
) -> Result<Response, LinkError> {
    deny_lists.check(session)?;
    session.send(Channel::Commands, request).await?;
    loop {
        match session.receive(Channel::Commands).await? {
            Response::DenyLists(denied) => deny_lists.note(session, denied)?,
            response => return Ok(response),
        }
    }
}

async fn open(addresses: &[SocketAddr], identity: &Identity) -> Result<Session, CliError> {
    let session = open_session(addresses, identity).await;
    let session = session.map_err(|source| unreached(addresses, source))?;
    parting::opened(&session);
    Ok(session)
}

fn unreached(addresses: &[SocketAddr], source: LinkError) -> CliError {
    let (addresses, source) = (addresses.to_vec(), Box::new(source));
    if source.is_denial() {
        CliError::Denied {
            addresses,
            denial: source,
        }
    } else {
        CliError::Reach { addresses, source }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use reweave_common::member::{Admission, DeniedCoordinators};
    use reweave_link::pki::{Authority, Validity};
    use reweave_link::{Listener, connect_as};
    use reweave_proto::hello::{Hello, PROTOCOL_VERSION};
    use reweave_proto::since_version::came_with;
    use tempfile::TempDir;

    use super::*;
    use crate::context::Context;
    use crate::reach::tests::reach_of;

    #[test]
    fn unreached_coordinators_are_all_named() {
        let addresses = [1_u8, 2].map(|nth| SocketAddr::from(([10, 0, 0, nth], 7332)));
        let silent = |address| LinkError::HandshakeTimedOut { address };
        let failures = addresses.map(silent).into();
        let said = unreached(&addresses, LinkError::NoneReached(failures)).error_chain();
        let head = "cannot reach any coordinator at 10.0.0.1:7332, 10.0.0.2:7332: ";
        assert!(said.starts_with(head), "{said}");
        for address in addresses {
            let why = format!("{address} did not complete the handshake");
            assert_eq!(said.matches(&why).count(), 1, "{said}");
        }
        let alone = unreached(&addresses[..1], silent(addresses[0])).error_chain();
        let head = "cannot reach the coordinator at 10.0.0.1:7332: 10.0.0.1:7332 did not";
        assert!(alone.starts_with(head), "{alone}");
    }

    /// A test cluster. Its coordinators answer requests for deny lists and refuse all others.
    struct Cluster {
        home: TempDir,
        authority: Authority,
    }

    impl Cluster {
        fn new(name: &str) -> Self {
            let home = tempfile::tempdir().unwrap();
            let authority = Authority::create(&home.path().join("authority"), name).unwrap();
            Self { home, authority }
        }

        fn issue(&self, role: Role, name: &str) -> PathBuf {
            let folder = self.home.path().join(name);
            let issued = self.authority.issue(role, name, Validity::day(), &folder);
            issued.unwrap();
            folder
        }

        /// Returns an operator that reaches this cluster by a context.
        fn context(&self) -> Reach {
            self.context_of(vec![])
        }

        fn context_of(&self, coordinators: Vec<String>) -> Reach {
            reach_of(Some(Context {
                name: "any".to_owned(),
                coordinators,
                identity: Some(self.issue(Role::Operator, "ann")),
            }))
        }

        fn coordinator(&self, name: &str, removed: &[&str]) -> SocketAddr {
            let ours = Identity::load(&self.issue(Role::Coordinator, name)).unwrap();
            let anywhere = "127.0.0.1:0".parse().unwrap();
            let mut listener = Listener::bind(anywhere, &ours, &[Role::Operator]).unwrap();
            let address = listener.address().unwrap();
            let removed = removed
                .iter()
                .map(|name| ((*name).to_owned(), Admission(7)));
            let denied = DeniedCoordinators {
                as_of: Admission(7),
                removed: removed.collect(),
                ..DeniedCoordinators::default()
            };
            tokio::spawn(async move {
                while let Some(accepted) = listener.accept().await {
                    if let Ok(session) = accepted {
                        tokio::spawn(answer_all(session, denied.clone()));
                    }
                }
            });
            address
        }
    }

    async fn answer_all(session: Session, denied: DeniedCoordinators) {
        while let Ok(request) = session.receive::<Request>(Channel::Commands).await {
            let response = match request {
                Request::DenyLists => Response::DenyLists(denied.clone()),
                _ => Response::Refused(Refused::NoPlan),
            };
            // The command may have ended already.
            let _ = session.send(Channel::Commands, &response).await;
        }
    }

    /// Closes each incoming session without reading it.
    async fn close_all(mut listener: Listener) {
        while let Some(accepted) = listener.accept().await {
            if let Ok(session) = accepted {
                tokio::spawn(session.close_not_ready("it waits for c2"));
            }
        }
    }

    #[test]
    fn starting_coordinator_is_passed_over() {
        let cluster = Cluster::new("lab");
        let servers = Runtime::new().unwrap();
        let (starting, leads) = servers.block_on(async {
            let identity = cluster.issue(Role::Coordinator, "c1");
            let identity = Identity::load(&identity).unwrap();
            let anywhere = "127.0.0.1:0".parse().unwrap();
            let listener = Listener::bind(anywhere, &identity, &[Role::Operator]).unwrap();
            let starting = listener.address().unwrap();
            tokio::spawn(close_all(listener));
            (starting, cluster.coordinator("c2", &[]))
        });
        // It closes the session during the handshake, or just after.
        let alone = cluster.context_of(vec![starting.to_string()]);
        let asked = Coordinator::reach(&alone).and_then(|mut coordinator| {
            let now = Instant::now();
            let runtime = coordinator.runtime;
            runtime.block_on(coordinator.ask_until(&Request::WhoAmI, now))
        });
        let why = asked.unwrap_err().error_chain();
        assert!(why.contains("still starts: it waits for c2"), "{why}");

        let both = [starting, leads].map(|address| address.to_string());
        let mut coordinator = Coordinator::reach(&cluster.context_of(both.to_vec())).unwrap();
        let answer = coordinator.ask(&Request::WhoAmI).unwrap();
        assert_eq!(answer, Response::Refused(Refused::NoPlan));
        assert_eq!(coordinator.address(), leads);
    }

    /// Sends a request twice, as two commands in a row do.
    async fn asked(reach: &Reach, addresses: &[SocketAddr]) -> Result<Response, CliError> {
        let (identity, deny_lists) = reach.identity_and_deny_lists()?;
        let session = open(addresses, &identity).await?;
        let answer = exchange(&session, &Request::WhoAmI, &deny_lists).await;
        answer.map_err(|error| unreached(addresses, error))
    }

    #[tokio::test]
    async fn removed_coordinator_is_refused_next_time() {
        let cluster = Cluster::new("lab");
        let ann = cluster.context();
        let gone = cluster.coordinator("c2", &[]);
        let stays = cluster.coordinator("c1", &["c2"]);
        for address in [gone, stays] {
            let answer = asked(&ann, &[address]).await.unwrap();
            assert_eq!(answer, Response::Refused(Refused::NoPlan));
        }
        let error = asked(&ann, &[gone]).await.unwrap_err();
        let expected = format!(
            "cannot use the coordinator at {gone}: coordinator c2 was removed from the cluster; give \
             the address of another coordinator with --coordinator or `reweave context set`"
        );
        assert_eq!((error.error_chain(), error.exit_code()), (expected, 1));
        asked(&ann, &[gone, stays]).await.unwrap();
    }

    #[tokio::test]
    async fn coordinator_that_denies_itself_is_refused() {
        let cluster = Cluster::new("lab");
        let (ann, gone) = (cluster.context(), cluster.coordinator("c1", &["c1"]));
        for _ in ["by its answer", "by the file"] {
            let error = asked(&ann, &[gone]).await.unwrap_err();
            assert!(matches!(error, CliError::Denied { .. }), "{error:?}");
        }
    }

    #[tokio::test]
    async fn earlier_coordinator_refuses_policy_by_version() {
        let cluster = Cluster::new("lab");
        let (identity, deny_lists) = cluster.context().identity_and_deny_lists().unwrap();
        let earlier = Hello {
            version: came_with(1),
            ..Hello::new(identity.cluster())
        };
        let address = [cluster.coordinator("c1", &[])];
        let session = connect_as(&address, &identity, Role::Coordinator, earlier).await;
        let session = session.unwrap();
        let (settings, expected) = (BTreeMap::new(), None);
        for request in [Request::Policy, Request::PolicySet { settings, expected }] {
            let answer = exchange(&session, &request, &deny_lists).await;
            let error = CliError::Ask(Box::new(answer.unwrap_err()));
            assert_eq!(error.exit_code(), 1);
            let message = error.error_chain();
            let remedy = "speaks protocol 1.1 and this needs 1.2: upgrade the other side";
            assert!(message.ends_with(remedy), "{message}");
        }
    }

    #[tokio::test]
    async fn contexts_have_deny_lists_each() {
        let [lab, prod] = ["lab", "prod"].map(Cluster::new);
        let [in_lab, in_prod] = [&lab, &prod].map(Cluster::context);
        let [gone, other] = [&lab, &prod].map(|cluster| cluster.coordinator("c2", &[]));
        let stays = lab.coordinator("c1", &["c2"]);
        asked(&in_lab, &[stays]).await.unwrap();
        asked(&in_prod, &[other]).await.unwrap();
        assert!(asked(&in_lab, &[gone]).await.is_err());
    }

    #[tokio::test]
    async fn earlier_coordinator_sends_deny_lists() {
        let cluster = Cluster::new("lab");
        let (identity, deny_lists) = cluster.context().identity_and_deny_lists().unwrap();
        let earlier = Hello {
            version: came_with(PROTOCOL_VERSION.minor - 1),
            ..Hello::new(identity.cluster())
        };
        let address = [cluster.coordinator("c1", &["c2"])];
        let session = connect_as(&address, &identity, Role::Coordinator, earlier).await;
        let session = session.unwrap();
        request_deny_lists(&session).await;
        let answer = exchange(&session, &Request::WhoAmI, &deny_lists).await;
        assert_eq!(answer.unwrap(), Response::Refused(Refused::NoPlan));
        assert!(cluster.home.path().join("ann/denied.json").exists());
    }
}
