//! Tables in text: a line that names the columns, and rows of cells with commas between them.

use std::str::FromStr;

use reweave_common::input::InputError;

/// Positions of the columns of a table.
#[derive(Debug)]
pub struct CsvColumns<'f> {
    file: &'f str,
    names: Vec<&'f str>,
    heading: usize,
}

/// One row, and the line it stands on.
#[derive(Debug)]
pub struct CsvRow<'f> {
    file: &'f str,
    pub line: usize,
    cells: Vec<(&'f str, &'f str)>,
}

impl<'f> CsvColumns<'f> {
    /// Finds the heading of a table that may have the `known` columns and must have the `required`.
    pub fn parse(
        file: &'f str,
        text: &'f str,
        known: &[&str],
        required: &[&str],
    ) -> Result<Self, InputError> {
        let Some((heading, line)) = lines(text).next() else {
            let problem = "it is empty: the first line names the columns";
            return Err(error(file, 1, "", problem.to_owned()));
        };
        let names: Vec<_> = line.split(',').map(str::trim).collect();
        let columns = Self {
            file,
            names,
            heading,
        };
        let mut names = columns.names.iter().enumerate();
        if let Some((_, name)) = names.clone().find(|(_, name)| !known.contains(name)) {
            let problem = format!("no such column; known are {}", known.join(","));
            return Err(columns.error(heading, name, problem));
        }
        if let Some((_, name)) = names.find(|&(nth, name)| columns.names[..nth].contains(name)) {
            return Err(columns.error(heading, name, "this column is a duplicate"));
        }
        match required.iter().find(|name| !columns.names.contains(name)) {
            Some(name) => Err(columns.error(heading, name, "this column is missing")),
            None => Ok(columns),
        }
    }

    pub fn rows(&self, text: &'f str) -> impl Iterator<Item = Result<CsvRow<'f>, InputError>> {
        let rows = lines(text).filter(|&(line, _)| line > self.heading);
        rows.map(|(line, text)| self.row(line, text))
    }

    fn row(&self, line: usize, text: &'f str) -> Result<CsvRow<'f>, InputError> {
        let cells: Vec<_> = text.split(',').map(str::trim).collect();
        let (wanted, found) = (self.names.len(), cells.len());
        if wanted != found {
            let problem = format!("{found} cells, but the table has {wanted} columns");
            return Err(self.error(line, "", problem));
        }
        Ok(CsvRow {
            file: self.file,
            line,
            cells: self.names.iter().copied().zip(cells).collect(),
        })
    }

    pub fn error(&self, line: usize, key: &str, problem: impl Into<String>) -> InputError {
        error(self.file, line, key, problem.into())
    }
}

/// Lines that say something, counted from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = (1..).zip(text.lines());
    numbered.filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
}

impl<'f> CsvRow<'f> {
    /// Returns the content of the cell, if it exists and is not empty.
    pub fn optional(&self, key: &str) -> Option<&'f str> {
        let mut cells = self.cells.iter();
        let cell = cells.find(|(name, _)| *name == key)?.1;
        (!cell.is_empty()).then_some(cell)
    }

    pub fn text(&self, key: &str) -> Result<&'f str, InputError> {
        let missing = || self.error(key, "this cell is empty");
        self.optional(key).ok_or_else(missing)
    }

    pub fn parsed<T: FromStr>(&self, key: &str) -> Result<Option<T>, InputError> {
        let Some(cell) = self.optional(key) else {
            return Ok(None);
        };
        let problem = |_| self.error(key, format!("it cannot be {cell:?}"));
        cell.parse().map(Some).map_err(problem)
    }

    pub fn require<T: FromStr>(&self, key: &str) -> Result<T, InputError> {
        let missing = || self.error(key, "this cell is empty");
        self.parsed(key)?.ok_or_else(missing)
    }

    pub fn error(&self, key: &str, problem: impl Into<String>) -> InputError {
        error(self.file, self.line, key, problem.into())
    }
}

fn error(file: &str, line: usize, key: &str, problem: String) -> InputError {
    InputError {
        file: file.to_owned(),
        line,
        key: key.escape_debug().to_string(),
        problem,
    }
}
