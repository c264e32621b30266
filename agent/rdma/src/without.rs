//! A build without the verbs library.

use reweave_common::rdma::{Answer, Request};

#[derive(Default)]
pub struct Helper {}

impl Helper {
    pub fn answer(&mut self, _request: &Request) -> Answer {
        Answer::Failed {
            because: "this reweave-rdma was built without the feature rdma".to_owned(),
        }
    }
}
