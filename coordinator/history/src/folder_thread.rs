//! A folder with the same timeout as an object store.
//!
//! A system call on a mount whose server is gone may never return, and nothing can end it. So it runs on a thread of
//! its own, and callers get an error. The folder is not used again until that call has returned.

use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use reweave_common::lock::lock;
use reweave_files::FileSystem;

use crate::folder::Folder;
use crate::shelf::{Listed, STORE_TIMEOUT, Shelf, ShelfError};

/// The maximum number of threads in one process. Each query has one, and a thread that hangs stays.
const MAX_THREADS: usize = 64;
static THREADS: Mutex<usize> = Mutex::new(0);

type Task<F> = Box<dyn FnOnce(&Folder<F>) + Send>;

#[derive(Debug)]
pub(crate) struct FolderThread<F> {
    timeout: Duration,
    /// None after the thread was asked to end.
    tasks: Option<Sender<Task<F>>>,
    thread: Option<JoinHandle<()>>,
    /// The receiver of the last operation that was given up. It is disconnected once that operation has returned.
    given_up: Mutex<Option<Receiver<()>>>,
}

impl<F: FileSystem + Send + 'static> FolderThread<F> {
    /// Starts the thread, and creates the folder if it is missing.
    pub(crate) fn make(files: F, root: &Path) -> Result<Self, ShelfError> {
        let thread = Self::start(files, root, &THREADS)?;
        thread.wait("make", &root.display().to_string(), Folder::make)?;
        Ok(thread)
    }

    pub(crate) fn open(files: F, root: &Path) -> Result<Self, ShelfError> {
        let thread = Self::start(files, root, &THREADS)?;
        thread.wait("reach", &root.display().to_string(), Folder::reach)?;
        Ok(thread)
    }

    /// Checks that the folder can be read, if it exists.
    pub(crate) fn check(files: F, root: &Path) -> Result<(), ShelfError> {
        let thread = Self::start(files, root, &THREADS)?;
        thread.wait("reach", &root.display().to_string(), Folder::check)
    }

    fn start(files: F, root: &Path, threads: &'static Mutex<usize>) -> Result<Self, ShelfError> {
        let Some(counted) = CountedThread::among(threads) else {
            let file = root.display().to_string();
            return Err(ShelfError::Silent {
                what: "reach",
                file,
            });
        };
        let folder = Folder::at(files, root);
        let (tasks, waiting) = mpsc::channel::<Task<F>>();
        let thread = thread::Builder::new().name("history-files".to_owned());
        let thread = thread.spawn(move || {
            let _counted = counted;
            for task in waiting {
                task(&folder);
            }
        });
        Ok(Self {
            timeout: STORE_TIMEOUT,
            tasks: Some(tasks),
            thread: Some(thread.map_err(ShelfError::Thread)?),
            given_up: Mutex::default(),
        })
    }

    fn wait<T: Send + 'static>(
        &self,
        what: &'static str,
        name: &str,
        work: impl FnOnce(&Folder<F>) -> Result<T, ShelfError> + Send + 'static,
    ) -> Result<T, ShelfError> {
        let mut given_up = lock(&self.given_up);
        let file = name.to_owned();
        if is_underway(given_up.as_ref()) {
            return Err(ShelfError::Silent { what, file });
        }
        let (done, answer) = mpsc::channel();
        let (running, over) = mpsc::channel();
        let task = move |folder: &Folder<F>| {
            // The caller may have given up.
            let _ = done.send(work(folder));
            drop(running);
        };
        if let Some(tasks) = &self.tasks {
            // A thread that died takes no task, and the answer is disconnected.
            let _ = tasks.send(Box::new(task));
        }
        answer.recv_timeout(self.timeout).unwrap_or_else(|_| {
            *given_up = Some(over);
            Err(ShelfError::Silent { what, file })
        })
    }
}

fn is_underway(operation: Option<&Receiver<()>>) -> bool {
    operation.is_some_and(|over| over.try_recv() == Err(TryRecvError::Empty))
}

impl<F> Drop for FolderThread<F> {
    /// Leaves a hanging thread behind. It ends when its system call returns.
    fn drop(&mut self) {
        self.tasks = None;
        let hangs = is_underway(lock(&self.given_up).as_ref());
        if let Some(thread) = self.thread.take_if(|_| !hangs) {
            let _ = thread.join();
        }
    }
}

impl<F: FileSystem + Send + 'static> Shelf for FolderThread<F> {
    fn put(&self, name: &str, content: Bytes) -> Result<(), ShelfError> {
        let file = name.to_owned();
        self.wait("write", name, move |folder| folder.put(&file, content))
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>, ShelfError> {
        let file = name.to_owned();
        self.wait("read", name, move |folder| folder.get(&file))
    }

    fn list(&self, folder: Option<&str>) -> Result<Vec<Listed>, ShelfError> {
        let below = folder.map(str::to_owned);
        let name = folder.unwrap_or("the files");
        self.wait("list", name, move |folder| folder.list(below.as_deref()))
    }

    fn remove(&self, name: &str) -> Result<(), ShelfError> {
        let file = name.to_owned();
        self.wait("remove", name, move |folder| folder.remove(&file))
    }
}

/// Counts a thread for as long as it runs.
struct CountedThread(&'static Mutex<usize>);

impl CountedThread {
    fn among(threads: &'static Mutex<usize>) -> Option<Self> {
        let mut count = lock(threads);
        if *count >= MAX_THREADS {
            return None;
        }
        *count += 1;
        Some(Self(threads))
    }
}

impl Drop for CountedThread {
    fn drop(&mut self) {
        *lock(self.0) -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::RecvError;

    use reweave_common::moment::Moment;
    use reweave_sim_disk::{LossyFiles, ROOT};

    use super::*;
    use crate::kind::Kind;
    use crate::past::{Past, PastError, Question};

    const NAME: &str = "part-1.parquet";
    const OTHER_NAME: &str = "part-2.parquet";
    /// A timeout for operations that do not return during the test.
    const SHORT_TIMEOUT: Duration = Duration::from_millis(1);

    fn started(
        files: &LossyFiles,
        threads: &'static Mutex<usize>,
    ) -> Result<FolderThread<LossyFiles>, ShelfError> {
        FolderThread::start(files.clone(), Path::new(ROOT), threads)
    }

    fn content() -> Bytes {
        Bytes::from_static(b"it")
    }

    fn expect_silent<T>(outcome: Result<T, ShelfError>) {
        let error = outcome.err();
        assert!(
            matches!(error, Some(ShelfError::Silent { .. })),
            "{error:?}"
        );
    }

    /// An operation that was refused while the folder hung is not done later.
    #[test]
    fn hung_folder_is_silent_until_back() {
        let files = LossyFiles::exact();
        let mut folder = started(&files, &THREADS).unwrap();
        folder.put(NAME, content()).unwrap();
        folder.timeout = SHORT_TIMEOUT;
        let hang = files.hang();
        expect_silent(folder.get(NAME));
        expect_silent(folder.put(OTHER_NAME, content()));
        expect_silent(folder.list(None));
        expect_silent(folder.remove(NAME));
        hang.end();
        let over = lock(&folder.given_up).take().unwrap();
        assert_eq!(over.recv(), Err(RecvError));
        folder.timeout = STORE_TIMEOUT;
        assert_eq!(folder.get(NAME).unwrap(), Some(content()));
        assert_eq!(folder.get(OTHER_NAME).unwrap(), None);
    }

    #[test]
    fn query_of_hung_folder_is_error() {
        let files = LossyFiles::exact();
        let mut folder = started(&files, &THREADS).unwrap();
        folder.timeout = SHORT_TIMEOUT;
        let past = Past::on(Box::new(folder));
        let _hang = files.hang();
        let question = Question {
            from: Moment::from_micros(0),
            to: Moment::from_micros(1),
            resolution: None,
            kinds: vec![Kind::Links],
        };
        match past.look(&question) {
            Err(PastError::Shelf(error)) => expect_silent::<()>(Err(error)),
            other => panic!("{:?}", other.err()),
        }
    }

    /// Each query leaves a thread behind while the folder hangs.
    #[test]
    fn hung_threads_are_bounded() {
        static STARTED: Mutex<usize> = Mutex::new(0);
        let files = LossyFiles::exact();
        for _ in 0..=MAX_THREADS {
            started(&files, &STARTED).unwrap();
        }
        let _hang = files.hang();
        for _ in 0..MAX_THREADS {
            let mut folder = started(&files, &STARTED).unwrap();
            folder.timeout = SHORT_TIMEOUT;
            expect_silent(folder.get(NAME));
        }
        expect_silent(started(&files, &STARTED));
    }
}
