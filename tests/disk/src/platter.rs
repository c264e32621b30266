//! All files of one disk by their numbers, and their names.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem;
use std::path::{Path, PathBuf};

use reweave_files::Entry;

use crate::chance::Chance;
use crate::content::{Change, FileContent};
use crate::files::ROOT;

/// Bytes of a disk that is not filled up.
pub(crate) const UNLIMITED_BYTES: u64 = 1 << 30;

/// What becomes of names, all at once.
type Naming = Vec<(PathBuf, Option<u64>)>;

#[derive(Debug)]
pub(crate) struct Platter {
    /// None where a test goes through all cases itself.
    pub(crate) chance: Option<Chance>,
    files: BTreeMap<u64, FileContent>,
    last_file: u64,
    /// Folders have an empty content, too.
    names: BTreeMap<PathBuf, u64>,
    synced_names: BTreeMap<PathBuf, u64>,
    unsynced_names: Vec<Naming>,
    pub(crate) capacity: u64,
    pub(crate) keeps_ahead: bool,
    /// That change something, so far.
    pub(crate) operations: u64,
    /// In the midst of this one it loses power.
    pub(crate) dies_at: Option<u64>,
    pub(crate) has_power: bool,
    /// The next write goes to a wrong place.
    pub(crate) misdirects: bool,
    pub(crate) syncs_fail: bool,
}

impl Platter {
    pub(crate) fn new(mut chance: Option<Chance>) -> Self {
        let keeps_ahead = chance.as_mut().is_none_or(|chance| chance.happens(0.7));
        Self {
            chance,
            files: BTreeMap::new(),
            last_file: 0,
            names: BTreeMap::new(),
            synced_names: BTreeMap::new(),
            unsynced_names: Vec::new(),
            capacity: UNLIMITED_BYTES,
            keeps_ahead,
            operations: 0,
            dies_at: None,
            has_power: true,
            misdirects: false,
            syncs_fail: false,
        }
    }

    pub(crate) fn named(&self, path: &Path) -> Option<&FileContent> {
        self.files.get(self.names.get(path)?)
    }

    pub(crate) fn used(&self) -> u64 {
        self.files.values().map(FileContent::allocated).sum()
    }

    pub(crate) fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.used())
    }

    /// Power may be lost in the midst of an operation. Where chance decides, it has happened then, and fails all the same:
    /// what is left of it is drawn later. Else it has not.
    fn begin(&mut self) -> io::Result<()> {
        self.expect_power()?;
        self.operations += 1;
        self.has_power = self.dies_at != Some(self.operations);
        if self.chance.is_none() {
            self.expect_power()?;
        }
        Ok(())
    }

    pub(crate) fn expect_power(&self) -> io::Result<()> {
        if self.has_power {
            Ok(())
        } else {
            Err(io::Error::other("the power is gone"))
        }
    }

    pub(crate) fn file(&mut self, number: u64) -> io::Result<&mut FileContent> {
        let file = self.files.get_mut(&number);
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(crate) fn contents(&mut self) -> impl Iterator<Item = &mut FileContent> {
        self.files.values_mut()
    }

    pub(crate) fn find(&self, path: &Path) -> io::Result<u64> {
        self.expect_power()?;
        let number = self.names.get(path).copied();
        number.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(crate) fn find_file(&self, path: &Path) -> io::Result<u64> {
        let number = self.find(path)?;
        match self.entry(path)? {
            Entry::Folder => Err(io::ErrorKind::IsADirectory.into()),
            Entry::File { .. } => Ok(number),
        }
    }

    pub(crate) fn entry(&self, path: &Path) -> io::Result<Entry> {
        self.expect_power()?;
        match self.named(path) {
            Some(content) if !content.is_folder => Ok(Entry::File {
                bytes: content.now.actual.len() as u64,
            }),
            None if !is_root(path) => Err(io::ErrorKind::NotFound.into()),
            _ => Ok(Entry::Folder),
        }
    }

    /// What is to get a name there.
    fn expect_folder_of(&self, path: &Path) -> io::Result<()> {
        match path.parent().map(|folder| self.entry(folder)) {
            Some(Ok(Entry::Folder)) => Ok(()),
            Some(Ok(Entry::File { .. })) => Err(io::ErrorKind::NotADirectory.into()),
            Some(Err(error)) => Err(error),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn name(&mut self, naming: Naming) {
        apply(&mut self.names, &naming);
        self.unsynced_names.push(naming);
    }

    /// A new one of this name.
    pub(crate) fn make(&mut self, path: &Path) -> io::Result<u64> {
        self.expect_folder_of(path)?;
        self.begin()?;
        let number = self.add(path, FileContent::default());
        self.expect_power()?;
        Ok(number)
    }

    fn add(&mut self, path: &Path, content: FileContent) -> u64 {
        self.last_file += 1;
        let number = self.last_file;
        self.files.insert(number, content);
        self.name(vec![(path.to_owned(), Some(number))]);
        number
    }

    pub(crate) fn create(&mut self, path: &Path) -> io::Result<u64> {
        let Some(number) = self.names.get(path).copied() else {
            return self.make(path);
        };
        self.begin()?;
        self.file(number)?.change(Change::Truncate(0));
        self.expect_power()?;
        Ok(number)
    }

    pub(crate) fn create_new(&mut self, path: &Path) -> io::Result<u64> {
        self.expect_power()?;
        if self.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.make(path)
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let number = self.find(from)?;
        self.expect_folder_of(to)?;
        self.begin()?;
        self.name(vec![(from.to_owned(), None), (to.to_owned(), Some(number))]);
        self.expect_power()
    }

    pub(crate) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.find_file(path)?;
        self.begin()?;
        self.name(vec![(path.to_owned(), None)]);
        self.expect_power()
    }

    pub(crate) fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        if self.entry(folder)? != Entry::Folder {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let names = self.names.keys();
        let inside = names.filter(|path| path.parent() == Some(folder));
        Ok(inside.cloned().collect())
    }

    /// Each that is not there is an operation of its own, from the top.
    pub(crate) fn make_folder(&mut self, folder: &Path) -> io::Result<()> {
        self.expect_power()?;
        let above: Vec<_> = folder.ancestors().filter(|it| !is_root(it)).collect();
        for path in above.into_iter().rev() {
            if !self.names.contains_key(path) {
                self.begin()?;
                self.add(path, FileContent::folder());
                self.expect_power()?;
            }
        }
        Ok(())
    }

    /// With all that lies in it, and as if it had never been there. No program does it through [`reweave_files::FileSystem`].
    pub(crate) fn remove_folder(&mut self, folder: &Path) {
        self.names.retain(|path, _| !path.starts_with(folder));
        self.synced_names
            .retain(|path, _| !path.starts_with(folder));
        for naming in &mut self.unsynced_names {
            naming.retain(|(path, _)| !path.starts_with(folder));
        }
        self.unsynced_names.retain(|naming| !naming.is_empty());
        self.forget_unnamed();
    }

    pub(crate) fn sync_folder(&mut self, folder: &Path) -> io::Result<()> {
        self.begin()?;
        self.expect_power()?;
        let is_inside = |path: &Path| path.parent() == Some(folder);
        let inside = self.names.iter().filter(|(path, _)| is_inside(path));
        let inside: Vec<_> = inside
            .map(|(path, number)| (path.clone(), *number))
            .collect();
        self.synced_names.retain(|path, _| !is_inside(path));
        self.synced_names.extend(inside);
        for naming in &mut self.unsynced_names {
            naming.retain(|(path, _)| !is_inside(path));
        }
        self.unsynced_names.retain(|naming| !naming.is_empty());
        self.forget_unnamed();
        Ok(())
    }

    /// Files without a name take no room.
    fn forget_unnamed(&mut self) {
        let unsynced = self.unsynced_names.iter().flatten();
        let unsynced = unsynced.filter_map(|(_, number)| number.as_ref());
        let names = self.names.values().chain(self.synced_names.values());
        let named: BTreeSet<_> = names.chain(unsynced).copied().collect();
        self.files.retain(|number, _| named.contains(number));
    }

    /// Behind the end, unless it is said where. Without room for all of it, there may be a part.
    pub(crate) fn write(&mut self, number: u64, at: Option<usize>, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.expect_power()?;
        let at = at.unwrap_or(self.file(number)?.now.expected.len());
        if let Err(error) = self.begin() {
            self.put(number, [at, at], &bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        let (length, free) = (bytes.len(), self.free());
        let room = self.file(number)?.room(at, free);
        if room < length {
            return self.write_part(number, at, &bytes[..room]);
        }
        let lands = self.place(number, [at, length])?;
        self.put(number, [at, lands], bytes)?;
        self.expect_power()
    }

    /// Where a write lands that belongs here.
    fn place(&mut self, number: u64, [at, length]: [usize; 2]) -> io::Result<usize> {
        if !mem::take(&mut self.misdirects) {
            return Ok(at);
        }
        let drawn = self.chance.as_mut().map_or(0, Chance::number);
        Ok(self.file(number)?.wrong_place([at, length], drawn as usize))
    }

    fn write_part(&mut self, number: u64, at: usize, fitting: &[u8]) -> io::Result<()> {
        let taken = match &mut self.chance {
            Some(chance) => chance.below(fitting.len() + 1),
            None => fitting.len(),
        };
        self.put(number, [at, at], &fitting[..taken])?;
        self.expect_power()?;
        Err(io::ErrorKind::StorageFull.into())
    }

    fn put(&mut self, number: u64, [at, lands]: [usize; 2], bytes: &[u8]) -> io::Result<()> {
        let bytes = bytes.to_vec();
        self.file(number)?
            .change(Change::Write { at, lands, bytes });
        Ok(())
    }

    pub(crate) fn truncate(&mut self, number: u64, length: u64) -> io::Result<()> {
        self.begin()?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.file(number)?.change(Change::Truncate(length));
        self.expect_power()
    }

    pub(crate) fn sync(&mut self, number: u64) -> io::Result<()> {
        self.begin()?;
        self.expect_power()?;
        let fails = self.syncs_fail;
        let file = self.file(number)?;
        if fails {
            file.drop_unsynced();
            return Err(io::Error::other("the disk does not answer"));
        }
        file.sync();
        Ok(())
    }

    pub(crate) fn reserve(&mut self, number: u64, until: u64) -> io::Result<()> {
        if !self.keeps_ahead {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.begin()?;
        let free = self.free();
        let file = self.file(number)?;
        if until > file.allocated() + free {
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.reserved_until = file.reserved_until.max(until);
        self.expect_power()
    }

    /// What was not synced survives by chance. Without it, nothing does.
    pub(crate) fn lose_power(&mut self) {
        let namings = mem::take(&mut self.unsynced_names);
        let Some(chance) = &mut self.chance else {
            return self.restart(0, false);
        };
        for naming in namings {
            if chance.happens(0.5) {
                apply(&mut self.synced_names, &naming);
            }
        }
        for number in self.files_that_stay() {
            self.draw_loss(number);
        }
        self.come_back();
    }

    /// In the order of their numbers.
    fn files_that_stay(&mut self) -> Vec<u64> {
        self.drop_orphans();
        self.names.clone_from(&self.synced_names);
        self.forget_unnamed();
        self.files.keys().copied().collect()
    }

    fn draw_loss(&mut self, number: u64) {
        if let (Some(file), Some(chance)) = (self.files.get_mut(&number), &mut self.chance) {
            file.lose_power(chance);
        }
    }

    /// Power is lost: at most these bytes are kept of what was appended to each file, and unsynced names all or none.
    pub(crate) fn restart(&mut self, kept_bytes: usize, keeps_names: bool) {
        if keeps_names {
            self.synced_names.clone_from(&self.names);
        }
        self.unsynced_names.clear();
        self.files_that_stay();
        for file in self.files.values_mut() {
            file.keep(kept_bytes);
        }
        self.come_back();
    }

    fn come_back(&mut self) {
        (self.dies_at, self.has_power, self.misdirects) = (None, true, false);
    }

    /// Removes the content of removed folders.
    fn drop_orphans(&mut self) {
        let mut kept: BTreeMap<PathBuf, u64> = BTreeMap::new();
        // A folder comes before what lies in it.
        for (path, number) in mem::take(&mut self.synced_names) {
            let folder = path.parent();
            let has_folder = folder.is_some_and(|it| is_root(it) || kept.contains_key(it));
            if has_folder {
                kept.insert(path, number);
            }
        }
        self.synced_names = kept;
    }

    /// One bit of what is synced under this name, if there is any.
    pub(crate) fn flip(&mut self, path: &Path) {
        let Some(number) = self.synced_names.get(path) else {
            return;
        };
        let Some(file) = self.files.get_mut(number) else {
            return;
        };
        let bits = file.synced.actual.len() * 8;
        if let (1.., Some(chance)) = (bits, &mut self.chance) {
            file.flip(chance.below(bits));
        }
    }
}

fn is_root(folder: &Path) -> bool {
    folder == Path::new("") || folder == Path::new(ROOT)
}

fn apply(names: &mut BTreeMap<PathBuf, u64>, naming: &[(PathBuf, Option<u64>)]) {
    for (path, number) in naming {
        match number {
            Some(number) => names.insert(path.clone(), *number),
            None => names.remove(path),
        };
    }
}
