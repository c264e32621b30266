//! Programs of other projects read the files.

use std::process::Command;

use super::scene::live;
use crate::chronicle::{Chronicle, Rules};

/// Sums a column over all files of a folder, with two readers that share no code with the product.
const READER_SCRIPT: &str = "
import sys
folder = sys.argv[1] + '/kind=links/resolution=1s'
import pyarrow.dataset, pyarrow.compute
table = pyarrow.dataset.dataset(folder, format='parquet', partitioning='hive').to_table()
print(table.num_rows, pyarrow.compute.sum(table['send_bits_per_s_max']), table['hour'][0])
import duckdb
files = folder + '/**/*.parquet'
query = f\"SELECT count(*), sum(send_bits_per_s_max), min(hour) FROM read_parquet('{files}', hive_partitioning = true)\"
print(*duckdb.sql(query).fetchall()[0])
";

#[test]
#[ignore = "needs the Python that REWEAVE_PYTHON names, with pyarrow and duckdb"]
fn pyarrow_and_duckdb_read_same_sums() {
    let folder = tempfile::tempdir().unwrap();
    let url = folder.path().display().to_string();
    let mut chronicle = Chronicle::open(&url, Rules::default(), 1).unwrap();
    live(&mut chronicle, 0..300);
    chronicle.close().unwrap();
    let python = std::env::var("REWEAVE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let read = Command::new(python)
        .args(["-c", READER_SCRIPT, &url])
        .output();
    let read = read.unwrap();
    assert!(
        read.status.success(),
        "{}",
        String::from_utf8_lossy(&read.stderr)
    );
    let sums = (0..300_u64).sum::<u64>();
    let expected = format!("300 {sums} 14\n300 {sums} 14\n");
    assert_eq!(String::from_utf8_lossy(&read.stdout), expected);
}
