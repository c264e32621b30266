//! The time spans for which there is a history.

use reweave_common::moment::Moment;

use super::{Past, PastError};
use crate::keeper::reach_of;
use crate::kind::Kind;
use crate::place::{FileName, Place};
use crate::resolution::Resolution;

/// A time span with rows. Consecutive hours and days are one span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    pub resolution: Resolution,
    pub from: Moment,
    pub to: Moment,
}

type Files = Vec<(Place, FileName)>;

impl Past {
    /// Returns the spans of this kind, finest resolution first and then earliest first. The first and the last moment
    /// of each resolution are read from files. In between, the hours and days of the folders count.
    pub fn kept(&self, kind: Kind) -> Result<Vec<Kept>, PastError> {
        let mut all = Vec::new();
        for resolution in Resolution::ALL {
            let files = self.all_files(kind, resolution)?;
            let mut kept = in_a_row(resolution, &files);
            self.trim(&mut kept, &files)?;
            all.extend(kept);
        }
        Ok(all)
    }

    /// Returns all files of a kind and resolution, in the order of time.
    fn all_files(&self, kind: Kind, resolution: Resolution) -> Result<Files, PastError> {
        self.keep_on()?;
        let folder = Place::folder_of_all(kind, resolution);
        let listed = self.shelf.list(Some(&folder))?;
        let mut files: Files = listed
            .iter()
            .filter_map(|it| Place::parse(&it.name))
            .collect();
        files.sort_unstable();
        Ok(files)
    }

    /// Moves the begin of the first span and the end of the last one to the first and the last row.
    fn trim(&self, kept: &mut [Kept], files: &Files) -> Result<(), PastError> {
        let (Some(first), Some(last)) = (files.first(), files.last()) else {
            return Ok(());
        };
        let [began, _] = self.reach_of(files, first.0)?;
        let [_, ended] = self.reach_of(files, last.0)?;
        if let (Some(begins), Some(began)) = (kept.first_mut(), began) {
            begins.from = began;
        }
        if let (Some(ends), Some(ended)) = (kept.last_mut(), ended) {
            ends.to = ended + ends.resolution.width();
        }
        Ok(())
    }

    /// Returns the first and the last row of a place. Files that are gone or unreadable are left out.
    fn reach_of(&self, files: &Files, place: Place) -> Result<[Option<Moment>; 2], PastError> {
        let [mut first, mut last] = [None, None];
        for (_, name) in files.iter().filter(|(of, _)| *of == place) {
            self.keep_on()?;
            let Some(content) = self.shelf.get(&place.path(name))? else {
                continue;
            };
            if let Ok(Some([began, ended])) = reach_of(place, name, content) {
                first = Some(first.map_or(began, |first: Moment| first.min(began)));
                last = last.max(Some(ended));
            }
        }
        Ok([first, last])
    }
}

fn in_a_row(resolution: Resolution, files: &Files) -> Vec<Kept> {
    let mut all: Vec<Kept> = Vec::new();
    for (place, _) in files {
        match all.last_mut() {
            Some(last) if place.start <= last.to => last.to = last.to.max(place.end()),
            _ => all.push(Kept {
                resolution,
                from: place.start,
                to: place.end(),
            }),
        }
    }
    all
}
