//! Text tables.

use super::out;

/// Prints rows with headings, in columns of minimal width.
pub(super) fn print<const N: usize>(headings: [&str; N], rows: &[[String; N]]) {
    out::print(laid_out(headings, rows));
}

fn laid_out<const N: usize>(headings: [&str; N], rows: &[[String; N]]) -> String {
    let headings = headings.map(str::to_owned);
    let all = || std::iter::once(&headings).chain(rows);
    let width = |column: usize| all().map(|row| row[column].chars().count()).max();
    let widths: Vec<_> = (0..N).filter_map(width).collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(&widths);
        let cells: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    all().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_widest_cell() {
        let rows = [["swp0", "up"], ["a-long-name", ""]].map(|row| row.map(str::to_owned));
        let expected = "interface    state\nswp0         up\na-long-name\n";
        assert_eq!(laid_out(["interface", "state"], &rows), expected);
    }
}
