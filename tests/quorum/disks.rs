//! Disks that fail, fill up, become slow, or corrupt what was written.

use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::process::{Child, Command, Stdio};

use libtest_mimic::Trial;

use crate::cluster::{LAB_NEEDS, Place, Quorum, must, wait};
use crate::needs::{Need, trial};

/// strace makes system calls fail.
const STRACE_NEEDS: &[Need] = &[Need::Lab, Need::Root, Need::Program("strace")];

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("failed_sync_ends_coordinator", STRACE_NEEDS, sync_fails),
        trial("slow_disk_is_replaced_as_leader", STRACE_NEEDS, slow),
        trial(
            "unwritable_log_ends_one_coordinator",
            STRACE_NEEDS,
            unwritable,
        ),
        trial("denied_writes_wait_for_room", STRACE_NEEDS, denied),
        trial(
            "leader_with_full_disk_hands_over",
            &[Need::Lab, Need::Root],
            || full(FREE_BYTES),
        ),
        trial(
            "disk_without_a_byte_recovers",
            &[Need::Lab, Need::Root],
            || full(0),
        ),
        trial("torn_write_is_cut_off", LAB_NEEDS, torn),
        trial(
            "flipped_bit_requires_replacement_member",
            LAB_NEEDS,
            flipped,
        ),
    ]
}

/// Makes system calls of a coordinator on its log fail or wait, until this is dropped.
struct Meddling(Child);

impl Meddling {
    fn with(quorum: &mut Quorum, place: Place, how: &str) -> Self {
        let pid = must(quorum.program(place).pid()).to_string();
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-p", &pid]);
        strace.arg("-P").arg(quorum.log(place));
        strace.args(["-e", &format!("inject={how}")]);
        let child = strace.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        let meddling = Self(child.expect("strace is there"));
        wait("strace has it", || traced(&pid));
        meddling
    }
}

impl Drop for Meddling {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn traced(pid: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let mut tasks = tasks.into_iter().flatten().flatten();
    tasks.all(|task| {
        let status = fs::read_to_string(task.path().join("status"));
        status.is_ok_and(|status| !status.contains("TracerPid:\t0\n"))
    })
}

impl Quorum {
    /// Checks that this coordinator exits with this code and message, and that the others go on.
    fn ends(&mut self, place: Place, code: i32, words: &str) {
        let ended = must(self.program(place).ended());
        let said = self.said(place);
        assert_eq!(ended, code, "{said}");
        assert!(said.contains(words), "{said}");
        self.kill(place);
    }

    fn log(&self, place: Place) -> std::path::PathBuf {
        self.stage.path(&format!("data{place}/log"))
    }
}

fn sync_fails() {
    let mut quorum = Quorum::up();
    let (first, term) = quorum.leader();
    quorum.decide();
    let meddling = Meddling::with(&mut quorum, first, "fdatasync:error=EIO");
    quorum.ends(first, 1, "cannot write the log");
    drop(meddling);
    quorum.leader_after(term);
    quorum.decide_on();
    quorum.wait_for_agent();
    // The restarted coordinator gets from the others what it may not have written.
    quorum.start(first);
    quorum.decide_on();
    quorum.kill((first + 1) % 3);
    quorum.decide_on();
    quorum.nothing_is_lost();
}

/// Each write takes longer than the election timeout.
fn slow() {
    let mut quorum = Quorum::up();
    let (first, term) = quorum.leader();
    quorum.decide();
    let meddling = Meddling::with(&mut quorum, first, "fdatasync:delay_enter=1500000");
    quorum.leader_after(term);
    for _ in 0..5 {
        quorum.decide_on();
    }
    quorum.wait_for_agent();
    drop(meddling);
    quorum.decide_on();
    quorum.nothing_is_lost();
}

/// Writes to the log fail.
fn unwritable() {
    let mut quorum = Quorum::up();
    let (first, term) = quorum.leader();
    quorum.decide();
    let meddling = Meddling::with(&mut quorum, first, "write:error=EIO");
    quorum.ends(first, 1, "cannot write the log");
    drop(meddling);
    quorum.leader_after(term);
    quorum.decide_on();
    quorum.wait_for_agent();
    quorum.start(first);
    quorum.kill((first + 1) % 3);
    quorum.decide_on();
    quorum.nothing_is_lost();
}

/// Writes fail with EDQUOT although the file system has room, as under a quota.
fn denied() {
    let mut quorum = Quorum::up();
    let (first, term) = quorum.leader();
    quorum.decide();
    let meddling = Meddling::with(&mut quorum, first, "write:error=ENOSPC");
    quorum.leader_after(term);
    quorum.decide_on();
    quorum.wait_for_agent();
    let waits = "writes wait for free space";
    wait("it waits for room", || quorum.said(first).contains(waits));
    drop(meddling);
    wait("its writes go on", || {
        quorum.said(first).contains("writes go on")
    });
    quorum.kill((first + 1) % 3);
    quorum.decide_on();
    assert_eq!(quorum.said(first).matches(waits).count(), 1);
    quorum.nothing_is_lost();
}

/// Wraps a coordinator so that it runs on a small disk of its own; the last argument is its settings file.
fn small_disk(place: Place) -> Vec<String> {
    let mount = format!(
        "for last; do :; done; data=$(dirname \"$last\")/data{place}; mkdir -p \"$data\"; mount -t tmpfs \
         -o size={DISK_BYTES} tmpfs \"$data\" && exec \"$0\" \"$@\""
    );
    let words = ["unshare", "--mount", "sh", "-c", &mount];
    words.map(str::to_owned).into()
}

const DISK_BYTES: u64 = 96 << 20;
/// With this little left, a coordinator does not lead; it still writes its log.
const FREE_BYTES: u64 = 8 << 20;

/// With no byte left, a write of the log is cut off.
fn full(left: u64) {
    let mut quorum = Quorum::up_with(small_disk);
    let (first, term) = quorum.leader();
    quorum.decide();
    let pid = must(quorum.program(first).pid());
    let data = quorum.stage.path(&format!("data{first}"));
    let data = format!("/proc/{pid}/root{}", data.display());
    let filler = format!("{data}/filler");
    let free = free_bytes(&data);
    assert!(free <= DISK_BYTES, "{free} bytes are those of another disk");
    let mut file = fs::File::create(&filler).expect("there is room");
    let most = if left == 0 { u64::MAX } else { free - left };
    if let Err(error) = io::copy(&mut io::repeat(0).take(most), &mut file) {
        assert_eq!((left, error.kind()), (0, io::ErrorKind::StorageFull));
    }

    let (second, _) = quorum.leader_after(term);
    assert_ne!(first, second);
    quorum.decide_on();
    quorum.wait_for_agent();
    let warning = format!("the disk of coordinator c{first} is full");
    let is_reported = |quorum: &Quorum| {
        let status = quorum.status();
        status.is_some_and(|status| status.warnings.contains(&warning))
    };
    wait("it is reported", || is_reported(&quorum));

    drop(file);
    fs::remove_file(filler).expect("it was made");
    wait("it is reported no longer", || {
        quorum
            .status()
            .is_some_and(|status| !status.warnings.contains(&warning))
    });
    // With free disk space, this one and another are a majority again.
    quorum.kill(3 - first - second);
    quorum.decide_on();
    quorum.nothing_is_lost();
}

/// The free space on the file system of this process: `df` would resolve the path in the test's own namespace.
fn free_bytes(folder: &str) -> u64 {
    let mut stat = Command::new("stat");
    let output = stat
        .args(["--file-system", "--format=%a %S", folder])
        .output();
    let output = output.expect("stat is there");
    let text = String::from_utf8_lossy(&output.stdout);
    let figures = text.split_whitespace().map(str::parse::<u64>);
    figures.map(|it| it.expect("a number")).product()
}

/// Power is lost during a write: the last record is incomplete.
fn torn() {
    let mut quorum = Quorum::up();
    let (first, term) = quorum.leader();
    quorum.decide();
    quorum.kill(first);
    let log = quorum.log(first);
    let mut file = fs::File::options()
        .append(true)
        .open(&log)
        .expect("it is there");
    let length = file.metadata().expect("it is there").len();
    let record = fs::read(&log).expect("it is there");
    // The first part of a record, as an interrupted write leaves it.
    let begun = &record[record.len() - record.len().min(40)..][..7];
    file.write_all(begun).expect("there is room");
    drop(file);
    quorum.start(first);
    wait("it cuts it off", || {
        quorum.said(first).contains("of an incomplete write")
    });
    quorum.leader_after(term);
    quorum.kill((first + 1) % 3);
    quorum.decide_on();
    assert!(fs::metadata(&log).expect("it is there").len() > length);
    quorum.nothing_is_lost();
}

fn flipped() {
    let mut quorum = Quorum::up();
    let (first, _) = quorum.leader();
    quorum.decide();
    quorum.decide_on();
    quorum.kill(first);
    flip(&quorum.log(first));
    quorum.start(first);
    quorum.ends(first, 2, "is corrupt");
    let said = quorum.said(first);
    assert!(
        said.contains(&quorum.log(first).display().to_string()),
        "it names the file: {said}"
    );
    quorum.decide_on();

    fs::remove_dir_all(quorum.stage.path(&format!("data{first}"))).expect("it is there");
    let name = format!("c{first}");
    wait("it is replaced", || {
        let mut replace = quorum.reweave();
        let replace = replace.args(["cluster", "member", "replace", &name]);
        replace.output().expect("it was built").status.success()
    });
    quorum.start(first);
    wait("it votes, as a new member", || {
        let status = quorum.status();
        let mut coordinators = status.into_iter().flat_map(|status| status.coordinators);
        coordinators.any(|one| one.name == name && one.number > 3 && one.votes)
    });
    quorum.kill((first + 1) % 3);
    quorum.decide_on();
    quorum.nothing_is_lost();
}

/// Flips one bit in the middle of the file.
fn flip(path: &std::path::Path) {
    let mut file = fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .expect("it is there");
    let middle = file.metadata().expect("it is there").len() / 2;
    let mut byte = [0];
    let at_middle = |file: &mut fs::File| file.seek(SeekFrom::Start(middle)).expect("a file");
    at_middle(&mut file);
    file.read_exact(&mut byte).expect("it is long enough");
    at_middle(&mut file);
    file.write_all(&[byte[0] ^ 0x10]).expect("there is room");
}
