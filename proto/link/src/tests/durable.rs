//! Files that are replaced atomically, on a disk that loses power.

use std::path::Path;

use reweave_files::{FileSystem, replace};
use reweave_sim_disk::{LossyFiles, ROOT};

const BEFORE: &[u8] = b"the one before";
const AFTER: &[u8] = b"the one after it";

/// Power is lost at each operation, with each part of the unsynced data.
#[test]
fn replaced_file_survives_power_loss() {
    let path = Path::new(ROOT).join("record.json");
    for operation in 0.. {
        let mut always_replaced = true;
        for kept_bytes in 0..=AFTER.len() {
            let files = LossyFiles::exact();
            replace(&files, &path, BEFORE).unwrap();
            files.die_at(operation + 1);
            let replaced = replace(&files, &path, AFTER);
            always_replaced &= replaced.is_ok();
            files.lose_power_but(kept_bytes);
            let found = files.read(&path).unwrap();
            let is_whole = found == AFTER || (found == BEFORE && replaced.is_err());
            let of_operation = format!("operation {operation}, {kept_bytes} bytes");
            assert!(is_whole, "{of_operation}: {found:?} after {replaced:?}");
            replace(&files, &path, BEFORE).unwrap();
        }
        if always_replaced {
            assert!(operation > 4, "{operation} operations are too few");
            return;
        }
    }
}
