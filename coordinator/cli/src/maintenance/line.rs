//! A connection to the leader for hours; sessions are reopened as needed.

use std::time::{Duration, Instant};

use reweave_common::operator::{Approval, Record, Request, Response, Status};
use reweave_common::plan::Generation;

use crate::apply;
use crate::ask::{Coordinator, Reach};
use crate::error::CliError;

/// Maximum outage of the coordinators.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(super) struct Line<'r> {
    reach: &'r Reach,
    session: Option<Coordinator>,
    /// Whether the last request was sent more than once: an earlier one may have been carried out.
    is_repeated: bool,
}

impl<'r> Line<'r> {
    pub(super) fn new(reach: &'r Reach) -> Self {
        Self {
            reach,
            session: None,
            is_repeated: false,
        }
    }

    pub(super) fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// Closes the session until the next request.
    pub(super) fn hang_up(&mut self) {
        self.session = None;
    }

    pub(super) fn ask(&mut self, request: &Request) -> Result<Response, CliError> {
        let end = Instant::now() + RECONNECT_TIMEOUT;
        self.is_repeated = false;
        loop {
            let answer = self.session().and_then(|session| session.ask(request));
            match answer {
                Ok(Response::Refused(refused)) => return Err(CliError::Refused(refused)),
                Err(error) if error.may_pass() && Instant::now() < end => {
                    self.is_repeated |= error.is_of_the_session();
                    self.hang_up();
                    std::thread::sleep(POLL_INTERVAL);
                }
                other => return other,
            }
        }
    }

    fn session(&mut self) -> Result<&mut Coordinator, CliError> {
        let session = match self.session.take() {
            Some(session) => session,
            None => Coordinator::reach(self.reach)?,
        };
        Ok(self.session.insert(session))
    }

    pub(super) fn status(&mut self) -> Result<Status, CliError> {
        match self.ask(&Request::Status)? {
            Response::Status(status) => Ok(*status),
            other => Err(CliError::unexpected(&other)),
        }
    }

    /// Returns the name of the operator who asks.
    pub(super) fn operator(&mut self) -> Result<String, CliError> {
        match self.ask(&Request::WhoAmI)? {
            Response::You(member) => Ok(member.name),
            other => Err(CliError::unexpected(&other)),
        }
    }

    /// Applies a plan and follows it to its outcome.
    pub(super) fn carry_out(
        &mut self,
        generation: Generation,
        approval: Approval,
    ) -> Result<Record, CliError> {
        let session = match self.session.take() {
            Some(session) => session,
            None => Coordinator::reach(self.reach)?,
        };
        let (record, session) = apply::carry_out(self.reach, session, generation, approval)?;
        self.session = Some(session);
        Ok(record)
    }

    /// Polls until the condition holds or the time is over, and then returns the last answer.
    pub(super) fn wait<T>(
        &mut self,
        within: Duration,
        mut look: impl FnMut(&Status) -> Result<(), T>,
    ) -> Result<Result<(), T>, CliError> {
        let end = Instant::now() + within;
        loop {
            let seen = look(&self.status()?);
            if seen.is_ok() || Instant::now() >= end {
                return Ok(seen);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
