//! TL1: a text session that stays open, with a number for each request.

use std::collections::BTreeSet;
use std::time::Duration;

use reweave_common::circuit::{Circuit, CircuitSet};
use reweave_formats::optical::Pair;
use reweave_formats::optical::tl1::{Reader, Request, Response, is_word};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::sessions::{Opens, Session};
use super::{Verb, named, read_secret, within};
use crate::config::Tl1Settings;
use crate::error::{DeviceError, PrepareError};

pub(super) struct Tl1 {
    settings: Tl1Settings,
    password: String,
    patience: Duration,
}

pub(super) struct Call {
    stream: TcpStream,
    reader: Reader,
    last_tag: u32,
    patience: Duration,
}

impl Tl1 {
    pub(super) fn new(settings: Tl1Settings, patience: Duration) -> Result<Self, PrepareError> {
        let password = read_secret(&settings.password_file)?;
        if ![&settings.user, &password]
            .into_iter()
            .all(|it| is_word(it))
        {
            return Err(PrepareError::NoWord);
        }
        Ok(Self {
            settings,
            password,
            patience,
        })
    }

    async fn connect(&self) -> Result<TcpStream, DeviceError> {
        let address = (self.settings.host.as_str(), self.settings.port);
        let stream = TcpStream::connect(address).await;
        stream.map_err(|source| DeviceError::Broken { source })
    }
}

impl Opens for Tl1 {
    type Session = Call;

    async fn open(&self) -> Result<Call, DeviceError> {
        let mut call = Call {
            stream: within(self.patience, self.connect()).await?,
            reader: Reader::default(),
            last_tag: 0,
            patience: self.patience,
        };
        let (user, password) = (&self.settings.user, &self.password);
        call.ask(&[Request::LogIn { user, password }]).await?;
        Ok(call)
    }
}

impl Session for Call {
    async fn read(&mut self) -> Result<CircuitSet, DeviceError> {
        let pairs = self.pairs().await?;
        Ok(pairs.into_iter().map(Pair::circuit).collect())
    }

    async fn change(&mut self, verb: Verb, circuits: &[Circuit]) -> Result<(), DeviceError> {
        let requests: Vec<_> = match verb {
            Verb::Connect => circuits
                .iter()
                .map(|it| Request::Connect((*it).into()))
                .collect(),
            Verb::Disconnect => {
                let gone = named(circuits, &self.pairs().await?)?;
                let names = gone.into_iter().map(|pair| pair.ingress);
                names.map(Request::Disconnect).collect()
            }
        };
        self.ask(&requests).await.map(drop)
    }
}

impl Call {
    async fn pairs(&mut self) -> Result<Vec<Pair>, DeviceError> {
        let responses = self.ask(&[Request::Read]).await?;
        let pairs = responses.iter().map(Response::pairs);
        Ok(pairs.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// All requests are on their way before the first is answered: one that is never answered keeps
    /// no other from being carried out.
    async fn ask(&mut self, requests: &[Request<'_>]) -> Result<Vec<Response>, DeviceError> {
        let mut awaited = self.send(requests).await?;
        let (mut responses, mut refused) = (vec![], None);
        while !awaited.is_empty() {
            // What was not answered may still be done, even if another request was refused.
            let response = within(self.patience, self.hear()).await?;
            if !awaited.remove(&response.tag) {
                continue;
            }
            if !response.is_done() {
                let said = response.refusal();
                refused.get_or_insert(DeviceError::Failed { said });
            }
            responses.push(response);
        }
        match refused {
            Some(refused) => Err(refused),
            None => Ok(responses),
        }
    }

    async fn send(&mut self, requests: &[Request<'_>]) -> Result<BTreeSet<u32>, DeviceError> {
        let tags = self.last_tag + 1..;
        let numbered = requests.iter().zip(tags);
        let (tags, texts): (BTreeSet<_>, String) = numbered
            .map(|(request, tag)| (tag, request.text(tag)))
            .unzip();
        self.last_tag = tags.last().copied().unwrap_or(self.last_tag);
        let sent = within(self.patience, async {
            let sent = self.stream.write_all(texts.as_bytes()).await;
            sent.map_err(|source| DeviceError::Broken { source })
        });
        sent.await.map(|()| tags)
    }

    async fn hear(&mut self) -> Result<Response, DeviceError> {
        let mut bytes = [0; 8192];
        loop {
            if let Some(response) = self.reader.poll_response()? {
                return Ok(response);
            }
            let read = self.stream.read(&mut bytes).await;
            match read.map_err(|source| DeviceError::Broken { source })? {
                0 => {
                    let said = "no reason given".to_owned();
                    return Err(DeviceError::HungUp { said });
                }
                count => self.reader.handle_bytes(&bytes[..count]),
            }
        }
    }
}
