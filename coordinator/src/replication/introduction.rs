//! Introduction, before there is a log: asks the other coordinators how to begin, and answers them meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_link::{Channel, Identity, Listener, Role, Session, connect};
use reweave_replica::{Answer, Beginning, FolderId, Member, MemberId, Newcomer};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::peer_messages::{PeerMessage, PeerMessageReceiver};

/// The interval between two questions.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The answer to all other peers meanwhile.
const NOT_READY_REASON: &str = "the coordinators are connecting to each other: retry soon";
/// A coordinator that has just been replaced is still unknown to some.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Error)]
pub(crate) enum IntroductionError {
    #[error(
        "the data folder is empty, but the other coordinators know an earlier one of {name}: its \
         votes are lost, so {name} must not rejoin under its old number. Run `reweave cluster \
         member replace {name}` and start it again, or restore the old folder"
    )]
    Stranger { name: String },
    #[error("the network socket is gone")]
    SocketGone,
}

/// A coordinator without a log, and its identity.
pub(crate) struct Introduction<'i> {
    pub(crate) newcomer: Newcomer,
    pub(crate) identity: &'i Identity,
}

impl Introduction<'_> {
    /// How to begin: `Found` or `Join`. Waits for as long as that is not certain.
    pub(crate) async fn begin(
        &self,
        listener: &mut Listener,
    ) -> Result<Beginning, IntroductionError> {
        // A configuration without other coordinators has none to wait for.
        if self.others().next().is_none() {
            return Ok(self.newcomer.begin(&BTreeMap::new()));
        }
        tokio::select! {
            beginning = self.ask_all() => beginning,
            error = self.answer_all(listener) => Err(error),
        }
    }

    async fn answer_all(&self, listener: &mut Listener) -> IntroductionError {
        while let Some(accepted) = listener.accept().await {
            let Ok(session) = accepted else { continue };
            let folder = self.newcomer.folder;
            if session.peer().role == Role::Coordinator {
                tokio::spawn(answer(session, Answer::Founding { folder }));
            } else {
                tokio::spawn(session.close_not_ready(NOT_READY_REASON));
            }
        }
        IntroductionError::SocketGone
    }

    async fn ask_all(&self) -> Result<Beginning, IntroductionError> {
        let (heard, mut answers) = mpsc::channel(16);
        let mut asking = tokio::task::JoinSet::new();
        for (&id, member) in self.others() {
            let line = Line {
                identity: self.identity.clone(),
                member: member.clone(),
                folder: self.newcomer.folder,
            };
            let heard = heard.clone();
            asking.spawn(async move {
                // The loop ends when the receiver is dropped.
                while heard.send((id, line.ask().await)).await.is_ok() {
                    sleep(RETRY_INTERVAL).await;
                }
            });
        }
        self.decide(&mut answers).await
    }

    fn others(&self) -> impl Iterator<Item = (&MemberId, &Member)> {
        let own = self.newcomer.founder;
        let members = self.newcomer.members.iter();
        members.filter(move |(id, _)| Some(**id) != own)
    }

    async fn decide(
        &self,
        heard: &mut mpsc::Receiver<(MemberId, Option<Answer>)>,
    ) -> Result<Beginning, IntroductionError> {
        let (mut answers, mut report) = (BTreeMap::new(), None);
        let mut strange_since: Option<Instant> = None;
        while let Some((from, answer)) = heard.recv().await {
            match answer {
                Some(answer) => drop(answers.insert(from, answer)),
                None => drop(answers.remove(&from)),
            }
            let beginning = self.newcomer.begin(&answers);
            if beginning != Beginning::Stranger {
                strange_since = None;
            }
            match beginning {
                Beginning::Wait => self.log_wait(&answers, &mut report),
                Beginning::Stranger => {
                    let since = *strange_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= SETTLE_TIMEOUT {
                        let name = self.identity.member().name().to_owned();
                        return Err(IntroductionError::Stranger { name });
                    }
                }
                certain => return Ok(certain),
            }
        }
        Err(IntroductionError::SocketGone)
    }

    /// Logs what it waits for, whenever that changes.
    fn log_wait(&self, answers: &BTreeMap<MemberId, Answer>, text: &mut Option<String>) {
        let name = self.identity.member().name();
        let said = |answer: &Answer| answers.values().any(|said| said == answer);
        let words = if said(&Answer::Expected) {
            format!(
                "{name} is about to be admitted: the leader connects to the address that was added for {name}, or {name} to \
                 the leader if that is one of its [[member]]s"
            )
        } else if said(&Answer::Unknown) {
            format!(
                "{name} is not a member: waiting for `reweave cluster member add {name} \
                 ADDRESS:PORT`"
            )
        } else {
            let missing = self.others().filter(|(id, _)| !answers.contains_key(id));
            let missing: Vec<_> = missing.map(|(_, member)| member.name.as_str()).collect();
            format!("new data folder: waiting for {}", missing.join(", "))
        };
        if text.as_ref() != Some(&words) {
            tracing::info!("{words}");
            *text = Some(words);
        }
    }
}

/// Sends one answer to any request, and waits until it was received.
async fn answer(session: Session, answer: Answer) {
    let mut peer_messages = PeerMessageReceiver::new(&session, Channel::Commands);
    let asked = peer_messages.receive().await;
    if asked.is_ok() && PeerMessage::Answer(answer).send(&session).await.is_ok() {
        let _ = timeout(ANSWER_TIMEOUT, session.closed()).await;
    }
}

/// A connection to one of the other coordinators.
struct Line {
    identity: Identity,
    member: Member,
    folder: FolderId,
}

impl Line {
    async fn ask(&self) -> Option<Answer> {
        let address = [self.member.address];
        let session = connect(&address, &self.identity, Role::Coordinator).await;
        let session = session.ok()?;
        if session.peer().name != self.member.name {
            return None;
        }
        let exchange = async {
            let here = PeerMessage::here(self.folder, false);
            here.send(&session).await.ok()?;
            let mut peer_messages = PeerMessageReceiver::new(&session, Channel::Commands);
            loop {
                if let PeerMessage::Answer(answer) = peer_messages.receive().await.ok()? {
                    return Some(answer);
                }
            }
        };
        let answer = timeout(ANSWER_TIMEOUT, exchange).await.ok().flatten();
        session.close("that is all").await;
        answer
    }
}
