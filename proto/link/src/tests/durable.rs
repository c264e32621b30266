//! Files that are replaced atomically, on a disk that loses power.

use std::path::Path;

use lossy_files::LossyFiles;

use crate::durable_files::replace_on;
use crate::file_system::{FileHandle, FileSystem};

#[path = "lossy_files.rs"]
mod lossy_files;

const BEFORE: &[u8] = b"the one before";
const AFTER: &[u8] = b"the one after it";

/// Power is lost at each operation, with each part of the unsynced data.
#[test]
fn replaced_file_survives_power_loss() {
    let path = Path::new(lossy_files::ROOT).join("record.json");
    for operation in 0.. {
        let mut always_replaced = true;
        for kept_bytes in 0..=AFTER.len() {
            let files = LossyFiles::default();
            replace_on(&files, &path, BEFORE).unwrap();
            files.die_at(operation);
            let replaced = replace_on(&files, &path, AFTER);
            always_replaced &= replaced.is_ok();
            files.lose_power(kept_bytes);
            let found = files.read(&path).unwrap();
            let is_whole = found == AFTER || (found == BEFORE && replaced.is_err());
            let of_operation = format!("operation {operation}, {kept_bytes} bytes");
            assert!(is_whole, "{of_operation}: {found:?} after {replaced:?}");
            replace_on(&files, &path, BEFORE).unwrap();
        }
        if always_replaced {
            assert!(operation > 4, "{operation} operations are too few");
            return;
        }
    }
}
