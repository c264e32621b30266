//! The messages of sessions. What is a noun of `common` anyway is named here, so that all that
//! crosses the wire can be found in one place. A later minor version adds kinds at the end.

use reweave_common::instruction::Ack;
use reweave_common::sample::Sample;
use serde::{Deserialize, Serialize};

/// Said to an agent.
pub use reweave_common::instruction::Instruction as CoordinatorMessage;
/// Said by an operator, and said in return.
pub use reweave_common::operator::{Request, Response};

/// Said by an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentMessage {
    Sample(Sample),
    Ack(Ack),
}
