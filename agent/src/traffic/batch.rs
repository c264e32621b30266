//! Reads a whole hash map of the kernel at once. One entry after the other would take two system calls for each.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use aya::Pod;
use aya::maps::MapData;
use nix::libc;

/// `BPF_MAP_LOOKUP_BATCH`, known since Linux 5.6.
const BPF_MAP_LOOKUP_BATCH: libc::c_int = 24;
/// Entries that are asked for at first; a kernel whose chains are longer is asked for more.
const INITIAL_BATCH_ENTRIES: usize = 512;
/// The limit is larger than any of our maps.
const MAX_BATCH_ENTRIES: usize = 1 << 16;

/// The layout is the kernel's.
#[repr(C)]
#[derive(Default)]
struct Request {
    /// Where the last answer ended; at first, nowhere.
    from: u64,
    to: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    element_flags: u64,
    flags: u64,
}

/// What was counted while it is read may be missed.
pub(super) fn entries<K, V>(map: &MapData) -> io::Result<Vec<(K, V)>>
where
    K: Pod + Default,
    V: Pod + Default,
{
    let (mut keys, mut values) = (
        vec![K::default(); INITIAL_BATCH_ENTRIES],
        vec![V::default(); INITIAL_BATCH_ENTRIES],
    );
    let (mut entries, mut place): (Vec<(K, V)>, Option<u32>) = (vec![], None);
    loop {
        let answer = ask(map, place, &mut keys, &mut values);
        match answer {
            Ok(answer) => {
                let found = keys.iter().zip(&values).take(answer.count);
                entries.extend(found.map(|(key, value)| (*key, *value)));
                match answer.more {
                    Some(next) if entries.len() <= MAX_BATCH_ENTRIES => place = Some(next),
                    _ => return Ok(entries),
                }
            }
            Err(error)
                if error.raw_os_error() == Some(libc::ENOSPC) && keys.len() < MAX_BATCH_ENTRIES =>
            {
                keys.resize(keys.len() * 2, K::default());
                values.resize(values.len() * 2, V::default());
            }
            Err(error) => return Err(error),
        }
    }
}

struct MapBatch {
    count: usize,
    /// The key at which to continue, if there are more entries.
    more: Option<u32>,
}

#[allow(
    unsafe_code,
    reason = "the kernel writes no more entries than it is given room for, whose sizes were held against the map's, \
              and all it is pointed to outlives the call"
)]
fn ask<K: Pod, V: Pod>(
    map: &MapData,
    from: Option<u32>,
    keys: &mut [K],
    values: &mut [V],
) -> io::Result<MapBatch> {
    let mut to: u32 = 0;
    let mut request = Request {
        from: from
            .as_ref()
            .map_or(0, |from| std::ptr::from_ref(from) as u64),
        to: std::ptr::from_mut(&mut to) as u64,
        keys: keys.as_mut_ptr() as u64,
        values: values.as_mut_ptr() as u64,
        count: u32::try_from(keys.len().min(values.len())).unwrap_or(0),
        map: map.fd().as_fd().as_raw_fd().cast_unsigned(),
        ..Request::default()
    };
    let asked = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_MAP_LOOKUP_BATCH,
            std::ptr::from_mut(&mut request),
            size_of::<Request>(),
        )
    };
    let count = request.count as usize;
    if asked == 0 {
        return Ok(MapBatch {
            count,
            more: Some(to),
        });
    }
    match io::Error::last_os_error() {
        // Such is the end.
        error if error.raw_os_error() == Some(libc::ENOENT) => Ok(MapBatch { count, more: None }),
        error => Err(error),
    }
}
