//! A thread that follows the latest probe list.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use reweave_common::probing::ProbeList;

/// Ends when it is dropped, and is waited for.
pub(crate) struct Follower {
    lists: Option<Sender<ProbeList>>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// `work` has to end when no more lists can come.
    pub(crate) fn start(work: impl FnOnce(Receiver<ProbeList>) + Send + 'static) -> Self {
        let (lists, to_follow) = channel();
        Self {
            lists: Some(lists),
            thread: Some(thread::spawn(move || work(to_follow))),
        }
    }

    pub(crate) fn handle_list(&self, list: ProbeList) {
        if let Some(lists) = &self.lists {
            let _ = lists.send(list);
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        drop(self.lists.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
